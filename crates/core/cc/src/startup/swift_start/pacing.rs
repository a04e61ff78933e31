//! Paced round: a round trip over which transmissions are spread evenly.

use longhaul_units::{Bytes, Rate, Span, Time};

use super::estimate::TickClock;
use crate::compose::Overlay;
use crate::{Ack, Pace, Path, SendLimit, Sent};

/// Maximum number of segments that are sent in one tick (Partridge et al., BBN Technical Report 8339).
const MOST_A_TICK: u64 = 2;
/// The pacer releases at once the bytes that the rate allows in this time, and at least one segment. This equals the
/// default of the transport.
const QUANTUM: Span = Span::from_micros(250);

/// Minimum average interval between departures, so that a timer does not fire every nanosecond.
const LEAST_INTERVAL: Span = Span::from_micros(1);

/// Departure times of segments when this module, not the transport, spreads them.
#[derive(Clone, Copy, Debug)]
pub struct Departures {
    /// Start: the first instant is one interval after this time, or this time itself.
    pub from: Time,
    /// Duration over which the `instants` are spread.
    pub rtt: Span,
    /// Number of transmission times within `rtt`, at least one.
    pub instants: u64,
    /// Number of segments sent at each instant; the pattern repeats.
    pub pattern: &'static [u64],
    /// Clock of departures. With ticks, at most two segments are sent per tick, and missed departures catch up within
    /// that limit.
    pub clock: TickClock,
    /// Whether the first instant is `from` itself.
    at_once: bool,
    passed: u64,
}

impl Departures {
    /// Spreads `instants` departures of one segment each over `rtt`, or over one microsecond per departure if that is
    /// longer. The first is one interval after `from`.
    #[must_use]
    pub fn even(from: Time, rtt: Span, instants: u64, clock: TickClock) -> Self {
        let rtt = rtt.max(LEAST_INTERVAL * instants);
        Self { from, rtt, instants, pattern: &[1], clock, at_once: false, passed: 0 }
    }

    /// Returns the same schedule with groups of segments, the first of which is sent at once.
    #[must_use]
    pub fn grouped(self, pattern: &'static [u64]) -> Self {
        Self { pattern, at_once: true, ..self }
    }

    /// Returns the number of instants up to `now`.
    fn owed(&self, now: Time) -> u64 {
        let product = u128::from((now - self.from).as_nanos()) * u128::from(self.instants.max(1));
        let owed = product / u128::from(self.rtt.as_nanos().max(1)) + u128::from(self.at_once);
        u64::try_from(owed).unwrap_or(u64::MAX)
    }

    fn segments(&self, instants: u64) -> u64 {
        let len = self.pattern.len().max(1) as u64;
        let cycle: u64 = self.pattern.iter().sum();
        let rest: u64 = self.pattern.iter().take((instants % len) as usize).sum();
        (instants / len).saturating_mul(cycle).saturating_add(rest)
    }

    /// Returns how many more segments may be sent now.
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

    /// Skips the segments that [`grant`](Self::grant) would have granted after `from` and up to `now`.
    pub fn skip(&mut self, from: Time, now: Time) {
        let ticks = if self.clock.ticks() { self.clock.steps(from, now) } else { u64::MAX };
        let most = self.passed.saturating_add(MOST_A_TICK.saturating_mul(ticks));
        self.passed = self.owed(now).min(most).max(self.passed);
    }

    /// Returns when more segments may be sent, after `now`.
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

#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundPlan {
    /// Bytes of the whole round.
    pub window: Bytes,
    /// Bytes of the round that were already sent.
    pub sent: Bytes,
    /// Time over which the round is spread.
    pub rtt: Span,
    /// Segment size.
    pub mss: Bytes,
}

impl RoundPlan {
    /// Returns the length of the round's full segments in bytes. A remainder below one segment is not sent.
    fn whole(&self) -> Bytes {
        self.mss * (self.window.0 / self.mss.0.max(1))
    }

    fn pace(&self) -> Pace {
        let rate =
            Rate::from_bytes_over(self.window, self.rtt.max(Span::from_nanos(1))).max(Rate::from_bytes_per_sec(1));
        Pace { rate, quantum: Some(rate.bytes_in(QUANTUM).max(self.mss).min(Bytes(1 << 16))) }
    }

