//! Output on standard error. Lines about transfers and tunnels are updated in place on a terminal; otherwise there is a
//! line about a transfer every 10 s.

use std::env;
use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::{Interval, MissedTickBehavior};

use crate::output;
use crate::report::{self, Stopwatch, count};

/// Interval between updates of the lines on a terminal.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);
const SMOOTHING: Duration = Duration::from_secs(1);
/// Interval between lines if standard error is not a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Assumed width in columns of a terminal that does not report its width.
const COLUMNS: usize = 80;
/// Widest and narrowest bar.
const BAR: (usize, usize) = (31, 8);

/// Maximum number of lines and updates that wait for a stopped terminal, or for the reader of a pipe.
const WAITING: usize = 1024;

/// Returns an interval that ticks when the lines are to be updated.
pub(crate) fn ticks() -> Interval {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Requested level of detail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detail {
    /// Nothing.
    Silent,
    /// Warnings, errors, and the address on which a receiver listens.
    Quiet,
    #[default]
    Usual,
    /// A line per file.
    Files,
    /// Transport details: retransmissions, limits, hashes.
    Transport,
}

/// Display on standard error. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Screen {
    lines: MultiProgress,
    /// Whether lines are updated in place.
    pub(crate) is_live: bool,
    /// Whether a line is written every 10 s instead.
    is_plain: bool,
    detail: Detail,
    /// Whether a line for standard output could not be written.
    incomplete: Arc<AtomicBool>,
    /// The thread that writes, because a terminal may be stopped, and a pipe may be full.
    writer: mpsc::SyncSender<Box<dyn FnOnce() + Send>>,
}

impl Screen {
    /// Creates a display that updates lines in place if standard error is a terminal, unless `plain`.
    pub(crate) fn stderr(detail: Detail, plain: bool) -> Self {
        let target = if plain { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let is_plain = target.is_hidden();
        let target = if detail <= Detail::Quiet { ProgressDrawTarget::hidden() } else { target };
        let (is_live, lines) = (!target.is_hidden(), MultiProgress::with_draw_target(target));
        let (writer, work) = mpsc::sync_channel::<Box<dyn FnOnce() + Send>>(WAITING);
        std::thread::spawn(move || work.into_iter().for_each(|write| write()));
        Self { lines, is_live, is_plain, detail, incomplete: Arc::default(), writer }
    }

    /// Shows only [warnings](Self::warn).
    #[cfg(test)]
    pub(crate) fn hidden() -> Self {
        Self::stderr(Detail::Quiet, true)
    }

    /// Creates a display that shows nothing, for a program whose user watches the other end.
    pub(crate) fn silent() -> Self {
        Self::stderr(Detail::Silent, true)
    }

    /// Returns whether this level of detail is requested.
    pub(crate) fn shows(&self, detail: Detail) -> bool {
        self.detail >= detail
    }

    /// Writes a line to standard error if this level of detail is requested.
    pub(crate) fn tell(&self, detail: Detail, line: &str) {
        if self.shows(detail) {
            self.warn(line);
        }
    }

    /// Writes a line to standard error, unless the screen is quiet.
    pub(crate) fn say(&self, line: &str) {
        self.tell(Detail::Usual, line);
    }

    /// Writes a line to standard error, above the lines that are updated in place.
    pub(crate) fn warn(&self, line: &str) {
        if self.detail != Detail::Silent {
            let (screen, line) = (self.clone(), line.to_owned());
            self.run(move || screen.write(&line));
        }
    }

    fn write(&self, line: &str) {
        if self.is_live {
            // `suspend` panics if the terminal has vanished.
            let _ = self.lines.println(line);
        } else {
            output::say(line);
        }
    }

    /// Waits until everything so far has been written.
    pub(crate) fn flush(&self) {
        let (done, written) = mpsc::channel::<()>();
        self.run(move || drop(done));
        let _ = written.recv();
    }

    /// Lets the thread write. Waits if [too much](WAITING) has to be written before.
    fn run(&self, write: impl FnOnce() + Send + 'static) {
        // The thread ends after the last screen.
        let _ = self.writer.send(Box::new(write));
    }

    /// Writes a line about an event if this level of detail is requested, on a terminal with the time.
    pub(crate) fn event(&self, detail: Detail, line: &str) {
        if io::stderr().is_terminal() {
            self.tell(detail, &format!("{}  {line}", time_of_day()));
        } else {
            self.tell(detail, line);
        }
    }

    /// Writes a line to standard output.
    ///
    /// If this fails for any reason other than a reader that has exited, the first failure is
    /// [remembered](Self::is_incomplete) and reported on standard error.
    pub(crate) fn print(&self, line: &str) {
        let (screen, line) = (self.clone(), format!("{line}\n"));
        self.run(move || {
            // The lines that are updated in place are redrawn at the next tick.
            let _ = screen.lines.clear();
            if let Err(error) = output::print(&line)
                && !screen.incomplete.swap(true, Ordering::Relaxed)
            {
                screen.write(&format!("{error:#}"));
            }
        });
    }

    /// Returns whether a line for standard output could not be written.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.incomplete.load(Ordering::Relaxed)
    }

