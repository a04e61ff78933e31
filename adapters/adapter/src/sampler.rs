//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation, sections 3.2 and 3.3).

use longhaul_cc::RateSample;
use longhaul_units::{Bytes, Span, Time};

/// State at the time of a transmission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    sent_at: Time,
    first_sent_at: Time,
    delivered_at: Time,
    delivered: u64,
    pub(crate) lost: u64,
    app_limited: bool,
    /// Bytes in flight, including this transmission.
    pub(crate) in_flight: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    pub(crate) delivered: u64,
    pub(crate) lost: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// `delivered` at which data sent while application-limited is delivered; 0 if not application-limited.
    app_limited_until: u64,
}

impl Sampler {
    pub(crate) const fn new(now: Time) -> Self {
        Self { delivered: 0, lost: 0, delivered_at: now, first_sent_at: now, app_limited_until: 0 }
    }

    /// Returns the state for a transmission at `now`, with `in_flight` bytes including it. `idle` means that nothing
    /// was in flight before it.
    pub(crate) fn snapshot(&mut self, now: Time, idle: bool, in_flight: Bytes) -> Snapshot {
        if idle {
            (self.delivered_at, self.first_sent_at) = (now, now);
        }
        Snapshot {
            sent_at: now,
            first_sent_at: self.first_sent_at,
            delivered_at: self.delivered_at,
            delivered: self.delivered,
            lost: self.lost,
            app_limited: self.app_limited_until != 0,
            in_flight: in_flight.0,
        }
    }

    pub(crate) fn on_app_limited(&mut self, in_flight: Bytes) {
        self.app_limited_until = self.delivered.saturating_add(in_flight.0).max(1);
    }

    pub(crate) fn on_delivered(&mut self, bytes: u64, now: Time) {
        self.delivered = self.delivered.saturating_add(bytes);
        self.delivered_at = self.delivered_at.max(now);
        if self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
    }

    /// Returns the sample of the newest delivered transmission. There is none if its interval is shorter than `min_rtt`.
    pub(crate) fn sample(&mut self, newest: &Snapshot, min_rtt: Option<Span>) -> Option<RateSample> {
        let interval = newest.sent_at.since(newest.first_sent_at).max(self.delivered_at.since(newest.delivered_at));
        self.first_sent_at = newest.sent_at;
        if interval.is_zero() || min_rtt.is_some_and(|min| interval < min) {
            return None;
        }
        let mut sample = RateSample::new(Bytes(self.delivered - newest.delivered), interval);
        sample.app_limited = newest.app_limited;
        sample.prior_delivered = Bytes(newest.delivered);
        sample.tx_in_flight = Bytes(newest.in_flight);
        sample.lost = Bytes(self.lost - newest.lost);
        Some(sample)
    }
}