    fn interval(&self) -> Span {
        self.rtt / self.window.0.div_ceil(self.mss.0.max(1)).max(1)
    }
}

/// Component that spreads the departures.
#[derive(Clone, Copy, Debug)]
enum Spread {
    /// The transport paces after this time.
    Transport(Option<Time>),
    /// This module opens the window for each departure; the second field is the number of bytes for which it is open.
    Own(Departures, Bytes),
}

/// A paced round in progress: the amount that is left, and when it may be sent.
///
/// The window is the sum of the bytes in flight and those that may be sent, so that it equals the outstanding bytes
/// when the round ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    quota: Bytes,
    pub(crate) in_flight: Bytes,
    pace: Pace,
    spread: Spread,
    over_at: Option<Time>,
    next: Option<Time>,
}

impl Round {
    /// Starts a round at `now` with `in_flight` bytes outstanding. The first departure is one interval later. If the
    /// clock has ticks or the transport does not pace, this module spreads the departures.
    pub(crate) fn new(now: Time, plan: &RoundPlan, in_flight: Bytes, clock: TickClock, transport_paces: bool) -> Self {
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

    /// Changes the plan of the round after a better estimate.
    pub(crate) fn replan(&mut self, now: Time, plan: &RoundPlan) {
        self.quota = plan.whole() - plan.sent;
        self.pace = plan.pace();
        self.set_next(now);
        self.close_if_empty(now, plan.mss);
    }

    fn close_if_empty(&mut self, now: Time, mss: Bytes) {
        if self.quota < mss.max(Bytes(1)) && self.over_at.is_none() {
            self.over_at = Some(now);
        }
    }

    /// Sets the time of the next departure, or clears it if the whole round may be sent.
    fn set_next(&mut self, now: Time) {
        self.next = match &self.spread {
            Spread::Transport(first) => *first,
            Spread::Own(departures, open) => (*open < self.quota).then(|| departures.next(now)),
        };
    }

    pub(crate) fn on_sent(&mut self, sent: &Sent, mss: Bytes) {
        self.in_flight = sent.in_flight_before + sent.bytes;
        self.quota -= sent.bytes;
        if let Spread::Own(_, open) = &mut self.spread {
            *open -= sent.bytes;
        }
        self.close_if_empty(sent.now, mss);
    }

    /// Processes an ACK, which must not increase the window. Data that no longer fits into the peer's window is not
    /// sent, and a pause of the application ends the round.
    pub(crate) fn on_ack(&mut self, ack: &Ack<'_>, path: &Path) {
        self.in_flight = ack.in_flight;
        self.quota = self.quota.min(path.peer_window - ack.in_flight);
        self.close_if_empty(ack.now, path.mss);
        let pauses = matches!(ack.limit, SendLimit::App | SendLimit::SendBuffer);
        if pauses && path.queued == Bytes::ZERO {
            self.over_at = self.over_at.or(Some(ack.now));
        }
    }

    pub(crate) fn on_tick(&mut self, now: Time, mss: Bytes) {
        match &mut self.spread {
            Spread::Transport(first) => {
                first.take_if(|first| *first <= now);
            }
            Spread::Own(departures, open) => *open += mss * departures.grant(now),
        }
        self.set_next(now);
    }

    pub(crate) fn window(&self) -> Bytes {
        let open = match self.spread {
            Spread::Transport(None) => self.quota,
            Spread::Transport(Some(_)) => Bytes::ZERO,
            Spread::Own(_, open) => open.min(self.quota),
        };
        self.in_flight + open
    }

    /// Returns whether the round is over: all of it was sent, or no more of it can be sent.
    pub(crate) const fn is_over(&self) -> bool {
        self.over_at.is_some()
    }

    /// Returns when [`on_tick`](Self::on_tick) should be called: at once if the round is over.
    pub(crate) fn next_tick(&self) -> Option<Time> {
        self.over_at.or(self.next)
    }

    pub(crate) fn overlay(&self) -> Overlay {
        match self.spread {
            Spread::Transport(_) => Overlay { pace: Some(self.pace), ..Overlay::default() },
            Spread::Own(..) => Overlay::at_once(),
        }
    }
}

#[cfg(test)]
mod tests;
