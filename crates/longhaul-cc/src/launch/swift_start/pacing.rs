//! A round trip of which the departures are spread.

use longhaul_units::{Bytes, Rate, Span, Time};

use super::estimate::TickClock;
use crate::compose::Overlay;
use crate::{Ack, Pace, Path, SendLimit, Sent};

/// Segments that leave in one tick at most (Partridge et al., BBN Technical Report 8339).
const MOST_A_TICK: u64 = 2;
/// Beyond a segment, the pacer lets go at once what the rate releases in this time, as the transport's own default does.
const QUANTUM: Span = Span::from_micros(250);

/// Instants of departure are at least so far apart on average, so that a timer never fires for every nanosecond.
const LEAST_INTERVAL: Span = Span::from_micros(1);

/// Lets everything go that the window allows: a burst.
pub(crate) fn at_once() -> Overlay {
    Overlay { pace: Some(Pace { rate: Rate::MAX, quantum: Some(Bytes(1 << 16)) }), ..Overlay::default() }
}

/// When segments leave that are spread by a clock of one's own.
#[derive(Clone, Copy, Debug)]
pub struct Departures {
    /// The first instant is one interval after this, or this itself.
    pub from: Time,
    /// The time over which `instants` are spread.
    pub rtt: Span,
    /// Instants of departure in that time; at least one.
    pub instants: u64,
    /// Segments that leave at each instant, again and again.
    pub pattern: &'static [u64],
    /// Of departures; with ticks at most two segments leave in each, and what fell behind catches up within that.
    pub clock: TickClock,
    /// Whether the first instant is `from` itself.
    at_once: bool,
    passed: u64,
}

impl Departures {
    /// `instants` of them in `rtt`, or in a microsecond for each if that is longer, each one segment, the first an interval after
    /// `from`.
    #[must_use]
    pub fn even(from: Time, rtt: Span, instants: u64, clock: TickClock) -> Self {
        let rtt = rtt.max(LEAST_INTERVAL * instants);
        Self { from, rtt, instants, pattern: &[1], clock, at_once: false, passed: 0 }
    }

    /// The same in groups, the first of which leaves at once.
    #[must_use]
    pub fn grouped(self, pattern: &'static [u64]) -> Self {
        Self { pattern, at_once: true, ..self }
    }

    /// Instants that have come.
    fn owed(&self, now: Time) -> u64 {
        let product = u128::from((now - self.from).as_nanos()) * u128::from(self.instants.max(1));
        let owed = product / u128::from(self.rtt.as_nanos().max(1)) + u128::from(self.at_once);
        u64::try_from(owed).unwrap_or(u64::MAX)
    }

    /// Segments of the first so many instants.
    fn segments(&self, instants: u64) -> u64 {
        let len = self.pattern.len().max(1) as u64;
        let cycle: u64 = self.pattern.iter().sum();
        let rest: u64 = self.pattern.iter().take((instants % len) as usize).sum();
        (instants / len).saturating_mul(cycle).saturating_add(rest)
    }

    /// Segments that may leave now, beyond those that might before.
    pub fn grant(&mut self, now: Time) -> u64 {
        let (before, mut passed) = (self.segments(self.passed), self.owed(now).max(self.passed));
        if self.clock.ticks() {
            let fits = |passed: &u64| self.segments(*passed).saturating_sub(before) <= MOST_A_TICK;
            let most = self.passed.saturating_add(MOST_A_TICK).min(passed);
            passed = (self.passed..=most).rev().find(fits).unwrap_or(self.passed);
        }
        self.passed = passed;
        self.segments(passed).saturating_sub(before)
    }

    /// When there will be more, after `now`.
    #[must_use]
    pub fn next(&self, now: Time) -> Time {
        if self.passed < self.owed(now) {
            return self.clock.after(now);
        }
        let intervals = self.passed.saturating_add(u64::from(!self.at_once));
        let product = u128::from(intervals) * u128::from(self.rtt.as_nanos().max(1));
        let nanos = product.div_ceil(u128::from(self.instants.max(1)));
        let due = self.from + Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.clock.next(due).max(self.clock.after(now))
    }
}

/// What a paced round is to be.
#[derive(Clone, Copy, Debug)]
pub struct RoundPlan {
    /// Bytes of the whole round.
    pub window: Bytes,
    /// Bytes of it that have left already.
    pub sent: Bytes,
    /// The time that it is spread over.
    pub rtt: Span,
    /// The segment size.
    pub mss: Bytes,
}

impl RoundPlan {
    /// Whole segments of the round, in bytes: what is less than a segment is not sent.
    fn whole(&self) -> Bytes {
        self.mss * (self.window.0 / self.mss.0.max(1))
    }

    fn pace(&self) -> Pace {
        let rate =
            Rate::from_bytes_over(self.window, self.rtt.max(Span::from_nanos(1))).max(Rate::from_bytes_per_sec(1));
        Pace { rate, quantum: Some(rate.bytes_in(QUANTUM).max(self.mss).min(Bytes(1 << 16))) }
    }

