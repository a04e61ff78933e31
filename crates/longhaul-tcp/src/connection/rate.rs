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
