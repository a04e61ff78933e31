//! Delay of the bottleneck's buffer: the excess of the RTT over its minimum when packets are lost.

use longhaul_units::Span;

/// Number of bins of a histogram.
const BINS: usize = 512;
/// Fraction of the losses that the two bins around a peak must contain.
const PEAK: f64 = 0.3;
/// Minimum number of losses for a peak.
const LEAST_LOSSES: u64 = 10;

/// Delay of the buffer, from two distributions of the RTT: that of all samples, and that of the samples just before
/// losses. If the path is congested, the first one peaks at the minimum RTT and the second at that of a full buffer;
/// the difference is the delay of the buffer. (Gerla et al., PFLDnet 2006, section 3.1 and figure 3.) Random losses
/// have no separate peak (figure 4), so that the delay is unknown.
///
/// `longhaul_cc`'s congestion level tracks the same delay as a moving average during the connection.
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

    /// Shifts all counts up by `by` bins.
    fn shift(&mut self, by: usize) {
        let by = by.min(BINS);
        let beyond: u64 = self.bins.drain(BINS - by..).sum();
        self.bins.splice(0..0, core::iter::repeat_n(0, by));
        if let Some(last) = self.bins.last_mut() {
            *last = last.saturating_add(beyond);
        }
    }

    /// Returns the fullest bin (the lowest of equally full ones), and the fraction of all samples in it and its fuller
    /// neighbour.
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

    /// Adds a sample of the RTT.
    pub fn sample(&mut self, rtt: Span) {
        self.latest = rtt;
        let bin = self.bin(rtt);
        self.all.add(bin);
    }

    /// Processes a loss that follows the last sample.
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

#[cfg(test)]
mod tests {
    use longhaul_units::{Bytes, Rate};

    use super::*;

    /// Path of figure 3: mostly 133 ms, most losses close to 148 ms, a few at random.
    #[test]
    fn the_buffer_is_the_distance_of_the_peaks() {
        let mut buffer = BufferDelay::new(Span::from_millis(1));
        for n in 0_u64..2000 {
            if n == 1000 {
                buffer.sample(Span::from_micros(130_500)); // the minimum is neither the first sample nor the most frequent one
            }
            let busy = 133_000 + (n * 7919) % 15_500;
            buffer.sample(Span::from_micros(if n % 2 == 1 { 133_400 } else { busy + 2 }));
            if n % 20 == 0 {
                let at_loss = if n % 100 == 0 { busy } else { 148_200 + n % 300 };
                buffer.sample(Span::from_micros(at_loss));
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
            buffer.sample(Span::from_micros(133_000 + (n * 7919) % 15_000));
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
            buffer.sample(Span::from_micros(micros));
        }
        assert_eq!(buffer.all.peak(), Some((0, 0.5)));
        assert_eq!((buffer.all.bins[50], buffer.all.bins[BINS - 1], buffer.all.bins.len()), (2, 1, BINS));
    }
}
