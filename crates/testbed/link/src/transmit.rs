//! Transmitter of a link: when it may begin a packet, and when it has sent it.

use longhaul_units::{Rate, Span, Time};

use crate::config::{LinkConfig, LinkRate, Outage, OutageKind, Step};
use crate::overhead::Overhead;
use crate::trace::{Cursor, OPPORTUNITY, TUN_PREFIX, Trace};
use std::sync::Arc;

/// Nanoseconds per second; a packet's bytes times this, divided by the rate in bytes per second, is its time in
/// nanoseconds.
const SCALE: u64 = 1_000_000_000;

#[derive(Debug)]
pub(crate) struct Transmitter {
    pace: Pace,
    overhead: Overhead,
    /// Outages during which transmission pauses.
    holds: Vec<Outage>,
}

#[derive(Debug)]
enum Pace {
    /// Transmits instantly, but not before this time.
    Unlimited(Time),
    Constant(Constant),
    Trace(Recorded),
}

impl Transmitter {
    pub(crate) fn new(config: &LinkConfig) -> Self {
        let pace = match &config.rate {
            LinkRate::Unlimited => Pace::Unlimited(Time::ZERO),
            LinkRate::Constant(rate) => Pace::Constant(Constant::new(*rate, &config.steps)),
            LinkRate::Trace(trace) => Pace::Trace(Recorded::new(Arc::clone(trace))),
        };
        let holds = config.outages.iter().filter(|outage| outage.kind == OutageKind::Hold).copied().collect();
        Self { pace, overhead: config.overhead, holds }
    }

    #[inline]
    pub(crate) fn next_start(&mut self, earliest: Time) -> Time {
        let mut start = self.pace.next_start().max(earliest);
        while let Some(hold) = self.holds.first().copied() {
            if start < hold.from {
                break;
            }
            if start < hold.until {
                self.pace.stand_still(hold.until);
                start = self.pace.next_start().max(earliest);
            } else {
                self.holds.remove(0);
            }
        }
        start
    }

    /// Begins a packet at `at`, which is not before [`next_start`](Self::next_start), and returns when its last bit is
    /// sent. `waited` states whether it was queued before `at`; if so, it follows its predecessor without rounding up
    /// to the next nanosecond.
    #[inline]
    pub(crate) fn send(&mut self, at: Time, size: u32, waited: bool) -> Time {
        let bytes = self.on_link(size);
        match &mut self.pace {
            Pace::Unlimited(_) => at,
            Pace::Constant(constant) => constant.send(at, bytes, waited),
            Pace::Trace(recorded) => recorded.send(bytes + u64::from(TUN_PREFIX)),
        }
    }

    #[inline]
    pub(crate) fn on_link(&self, size: u32) -> u64 {
        self.overhead.on_link(size)
    }

    /// Returns whether every packet is sent instantly, so that none ever waits.
    #[inline]
    pub(crate) fn is_unlimited(&self) -> bool {
        matches!(self.pace, Pace::Unlimited(from) if from == Time::ZERO) && self.holds.is_empty()
    }

    /// Called at `now` while no packet waits: delivery opportunities up to `now` are lost.
    #[inline]
    pub(crate) fn idle(&mut self, now: Time) {
        if let Pace::Trace(recorded) = &mut self.pace {
            recorded.skip_through(now);
        }
    }

    /// Returns the constant rate, or the mean rate of a trace. Returns `None` if the rate is unlimited or has steps. In
    /// the latter case, use the configuration: the state here may already include steps up to the end of the packet.
    #[inline]
    pub(crate) fn steady_rate(&self) -> Option<Rate> {
        match &self.pace {
            Pace::Unlimited(_) => None,
            Pace::Constant(constant) if constant.is_stepped => None,
            Pace::Constant(constant) => Some(Rate::from_bytes_per_sec(constant.rate)),
            Pace::Trace(recorded) => Some(recorded.mean_rate),
        }
    }

    pub(crate) fn may_hold(&self) -> bool {
        !self.holds.is_empty()
    }

    #[inline]
    pub(crate) fn is_stepped(&self) -> bool {
        matches!(&self.pace, Pace::Constant(constant) if constant.is_stepped)
    }

    /// Applies `config` from `now` on; the packet in transmission completes as scheduled.
    pub(crate) fn reconfigure(&mut self, now: Time, config: &LinkConfig) {
        let free = self.pace.next_start().max(now);
        *self = Self::new(config);
        match &mut self.pace {
            Pace::Unlimited(from) => *from = free,
            Pace::Constant(constant) => constant.free = free,
            Pace::Trace(recorded) => recorded.skip_through(now),
        }
    }
}

