//! The bottleneck's buffer, as delay and in bytes: how much the round trip exceeds its minimum when segments are lost.

use longhaul_units::{Bytes, Rate, Span};

use super::CongestionLevel;
use crate::Ack;

/// How many bins a histogram has.
const BINS: usize = 512;
/// The part of the losses that the two bins around their peak must hold for it to be one.
const PEAK: f64 = 0.3;
/// Fewer losses make no peak.
const LEAST_LOSSES: u64 = 10;

/// The buffer in bytes that delays by `delay` at `capacity`: 15 ms at 80 Mb/s are 150 kB (Gerla et al., PFLDnet 2006,
/// section 3.1).
#[must_use]
pub fn bytes(delay: Span, capacity: Rate) -> Bytes {
    capacity.bytes_in(delay)
}

/// The buffer's delay from two distributions of the round trip: of all samples, and of those just before losses. Where the
/// path is congested the first has its peak at the least round trip and the second at that of a full buffer; their distance
/// is the buffer. (Gerla et al., PFLDnet 2006, section 3.1 and figure 3.) Losses by chance have no peak of their own
/// (figure 4): then nothing is known.
///
/// [`CongestionLevel`] follows the same delay as a moving average, while the connection runs.
#[derive(Clone, Debug)]
pub struct BufferDelay {
    width: Span,
    /// The round trip, in widths, of the first bin.
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

    /// Moves everything `by` bins up.
    fn shift(&mut self, by: usize) {
        let by = by.min(BINS);
        let beyond: u64 = self.bins.drain(BINS - by..).sum();
        self.bins.splice(0..0, core::iter::repeat_n(0, by));
        if let Some(last) = self.bins.last_mut() {
            *last = last.saturating_add(beyond);
        }
    }

    /// The fullest bin (the lowest of them), and the part of all that it and the fuller of its neighbours hold.
    fn peak(&self) -> Option<(usize, f64)> {
        let (at, most) = self.bins.iter().enumerate().rev().max_by_key(|(_, count)| **count)?;
        let side = |bin: Option<usize>| bin.and_then(|bin| self.bins.get(bin)).copied().unwrap_or(0);
        let beside = side(at.checked_sub(1)).max(side(Some(at + 1)));
        (self.count > 0).then(|| (at, most.saturating_add(beside) as f64 / self.count as f64))
    }
}

impl BufferDelay {
    /// Distributions in steps of `width` (at least a microsecond), of which there are 512: longer round trips fall into the
    /// last.
    #[must_use]
    pub fn new(width: Span) -> Self {
        let width = width.max(Span::from_micros(1));
        Self { width, base: None, all: Histogram::new(), losses: Histogram::new(), latest: Span::ZERO }
    }

    /// An ACK came.
    pub fn on_ack(&mut self, ack: &Ack<'_>) {
        if let Some(sample) = ack.rtt {
            self.latest = sample.rtt;
            let bin = self.bin(sample.rtt);
            self.all.add(bin);
        }
    }

    /// A loss was found; the last sample is that just before it.
    pub fn on_loss(&mut self) {
        if self.base.is_some() {
            let bin = self.bin(self.latest);
            self.losses.add(bin);
        }
    }

    /// The buffer's delay, if losses have a peak above that of all samples.
    #[must_use]
    pub fn delay(&self) -> Option<Span> {
        let (usual, _) = self.all.peak()?;
        let (full, share) = self.losses.peak()?;
        let known = self.losses.count >= LEAST_LOSSES && share >= PEAK && full > usual;
        known.then(|| self.width * (full - usual) as u64)
    }

    /// The bin of `rtt`; a new minimum moves the bins.
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

/// How much is lost, and how much of that by chance: at a congestion level under a half (Gerla et al., PFLDnet 2006,
/// section 3.1, tells the two apart by the same delay, by eye).
#[derive(Clone, Copy, Debug)]
pub struct LossRate {
    level: CongestionLevel,
    delivered: f64,
    lost: f64,
    random: f64,
}

impl LossRate {
    /// Rates over the whole connection, by `level`.
    #[must_use]
    pub const fn new(level: CongestionLevel) -> Self {
        Self { level, delivered: 0.0, lost: 0.0, random: 0.0 }
    }

    /// An ACK came, under a window of `segments`.
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

    /// The part of the bytes sent that was lost, 0 to 1.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.part(self.lost)
    }

    /// The part of the bytes sent that was lost by chance.
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
    use longhaul_units::Time;

    use super::*;
    use crate::{Episode, RttSample};

    fn ack(micros: u64) -> Ack<'static> {
        let mut ack = Ack::new(Time::ZERO);
        ack.rtt = Some(RttSample { rtt: Span::from_micros(micros), sent_at: Time::ZERO });
        ack
    }

    /// The path of figure 3: mostly 133 ms, losses close to 148 ms, a few at random.
    #[test]
    fn the_buffer_is_the_distance_of_the_peaks() {
        let mut buffer = BufferDelay::new(Span::from_millis(1));
        for n in 0_u64..2000 {
            if n == 1000 {
                buffer.on_ack(&ack(130_500)); // the least is neither the first nor the most frequent
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
        assert_eq!(bytes(delay, Rate::from_bits_per_sec(80_000_000)), Bytes(150_000));
    }

    /// Figure 4: losses at random round trips have the distribution of all.
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

    /// Of 1 % lost, three quarters at 133 ms, once the path's 148 ms at congestion are known.
    #[test]
    fn losses_without_a_queue_are_by_chance() {
        let mut losses = LossRate::new(CongestionLevel::new(0.85));
        assert_eq!((losses.total(), losses.random()), (0.0, 0.0));
        losses.on_ack(&ack(133_000), 900.0);
        for n in 0..4000 {
            let mut event = ack(if n % 4 == 0 { 148_000 } else { 133_000 });
            // The level's round trip is the least of the last eight.
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
