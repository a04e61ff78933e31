//! One run of CapProbe: trains of one size and length, and what they say together.

use longhaul_units::{Bytes, Span, Time};

use super::skew::{Point, slope};
use crate::Arrived;
use longhaul_cc::estimate::{CapProbe, CapProbeConfig, CapProbeEstimate, PairSample};

/// Added to every delay, so that differences to the first fit an unsigned span: some 18 min.
const BIAS: i64 = 1 << 40;
/// A sender that needs more than this part of the dispersion for sending the train made the dispersion itself.
const SENDER: f64 = 0.5;
/// So many samples before a line is laid below them.
const LINE: usize = 8;
/// Dispersions that differ by less than this part of the best one are as good as equal.
const EQUAL: f64 = 0.05;

/// A train as it arrived.
#[derive(Clone, Copy, Debug)]
struct Sample {
    sent: Time,
    /// Arrivals minus the time of sending, in nanoseconds, by two clocks.
    delays: (i64, i64),
    dispersion: Span,
    bytes: Bytes,
    coalesced: bool,
}

/// What trains of one size and length brought.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    samples: Vec<Sample>,
    /// Trains that were answered or given up.
    pub(super) ended: u32,
    /// Of those, trains of which a packet was lost.
    pub(super) lost: u32,
    /// Of those, trains whose ends came at the same time.
    pub(super) merged: u32,
}

impl Run {
    /// Samples of use.
    pub(super) fn samples(&self) -> usize {
        self.samples.len()
    }

    /// A train was answered: its packets, `None` for those that are lost.
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

    /// What the samples say together under a receiver's clock that drifts by up to `most_skew` seconds a second.
    pub(super) fn evaluate(&self, config: CapProbeConfig, most_skew: f64) -> Option<CapProbeEstimate> {
        let origin = self.samples.first()?;
        let skew = if self.samples.len() >= LINE { self.skew(origin) } else { 0.0 };
        // What is steeper than any clock is a queue that grows or shrinks.
        let skew = if skew.abs() <= most_skew { skew } else { 0.0 };
        let mut filter = CapProbe::new(CapProbeConfig { window: Span::MAX, ..config });
        for sample in &self.samples {
            let drift = (sample.sent.since(origin.sent).as_nanos() as f64 * skew) as i64;
            let straight = |delay: i64| {
                let delay = delay.saturating_sub(origin.delays.0).saturating_sub(drift).saturating_add(BIAS);
                Span::from_nanos(u64::try_from(delay).unwrap_or(0))
            };
            let pair = PairSample {
                first_delay: straight(sample.delays.0),
                second_delay: straight(sample.delays.1),
                dispersion: sample.dispersion,
                bytes: sample.bytes,
                coalesced: sample.coalesced,
            };
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

    /// Whether more dispersions are shorter than `best` than are longer: then longer packets would be better.
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