    /// Starts the display of a transfer of `total`, if known. `peer` is shown if it is not empty.
    pub(crate) fn begin(&self, total: Option<Total>, peer: &str) -> Progress {
        Progress {
            screen: self.clone(),
            shown: self.line(),
            total,
            peer: peer.to_owned(),
            name: String::new(),
            files: 0,
            before: 0,
            bytes: 0,
            watch: Stopwatch::start(),
            said: Duration::ZERO,
            moved: Duration::ZERO,
            skipped: 0,
            rate: 0.0,
        }
    }

    /// Creates a line that is updated in place.
    pub(crate) fn line(&self) -> Line {
        let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()).with_style(style);
        Line { bar, screen: self.clone(), is_added: AtomicBool::new(false), is_waiting: Arc::default() }
    }
}

/// A line that is updated in place on a terminal, and removed when dropped.
#[derive(Debug)]
pub(crate) struct Line {
    bar: ProgressBar,
    screen: Screen,
    /// Whether it was shown. From then on, the bar waits for the terminal, and only the writer uses it.
    is_added: AtomicBool,
    /// Whether an update waits. Others are left out.
    is_waiting: Arc<AtomicBool>,
}

impl Line {
    /// Shows as many of these `parts` as fit.
    pub(crate) fn show(&self, parts: &[String]) {
        self.set(joined(parts, columns(io::stderr())));
    }

    fn set(&self, message: String) {
        if self.screen.is_live && !self.is_waiting.swap(true, Ordering::Relaxed) {
            let is_added = self.is_added.swap(true, Ordering::Relaxed);
            let (lines, bar, is_waiting) = (self.screen.lines.clone(), self.bar.clone(), Arc::clone(&self.is_waiting));
            self.screen.run(move || {
                is_waiting.store(false, Ordering::Relaxed);
                let bar = if is_added { bar } else { lines.add(bar) };
                bar.set_message(message);
            });
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if *self.is_added.get_mut() {
            let bar = std::mem::replace(&mut self.bar, ProgressBar::hidden());
            self.screen.run(move || bar.finish_and_clear());
        }
    }
}

/// Writer that shows the lines of a log through a method of the screen, and always succeeds.
pub(crate) struct Log(pub(crate) Screen, pub(crate) fn(&Screen, &str));

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (self.1)(&self.0, String::from_utf8_lossy(bytes).trim_end());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Amount to be transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Total {
    pub(crate) files: u64,
    /// `None` if a file is standard input, whose size is not known.
    pub(crate) bytes: Option<u64>,
}

/// A transfer over one or more successive connections.
#[derive(Debug)]
pub(crate) struct Progress {
    screen: Screen,
    shown: Line,
    total: Option<Total>,
    peer: String,
    /// Name of the current file.
    name: String,
    files: u64,
    /// Number of bytes over earlier connections, and over all connections.
    before: u64,
    bytes: u64,
    watch: Stopwatch,
    said: Duration,
    moved: Duration,
    skipped: u64,
    rate: f64,
}

impl Progress {
    pub(crate) fn screen(&self) -> &Screen {
        &self.screen
    }

    /// Changes the amount to be transferred.
    pub(crate) fn expect(&mut self, total: Total) {
        self.total = Some(total);
    }

    pub(crate) fn file(&mut self, name: String) {
        self.name = name;
    }

