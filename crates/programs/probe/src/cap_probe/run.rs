//! One run of CapProbe: trains of the same packet size and length, and their common estimate.

use longhaul_units::{Bytes, Span, Time};

use super::skew::{Point, slope};
use crate::Arrived;
use longhaul_cc::estimate::PairSample;
use longhaul_cc::internal::{CapProbe, CapProbeConfig, CapProbeEstimate};

/// Offset added to every delay, so that differences from the first delay fit an unsigned span: about 18 min in
/// nanoseconds.
const BIAS: i64 = 1 << 40;
/// Maximum sending time of a train relative to its dispersion. Above this, the dispersion reflects the sender.
const SENDER: f64 = 0.5;
/// Number of samples from which clock drift is estimated.
const LINE: usize = 8;
/// Relative difference from the best dispersion up to which dispersions count as equal.
const EQUAL: f64 = 0.05;

#[derive(Clone, Copy, Debug)]
struct Sample {
    sent: Time,
    /// Delays of the first and the last packet after `sent` in nanoseconds, between two clocks.
    delays: (i64, i64),
    dispersion: Span,
    bytes: Bytes,
    coalesced: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    samples: Vec<Sample>,
    /// Number of trains that were answered or abandoned.
    pub(super) ended: u32,
    /// Number of trains with a lost packet.
    pub(super) lost: u32,
    /// Number of trains whose first and last packet arrived at the same time.
    pub(super) merged: u32,
}

impl Run {
    pub(super) fn samples(&self) -> usize {
        self.samples.len()
    }

    pub(super) fn take(&mut self, packets: &[Option<Arrived>]) {
        self.ended += 1;
        let Some(arrived) = packets.iter().copied().collect::<Option<Vec<_>>>() else {
            self.lost += 1;
            return;
        };
        let (Some(first), Some(last)) = (arrived.first(), arrived.last()) else { return };
        let bytes: Bytes = arrived.iter().skip(1).map(|packet| packet.size).sum();
        let coalesced = first.coalesced || last.coalesced;
        let dispersion = last.arrived_at.since(first.arrived_at);
        if coalesced || dispersion.is_zero() {
            self.merged += 1;
        }
        if last.sent_at.since(first.sent_at) > dispersion.mul_f64(SENDER) {
            return;
        }
        let delay = |packet: &Arrived| minus(packet.arrived_at, first.sent_at);
        let delays = (delay(first), delay(last));
        self.samples.push(Sample { sent: first.sent_at, delays, dispersion, bytes, coalesced });
        self.samples.sort_by_key(|sample| sample.sent);
    }

    /// Estimate from all samples. `most_skew` is the largest drift of the receiver's clock in seconds per second.
    pub(super) fn evaluate(&self, mut config: CapProbeConfig, most_skew: f64) -> Option<CapProbeEstimate> {
        let origin = self.samples.first()?;
        let skew = if self.samples.len() >= LINE { self.skew(origin) } else { 0.0 };
        // A slope steeper than that of any clock indicates a queue that grows or shrinks.
        let skew = if skew.abs() <= most_skew { skew } else { 0.0 };
        config.window = Span::MAX;
        let mut filter = CapProbe::new(config);
        for sample in &self.samples {
            let drift = (sample.sent.since(origin.sent).as_nanos() as f64 * skew) as i64;
            let straight = |delay: i64| {
                let delay = delay.saturating_sub(origin.delays.0).saturating_sub(drift).saturating_add(BIAS);
                Span::from_nanos(u64::try_from(delay).unwrap_or(0))
            };
            let mut pair = PairSample::default();
            (pair.first_delay, pair.second_delay) = (straight(sample.delays.0), straight(sample.delays.1));
            (pair.dispersion, pair.bytes, pair.coalesced) = (sample.dispersion, sample.bytes, sample.coalesced);
            filter.on_pair(&pair, sample.sent);
        }
        filter.estimate()
    }

    fn skew(&self, origin: &Sample) -> f64 {
        let point = |sample: &Sample| Point {
            at: sample.sent.since(origin.sent).as_secs_f64(),
            delay: sample.delays.0.saturating_sub(origin.delays.0) as f64 * 1e-9,
        };
        slope(&self.samples.iter().map(point).collect::<Vec<_>>()).unwrap_or(0.0)
    }

    /// Returns whether more dispersions are shorter than `best` than longer. Larger packets are less compressed.
    pub(super) fn is_compressed(&self, best: Span) -> bool {
        let count = |is: &dyn Fn(Span) -> bool| self.samples.iter().filter(|sample| is(sample.dispersion)).count();
        let (short, long) = (best.mul_f64(1.0 - EQUAL), best.mul_f64(1.0 + EQUAL));
        count(&|dispersion| dispersion < short) > count(&|dispersion| dispersion > long)
    }
}

fn minus(later: Time, earlier: Time) -> i64 {
    let difference = i128::from(later.as_nanos()) - i128::from(earlier.as_nanos());
    i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
}
