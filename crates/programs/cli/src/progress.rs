//! Progress display of a transfer on standard error: a bar on a terminal, otherwise a line every 10 s.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use longhaul::{LimitedBy, SendLimit};
use tokio::time::{Interval, MissedTickBehavior};

use crate::output;
use crate::report::{self, Stopwatch};
use crate::transport::Snapshot;

/// Interval between updates of a bar.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);
const SMOOTHING: Duration = Duration::from_secs(1);
/// Interval between lines if standard error is not a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum widths of a line and of a name, and width of a bar, in columns.
const COLUMNS: usize = 80;
const NAME: usize = 24;
const BAR: usize = 16;

/// Returns an interval that ticks when bars are to be updated.
pub(crate) fn ticks() -> Interval {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// End of a transfer at which the progress is displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The sender, whose congestion window and limits are displayed.
    Sending,
    /// The receiver.
    Receiving,
}

/// Destination of the progress display. Clones share the same destination.
#[derive(Clone, Debug)]
pub(crate) struct Screen {
    bars: MultiProgress,
    lines: bool,
    quiet: bool,
    /// Whether a line for standard output could not be written.
    incomplete: Arc<AtomicBool>,
}

impl Screen {
    /// Displays on standard error: bars if it is a terminal, otherwise lines.
    pub(crate) fn stderr() -> Self {
        let target = ProgressDrawTarget::stderr();
        let lines = target.is_hidden();
        Self::new(target, lines, false)
    }

    /// Displays only [warnings](Self::warn).
    pub(crate) fn hidden() -> Self {
        Self::new(ProgressDrawTarget::hidden(), false, true)
    }

    fn new(target: ProgressDrawTarget, lines: bool, quiet: bool) -> Self {
        Self { bars: MultiProgress::with_draw_target(target), lines, quiet, incomplete: Arc::default() }
    }

    /// Writes a line to standard error, above the bars, unless the screen is hidden.
    pub(crate) fn say(&self, line: &str) {
        if !self.quiet {
            self.warn(line);
        }
    }

    /// Writes a line to standard error, above the bars.
    pub(crate) fn warn(&self, line: &str) {
        if self.bars.is_hidden() {
            output::say(line);
        } else {
            // `suspend` panics if the terminal has vanished.
            let _ = self.bars.println(line);
        }
    }

    /// Writes a line to standard output, above the bars.
    ///
    /// If that fails other than by the end of its reader, the first failure is [remembered](Self::is_incomplete) and
    /// reported on standard error.
    pub(crate) fn print(&self, line: &str) {
        // The bars are drawn again at the next tick.
        let _ = self.bars.clear();
        if let Err(error) = output::print(&format!("{line}\n"))
            && !self.incomplete.swap(true, Ordering::Relaxed)
        {
            self.warn(&format!("{error:#}"));
        }
    }

    /// Returns whether a line for standard output could not be written.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.incomplete.load(Ordering::Relaxed)
    }

    /// Starts the display of the transfer of a file of `size` bytes, if the size is known.
    pub(crate) fn begin(&self, side: Side, name: &str, size: Option<u64>) -> Progress {
        let name = shortened(name);
        let template = format!("{{prefix}} {{bar:{BAR}}} {{msg}}");
        let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = self.bars.add(
            ProgressBar::with_draw_target(size, ProgressDrawTarget::hidden())
                .with_style(style)
                .with_prefix(name.clone()),
        );
        Progress {
            screen: self.clone(),
            side,
            bar,
            name,
            size,
            watch: Stopwatch::start(),
            said: Duration::ZERO,
            moved: Duration::ZERO,
            last_bytes: 0,
            skipped: 0,
            rate: 0.0,
            limits: LimitedBy::default(),
        }
    }
}

/// A displayed transfer. Its bar is removed when this is dropped.
pub(crate) struct Progress {
    screen: Screen,
    side: Side,
    bar: ProgressBar,
    name: String,
    size: Option<u64>,
    watch: Stopwatch,
    said: Duration,
    moved: Duration,
    last_bytes: u64,
    skipped: u64,
    rate: f64,
    limits: LimitedBy,
}

impl Progress {
    /// Counts the next `bytes` bytes as present without a transfer. They do not count for the rate.
    pub(crate) fn skip(&mut self, bytes: u64) {
        self.skipped = self.skipped.saturating_add(bytes);
        self.last_bytes = self.last_bytes.saturating_add(bytes);
    }

