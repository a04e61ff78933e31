//! Programs on a terminal: a pseudoterminal, and what it shows.
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::process::Watchdog;

/// A program whose standard output and error are a terminal without colours in the C locale, killed when dropped.
pub(crate) struct Terminal {
    pub(crate) child: Child,
    master: File,
    columns: usize,
    /// Rows from the first one on: the terminal is high enough for all of them.
    rows: Vec<Row>,
    row: usize,
    column: usize,
}

#[derive(Clone, Default)]
struct Row {
    cells: String,
    /// Whether the next character after the last column went to the next row.
    is_continued: bool,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The program may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Terminal {
    pub(crate) fn start(command: &mut Command, columns: u16) -> Self {
        Self::open(command, columns, false)
    }

    /// Starts a program that reads the terminal, too.
    pub(crate) fn asked(command: &mut Command) -> Self {
        Self::open(command, 80, true)
    }

    fn open(command: &mut Command, columns: u16, is_read: bool) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        tcsetwinsize(&slave, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        command.env("TERM", "xterm").env("LC_ALL", "C").env("NO_COLOR", "1");
        let stdin = if is_read { slave.try_clone().unwrap().into() } else { Stdio::null() };
        command.stdin(stdin).stdout(slave.try_clone().unwrap()).stderr(slave);
        let child = command.spawn().unwrap();
        // Only the program has the terminal now, so that its end is the end of the terminal.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { child, master: master.into(), columns: columns.into(), rows: vec![Row::default()], row: 0, column: 0 }
    }

    pub(crate) fn types(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    /// Reads until the terminal shows `text`.
    pub(crate) fn until(&mut self, text: &str) {
        while !self.shown().contains(text) {
            assert!(self.read(), "the program ended before {text:?}: {}", self.shown());
        }
    }

    /// Reads until the program ends; returns what the terminal shows then.
    pub(crate) fn end(mut self) -> String {
        while self.read() {}
        self.shown()
    }

    /// Returns what the terminal shows, without line breaks inside of texts, and without the warning of debug builds.
    pub(crate) fn shown(&self) -> String {
        let mut text = String::new();
        for Row { cells, is_continued } in &self.rows {
            text += cells;
            // A program may fill the last row of a text with spaces instead of ending the line.
            if !is_continued || cells.ends_with("  ") {
                text.push('\n');
            }
        }
        let lines = text.lines().map(str::trim_end).filter(|line| !line.contains("without --release"));
        lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    /// Returns whether there was more output.
    fn read(&mut self) -> bool {
        let _watchdog = Watchdog::over(&self.child);
        let mut bytes = [0; 4096];
        // A terminal that no program has open any more is an error (EIO).
        let len = self.master.read(&mut bytes).unwrap_or(0);
        let text = std::str::from_utf8(&bytes[..len]).unwrap();
        let mut rest = text.chars();
        while let Some(character) = rest.next() {
            match character {
                '\x1b' => {
                    assert_eq!(rest.next(), Some('['), "{text:?}");
                    let sequence: String =
                        rest.by_ref().take_while(|character| !character.is_ascii_alphabetic()).collect();
                    let at = text.len() - rest.as_str().len() - 1;
                    self.control(text.as_bytes()[at], &sequence);
                }
                '\r' => self.column = 0,
                '\n' => self.go(self.row + 1),
                character => self.put(character),
            }
        }
        len > 0
    }

    fn put(&mut self, character: char) {
        if self.column == self.columns {
            self.rows[self.row].is_continued = true;
            self.go(self.row + 1);
            self.column = 0;
        }
        let Row { cells, .. } = &mut self.rows[self.row];
        let (before, after): (Vec<_>, Vec<_>) = cells.chars().enumerate().partition(|(at, _)| *at < self.column);
        let before = before.into_iter().map(|(_, before)| before).chain(std::iter::repeat(' ')).take(self.column);
        *cells = before.chain([character]).chain(after.into_iter().skip(1).map(|(_, after)| after)).collect();
        self.column += 1;
    }

    /// Obeys a control sequence (ECMA-48). There are none for colours.
    fn control(&mut self, function: u8, parameter: &str) {
        let count = parameter.parse().unwrap_or(1);
        match function {
            b'A' => self.go(self.row.saturating_sub(count)),
            b'B' => self.go(self.row + count),
            b'C' => self.column += count,
            b'D' => self.column = self.column.saturating_sub(count),
            b'K' if parameter == "2" => self.rows[self.row] = Row::default(),
            b'K' => self.erase(),
            b'J' => {
                self.rows.truncate(self.row + 1);
                self.erase();
            }
            b'h' | b'l' => {}
            other => panic!("unknown control sequence {parameter:?} {:?}", char::from(other)),
        }
    }

    /// Erases the row from the cursor on.
    fn erase(&mut self) {
        let cells = self.rows[self.row].cells.chars().take(self.column).collect();
        self.rows[self.row] = Row { cells, is_continued: false };
    }

    fn go(&mut self, row: usize) {
        self.row = row;
        self.rows.resize(self.rows.len().max(row + 1), Row::default());
    }
}

/// Replaces texts by names, and then what differs from run to run: numbers, and units that depend on them.
pub(crate) fn masked(text: &str, names: &[(&str, &str)]) -> String {
    let text = names.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    let mut masked = String::new();
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        if !character.is_ascii_digit() || masked.ends_with(|before: char| before.is_alphabetic()) {
            masked.push(character);
            continue;
        }
        masked.push('N');
        while rest.next_if(|next| next.is_ascii_digit() || *next == '.').is_some() {}
    }
    let units = [("N kb/s", "N b/s"), ("N Mb/s", "N b/s"), ("N Gb/s", "N b/s"), ("N us", "N ms")];
    units.iter().fold(masked, |text, (from, to)| text.replace(from, to))
}
