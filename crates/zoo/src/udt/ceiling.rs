//! Upper bound of the capacity that a peer's reports can show.

use longhaul_cc::estimate::WindowedMax;
use longhaul_cc::{Ack, Path, SegmentKind};
use longhaul_units::{Span, Time};

/// Lifetime of an observation.
const WINDOW: Span = Span::from_secs(10);

/// Upper bound in bytes/s of the capacity of the path, by the sender's own observation.
///
/// The peer chooses the spacing of a train's ACKs or reported arrivals, and the rate grows by the decade of the free
/// rate they suggest. But a peer cannot acknowledge data before it has arrived. n bytes sent at once take n/C to pass
/// a link of capacity C, so that the ACK of the last one is later than the minimum RTT by as much. The burst with the
/// shortest queueing delay bounds C from above, and closely. With a standing queue, the delivery rate is the capacity.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ceiling {
    seen: WindowedMax,
    /// Send time of the newest burst, and the number of its bytes that were delivered.
    burst: Option<(Time, f64)>,
}

impl Ceiling {
    pub(super) const fn new() -> Self {
        Self { seen: WindowedMax::new(WINDOW.as_nanos()), burst: None }
    }

    pub(super) fn observe(&mut self, ack: &Ack<'_>, path: &Path) {
        let delivered = ack.rate.map(|sample| sample.rate.as_bytes_per_sec() as f64);
        for rate in delivered.into_iter().chain(self.burst_rate(ack, path)) {
            self.seen.update(ack.now.as_nanos(), rate);
        }
    }

    /// Returns the delivered bytes of the newest burst divided by the excess of its RTT over the minimum. Without an
    /// excess, the rate is unbounded.
    fn burst_rate(&mut self, ack: &Ack<'_>, path: &Path) -> Option<f64> {
        let sample = ack.rtt?;
        let mine = ack.acked.iter().filter(|s| s.sent_at == sample.sent_at && s.kind == SegmentKind::Data);
        let bytes: f64 = mine.map(|segment| segment.bytes.as_f64()).sum();
        let before = self.burst.filter(|(sent_at, _)| *sent_at == sample.sent_at).map_or(0.0, |(_, bytes)| bytes);
        let total = before + bytes;
        self.burst = Some((sample.sent_at, total));
        let took = (sample.rtt - path.min_rtt?).as_secs_f64();
        let rate = if took > 0.0 { total / took } else { f64::INFINITY };
        (total > 0.0).then_some(rate)
    }

    pub(super) fn of(&self, capacity: f64) -> f64 {
        self.seen.get().map_or(capacity, |seen| capacity.min(seen))
    }
}

#[cfg(test)]
mod tests {
    use longhaul_units::Bytes;

    use super::*;
    use longhaul_cc::{AckedSegment, RttSample, TxId};

    const MSS: Bytes = Bytes(1448);
    const BASE: Span = Span::from_millis(80);
    /// Transmission time of a segment on the link.
    const TX: Span = Span::from_micros(1500);

    /// Returns the bound after bursts of four segments, 20 ms apart, that met a queue of `queued`. One ACK answers
    /// each, sent `held` after the last segment arrived.
    fn after_bursts(queued: Span, held: Span) -> Ceiling {
        let (mut ceiling, mut path) = (Ceiling::new(), Path::new(MSS));
        path.min_rtt = Some(BASE);
        for burst in 0..50 {
            let sent_at = Time::ZERO + Span::from_secs(1) + Span::from_millis(20) * burst;
            let rtt = BASE + queued + TX * 4 + held;
            let segments: [_; 4] = std::array::from_fn(|n| AckedSegment::new(TxId(4 * burst + n as u64), sent_at, MSS));
            for half in segments.chunks(2) {
                let mut ack = Ack::new(sent_at + rtt);
                (ack.acked, ack.delivered, ack.rtt) = (half, MSS * 2, Some(RttSample::new(rtt, sent_at)));
                ceiling.observe(&ack, &path);
            }
        }
        ceiling
    }

    /// For any spacing of ACKs, a burst without queueing takes the transmission time of its bytes, and not less if
    /// its ACK is held.
    #[test]
    fn bursts_bound_the_capacity() {
        let capacity = MSS.as_f64() / TX.as_secs_f64();
        let believed = |queued, held| after_bursts(queued, held).of(1e9) / capacity;
        assert!((believed(Span::ZERO, Span::ZERO) - 1.0).abs() < 1e-6);
        assert!((believed(TX * 4, Span::ZERO) - 0.5).abs() < 1e-6);
        assert!((believed(Span::ZERO, TX * 12) - 0.25).abs() < 1e-6);
        assert_eq!(after_bursts(Span::ZERO, Span::ZERO).of(1000.0), 1000.0);
    }

    /// A burst without excess delay yields no bound, and neither does the absence of bursts.
    #[test]
    fn without_a_bound_all_is_believed() {
        let mut path = Path::new(MSS);
        path.min_rtt = Some(BASE);
        let mut ceiling = Ceiling::new();
        assert_eq!(ceiling.of(1e9), 1e9);
        let segments = [AckedSegment::new(TxId(1), Time::ZERO, MSS)];
        let mut ack = Ack::new(Time::ZERO + BASE);
        (ack.acked, ack.rtt) = (&segments, Some(RttSample::new(BASE, Time::ZERO)));
        ceiling.observe(&ack, &path);
        assert_eq!(ceiling.of(1e9), 1e9);
    }
}
