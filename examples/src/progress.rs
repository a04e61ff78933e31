//! What a transfer shows while it runs: a bar on a terminal, else a line now and then, both on standard error.

use std::io::Write as _;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use longhaul::LimitedBy;
use tokio::time::{Interval, MissedTickBehavior};

use crate::report::{self, Stopwatch};
use crate::transport::Snapshot;

/// How often a bar moves.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);
/// What the rate shown is a mean of.
const SMOOTHING: Duration = Duration::from_secs(1);
/// How often a line is written where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(2);

/// Ticks when a bar should move.
#[must_use]
pub fn ticks() -> Interval {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Which end of a transfer is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one whose congestion window and limits matter.
    Sending,
    /// The other.
    Receiving,
}

/// Where progress is shown. A clone shows in the same place.
#[derive(Clone, Debug)]
pub struct Screen {
    bars: MultiProgress,
    lines: bool,
    /// What transfers are called, if not by their files.
    label: Option<String>,
}

impl Screen {
    /// Standard error: bars if it is a terminal, else lines.
    #[must_use]
    pub fn stderr() -> Self {
        let target = ProgressDrawTarget::stderr();
        let lines = target.is_hidden();
        Self { bars: MultiProgress::with_draw_target(target), lines, label: None }
    }

    /// Nothing is shown.
    #[must_use]
    pub fn hidden() -> Self {
        Self { bars: MultiProgress::with_draw_target(ProgressDrawTarget::hidden()), lines: false, label: None }
    }

    /// The same place, where transfers are shown under this label in place of their files' names.
    #[must_use]
    pub fn labelled(&self, label: String) -> Self {
        Self { label: Some(label), ..self.clone() }
    }

    /// Writes a line to standard error, above the bars.
    pub fn say(&self, line: &str) {
        self.bars.suspend(|| eprintln!("{line}"));
    }

    /// Writes a line to standard output, above the bars.
    pub fn print(&self, line: &str) {
        self.bars.suspend(|| {
            // Nobody reading is no reason to fail.
            let _ = writeln!(std::io::stdout(), "{line}");
        });
    }

    /// Begins to show the transfer of a file of `size` bytes.
    #[must_use]
    pub fn begin(&self, side: Side, name: &str, size: u64) -> Progress {
        let template = "{prefix} {bar:24} {bytes}/{total_bytes} {msg}";
        let name = self.label.as_deref().unwrap_or(name);
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = self.bars.add(ProgressBar::new(size).with_style(style).with_prefix(name.to_owned()));
        Progress {
            screen: self.clone(),
            side,
            bar,
            name: name.to_owned(),
            size,
            watch: Stopwatch::start(),
            said: Duration::ZERO,
            moved: Duration::ZERO,
            last_bytes: 0,
            rate: 0.0,
            limits: LimitedBy::default(),
        }
    }
}

/// A transfer that is shown. When dropped, its bar vanishes.
#[derive(Debug)]
pub struct Progress {
    screen: Screen,
    side: Side,
    bar: ProgressBar,
    name: String,
    size: u64,
    watch: Stopwatch,
    said: Duration,
    moved: Duration,
    last_bytes: u64,
    rate: f64,
    limits: LimitedBy,
}

impl Progress {
    /// Shows that `bytes` have passed; for the rate this is to be called at each of the [`ticks`].
    pub fn update(&mut self, bytes: u64, connection: &Snapshot) {
        let now = self.watch.elapsed();
        let span = (now - self.moved).as_secs_f64().max(1e-6);
        let rate = bytes.saturating_sub(self.last_bytes) as f64 * 8.0 / span;
        // Smoothed over about ten updates. Before that the mean, lest what fills the buffers at once counts as sent at once.
        self.rate = if now < SMOOTHING {
            bytes as f64 * 8.0 / now.max(INTERVAL).as_secs_f64()
        } else {
            self.rate + (rate - self.rate) / 10.0
        };
        self.moved = now;
        self.last_bytes = bytes;
        let limit = connection.limited_by.since(&self.limits).most().unwrap_or("nothing");
        self.limits = connection.limited_by;
        let mut text = format!("{}  rtt {}", report::rate(self.rate), report::time(connection.rtt));
        if self.side == Side::Sending {
            text += &format!("  cwnd {}  limited by {limit}", report::size(connection.cwnd));
        }
        if self.screen.lines && now >= self.said + LINE_INTERVAL {
            self.said = now;
            eprintln!("{}: {} of {}  {text}", self.name, report::size(bytes), report::size(self.size));
        }
        self.bar.set_message(text);
        self.bar.set_position(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
