//! Size of the bottleneck's buffer, as delay and in bytes: the excess of the RTT over its minimum when segments are
//! lost.

use longhaul_units::{Bytes, Span};

use super::CongestionLevel;
use crate::Ack;

/// Number of bins of a histogram.
const BINS: usize = 512;
/// Part of the losses that the two bins around a peak must hold.
const PEAK: f64 = 0.3;
/// Minimum number of losses for a peak.
const LEAST_LOSSES: u64 = 10;

/// Delay of the buffer, from two distributions of the RTT: that of all samples, and that of the samples just before
/// losses. If the path is congested, the first one peaks at the minimum RTT and the second at that of a full buffer;
/// the difference is the delay of the buffer. (Gerla et al., PFLDnet 2006, section 3.1 and figure 3.) Random losses
/// have no peak of their own (figure 4), so that the delay is unknown.
///
/// [`CongestionLevel`] tracks the same delay as a moving average during the connection.
#[derive(Clone, Debug)]
pub struct BufferDelay {
    width: Span,
    /// RTT of the first bin, in bin widths.
    base: Option<u64>,
    all: Histogram,
    losses: Histogram,
    latest: Span,
}

#[derive(Clone, Debug)]
struct Histogram {
    bins: Vec<u64>,
    count: u64,
}

impl Histogram {
    fn new() -> Self {
        Self { bins: vec![0; BINS], count: 0 }
    }

    fn add(&mut self, bin: usize) {
        if let Some(bin) = self.bins.get_mut(bin.min(BINS - 1)) {
            *bin = bin.saturating_add(1);
        }
        self.count = self.count.saturating_add(1);
    }

    /// Moves all counts up by `by` bins.
    fn shift(&mut self, by: usize) {
        let by = by.min(BINS);
        let beyond: u64 = self.bins.drain(BINS - by..).sum();
        self.bins.splice(0..0, core::iter::repeat_n(0, by));
        if let Some(last) = self.bins.last_mut() {
            *last = last.saturating_add(beyond);
        }
    }

    /// Returns the fullest bin (the lowest of them), and the part of all samples in it and the fuller of its
    /// neighbours.
    fn peak(&self) -> Option<(usize, f64)> {
        let (at, most) = self.bins.iter().enumerate().rev().max_by_key(|(_, count)| **count)?;
        let side = |bin: Option<usize>| bin.and_then(|bin| self.bins.get(bin)).copied().unwrap_or(0);
        let beside = side(at.checked_sub(1)).max(side(Some(at + 1)));
        (self.count > 0).then(|| (at, most.saturating_add(beside) as f64 / self.count as f64))
    }
}

impl BufferDelay {
    /// Creates distributions of 512 bins with a width of `width` (at least a microsecond). Longer RTTs fall into the
    /// last bin.
    #[must_use]
    pub fn new(width: Span) -> Self {
        let width = width.max(Span::from_micros(1));
        Self { width, base: None, all: Histogram::new(), losses: Histogram::new(), latest: Span::ZERO }
    }

    /// Processes an ACK.
    pub fn on_ack(&mut self, ack: &Ack<'_>) {
        if let Some(sample) = ack.rtt {
            self.latest = sample.rtt;
            let bin = self.bin(sample.rtt);
            self.all.add(bin);
        }
    }

    /// Processes a loss, just before which the last sample was taken.
    pub fn on_loss(&mut self) {
        if self.base.is_some() {
            let bin = self.bin(self.latest);
            self.losses.add(bin);
        }
    }

    /// Returns the delay of the buffer, if losses have a peak above that of all samples.
    #[must_use]
    pub fn delay(&self) -> Option<Span> {
        let (usual, _) = self.all.peak()?;
        let (full, share) = self.losses.peak()?;
        let known = self.losses.count >= LEAST_LOSSES && share >= PEAK && full > usual;
        known.then(|| self.width * (full - usual) as u64)
    }

    /// Returns the bin of `rtt`. A new minimum shifts the bins.
    fn bin(&mut self, rtt: Span) -> usize {
        let step = rtt.as_nanos() / self.width.as_nanos();
        let base = self.base.map_or(step, |base| base.min(step));
        if let Some(by) = self.base.replace(base).map(|old| old - base).filter(|by| *by > 0) {
            let by = usize::try_from(by).unwrap_or(BINS);
            self.all.shift(by);
            self.losses.shift(by);
        }
        usize::try_from(step - base).unwrap_or(BINS)
    }
}

/// Loss rate, and the part of it that is random: losses at a congestion level of less than a half (Gerla et al.,
/// PFLDnet 2006, section 3.1, distinguish them manually by the same delay).
#[derive(Clone, Copy, Debug)]
pub struct LossRate {
    level: CongestionLevel,
    delivered: f64,
    lost: f64,
    random: f64,
}

