//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation, sections 3.2 and 3.3).

use longhaul_cc::RateSample;
use longhaul_units::{Bytes, Rate, Span, Time};

use crate::Burst;

/// Delivery-rate sampler: state for one snapshot per transmission and one sample per ACK.
#[derive(Clone, Debug)]
pub(super) struct RateSampler {
    pub(super) delivered: u64,
    pub(super) delivered_at: Time,
    pub(super) first_sent_at: Time,
    pub(super) lost: u64,
    /// `delivered` at which data sent while application-limited is delivered; 0 if not application-limited.
    app_limited_until: u64,
    pub(super) latest: Option<Rate>,
}

impl RateSampler {
    pub(super) fn new(now: Time) -> Self {
        Self { delivered: 0, delivered_at: now, first_sent_at: now, lost: 0, app_limited_until: 0, latest: None }
    }

    /// Returns the snapshot for segments sent at `now`. `idle` means that nothing is in flight.
    pub(super) fn snapshot(&mut self, now: Time, idle: bool, tag: u16) -> Burst {
        if idle {
            self.delivered_at = now;
            self.first_sent_at = now;
        }
        let mut burst = Burst::new(now);
        burst.delivered = self.delivered;
        burst.delivered_at = self.delivered_at;
        burst.first_sent_at = self.first_sent_at;
        burst.lost = self.lost;
        burst.app_limited = self.app_limited_until != 0;
        burst.tag = tag;
        burst
    }

    pub(super) fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }

    /// Counts `bytes` delivered at `at`. Must be called before [`sample`](Self::sample).
    pub(super) fn on_delivered(&mut self, bytes: u64, at: Time) {
        self.delivered += bytes;
        self.delivered_at = self.delivered_at.max(at);
        if self.app_limited_until != 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
    }

    /// Returns the sample for the newest delivered segment's snapshot. There is none if its interval is below
    /// `min_rtt`: ACKs were compressed, or the ACK belongs to the original of a retransmission.
    pub(super) fn sample(&mut self, newest: &Burst, min_rtt: Option<Span>) -> Option<RateSample> {
        let send = newest.sent_at - newest.first_sent_at;
        let ack = self.delivered_at - newest.delivered_at;
        self.first_sent_at = newest.sent_at;
        let interval = send.max(ack);
        if interval.is_zero() || min_rtt.is_some_and(|min| interval < min) {
            return None;
        }
        let delivered = Bytes(self.delivered - newest.delivered);
        let mut sample = RateSample::new(delivered, interval);
        sample.app_limited = newest.app_limited;
        sample.prior_delivered = Bytes(newest.delivered);
        sample.tx_in_flight = Bytes(newest.in_flight);
        sample.lost = Bytes(self.lost - newest.lost);
        self.latest = Some(sample.rate);
        Some(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(100);
    const SEGMENT: u64 = 1000;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(1000 + millis)
    }

    /// Returns the samples for segments sent at `sent` and acknowledged one by one at `acked`, in milliseconds.
    fn samples(sent: &[u64], acked: &[u64]) -> Vec<Option<RateSample>> {
        let mut sampler = RateSampler::new(at(0));
        let (mut bursts, mut results) = (Vec::new(), Vec::new());
        let mut moments: Vec<_> = sent.iter().map(|millis| (*millis, true)).collect();
        moments.extend(acked.iter().map(|millis| (*millis, false)));
        // At the same time, ACKs are processed before transmissions.
        moments.sort();
        for (millis, is_send) in moments {
            if is_send {
                let idle = bursts.len() == results.len();
                bursts.push(sampler.snapshot(at(millis), idle, 0));
            } else {
                sampler.on_delivered(SEGMENT, at(millis));
                let burst = &bursts[results.len()];
                results.push(sampler.sample(burst, Some(RTT)));
            }
        }
        results
    }

    /// One segment per 10 ms yields 100 kB/s after the first round trip.
    #[test]
    fn a_steady_flow_is_measured_exactly() {
        let sent: Vec<_> = (0..60).map(|k| 10 * k).collect();
        let acked: Vec<_> = sent.iter().map(|millis| millis + 100).collect();
        for sample in &samples(&sent, &acked)[20..] {
            let sample = sample.expect("the interval is at least a round trip");
            assert_eq!((sample.rate.as_bytes_per_sec(), sample.interval), (100_000, RTT));
        }
    }

    /// With compressed ACKs no sample exceeds the sending rate; the spacing of single ACKs alone would yield ten
    /// times as much.
    #[test]
    fn compressed_acks_are_bounded_by_the_time_to_send() {
        let sent: Vec<_> = (0..200).map(|k| 10 * k).collect();
        let acked: Vec<_> = sent.iter().map(|millis| 100 * (millis / 100) + 200).collect();
        let found = samples(&sent, &acked);
        let rates: Vec<_> = found[60..].iter().flatten().map(|sample| sample.rate.as_bytes_per_sec()).collect();
        assert!(rates.len() > 100 && rates.iter().all(|rate| (50_000..=100_000).contains(rate)), "{rates:?}");
    }

    /// A flight sent at once is delivered at the bottleneck rate. Once samples start after it, ACK times determine
    /// them.
    #[test]
    fn a_burst_is_measured_by_its_acks() {
        let sent: Vec<_> = (0..20).map(|_| 0).chain((0..40).map(|k| 100 + 10 * k)).collect();
        let acked: Vec<_> = (0..60).map(|k| 100 + 10 * k).collect();
        let found = samples(&sent, &acked);
        let last = found[59].expect("the interval is long enough");
        assert_eq!(last.rate.as_bytes_per_sec(), 100_000);
    }

    /// An interval below the minimum RTT yields no sample: the ACK belongs to the original of a retransmission.
    #[test]
    fn a_short_interval_yields_no_sample() {
        let mut sampler = RateSampler::new(at(0));
        let burst = sampler.snapshot(at(0), true, 0);
        sampler.on_delivered(SEGMENT, at(40));
        assert_eq!(sampler.sample(&burst, Some(RTT)), None);
        assert!(sampler.sample(&burst, None).is_some());
    }

    /// Segments sent while application-limited are flagged until the data in flight at that time is delivered.
    #[test]
    fn application_limited_segments_are_flagged() {
        let mut sampler = RateSampler::new(at(0));
        let first = sampler.snapshot(at(0), true, 0);
        sampler.on_app_limited(SEGMENT);
        let second = sampler.snapshot(at(10), false, 0);
        sampler.on_delivered(SEGMENT, at(100));
        let third = sampler.snapshot(at(100), false, 0);
        sampler.on_delivered(SEGMENT, at(110));
        let fourth = sampler.snapshot(at(110), false, 0);
        assert_eq!(
            [first, second, third, fourth].map(|burst| burst.app_limited),
            [false, true, true, false],
            "the limit lasts until more than the data in flight is delivered"
        );
    }
}
