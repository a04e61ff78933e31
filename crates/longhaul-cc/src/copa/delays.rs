//! The round trips that Copa decides by.

use longhaul_units::{Span, Time};

use crate::estimate::windowed::{WindowedMax, WindowedMin};

/// RTTmin is the least of so long (section 2.1).
const LONG: Span = Span::from_secs(10);
/// RTTstanding is the least of this part of the smoothed round trip (section 2.1).
const STANDING_PART: u64 = 2;
/// RTTmax is the greatest of so many round trips (section 2.2).
const MAX_ROUNDS: u64 = 4;
/// The queue is nearly empty below this part of its swing (section 2.2).
const NEARLY: f64 = 0.1;

/// RTTmin, RTTstanding and RTTmax.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delays {
    least: WindowedMin,
    standing: WindowedMin,
    /// Positions are nanoseconds, values seconds.
    most: WindowedMax,
}

impl Delays {
    pub(super) const fn new() -> Self {
        Self { least: WindowedMin::new(LONG), standing: WindowedMin::new(LONG), most: WindowedMax::new(0) }
    }

    /// A round trip of `rtt`, where the smoothed one is `srtt`.
    pub(super) fn sample(&mut self, now: Time, rtt: Span, srtt: Span) {
        self.standing.set_window((srtt / STANDING_PART).min(LONG));
        self.most.set_window((srtt * MAX_ROUNDS).min(LONG).as_nanos());
        self.least.update(now, rtt);
        self.standing.update(now, rtt);
        self.most.update(now.as_nanos(), rtt.as_secs_f64());
    }

    pub(super) fn is_known(&self) -> bool {
        self.least.get().is_some()
    }

    /// RTTstanding: the least of half a round trip, so that ACKs that come late in a bunch do not count.
    pub(super) fn standing(&self) -> Option<Span> {
        self.standing.get()
    }

    pub(super) fn standing_secs(&self) -> f64 {
        self.standing.get().map_or(0.0, Span::as_secs_f64)
    }

    /// The queueing delay `dq = RTTstanding - RTTmin`, in seconds; zero while nothing is known.
    pub(super) fn queueing(&self) -> f64 {
        match (self.standing.get(), self.least.get()) {
            (Some(standing), Some(least)) => (standing - least).as_secs_f64(),
            _ => 0.0,
        }
    }

    /// Whether the queue is empty but for a tenth of what it was at most: `dq < 0.1 (RTTmax - RTTmin)`. A queue that
    /// never was is empty, and one of `noise` seconds or less.
    pub(super) fn is_nearly_empty(&self, noise: f64) -> bool {
        let least = self.least.get().map_or(0.0, Span::as_secs_f64);
        let swing = self.most.get().unwrap_or(0.0) - least;
        self.queueing() <= NEARLY * swing.max(0.0) + noise
    }
}
