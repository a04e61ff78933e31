//! RTT measurements of Copa.

use longhaul_units::{Span, Time};

use crate::estimate::windowed::{WindowedMax, WindowedMin};

/// RTTmin is the smallest RTT within this time (section 2.1).
pub(super) const LONG: Span = Span::from_secs(10);
/// RTTstanding is the smallest RTT within the smoothed RTT divided by this number (section 2.1).
const STANDING_PART: u64 = 2;
/// RTTmax is the maximum RTT within this many round trips (section 2.2).
const MAX_ROUNDS: u64 = 4;
/// The window of RTTstanding covers at least one and a half times the silence between ACKs. If a link delivers ACKs in
/// bunches, only the last ones of a bunch show the delay of the path. A silence counts if each of the last round trips
/// had one of its length.
const SILENCES: (u64, u64) = (3, 2);
const SILENT_ROUNDS: usize = 4;
/// The queue is nearly empty below this fraction of the variation of its delay (section 2.2).
pub(super) const NEARLY: f64 = 0.1;

/// RTTmin, RTTstanding and RTTmax.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delays {
    /// Length of the time window of RTTmin.
    long: Span,
    least: WindowedMin,
    standing: WindowedMin,
    /// Positions are in nanoseconds, values in seconds.
    most: WindowedMax,
    silences: Silences,
}

/// The longest silence between ACKs in each of the last round trips.
#[derive(Clone, Copy, Debug, Default)]
struct Silences {
    rounds: [Span; SILENT_ROUNDS],
    /// The longest silence of the round trip that began at `began`.
    longest: Span,
    began: Time,
    last: Option<Time>,
}

impl Silences {
    /// Records an ACK, and returns the silence that each of the last round trips had.
    fn heard(&mut self, now: Time, srtt: Span) -> Span {
        self.longest = self.longest.max(now.since(self.last.unwrap_or(now)));
        self.last = Some(now);
        if now.since(self.began) >= srtt {
            self.rounds.rotate_right(1);
            self.rounds[0] = self.longest;
            (self.longest, self.began) = (Span::ZERO, now);
        }
        self.rounds.into_iter().min().unwrap_or_default()
    }
}

impl Delays {
    /// Estimators in which RTTmin is the smallest RTT of the last `long`.
    pub(super) const fn new(long: Span) -> Self {
        Self {
            long,
            least: WindowedMin::new(long),
            standing: WindowedMin::new(long),
            most: WindowedMax::new(0),
            silences: Silences {
                rounds: [Span::ZERO; SILENT_ROUNDS],
                longest: Span::ZERO,
                began: Time::ZERO,
                last: None,
            },
        }
    }

    /// Records a sample `rtt`, with the smoothed RTT `srtt`.
    pub(super) fn sample(&mut self, now: Time, rtt: Span, srtt: Span) {
        let silence = self.silences.heard(now, srtt) * SILENCES.0 / SILENCES.1;
        self.standing.set_window((srtt / STANDING_PART).max(silence.min(srtt)).min(self.long));
        self.most.set_window((srtt * MAX_ROUNDS).min(self.long).as_nanos());
        self.least.update(now, rtt);
        self.standing.update(now, rtt);
        self.most.update(now.as_nanos(), rtt.as_secs_f64());
    }

    pub(super) fn is_known(&self) -> bool {
        self.least.get().is_some()
    }

    /// Returns RTTstanding: the smallest RTT of half a round trip or, if ACKs come in bunches, of up to a round trip,
    /// so that the samples at the beginning of a bunch do not count.
    pub(super) fn standing(&self) -> Option<Span> {
        self.standing.get()
    }

    pub(super) fn standing_secs(&self) -> f64 {
        self.standing.get().map_or(0.0, Span::as_secs_f64)
    }

    /// Returns the queueing delay `dq = RTTstanding - RTTmin` in seconds, or zero while it is unknown.
    pub(super) fn queueing(&self) -> f64 {
        match (self.standing.get(), self.least.get()) {
            (Some(standing), Some(least)) => (standing - least).as_secs_f64(),
            _ => 0.0,
        }
    }

    /// Returns whether the queue is nearly empty: `dq < nearly (RTTmax - RTTmin)`, or at most `noise` seconds. A
    /// queue that was never filled is empty.
    pub(super) fn is_nearly_empty(&self, noise: f64, nearly: f64) -> bool {
        let least = self.least.get().map_or(0.0, Span::as_secs_f64);
        let swing = self.most.get().unwrap_or(0.0) - least;
        self.queueing() <= nearly * swing.max(0.0) + noise
    }
}
