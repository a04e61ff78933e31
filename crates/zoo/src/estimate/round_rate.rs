//! TCP Westwood+'s bandwidth estimate: one sample per round trip, smoothed twice.

use longhaul_units::{Bytes, Span, Time};

/// Part of its old value that a smoothing stage keeps (Linux's Westwood+).
pub(crate) const KEEP: f64 = 7.0 / 8.0;

/// Counter of the data delivered over intervals of a round trip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampler {
    least: Span,
    since: Option<Time>,
    bytes: f64,
}

impl Sampler {
    /// Creates a sampler whose samples span a round trip, and at least `least`.
    pub(crate) const fn new(least: Span) -> Self {
        Self { least, since: None, bytes: 0.0 }
    }

    /// Processes an ACK and returns the rate in bytes/s if it ends an interval.
    pub(crate) fn on_ack(&mut self, now: Time, delivered: Bytes, rtt: Option<Span>) -> Option<f64> {
        let Some(since) = self.since else {
            // The data of the first ACK was delivered over an unknown time.
            self.since = Some(now);
            return None;
        };
        self.bytes += delivered.as_f64();
        let elapsed = now.since(since);
        if elapsed.is_zero() || rtt.is_none_or(|rtt| elapsed < rtt.max(self.least)) {
            return None;
        }
        let sample = self.bytes / elapsed.as_secs_f64();
        (self.since, self.bytes) = (Some(now), 0.0);
        Some(sample)
    }
}

/// Westwood+'s estimate in bytes/s: the data delivered over a round trip (or a minimum interval, if that is longer),
/// passed through two consecutive moving averages that keep 7/8 each, or another part. The first sample initialises
/// both. (Grieco, Mascolo, CCR 34(2), 2004; sampling and smoothing as in Linux.)
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundRate {
    sampler: Sampler,
    keep: f64,
    /// First and second average.
    averages: Option<(f64, f64)>,
}

impl RoundRate {
    /// Creates an estimate whose samples span at least `least`.
    pub(crate) const fn new(least: Span) -> Self {
        Self { sampler: Sampler::new(least), keep: KEEP, averages: None }
    }

    /// Sets the part of their old value, 0 to 1, that the averages keep at a sample.
    pub(crate) const fn with_keep(self, keep: f64) -> Self {
        Self { keep, ..self }
    }

    /// Processes an ACK at `now` for `delivered` bytes, with an RTT of `rtt`.
    pub(crate) fn on_ack(&mut self, now: Time, delivered: Bytes, rtt: Option<Span>) {
        if let Some(sample) = self.sampler.on_ack(now, delivered, rtt) {
            let (first, second) = self.averages.unwrap_or((sample, sample));
            let first = self.keep * first + (1.0 - self.keep) * sample;
            self.averages = Some((first, self.keep * second + (1.0 - self.keep) * first));
        }
    }

    /// Returns the estimate in bytes/s, or zero before the first sample.
    pub(crate) fn rate(&self) -> f64 {
        self.averages.map_or(0.0, |(_, second)| second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(9_000_000_000) + Span::from_millis(ms)
    }

    /// Two consecutive averages of 7/8: n samples after a step of one, the result is 1 - (7/8)^n (1 + n/8). For
    /// averages of k it is 1 - k^n (1 + n (1 - k)).
    #[test]
    fn a_step_has_its_closed_form() {
        let usual = RoundRate::new(Span::from_millis(50));
        for (mut rate, keep) in [(usual, 7.0_f64 / 8.0), (usual.with_keep(0.5), 0.5), (usual.with_keep(0.0), 0.0)] {
            let rtt = Some(Span::from_millis(100));
            rate.on_ack(at(0), Bytes(1), rtt);
            rate.on_ack(at(100), Bytes(100_000), rtt);
            assert_eq!(rate.rate(), 1e6, "the first sample initialises both");
            for n in 1..=30 {
                rate.on_ack(at(100 + 100 * n), Bytes(200_000), rtt);
                let expected = 1e6 + 1e6 * (1.0 - keep.powi(n as i32) * (1.0 + n as f64 * (1.0 - keep)));
                assert!((rate.rate() / expected - 1.0).abs() < 1e-9, "{keep}, {n}: {}, not {expected}", rate.rate());
            }
        }
    }

    /// Samples span a round trip, but at least 50 ms.
    #[test]
    fn short_round_trips_are_measured_over_fifty_milliseconds() {
        for (rtt, samples) in [(1, 2), (50, 2), (100, 1)] {
            let mut rate = RoundRate::new(Span::from_millis(50));
            let mut changes = 0;
            for ms in 0..=100 {
                let before = rate.averages;
                // The amount grows, so that each sample differs.
                rate.on_ack(at(ms), Bytes(1000 * (ms + 1)), Some(Span::from_millis(rtt)));
                changes += u32::from(rate.averages != before);
            }
            assert_eq!(changes, samples, "round trip of {rtt} ms");
        }
    }
}