    /// Displays that `bytes` bytes have been written or read; bytes that the peer has not acknowledged are
    /// subtracted. The rate is correct only if this is called at each of the [`ticks`].
    pub(crate) fn update(&mut self, bytes: u64, connection: &Snapshot) {
        let bytes = match self.side {
            Side::Sending => bytes.saturating_sub(connection.unacknowledged_bytes),
            Side::Receiving => bytes,
        };
        let now = self.watch.elapsed();
        let span = (now - self.moved).as_secs_f64().max(1e-6);
        let rate = bytes.saturating_sub(self.last_bytes) as f64 * 8.0 / span;
        // Smoothed over about ten updates. In the first second the mean is used, because the initial write that fills
        // the buffers would count as sent at once.
        self.rate = if now < SMOOTHING {
            bytes.saturating_sub(self.skipped) as f64 * 8.0 / now.max(INTERVAL).as_secs_f64()
        } else {
            self.rate + (rate - self.rate) / 10.0
        };
        self.moved = now;
        self.last_bytes = bytes;
        let limit = connection.limited_by.since(&self.limits).most().map_or("nothing", SendLimit::name);
        self.limits = connection.limited_by;
        let parts = parts(bytes, self.size, self.rate, (self.side == Side::Sending).then_some(limit), connection);
        let name = self.name.chars().count();
        if self.screen.lines && now >= self.said + LINE_INTERVAL {
            self.said = now;
            let columns = COLUMNS.saturating_sub(name + 2);
            // The colon follows the name directly, and the padding follows the colon.
            let label = format!("{}:", self.name.trim_end());
            output::say(&format!("{label:width$} {}", joined(&parts, columns), width = name + 1));
        }
        self.bar.set_message(joined(&parts, COLUMNS.saturating_sub(name + BAR + 2)));
        self.bar.set_position(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Returns the parts of a progress line, the most important first.
fn parts(
    bytes: u64,
    size: Option<u64>,
    bits_per_second: f64,
    limit: Option<&str>,
    connection: &Snapshot,
) -> Vec<String> {
    let part = match size {
        Some(size) => {
            let share = bytes.saturating_mul(100).checked_div(size).unwrap_or(100).min(100);
            format!("{share:>3} % of {}", report::size(size))
        }
        None => report::size(bytes),
    };
    let mut parts = vec![part, report::rate(bits_per_second)];
    let seconds = size.map(|size| size.saturating_sub(bytes) as f64 * 8.0 / bits_per_second);
    if let Some(seconds) = seconds.filter(|seconds| seconds.is_finite()) {
        parts.push(format!("{} left", duration(seconds)));
    }
    parts.extend(limit.map(|limit| format!("limited by {limit}")));
    parts.push(format!("rtt {}", report::time(connection.rtt)));
    if limit.is_some() {
        parts.push(format!("cwnd {}", report::size(connection.cwnd)));
    }
    parts
}

/// Joins the first of `parts` that fit in `columns` columns, separated by two spaces.
fn joined(parts: &[String], columns: usize) -> String {
    let mut line = String::new();
    for part in parts {
        let gap = if line.is_empty() { "" } else { "  " };
        if line.chars().count() + gap.len() + part.chars().count() > columns {
            break;
        }
        line += gap;
        line += part;
    }
    line
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME {
        name.to_owned()
    } else {
        name.chars().take(NAME - 1).chain(['\u{2026}']).collect()
    }
}

fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 99.5 => format!("{seconds:.0} s"),
        seconds if seconds < 99.5 * 60.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.0} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> Snapshot {
        Snapshot { rtt: Some(Duration::from_micros(612_300)), cwnd: 3_000_000, ..Snapshot::default() }
    }

    #[test]
    fn a_share_a_rate_and_the_time_left_come_first() {
        let parts = parts(4_000_000, Some(16_000_000), 3_200_000.0, Some("pacing"), &snapshot());
        assert_eq!(joined(&parts, COLUMNS), " 25 % of 15.26 MiB  3.2 Mb/s  30 s left  limited by pacing  rtt 612.3 ms");
        assert_eq!(joined(&parts, 40), " 25 % of 15.26 MiB  3.2 Mb/s  30 s left");
        let empty = super::parts(0, Some(0), 0.0, None, &snapshot());
        assert_eq!(joined(&empty, 60), "100 % of 0 B  0.0 kb/s  rtt 612.3 ms");
        let stream = super::parts(2048, None, 1e6, None, &snapshot());
        assert_eq!(joined(&stream, 60), "2.00 KiB  1.0 Mb/s  rtt 612.3 ms");
    }

    #[test]
    fn times_left_by_a_table() {
        for (seconds, wanted) in [(0.4, "0 s"), (99.4, "99 s"), (120.0, "2 min"), (7200.0, "2 h"), (1e9, "277778 h")] {
            assert_eq!(duration(seconds), wanted);
        }
    }

    /// Lines and bars have at most 80 columns, for any name and numbers.
    #[test]
    fn no_line_is_longer_than_a_terminal() {
        for name in ["f", "a-file-with-a-name-that-is-far-too-long-for-any-line.iso", "\u{e4}\u{f6}\u{fc}"] {
            let name = shortened(name);
            for rate in [0.0, 1e3, 999.9e6, 1e12] {
                let parts = parts(1, Some(u64::MAX), rate, Some("peer_window"), &snapshot());
                for before in [format!("{name}: "), format!("{name} {} ", "#".repeat(BAR))] {
                    let line = before.clone() + &joined(&parts, COLUMNS - before.chars().count());
                    assert!(line.chars().count() <= COLUMNS && line.contains(" % of "), "{line}");
                }
            }
        }
    }
}
