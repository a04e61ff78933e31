//! Progress on standard error.

use std::io::{self, IsTerminal, Write};

use super::print::duration;
use crate::stopwatch::Stopwatch;

/// Progress line, which is overwritten on a terminal, and repeated at long intervals otherwise.
#[derive(Debug)]
pub(super) struct Progress {
    clock: Stopwatch,
    told: f64,
    is_terminal: bool,
}

impl Progress {
    /// Seconds between lines if not on a terminal.
    const SELDOM: f64 = 30.0;
    /// Seconds between updates on a terminal.
    const OFTEN: f64 = 0.2;

    pub(super) fn new() -> Self {
        Self { clock: Stopwatch::start(), told: 0.0, is_terminal: io::stderr().is_terminal() }
    }

    /// Shows the numbers of ended and of all runs and the remaining seconds from `left`, if an update is due.
    pub(super) fn tell(&mut self, ended: usize, all: usize, left: impl FnOnce() -> Option<f64>) {
        let now = self.clock.seconds();
        if now - self.told < if self.is_terminal { Self::OFTEN } else { Self::SELDOM } {
            return;
        }
        self.told = now;
        let left = left().map_or_else(String::new, |seconds| format!(", {} left", duration(seconds)));
        let (begin, end) = if self.is_terminal { ("\r", "\x1b[K") } else { ("", "\n") };
        let _ = write!(io::stderr(), "{begin}{ended} of {all} runs{left}{end}");
    }

    /// Clears the line before other output.
    pub(super) fn clear(&self) {
        if self.is_terminal {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