impl LossRate {
    /// Creates rates over the whole connection, which classify losses by `level`.
    #[must_use]
    pub const fn new(level: CongestionLevel) -> Self {
        Self { level, delivered: 0.0, lost: 0.0, random: 0.0 }
    }

    /// Processes an ACK at a window of `segments`.
    pub fn on_ack(&mut self, ack: &Ack<'_>, segments: f64) {
        self.level.on_ack(ack);
        self.delivered += ack.delivered.as_f64();
        if ack.newly_lost == Bytes::ZERO {
            return;
        }
        let lost = ack.newly_lost.as_f64();
        self.lost += lost;
        if self.level.level(segments) < 0.5 {
            self.random += lost;
        }
        if ack.episode == crate::Episode::Enter {
            self.level.on_loss();
        }
    }

    /// Returns the part of the sent bytes that was lost, 0 to 1.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.part(self.lost)
    }

    /// Returns the part of the sent bytes that was lost at random.
    #[must_use]
    pub fn random(&self) -> f64 {
        self.part(self.random)
    }

    fn part(&self, lost: f64) -> f64 {
        let sent = self.delivered + self.lost;
        if sent > 0.0 { lost / sent } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use longhaul_units::{Rate, Time};

    use super::*;
    use crate::{Episode, RttSample};

    fn ack(micros: u64) -> Ack<'static> {
        let mut ack = Ack::new(Time::ZERO);
        ack.rtt = Some(RttSample { rtt: Span::from_micros(micros), sent_at: Time::ZERO });
        ack
    }

    /// Path of figure 3: mostly 133 ms, most losses close to 148 ms, a few at random.
    #[test]
    fn the_buffer_is_the_distance_of_the_peaks() {
        let mut buffer = BufferDelay::new(Span::from_millis(1));
        for n in 0_u64..2000 {
            if n == 1000 {
                buffer.on_ack(&ack(130_500)); // the minimum is neither the first sample nor the most frequent one
            }
            let busy = 133_000 + (n * 7919) % 15_500;
            buffer.on_ack(&ack(if n % 2 == 1 { 133_400 } else { busy + 2 }));
            if n % 20 == 0 {
                let at_loss = if n % 100 == 0 { busy } else { 148_200 + n % 300 };
                buffer.on_ack(&ack(at_loss));
                buffer.on_loss();
            }
        }
        let delay = buffer.delay().expect("a peak");
        assert_eq!(delay, Span::from_millis(15));
        assert_eq!(Rate::from_bits_per_sec(80_000_000).bytes_in(delay), Bytes(150_000));
    }

    /// Figure 4: losses at random RTTs are distributed like all samples.
    #[test]
    fn random_losses_have_no_peak() {
        let mut buffer = BufferDelay::new(Span::from_millis(1));
        assert_eq!(buffer.delay(), None);
        for n in 0_u64..3000 {
            buffer.on_ack(&ack(133_000 + (n * 7919) % 15_000));
            if n % 7 == 0 {
                buffer.on_loss();
            }
        }
        assert_eq!(buffer.delay(), None);
    }

    #[test]
    fn a_new_minimum_moves_the_bins() {
        let mut buffer = BufferDelay::new(Span::from_millis(1));
        for micros in [900_000, 150_500, 150_500, 100_500, 100_500, 100_500] {
            buffer.on_ack(&ack(micros));
        }
        assert_eq!(buffer.all.peak(), Some((0, 0.5)));
        assert_eq!((buffer.all.bins[50], buffer.all.bins[BINS - 1], buffer.all.bins.len()), (2, 1, BINS));
    }

    /// One percent of the data is lost, three quarters of that at 133 ms, after the path's 148 ms at congestion are
    /// known.
    #[test]
    fn losses_without_a_queue_are_by_chance() {
        let mut losses = LossRate::new(CongestionLevel::new(0.85));
        assert_eq!((losses.total(), losses.random()), (0.0, 0.0));
        losses.on_ack(&ack(133_000), 900.0);
        for n in 0..4000 {
            let mut event = ack(if n % 4 == 0 { 148_000 } else { 133_000 });
            // The RTT of the level is the minimum of the last eight samples.
            for _ in 1..8 {
                losses.on_ack(&event, 900.0);
            }
            (event.delivered, event.newly_lost, event.episode) = (Bytes(99_000), Bytes(1000), Episode::Enter);
            losses.on_ack(&event, 900.0);
        }
        assert!((losses.total() - 0.01).abs() < 1e-9, "{}", losses.total());
        assert!((losses.random() - 0.0075).abs() < 1e-5, "{}", losses.random());
    }
}
