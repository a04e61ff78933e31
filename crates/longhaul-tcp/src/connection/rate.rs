//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation, sections 3.2 and 3.3).

use longhaul_cc::RateSample;
use longhaul_units::{Bytes, Rate, Span, Time};

use crate::scoreboard::Burst;

/// What the transport keeps to take a snapshot at each send and a sample at each ACK.
#[derive(Clone, Debug)]
pub(super) struct RateSampler {
    pub(super) delivered: u64,
    pub(super) delivered_at: Time,
    pub(super) first_sent_at: Time,
    pub(super) lost: u64,
    /// `delivered` at which what was sent while application-limited is delivered; 0 when it is not.
    app_limited_until: u64,
    /// The newest sample.
    pub(super) latest: Option<Rate>,
}

impl RateSampler {
    pub(super) fn new(now: Time) -> Self {
        Self { delivered: 0, delivered_at: now, first_sent_at: now, lost: 0, app_limited_until: 0, latest: None }
    }

    /// The snapshot for what leaves now.
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

    /// Counts `bytes` delivered at `at`; the sample follows from the newest segment among them.
    pub(super) fn on_delivered(&mut self, bytes: u64, at: Time) {
        self.delivered += bytes;
        self.delivered_at = self.delivered_at.max(at);
        if self.app_limited_until != 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
    }

    /// The sample that the newest delivered segment's snapshot gives, unless it would span less than `min_rtt`,
    /// which means that ACKs were compressed or the segment was a retransmission acknowledged by its original.
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

    /// Segments that leave at the milliseconds `sent` and are acknowledged one by one at `acked`, in order: the samples.
    fn samples(sent: &[u64], acked: &[u64]) -> Vec<Option<RateSample>> {
        let mut sampler = RateSampler::new(at(0));
        let (mut bursts, mut results) = (Vec::new(), Vec::new());
        let mut moments: Vec<_> = sent.iter().map(|millis| (*millis, true)).collect();
        moments.extend(acked.iter().map(|millis| (*millis, false)));
        // What arrives at an instant is processed before what leaves.
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

    /// A segment each 10 ms: 100 kB/s, once a round trip is full of them.
    #[test]
    fn a_steady_flow_is_measured_exactly() {
        let sent: Vec<_> = (0..60).map(|k| 10 * k).collect();
        let acked: Vec<_> = sent.iter().map(|millis| millis + 100).collect();
        for sample in &samples(&sent, &acked)[20..] {
            let sample = sample.expect("a round trip long");
            assert_eq!((sample.rate.as_bytes_per_sec(), sample.interval), (100_000, RTT));
        }
    }

    /// Their ACKs wait and come at once: no sample is above the rate of sending, which those of single ACKs would be tenfold.
    #[test]
    fn compressed_acks_are_bounded_by_the_time_to_send() {
        let sent: Vec<_> = (0..200).map(|k| 10 * k).collect();
        let acked: Vec<_> = sent.iter().map(|millis| 100 * (millis / 100) + 200).collect();
        let found = samples(&sent, &acked);
        let rates: Vec<_> = found[60..].iter().flatten().map(|sample| sample.rate.as_bytes_per_sec()).collect();
        assert!(rates.len() > 100 && rates.iter().all(|rate| (50_000..=100_000).contains(rate)), "{rates:?}");
    }

    /// A flight sent at once arrives at the link's rate: once no sample reaches back to it, it is the ACKs' time that counts.
    #[test]
    fn a_burst_is_measured_by_its_acks() {
        let sent: Vec<_> = (0..20).map(|_| 0).chain((0..40).map(|k| 100 + 10 * k)).collect();
        let acked: Vec<_> = (0..60).map(|k| 100 + 10 * k).collect();
        let found = samples(&sent, &acked);
        let last = found[59].expect("long enough");
        assert_eq!(last.rate.as_bytes_per_sec(), 100_000);
    }

    /// An interval under the least round trip is no sample: a retransmission's, acknowledged by the original.
    #[test]
    fn too_short_an_interval_is_none() {
        let mut sampler = RateSampler::new(at(0));
        let burst = sampler.snapshot(at(0), true, 0);
        sampler.on_delivered(SEGMENT, at(40));
        assert_eq!(sampler.sample(&burst, Some(RTT)), None);
        assert!(sampler.sample(&burst, None).is_some());
    }

    /// What leaves while the application is the limit is marked, until as much as was then in flight is delivered.
    #[test]
    fn an_idle_application_is_told_apart() {
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
            "the limit lasts until more than what was in flight is delivered"
        );
    }
}
