//! State of the path as observed by one flow. It is updated once per ACK and makes no decisions.

use longhaul_cc::internal::copa_cubic::{Capacity, Delays};
use longhaul_cc::{Ack, Path, SegmentKind};
use longhaul_units::{Bytes, Span, Time};

/// Time for which a minimum RTT is valid. It does not expire during competition, because the queue may remain full.
pub(super) const BASE_LIFETIME: Span = Span::from_secs(30);
/// Queueing delay up to which the window grows, as a fraction of the RTT without a queue, and its limit in seconds.
const THRESHOLD: (f64, f64) = (0.125, 0.005);
/// Minimum of the threshold in seconds, and in transmission times of a segment.
const LEAST_THRESHOLD: (f64, f64) = (0.001, 4.0);
/// Maximum of the threshold as a fraction of the delay at which the queue overflows.
const OVERFLOW_PART: f64 = 0.33;
/// Minimum of the threshold as a fraction of the jitter.
const JITTER_PART: f64 = 0.5;
/// Delay caused by hosts in seconds, and the number of segments of a burst: a packet delayed by no more than this met
/// no queue.
const BURST: (f64, f64) = (0.0003, 2.0);
/// Fraction of the threshold up to which there is no queue.
const EMPTY_PART: f64 = 0.25;
/// Maximum fraction of the RTT that counts as queueing delay.
const MOST_QUEUEING: f64 = 0.9;

/// Estimates of the path. Rates are in bytes per second, delays in seconds, windows in bytes.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) mss: f64,
    pub(super) delays: Delays,
    pub(super) capacity: Capacity,
    srtt: f64,
    round: Round,
    /// Queueing delay up to which flows fill the path.
    pub(super) threshold: f64,
}

/// Bytes delivered in the last two complete round trips and in the current one.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    began: Option<(Time, Bytes)>,
    rates: [f64; 2],
    delivered: [f64; 2],
    present: f64,
}

impl Round {
    fn on_ack(&mut self, ack: &Ack<'_>) {
        if ack.round_start {
            if let Some((began, before)) = self.began {
                let delivered = (ack.total_delivered - before).as_f64();
                let took = ack.now.since(began).as_secs_f64();
                self.delivered = [delivered, self.delivered[0]];
                if took > 0.0 {
                    self.rates = [delivered / took, self.rates[0]];
                }
            }
            self.began = Some((ack.now, ack.total_delivered));
        }
        self.present = self.began.map_or(0.0, |(_, before)| (ack.total_delivered - before).as_f64());
    }
}

impl Model {
    pub(super) fn new(mss: f64) -> Self {
        Self {
            mss,
            delays: Delays::new(BASE_LIFETIME).with_jitter(),
            capacity: Capacity::default(),
            srtt: 0.0,
            round: Round::default(),
            threshold: LEAST_THRESHOLD.0,
        }
    }

    /// Processes an ACK. The queue overflows at a delay of `overflow` seconds.
    pub(super) fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, overflow: Option<f64>) {
        self.set_segment(path);
        if let Some(sample) = ack.rtt {
            self.delays.sample(ack.now, sample.rtt, path.srtt.unwrap_or(sample.rtt));
        }
        self.srtt = path.srtt.unwrap_or_default().as_secs_f64();
        // Retransmissions are excluded, because an arrival time does not identify the copy.
        let originals = ack.acked.iter().rev().filter(|segment| segment.kind == SegmentKind::Data);
        if let Some((sent_at, at)) = originals.filter_map(|segment| Some((segment.sent_at, segment.arrival?))).next() {
            self.delays.sample_one_way(ack.now, sent_at, at);
        }
        self.capacity.on_ack(ack);
        self.round.on_ack(ack);
        if ack.round_start {
            let most = self.capacity.most_jitter(ack.now, self.mss).unwrap_or(f64::INFINITY);
            self.delays.limit_jitter(most);
        }
        // The route has become shorter again, or a queue was mistaken for a longer route.
        let raw = Span::from_secs_f64(self.delays.raw());
        if self.delays.floor() > raw {
            self.delays.set_floor(raw);
        }
        let segment = self.segment();
        let wanted = (THRESHOLD.0 * self.base()).min(THRESHOLD.1);
        let wanted = wanted.max(LEAST_THRESHOLD.1 * segment).max(LEAST_THRESHOLD.0);
        let bounded = overflow.map_or(wanted, |overflow| wanted.min(OVERFLOW_PART * overflow).max(segment));
        self.threshold = bounded.max(JITTER_PART * self.delays.jitter());
    }

    pub(super) fn set_segment(&mut self, path: &Path) {
        self.mss = path.mss.as_f64().max(1.0);
    }

    /// Lets the minimum RTT expire, or keeps it while other flows may keep the queue full.
    pub(super) fn set_expiry(&mut self, expires: bool) {
        self.delays.set_lifetime(if expires { BASE_LIFETIME } else { Span::MAX });
    }

    /// Returns the delivery rate: the higher one of the last two round trips.
    pub(super) fn rate(&self) -> f64 {
        self.round.rates[0].max(self.round.rates[1])
    }

    pub(super) const fn last_rate(&self) -> f64 {
        self.round.rates[0]
    }

    /// Returns the maximum number of bytes that were delivered in one of the last round trips.
    pub(super) fn delivered(&self) -> f64 {
        self.round.delivered.into_iter().fold(self.round.present, f64::max)
    }

    /// Returns the flow's share of the capacity, if the capacity is known.
    pub(super) fn share(&self) -> Option<f64> {
        Some(self.rate() / self.capacity.rate()?)
    }

    /// Returns the RTT without the queue of the forward path.
    pub(super) fn base(&self) -> f64 {
        self.delays.base().unwrap_or_default().as_secs_f64()
    }

    pub(super) fn least(&self) -> f64 {
        self.delays.least().as_secs_f64()
    }

    /// Returns the part of `window` that the path holds without a queue (Little's law).
    pub(super) fn without_queue(&self, window: f64) -> f64 {
        window * (1.0 - (self.delays.queueing() / self.srtt.max(f64::MIN_POSITIVE)).min(MOST_QUEUEING))
    }

    fn segment(&self) -> f64 {
        let rate = self.capacity.rate().unwrap_or(self.rate());
        if rate > 0.0 { self.mss / rate } else { 0.0 }
    }

    /// Returns `delay` minus the jitter as a fraction of the RTT.
    pub(super) fn part(&self, delay: f64) -> f64 {
        (delay - self.delays.jitter()) / self.srtt.max(f64::MIN_POSITIVE)
    }

    /// Returns the maximum delay of a packet that met no queue.
    pub(super) fn noise(&self) -> f64 {
        BURST.0.max(EMPTY_PART * self.threshold) + BURST.1 * self.segment()
    }
}