impl Pace {
    fn next_start(&self) -> Time {
        match self {
            Self::Unlimited(from) => *from,
            Self::Constant(constant) => constant.free_at(),
            Self::Trace(recorded) => recorded.next_start(),
        }
    }

    fn stand_still(&mut self, until: Time) {
        match self {
            Self::Unlimited(from) => *from = until,
            Self::Constant(constant) => (constant.free, constant.fraction) = (until, 0),
            Self::Trace(recorded) => recorded.skip_through(Time::from_nanos(until.as_nanos().saturating_sub(1))),
        }
    }
}

/// A rate with optional steps. The end of a packet is exact: it is kept in nanoseconds and a fraction of one.
#[derive(Debug)]
struct Constant {
    rate: u64,
    /// Time at which the last packet was sent, rounded down to a nanosecond.
    free: Time,
    /// Fraction of a nanosecond that `free` omits, in units of 1/`rate` ns.
    fraction: u64,
    /// Changes of the rate still to come, the next one last.
    steps: Vec<(Time, u64)>,
    /// Whether the configuration has any steps, past ones included.
    is_stepped: bool,
}

impl Constant {
    fn new(rate: Rate, steps: &[Step]) -> Self {
        let steps: Vec<_> =
            steps.iter().rev().filter_map(|step| Some((step.at, step.rate?.as_bytes_per_sec()))).collect();
        let is_stepped = !steps.is_empty();
        Self { rate: rate.as_bytes_per_sec(), free: Time::ZERO, fraction: 0, steps, is_stepped }
    }

    fn free_at(&self) -> Time {
        if self.fraction > 0 { self.free + Span::from_nanos(1) } else { self.free }
    }

    fn send(&mut self, at: Time, bytes: u64, waited: bool) -> Time {
        if !waited || at > self.free_at() {
            (self.free, self.fraction) = (at, 0);
        }
        let mut left = bytes.saturating_mul(SCALE);
        loop {
            while let Some((_, rate)) = self.steps.pop_if(|(at, _)| *at <= self.free) {
                self.change_rate(rate);
            }
            let end = self.fraction.saturating_add(left);
            let span = Span::from_nanos(end / self.rate);
            let Some(&(step, _)) = self.steps.last().filter(|(step, _)| *step < self.free + span) else {
                (self.free, self.fraction) = (self.free + span, end % self.rate);
                return self.free_at();
            };
            left -= (step - self.free).as_nanos() * self.rate - self.fraction;
            (self.free, self.fraction) = (step, 0);
        }
    }

    /// Converts the fraction of a nanosecond to the unit of the new rate, rounding up.
    fn change_rate(&mut self, new: u64) {
        let scaled = (u128::from(self.fraction) * u128::from(new)).div_ceil(u128::from(self.rate));
        (self.rate, self.fraction) = (new, u64::try_from(scaled).unwrap_or(0).min(new.saturating_sub(1)));
    }
}

/// Transmitter of a recorded link. Several small packets may share one opportunity, and a large one may take several.
#[derive(Debug)]
struct Recorded {
    trace: Arc<Trace>,
    mean_rate: Rate,
    cursor: Cursor,
    left: u32,
}

impl Recorded {
    fn new(trace: Arc<Trace>) -> Self {
        let mut recorded = Self { mean_rate: trace.mean_rate(), trace, cursor: Cursor::default(), left: OPPORTUNITY };
        // As in mahimahi, a packet that arrives at time zero is too late for an opportunity at time zero.
        recorded.skip_through(Time::ZERO);
        recorded
    }

    fn next_start(&self) -> Time {
        self.cursor.time(&self.trace)
    }

    fn skip_through(&mut self, now: Time) {
        if self.next_start() <= now {
            self.cursor.skip_through(&self.trace, now);
            self.left = OPPORTUNITY;
        }
    }

    fn send(&mut self, bytes: u64) -> Time {
        let mut bytes = bytes;
        loop {
            let now = self.next_start();
            let used = bytes.min(u64::from(self.left));
            bytes -= used;
            self.left -= used as u32;
            if self.left == 0 {
                self.cursor.advance(&self.trace);
                self.left = OPPORTUNITY;
            }
            if bytes == 0 {
                return now;
            }
        }
    }
}

#[cfg(test)]
mod tests;