    /// From one departure to the next.
    fn interval(&self) -> Span {
        self.rtt / self.window.0.div_ceil(self.mss.0.max(1)).max(1)
    }
}

/// Who spreads the departures.
#[derive(Clone, Copy, Debug)]
enum Spread {
    /// The transport, from this time on.
    Transport(Option<Time>),
    /// We do, by opening the window for each; bytes that it is open for.
    Own(Departures, Bytes),
}

/// A paced round under way: how much of it is left, and when that may leave.
///
/// The window is what is in flight and what may leave, so that it is no more than what is outstanding when the round ends.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    quota: Bytes,
    in_flight: Bytes,
    pace: Pace,
    spread: Spread,
    /// When it ended.
    over_at: Option<Time>,
    next: Option<Time>,
}

impl Round {
    /// A round that begins at `now` with `in_flight` bytes outstanding. The first departure is an interval later. With ticks,
    /// or where the transport does not pace, the departures are a clock's of our own.
    #[must_use]
    pub fn new(now: Time, plan: &RoundPlan, in_flight: Bytes, clock: TickClock, transport_paces: bool) -> Self {
        let first = now + plan.interval();
        let spread = if transport_paces && !clock.ticks() {
            Spread::Transport(Some(first))
        } else {
            let instants = plan.window.0.div_ceil(plan.mss.0.max(1));
            Spread::Own(Departures::even(now, plan.rtt, instants, clock), Bytes::ZERO)
        };
        let mut round = Self {
            quota: plan.whole() - plan.sent,
            in_flight,
            pace: plan.pace(),
            spread,
            over_at: None,
            next: Some(first),
        };
        round.set_next(now);
        round.close_if_empty(now, plan.mss);
        round
    }

    /// A better estimate: the round is to be another one.
    pub fn replan(&mut self, now: Time, plan: &RoundPlan) {
        self.quota = plan.whole() - plan.sent;
        self.pace = plan.pace();
        self.close_if_empty(now, plan.mss);
    }

    fn close_if_empty(&mut self, now: Time, mss: Bytes) {
        if self.quota < mss.max(Bytes(1)) && self.over_at.is_none() {
            self.over_at = Some(now);
        }
    }

    fn set_next(&mut self, now: Time) {
        self.next = match &self.spread {
            Spread::Transport(first) => *first,
            Spread::Own(departures, _) => Some(departures.next(now)),
        };
    }

    /// A segment left.
    pub fn on_sent(&mut self, sent: &Sent, mss: Bytes) {
        self.in_flight = sent.in_flight_before + sent.bytes;
        self.quota -= sent.bytes;
        if let Spread::Own(_, open) = &mut self.spread {
            *open -= sent.bytes;
        }
        self.close_if_empty(sent.now, mss);
    }

    /// An ACK came: the window must not grow by it. What no longer fits into the peer's window is not sent, and an
    /// application that pauses ends the round.
    pub fn on_ack(&mut self, ack: &Ack<'_>, path: &Path) {
        self.in_flight = ack.in_flight;
        self.quota = self.quota.min(path.peer_window - ack.in_flight);
        self.close_if_empty(ack.now, path.mss);
        let pauses = matches!(ack.limit, SendLimit::App | SendLimit::SendBuffer);
        if pauses && path.queued == Bytes::ZERO {
            self.over_at = self.over_at.or(Some(ack.now));
        }
    }

    /// Its time has come.
    pub fn on_tick(&mut self, now: Time, mss: Bytes) {
        match &mut self.spread {
            Spread::Transport(first) => {
                first.take_if(|first| *first <= now);
            }
            Spread::Own(departures, open) => *open += mss * departures.grant(now),
        }
        self.set_next(now);
    }

    /// The window now, bytes.
    #[must_use]
    pub fn window(&self) -> Bytes {
        let open = match self.spread {
            Spread::Transport(None) => self.quota,
            Spread::Transport(Some(_)) => Bytes::ZERO,
            Spread::Own(_, open) => open.min(self.quota),
        };
        self.in_flight + open
    }

    /// Bytes outstanding.
    #[must_use]
    pub const fn in_flight(&self) -> Bytes {
        self.in_flight
    }

    /// Whether all of it has left, or no more can.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.over_at.is_some()
    }

    /// When [`on_tick`](Self::on_tick) is to be called: at once if it is over.
    #[must_use]
    pub fn next_tick(&self) -> Option<Time> {
        self.over_at.or(self.next)
    }

    /// The pace that belongs to it.
    #[must_use]
    pub fn overlay(&self) -> Overlay {
        match self.spread {
            Spread::Transport(_) => Overlay { pace: Some(self.pace), ..Overlay::default() },
            Spread::Own(..) => at_once(),
        }
    }
}

#[cfg(test)]
mod tests;
