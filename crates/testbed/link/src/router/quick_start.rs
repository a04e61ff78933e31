//! Quick-Start router (RFC 4782): peak utilization and the "target" algorithm of its appendix D.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use longhaul_units::{Bytes, Rate, Span, Time};
use longhaul_wire::network::{Forward, QuickStartNonce, QuickStartRate, Request};

use super::Answer;
use crate::hook::View;
use crate::parameters::text_parameters;
use crate::random::Random;

text_parameters! {
    /// Parameters of a Quick-Start router.
    pub struct QuickStartConfig {
        /// Fraction of the link's rate that load and approved rates may reach together; 0 to 1, default 0.85. RFC 4782
        /// gives no value; this one is from its authors' ns-2 code.
        threshold: f64 = 0.85, share("Quick-Start router's threshold");
        /// Length of each load measurement; 1 ms to 60 s, default 150 ms (RFC 4782, appendix D: S).
        slot: Span = Span::from_millis(150), span("Quick-Start router's slot", LENGTHS);
        /// Number of measurements of which the highest counts; 1 to 1000, default 5 (RFC 4782, appendix D: N, there 3 to
        /// 20; 5 in ns-2).
        slots: u32 = 5, count("number of the Quick-Start router's slots", 1.0..=1000.0);
        /// Length of the intervals over which approved rates are summed; 1 ms to 60 s, default 150 ms (RFC 4782,
        /// appendix D).
        interval: Span = Span::from_millis(150), span("Quick-Start router's interval", LENGTHS);
        /// Number of intervals, including the current one, in which approved rates count as future load; 1 to 1000,
        /// default 2 (RFC 4782, section 8.2 and appendix D).
        intervals: u32 = 2, count("number of the Quick-Start router's intervals", 1.0..=1000.0);
    }
}

const LENGTHS: RangeInclusive<Span> = Span::from_millis(1)..=Span::from_secs(60);

#[derive(Debug)]
pub(super) struct QuickStart {
    config: QuickStartConfig,
    random: Random,
    sent: Slots,
    /// Rates approved in each interval, in bytes per second.
    granted: Slots,
    /// The packet in transmission: start, end and bytes.
    sending: Option<(Time, Time, u64)>,
}

impl QuickStart {
    pub(super) fn new(config: QuickStartConfig, random: Random) -> Self {
        Self {
            config,
            random,
            sent: Slots::new(config.slot, config.slots),
            granted: Slots::new(config.interval, config.intervals),
            sending: None,
        }
    }

    pub(super) fn sends(&mut self, now: Time, ends: Time, bytes: u64) {
        if let Some((from, until, bytes)) = self.sending.replace((now, ends, bytes)) {
            self.sent.spread(from, until, bytes);
        }
    }

    pub(super) fn answer(&mut self, now: Time, view: &View, forward: &mut Forward) -> Answer {
        let Request::QuickStart { rate: asked, nonce } = forward.request else { return Answer::Passed };
        if asked == QuickStartRate::ZERO {
            return Answer::Passed;
        }
        let granted = asked.min(QuickStartRate::at_most(self.room(now, view)));
        self.granted.add(self.granted.slot(now), granted.rate().as_bytes_per_sec());
        if granted == QuickStartRate::ZERO {
            // A denial zeroes the rate, the nonce and the TTL (RFC 4782, section 3.3).
            (forward.ttl, forward.stamps) = (0, 0);
            forward.request = Request::QuickStart { rate: granted, nonce: QuickStartNonce::default() };
            return Answer::Denied;
        }
        if granted == asked {
            return Answer::Granted;
        }
        // Each step down randomizes two bits of the nonce (RFC 4782, section 3.4); the bits of the other steps are
        // unchanged.
        let nonce = nonce.lowered(asked, granted, self.random.bits() as u32);
        forward.request = Request::QuickStart { rate: granted, nonce };
        Answer::Lowered
    }

    /// Returns the rate that may be approved: the threshold minus the peak of the recent load and recent approvals.
    fn room(&self, now: Time, view: &View) -> Rate {
        let Some(rate) = view.rate else { return Rate::MAX };
        // The current slot does not count, because it is incomplete.
        let load = self.sent.before(self.sent.slot(now)).max().unwrap_or(0);
        let load = Rate::from_bytes_over(Bytes(load), self.config.slot).as_bytes_per_sec();
        let interval = self.granted.slot(now);
        let granted = self.granted.before(interval.saturating_add(1)).fold(0, u64::saturating_add);
        let target = rate.mul_f64(self.config.threshold).as_bytes_per_sec();
        Rate::from_bytes_per_sec(target.saturating_sub(load).saturating_sub(granted))
    }
}

/// Sums over consecutive slots of equal length, of which only the latest are kept.
#[derive(Debug)]
struct Slots {
    length: Span,
    kept: u64,
    /// Number and sum of each non-empty slot, the latest last.
    sums: VecDeque<(u64, u64)>,
}

impl Slots {
    fn new(length: Span, kept: u32) -> Self {
        Self { length, kept: u64::from(kept), sums: VecDeque::new() }
    }

    fn slot(&self, at: Time) -> u64 {
        at.as_nanos().checked_div(self.length.as_nanos()).unwrap_or(0)
    }

    /// Adds to a slot, which must not be earlier than any slot added to before.
    fn add(&mut self, slot: u64, amount: u64) {
        match self.sums.back_mut() {
            Some((last, sum)) if *last == slot => *sum = sum.saturating_add(amount),
            _ => self.sums.push_back((slot, amount)),
        }
        // Keep one slot more than requested, because the last one may be incomplete.
        while self.sums.front().is_some_and(|(first, _)| first.saturating_add(self.kept) < slot) {
            self.sums.pop_front();
        }
    }

    fn spread(&mut self, from: Time, until: Time, amount: u64) {
        let last = self.slot(until);
        let earliest = self.slot(from).max(last.saturating_sub(self.kept));
        let whole = (until - from).as_nanos();
        let by = |at: Time| {
            let part = u128::from(amount) * u128::from(at.min(until).since(from).as_nanos());
            part.checked_div(u128::from(whole)).map_or(amount, |part| part as u64)
        };
        for slot in earliest..=last {
            let begin = Time::from_nanos(slot.saturating_mul(self.length.as_nanos()));
            let before = if begin <= from { 0 } else { by(begin) };
            self.add(slot, by(begin + self.length).saturating_sub(before));
        }
    }

    fn before(&self, slot: u64) -> impl Iterator<Item = u64> {
        let first = slot.saturating_sub(self.kept);
        self.sums.iter().filter(move |(number, _)| (first..slot).contains(number)).map(|(_, sum)| *sum)
    }
}

#[cfg(test)]
mod tests;
