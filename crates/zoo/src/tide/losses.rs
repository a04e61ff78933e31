//! Classification of losses: those caused by a full queue, and those caused by the link.

use longhaul_cc::estimate::{WindowedMax, WindowedMin};
use longhaul_cc::{Ack, Episode, SegmentKind};
use longhaul_units::{Span, Time};

use super::model::{BASE_LIFETIME, Model};

/// Number of segments near a loss whose lateness is compared with that of all segments.
const NEAR: usize = 4;
/// Time for which the maximum lateness is valid.
const MOST_LIFETIME: Span = Span::from_secs(10);
/// Number of samples over which the lateness is averaged. After four times as many, the mean can serve as the lateness
/// without a queue.
const MEAN: u32 = 32;
/// Weight of an overflow with less lateness than earlier ones.
const OVERFLOW_GAIN: f64 = 0.25;
/// Segments near a loss count as late from this fraction of the range between the lateness without a queue and that of
/// a full queue.
const LATE: f64 = 0.7;
/// Minimum ratio of these two latenesses. With a smaller one, jitter masks the difference.
const DISTINCT: f64 = 1.5;
/// Tolerated loss rate of the link, the multiple of the loss rate at a reduced window that is tolerated in addition,
/// and the upper limit of both.
const TOLERATED: f64 = 0.02;
const LINK_FACTOR: f64 = 2.0;
const MOST_TOLERATED: f64 = 0.15;
/// Number of delivered segments after which the counts are halved, and the fraction of it below which no excess is
/// detected.
const MEMORY: f64 = 1000.0;
const LEAST_PART: f64 = 0.02;
/// Fraction of the loss rate above which losses that remain at a reduced window are not caused by the window.
const REMAINING: f64 = 0.5;
/// Losses have returned if they exceed this multiple of the remaining rate plus a fraction of the tolerated rate.
const BACK: (f64, f64) = (1.5, 0.1);
/// Origin of one-way delays, whose offset is unknown.
const ORIGIN: i64 = 1 << 60;

/// Delay of segments above the minimum delay.
#[derive(Clone, Copy, Debug, Default)]
struct Lateness {
    first: Option<u64>,
    newest: [f64; NEAR],
    least: WindowedMin,
    most: WindowedMax,
    mean: f64,
    count: u32,
    /// Minimum of the mean lateness, which is the lateness without a queue.
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
            // The queue does not overflow at a delay with which segments arrive.
            self.at_overflow = self.at_overflow.map(|overflow| overflow.max(self.near()));
        }
    }

    fn note(&mut self, now: Time, delay: Span) {
        let least = self.least.update(now, delay);
        self.newest.rotate_right(1);
        self.newest[0] = (delay - least).as_secs_f64();
    }

    /// Returns the maximum lateness of the newest segments.
    fn near(&self) -> f64 {
        self.newest.into_iter().fold(0.0, f64::max)
    }

    /// Processes a loss. Returns whether a full queue caused it: the segments near it must be among the latest if
    /// `stands` reports a standing queue, and otherwise also much later than without a queue.
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

    /// Returns whether the lost fraction exceeds `part` by more than two standard deviations of a random loss of pairs.
    fn exceeds(self, part: f64, mss: f64) -> bool {
        let all = self.delivered + self.lost;
        all > LEAST_PART * MEMORY * mss && self.lost - 2.0 * (2.0 * mss * self.lost).sqrt() > part * all
    }
}

/// Evidence from the losses so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    lateness: Lateness,
    /// Whether a full queue caused the last loss.
    is_full: bool,
    /// Other losses, while the window grew and while it was reduced.
    filling: Count,
    lowered: Count,
    /// Loss rate that remained at a reduced window.
    link: f64,
}

impl Losses {
    pub(super) fn new() -> Self {
        Self { lateness: Lateness::new(), ..Self::default() }
    }

    pub(super) fn observe(&mut self, ack: &Ack<'_>) {
        self.lateness.on_ack(ack);
    }

    /// Returns the queueing delay in seconds at which the queue overflows, or `None` before it has overflowed.
    pub(super) const fn overflow(&self) -> Option<f64> {
        self.lateness.at_overflow
    }

    pub(super) const fn forget_overflow(&mut self) {
        self.lateness.at_overflow = None;
    }

    pub(super) fn begin(&mut self) {
        self.lowered = Count::default();
    }

    /// Counts the losses of an ACK. Returns whether a full queue caused them.
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

    /// Returns the rate of losses not caused by a full queue while the window grew.
    pub(super) fn rate(&self) -> f64 {
        self.filling.rate()
    }

    /// Returns the lateness of the segments near the last loss, in seconds.
    pub(super) const fn lateness(&self) -> f64 {
        self.lateness.at_loss
    }

    /// Returns whether losses that had ended at a lower rate have returned.
    pub(super) fn are_back(&self, mss: f64) -> bool {
        self.filling.exceeds(BACK.0 * self.link + BACK.1 * TOLERATED, mss)
    }

    /// Returns whether the loss rate is higher than at the reduced window.
    pub(super) fn exceed_link(&self) -> bool {
        self.filling.rate() > BACK.0 * self.link
    }

    /// Returns whether there are more losses than chance and the link explain.
    pub(super) fn are_many(&self, mss: f64) -> bool {
        self.filling.exceeds((TOLERATED + LINK_FACTOR * self.link).min(MOST_TOLERATED), mss)
    }

    /// Compares the loss rates before the window was reduced and since, and resets the counts. Returns whether the
    /// window caused the losses.
    pub(super) fn judge(&mut self) -> bool {
        let is_own = self.lowered.rate() <= REMAINING * self.filling.rate();
        self.link = self.lowered.rate();
        (self.filling, self.lowered) = (Count::default(), Count::default());
        is_own
    }
}