    /// Counts a file as finished. Directories and links are not counted.
    pub(crate) fn finish(&mut self, is_file: bool) {
        self.files = self.files.saturating_add(u64::from(is_file));
    }

    /// Starts another connection, when `before` bytes in files are finished.
    pub(crate) fn reconnect(&mut self, before: u64) {
        (self.before, self.bytes, self.skipped, self.rate) = (before, before, before, 0.0);
        (self.watch, self.moved, self.said) = (Stopwatch::start(), Duration::ZERO, Duration::ZERO);
    }

    /// Counts the next `bytes` bytes as present without a transfer. They do not count towards the rate.
    pub(crate) fn skip(&mut self, bytes: u64) {
        self.skipped = self.skipped.saturating_add(bytes);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Shows that `bytes` bytes have arrived over this connection. The rate is correct only if this is called at each of the
    /// [`ticks`].
    pub(crate) fn update(&mut self, bytes: u64) {
        let bytes = self.before.saturating_add(bytes);
        let now = self.watch.elapsed();
        let span = (now.saturating_sub(self.moved)).as_secs_f64().max(1e-6);
        let rate = bytes.saturating_sub(self.bytes) as f64 * 8.0 / span;
        // Smoothed over about ten updates. In the first second, the mean is used, because the initial write that fills
        // the buffers would count as sent at once.
        self.rate = if now < SMOOTHING {
            bytes.saturating_sub(self.skipped) as f64 * 8.0 / now.max(INTERVAL).as_secs_f64()
        } else {
            self.rate + (rate - self.rate) / 10.0
        };
        (self.moved, self.bytes) = (now, bytes);
        if !self.screen.is_plain {
            let columns = columns(io::stderr());
            let (amount, files) = (self.amount(columns, is_unicode()), self.files(columns));
            self.shown.set(if files.is_empty() { amount } else { format!("{amount}\n{files}") });
        } else if self.screen.shows(Detail::Usual) && now >= self.said.saturating_add(LINE_INTERVAL) {
            self.said = now;
            let parts = self.parts().into_iter().chain([self.files(COLUMNS)]);
            let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
            self.screen.say(&joined(&parts, usize::MAX));
        }
    }

    /// Returns the line with a bar and amounts.
    fn amount(&self, columns: usize, unicode: bool) -> String {
        let parts = self.parts();
        let line = joined(&parts, columns);
        let width = columns.saturating_sub(line.chars().count() + 2).min(BAR.0);
        match self.share() {
            Some(share) if width >= BAR.1 => format!("{}  {line}", bar(share, width, unicode)),
            _ => line,
        }
    }

    /// Returns the transferred share, if the total size is known.
    fn share(&self) -> Option<f64> {
        let all = self.total?.bytes?;
        Some(if all == 0 { 1.0 } else { (self.bytes as f64 / all as f64).min(1.0) })
    }

    /// Returns the known facts about the amount, most important first.
    fn parts(&self) -> Vec<String> {
        let rate = report::rate(self.rate);
        let Some((share, all)) = self.share().zip(self.total.and_then(|total| total.bytes)) else {
            let peer = Some(self.peer.clone()).filter(|peer| !peer.is_empty());
            return peer.into_iter().chain([report::size(self.bytes), rate]).collect();
        };
        let done = report::size(self.bytes.min(all));
        let all_text = report::size(all);
        // The unit stands once.
        let amount = match (done.split_once(' '), all_text.split_once(' ')) {
            (Some((number, unit)), Some((_, all_unit))) if unit == all_unit => format!("{number} of {all_text}"),
            _ => format!("{done} of {all_text}"),
        };
        let mut parts = vec![format!("{:>3.0} %", (100.0 * share).floor()), amount, rate];
        let seconds = all.saturating_sub(self.bytes) as f64 * 8.0 / self.rate;
        parts.extend(seconds.is_finite().then(|| format!("{} left", report::duration(seconds))));
        parts
    }

    /// Returns the line about the files, which is empty for one file.
    fn files(&self, columns: usize) -> String {
        let files = match self.total {
            Some(Total { files: 1, .. }) => return String::new(),
            Some(Total { files, .. }) => format!("{} of {files} files", self.files),
            None => count(self.files, "file"),
        };
        let room = columns.saturating_sub(files.chars().count() + 2);
        joined(&[files, ending(&self.name, room)], columns)
    }
}

/// Returns the width of a terminal, or 80 for other files.
pub(crate) fn columns(terminal: impl std::os::fd::AsFd) -> usize {
    match rustix::termios::tcgetwinsize(terminal) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => COLUMNS,
    }
}

/// Returns the time of day: local time on Linux, otherwise UTC, which a `Z` marks.
#[expect(clippy::disallowed_methods, reason = "people read real time")]
fn time_of_day() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
    #[cfg(target_os = "linux")]
    let ([hour, minute, second], zone) = (longhaul_sys::linux::local_time(now), "");
    #[cfg(not(target_os = "linux"))]
    let ([hour, minute, second], zone) = ([now / 3600 % 24, now / 60 % 60, now % 60], "Z");
    format!("{hour:02}:{minute:02}:{second:02}{zone}")
}

