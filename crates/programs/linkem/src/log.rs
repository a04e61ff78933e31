//! Logs in mahimahi's format, written by separate threads so that no packet waits for disk I/O.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use longhaul_link::LinkConfig;
use longhaul_link::log::{Log, header};
use longhaul_link::spec::Direction;
use longhaul_sys::linux::realtime_now;
use longhaul_units::Time;

/// Hook of a logged link.
pub type Recorder = Log<String>;

/// Log files requested. A file for both directions contains the lines of both in chronological order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFiles {
    /// File for packets from the client.
    pub up: Option<String>,
    /// File for packets to the client.
    pub down: Option<String>,
}

/// Open log files.
#[derive(Debug, Default)]
pub struct Logs {
    files: Vec<Writer>,
    /// Index of the file of each direction.
    to: [Option<usize>; 2],
}

#[derive(Debug)]
struct Writer {
    lines: Sender<String>,
    thread: JoinHandle<io::Result<()>>,
}

impl Logs {
    /// Creates the files, with a header that contains the command.
    pub fn create(files: &LogFiles, command: &str) -> io::Result<Self> {
        let mut logs = Self::default();
        let init = u64::try_from(realtime_now().as_millis()).unwrap_or(u64::MAX);
        let up = files.up.as_deref().map(|name| logs.open(name, command, init)).transpose()?;
        let down = match files.down.as_deref() {
            same if same == files.up.as_deref() => up,
            name => name.map(|name| logs.open(name, command, init)).transpose()?,
        };
        logs.to = [up, down];
        Ok(logs)
    }

    fn open(&mut self, name: &str, command: &str, init: u64) -> io::Result<usize> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{name}: {error}"));
        let mut file = File::create(name).map_err(named)?;
        file.write_all(header(command, "longhaul-link", init).as_bytes()).map_err(named)?;
        let (lines, receive) = channel::<String>();
        let name = name.to_owned();
        let write = move || {
            receive
                .iter()
                .try_for_each(|chunk| file.write_all(chunk.as_bytes()))
                .map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))
        };
        let thread = thread::Builder::new().name("log".to_owned()).spawn(write)?;
        self.files.push(Writer { lines, thread });
        Ok(self.files.len() - 1)
    }

    /// Returns whether nothing is logged.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Creates the hook of a direction, if it is logged.
    pub fn recorder(&self, direction: Direction, link: &LinkConfig) -> Option<Recorder> {
        self.to[direction as usize].map(|_| Log::of(link, String::new()))
    }

    /// Writes the lines that the recorders of both directions, up and down, have collected up to `now`.
    pub fn write(&mut self, now: Time, recorders: [&mut Option<Recorder>; 2]) {
        let [up, down] = recorders.map(|recorder| {
            recorder.as_mut().map_or_else(String::new, |log| {
                log.flush(now);
                std::mem::take(log.out())
            })
        });
        if self.to[0] == self.to[1] {
            self.send(0, merge(&up, &down));
        } else {
            self.send(0, up);
            self.send(1, down);
        }
    }

    fn send(&self, direction: usize, lines: String) {
        if let Some(file) = self.to[direction].filter(|_| !lines.is_empty()) {
            // If the thread has ended, `close` returns its error.
            let _ = self.files[file].lines.send(lines);
        }
    }

    /// Waits until everything is written.
    pub fn close(self) -> io::Result<()> {
        let mut result = Ok(());
        for Writer { lines, thread } in self.files {
            drop(lines);
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("the log's thread failed")));
            result = result.and(ended);
        }
        result
    }
}

fn merge(up: &str, down: &str) -> String {
    if up.is_empty() || down.is_empty() {
        return [up, down].concat();
    }
    let time = |line: &str| line.split(' ').next().and_then(|millis| millis.parse::<u64>().ok()).unwrap_or(0);
    let mut lines: Vec<_> = up.lines().chain(down.lines()).collect();
    lines.sort_by_key(|line| time(line));
    lines.join("\n") + "\n"
}

/// Interval at which lines are passed to the writing threads.
pub const INTERVAL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_directions_are_in_the_order_of_time() {
        assert_eq!(merge("1 + 9\n20 - 9 19\n", "9 + 1\n9 - 1 0\n"), "1 + 9\n9 + 1\n9 - 1 0\n20 - 9 19\n");
        assert_eq!((merge("1 + 9\n", ""), merge("", "")), ("1 + 9\n".to_owned(), String::new()));
    }
}
