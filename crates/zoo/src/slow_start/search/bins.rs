//! Totals of bytes sent and delivered at the end of each bin.

use longhaul_units::{Bytes, Span, Time};

/// Bins per window (`W`, draft-chung-ccwg-search, section 3).
pub(super) const BINS: usize = 10;
/// Additional bins, so that the comparison still reaches back far enough when the RTT grows (`EXTRA_BINS`).
pub(super) const EXTRA: usize = 15;
/// Number of bins kept. A window reaches from the end of one bin to the end of another, and interpolation needs one
/// more bin.
const KEPT: usize = BINS + 1 + EXTRA;

longhaul_cc::options! {
    /// Reference with which deliveries are compared.
    pub(crate) enum ExitRule {
        /// Bytes sent in the window one round trip earlier (draft-chung-ccwg-search-09).
        Sent = "sent",
        /// Twice the bytes delivered in the window one round trip earlier (SEARCH 3.0, draft-chung-ietf-ccwg-00).
        Delivered = "delivered",
    }
}

/// Totals since the connection began, at the end of a bin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Count {
    delivered: Bytes,
    sent: Bytes,
}

/// The newest bins; all have the same length, and the first begins with the first ACK.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bins {
    kept: [Count; KEPT],
    /// Number of the last complete bin. Bin zero ends at the first ACK.
    pub(super) last: u64,
    end: Time,
    length: Span,
    first_rtt: Span,
}

impl Bins {
    /// Starts bins with a length of `window` times `rtt` divided by ten, from `now` on. Returns `None` if that length
    /// is zero.
    pub(super) fn begin(now: Time, rtt: Span, window: f64, delivered: Bytes, sent: Bytes) -> Option<Self> {
        let length = rtt.mul_f64(window / BINS as f64);
        let bins = Self { kept: [Count { delivered, sent }; KEPT], last: 0, end: now + length, length, first_rtt: rtt };
        (!length.is_zero()).then_some(bins)
    }

    pub(super) fn is_over(&self, now: Time) -> bool {
        now >= self.end
    }

    pub(super) fn passed(&self, now: Time) -> u64 {
        if self.is_over(now) { now.since(self.end).as_nanos() / self.length.as_nanos().max(1) + 1 } else { 0 }
    }

    /// Completes the bins that are over. All of them but the newest keep the totals of the previous bin.
    pub(super) fn advance(&mut self, now: Time, delivered: Bytes, sent: Bytes) {
        let passed = self.passed(now);
        let before = self.at(self.last);
        for skipped in 1..passed.min(KEPT as u64 + 1) {
            self.put(self.last + skipped, before);
        }
        self.last += passed;
        self.end += self.length * passed;
        self.put(self.last, Count { delivered, sent });
    }

    /// Returns the bytes expected in the window that ends now, according to `rule`, and the bytes delivered in it.
    /// Returns `None` if there are too few bins so far, or if the RTT has outgrown the stored bins.
    pub(super) fn compare(&self, rtt: Span, rule: ExitRule) -> Option<(f64, f64)> {
        let window = BINS as u64;
        let length = self.length.as_nanos().max(1);
        let back = rtt.as_nanos() / length;
        let part = (rtt.as_nanos() % length) as f64 / length as f64;
        let before = self.last.checked_sub(back).filter(|before| *before > window)?;
        if back >= EXTRA as u64 {
            return None;
        }
        let count = |end: u64| {
            let (old, new) = (self.at(end - window), self.at(end));
            match rule {
                ExitRule::Sent => (new.sent - old.sent).as_f64(),
                ExitRule::Delivered => 2.0 * (new.delivered - old.delivered).as_f64(),
            }
        };
        // The time one RTT ago lies between two bin ends: `before` and the previous one.
        let expected = (1.0 - part) * count(before) + part * count(before - 1);
        let delivered = self.at(self.last).delivered - self.at(self.last - window).delivered;
        Some((expected, delivered.as_f64()))
    }

    /// Returns the bytes delivered in the last `rounds` initial round trips, rounded up to whole bins.
    pub(super) fn delivered_in(&self, rounds: u64) -> f64 {
        let length = self.length.as_nanos().max(1);
        let back = (self.first_rtt.as_nanos().saturating_mul(rounds)).div_ceil(length).min(KEPT as u64 - 1);
        (self.at(self.last).delivered - self.at(self.last.saturating_sub(back)).delivered).as_f64()
    }

    fn at(&self, bin: u64) -> Count {
        self.kept.get((bin % KEPT as u64) as usize).copied().unwrap_or_default()
    }

    fn put(&mut self, bin: u64, count: Count) {
        if let Some(kept) = self.kept.get_mut((bin % KEPT as u64) as usize) {
            *kept = count;
        }
    }
}

/// Returns the shortfall as a fraction of the expected bytes, which is negative if more was delivered, or `None` if
/// nothing was expected.
pub(super) fn norm(expected: f64, delivered: f64) -> Option<f64> {
    (expected > 0.0).then(|| (expected - delivered) / expected)
}

#[cfg(test)]
mod tests;