/// Returns whether the terminal shows Unicode (POSIX locale variables).
fn is_unicode() -> bool {
    let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default().to_ascii_uppercase();
    locale.contains("UTF-8") || locale.contains("UTF8")
}

fn bar(share: f64, width: usize, unicode: bool) -> String {
    let (full, empty) = if unicode { ("\u{2588}", "\u{2591}") } else { ("#", ".") };
    let filled = ((share * width as f64) as usize).min(width);
    full.repeat(filled) + &empty.repeat(width - filled)
}

/// Joins the first of `parts` that fit in `columns` columns, separated by two spaces.
fn joined(parts: &[String], columns: usize) -> String {
    let mut line = String::new();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let gap = if line.is_empty() { "" } else { "  " };
        if line.chars().count() + gap.len() + part.chars().count() > columns {
            break;
        }
        line += gap;
        line += part;
    }
    line
}

/// Returns the end of a path that is too long, which is more informative than its beginning.
fn ending(name: &str, room: usize) -> String {
    let len = name.chars().count();
    if len <= room {
        return name.to_owned();
    }
    let kept = room.saturating_sub(3);
    if kept == 0 { String::new() } else { "...".chars().chain(name.chars().skip(len - kept)).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half_way() -> Progress {
        let total = Total { files: 302, bytes: Some(8_600_000_000) };
        let mut progress = Screen::hidden().begin(Some(total), "");
        (progress.bytes, progress.rate, progress.files) = (3_800_000_000, 141e6, 131);
        progress.file("photos/2026/IMG_4411.raw".to_owned());
        progress
    }

    /// Narrow terminals show less.
    #[test]
    fn the_lines_fit_the_terminal() {
        let progress = half_way();
        let at = |columns| [progress.amount(columns, false), progress.files(columns)];
        let bar = "#############..................";
        assert_eq!(
            at(80),
            [
                format!("{bar}   44 %  3.8 of 8.6 GB  141 Mb/s  4 min 32 s left"),
                "131 of 302 files  photos/2026/IMG_4411.raw".to_owned()
            ]
        );
        assert_eq!(at(200)[0].chars().count(), at(80)[0].chars().count());
        assert_eq!(
            at(40),
            ["###.....   44 %  3.8 of 8.6 GB  141 Mb/s", "131 of 302 files  ...s/2026/IMG_4411.raw"].map(String::from)
        );
        for columns in 1..200 {
            assert!(at(columns).iter().all(|line| line.chars().count() <= columns), "{columns}: {:?}", at(columns));
        }
    }

    #[test]
    fn one_file_has_no_second_line_and_an_unknown_size_no_share() {
        let screen = Screen::hidden();
        let mut stdin = screen.begin(Some(Total { files: 1, bytes: None }), "");
        (stdin.bytes, stdin.rate) = (2048, 1e6);
        assert_eq!([stdin.amount(80, true), stdin.files(80)], ["2.0 kB  1.0 Mb/s", ""]);
        let mut received = screen.begin(None, "192.0.2.7");
        (received.bytes, received.rate, received.files) = (5_000_000, 1e6, 1);
        assert_eq!([received.amount(80, true), received.files(80)], ["192.0.2.7  5.0 MB  1.0 Mb/s", "1 file"]);
        let empty = screen.begin(Some(Total { files: 2, bytes: Some(0) }), "");
        assert_eq!(empty.parts()[..2], ["100 %", "0 of 0 B"]);
    }
}
