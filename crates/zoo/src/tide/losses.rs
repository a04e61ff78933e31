//! Classification of losses: those of a full queue, and those of the link.

use longhaul_cc::estimate::{WindowedMax, WindowedMin};
use longhaul_cc::{Ack, Episode, SegmentKind};
use longhaul_units::{Span, Time};

use super::model::{BASE_LIFETIME, Model};

/// Number of segments near a loss whose lateness is compared with that of all segments.
const NEAR: usize = 4;
/// Time for which the greatest lateness counts.
const MOST_LIFETIME: Span = Span::from_secs(10);
/// Number of samples of the mean lateness. It counts as that without a queue after four times as many.
const MEAN: u32 = 32;
/// Weight of an overflow with less lateness than those before.
const OVERFLOW_GAIN: f64 = 0.25;
/// Segments near a loss are late from this part of the way from the lateness without a queue to that of a full one on,
const LATE: f64 = 0.7;
/// if the latter is at least this multiple of the former. Otherwise, jitter hides the difference.
const DISTINCT: f64 = 1.5;
/// The link may lose this, and this multiple of what a lower window left, up to a limit.
const TOLERATED: f64 = 0.02;
const LINK_FACTOR: f64 = 2.0;
const MOST_TOLERATED: f64 = 0.15;
/// The counts are halved when this many segments have been delivered. Fewer than this part of them show no excess.
const MEMORY: f64 = 1000.0;
const LEAST_PART: f64 = 0.02;
/// The window is not the cause of losses if more than this part of their rate remains while it is lowered.
const REMAINING: f64 = 0.5;
/// Losses are back at this multiple of what remained, and a part of what is tolerated.
const BACK: (f64, f64) = (1.5, 0.1);
/// Origin of one-way delays, whose offset is unknown.
const ORIGIN: i64 = 1 << 60;

/// How much later than the least delay segments arrive.
#[derive(Clone, Copy, Debug, Default)]
struct Lateness {
    first: Option<u64>,
    newest: [f64; NEAR],
    least: WindowedMin,
    most: WindowedMax,
    mean: f64,
    count: u32,
    /// The least mean, which is that without a queue.
    idle: WindowedMin,
    at_loss: f64,
    at_overflow: Option<f64>,
}

impl Lateness {
    fn new() -> Self {
        let (least, most) = (WindowedMin::new(BASE_LIFETIME), WindowedMax::new(MOST_LIFETIME.as_nanos()));
        Self { least, most, idle: least, ..Self::default() }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let mut is_new = false;
        for segment in ack.acked.iter().filter(|segment| segment.kind == SegmentKind::Data) {
            if let Some(arrival) = segment.arrival {
                let ahead = arrival.as_nanos().wrapping_sub(segment.sent_at.as_nanos());
                let first = *self.first.get_or_insert(ahead);
                let delay = ORIGIN.saturating_add(ahead.wrapping_sub(first).cast_signed()).max(0);
                self.note(ack.now, Span::from_nanos(delay.cast_unsigned()));
                is_new = true;
            }
        }
        // Without arrival times, the RTT shows the delay.
        if let (Some(sample), None) = (ack.rtt, self.first) {
            self.note(ack.now, sample.rtt);
            is_new = true;
        }
        if is_new {
            self.count = self.count.saturating_add(1);
            self.mean += (self.near() - self.mean) / f64::from(self.count.min(MEAN));
            if self.count >= 4 * MEAN {
                self.idle.update(ack.now, Span::from_secs_f64(self.mean));
            }
            self.most.update(ack.now.as_nanos(), self.near());
            // A delay that segments survive is not that at which the queue overflows.
            self.at_overflow = self.at_overflow.map(|overflow| overflow.max(self.near()));
        }
    }

    fn note(&mut self, now: Time, delay: Span) {
        let least = self.least.update(now, delay);
        self.newest.rotate_right(1);
        self.newest[0] = (delay - least).as_secs_f64();
    }

    /// Returns the greatest lateness of the newest segments.
    fn near(&self) -> f64 {
        self.newest.into_iter().fold(0.0, f64::max)
    }

    /// Processes a loss, and returns whether it is of a full queue: the segments near it were among the latest if a queue
    /// `stands`, and otherwise much later than without a queue, too.
    fn on_loss(&mut self, noise: f64, stands: bool) -> bool {
        let near = self.near();
        self.at_loss = near;
        let (idle, most) = (self.idle.get().unwrap_or_default().as_secs_f64(), self.most.get().unwrap_or(0.0));
        let full = self.at_overflow.unwrap_or(most);
        let is_late = near > noise && full > DISTINCT * idle && near > idle + LATE * (full - idle);
        let stands = stands && near > LATE * most;
        if stands || is_late && self.at_overflow.is_none() {
            let before = self.at_overflow.unwrap_or(near);
            self.at_overflow = Some(before + OVERFLOW_GAIN * (near - before));
        }
        stands || is_late
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    delivered: f64,
    lost: f64,
}

impl Count {
    fn add(&mut self, delivered: f64, lost: f64, mss: f64) {
        self.delivered += delivered;
        self.lost += lost;
        if self.delivered > MEMORY * mss {
            *self = Self { delivered: 0.5 * self.delivered, lost: 0.5 * self.lost };
        }
    }

    fn rate(self) -> f64 {
        if self.lost > 0.0 { self.lost / (self.delivered + self.lost) } else { 0.0 }
    }

    /// Returns whether more than `part` is lost, by more than two standard deviations of a random loss in pairs.
    fn exceeds(self, part: f64, mss: f64) -> bool {
        let all = self.delivered + self.lost;
        all > LEAST_PART * MEMORY * mss && self.lost - 2.0 * (2.0 * mss * self.lost).sqrt() > part * all
    }
}

/// What losses have shown so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    lateness: Lateness,
    /// Whether the last loss was of a full queue.
    is_full: bool,
    /// Other losses, while the window grew and while it was lowered.
    filling: Count,
    lowered: Count,
    /// Loss rate that a lower window did not end.
    link: f64,
}

impl Losses {
    pub(super) fn new() -> Self {
        Self { lateness: Lateness::new(), ..Self::default() }
    }

    pub(super) fn observe(&mut self, ack: &Ack<'_>) {
        self.lateness.on_ack(ack);
    }

    /// Returns the queueing delay at which the queue overflows, in seconds, once it has.
    pub(super) const fn overflow(&self) -> Option<f64> {
        self.lateness.at_overflow
    }

    pub(super) const fn forget_overflow(&mut self) {
        self.lateness.at_overflow = None;
    }

    pub(super) fn begin(&mut self) {
        self.lowered = Count::default();
    }

    /// Counts the losses of an ACK, and returns whether they are of a full queue.
    pub(super) fn on_ack(&mut self, ack: &Ack<'_>, is_lowered: bool, model: &Model) -> bool {
        let is_first = matches!(ack.episode, Episode::Enter | Episode::Again);
        if is_first {
            self.is_full = self.lateness.on_loss(model.noise(), model.delays.queueing() > model.threshold);
        }
        let lost = if self.is_full { 0.0 } else { ack.newly_lost.as_f64() };
        let count = if is_lowered { &mut self.lowered } else { &mut self.filling };
        count.add(ack.delivered.as_f64(), lost, model.mss);
        is_first && self.is_full
    }

    /// Returns the rate of losses that were not of a full queue, while the window grew.
    pub(super) fn rate(&self) -> f64 {
        self.filling.rate()
    }

    /// Returns the lateness of the segments near the last loss, in seconds.
    pub(super) const fn lateness(&self) -> f64 {
        self.lateness.at_loss
    }

    /// Returns whether losses that went away with the rate have come back.
    pub(super) fn are_back(&self, mss: f64) -> bool {
        self.filling.exceeds(BACK.0 * self.link + BACK.1 * TOLERATED, mss)
    }

    /// Returns whether more is lost than while the window was lowered.
    pub(super) fn exceed_link(&self) -> bool {
        self.filling.rate() > BACK.0 * self.link
    }

    /// Returns whether more is lost than chance and the link explain.
    pub(super) fn are_many(&self, mss: f64) -> bool {
        self.filling.exceeds((TOLERATED + LINK_FACTOR * self.link).min(MOST_TOLERATED), mss)
    }

    /// Compares the loss rates before and while the window was lowered, counts anew, and returns whether the window caused
    /// them.
    pub(super) fn judge(&mut self) -> bool {
        let is_own = self.lowered.rate() <= REMAINING * self.filling.rate();
        self.link = self.lowered.rate();
        (self.filling, self.lowered) = (Count::default(), Count::default());
        is_own
    }
}
