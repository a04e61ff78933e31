//! TCPProbe: CapProbe on the data segments of a connection during its normal transfer.

use longhaul_units::{Rate, Span, Time};

use super::cap_probe::CapProbe;
use super::packet_pair::PairSample;
use super::rate_range::RateRange;

/// Minimum time between two pairs.
const GAP: Span = Span::from_millis(10);
/// Factor by which a converged estimate must exceed the last one to count as a rise of the capacity.
const RISE: f64 = 1.25;

/// Capacity of the narrow link, from pairs of data segments sent in reverse order (Gerla et al., PFLDnet 2006,
/// section 2.3). The sender queries [`may_send`](Self::may_send), and reports each pair's transmission and
/// measurement.
///
/// The rates count IP packets if the bytes of the samples do. There are no allocations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpProbe {
    filter: CapProbe,
    next_at: Time,
    settled: Option<Rate>,
    rises: u32,
}

impl TcpProbe {
    /// Returns whether another pair may be sent at `now`. The sender ensures that only one is in flight.
    #[must_use]
    pub fn may_send(&self, now: Time) -> bool {
        now >= self.next_at
    }

    /// Records the transmission of a pair.
    pub fn on_sent(&mut self, now: Time) {
        self.next_at = now + GAP;
    }

    /// Adds a measured pair. Invalid samples are ignored.
    pub fn on_pair(&mut self, sample: &PairSample, now: Time) {
        if !self.filter.on_pair(sample, now) {
            return;
        }
        let Some(estimate) = self.filter.estimate().filter(|estimate| estimate.converged) else { return };
        let rate = estimate.rate.value;
        if self.settled.is_some_and(|settled| rate > settled.mul_f64(RISE)) {
            self.rises = self.rises.saturating_add(1);
        }
        self.settled = Some(rate);
    }

    /// Returns the rate of the narrow link according to the best pair so far, converged or not, or `None` before the
    /// first.
    #[must_use]
    pub fn capacity(&self) -> Option<Rate> {
        self.range().map(|range| range.value)
    }

    /// Returns the rate of [`capacity`](Self::capacity) with its range.
    #[must_use]
    pub fn range(&self) -> Option<RateRange> {
        self.filter.estimate().map(|estimate| estimate.rate)
    }

    /// Returns whether the best pair passed CapProbe's test: none of its packets was queued for longer than the best
    /// packets.
    #[must_use]
    pub fn converged(&self) -> bool {
        self.filter.estimate().is_some_and(|estimate| estimate.converged)
    }

    /// Returns how often the capacity increased from one converged estimate to another. A sender may then search for
    /// the new rate as quickly as at the start.
    #[must_use]
    pub const fn rises(&self) -> u32 {
        self.rises
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_units::Bytes;

    /// Returns a pair of 1500 bytes at `mbit` Mb/s that was queued for `queued` us in front of the narrow link.
    fn pair(mbit: u64, queued: u64) -> PairSample {
        let gap = Rate::from_bits_per_sec(mbit * 1_000_000).time_for(Bytes(1500));
        let first = Span::from_millis(133) + Span::from_micros(queued);
        PairSample {
            first_delay: first,
            second_delay: first + gap,
            dispersion: gap,
            bytes: Bytes(1500),
            coalesced: false,
        }
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn pairs_are_ten_milliseconds_apart() {
        let mut probe = TcpProbe::default();
        // A sender that asks each millisecond.
        let sent = (0..1000).filter(|now| {
            let may = probe.may_send(at(*now));
            if may {
                probe.on_sent(at(*now));
            }
            may
        });
        assert_eq!(sent.count(), 100);
    }

    /// Pairs that were separated by cross traffic, or compressed behind a queue, have been queued: the best pair is
    /// unaffected.
    #[test]
    fn the_pair_that_waited_least_tells_the_capacity() {
        let mut probe = TcpProbe::default();
        for i in 0..60 {
            let mut sample = pair(80, 200 + 37 * (i % 7));
            sample.dispersion = if i % 2 == 0 { sample.dispersion * 3 } else { sample.dispersion / 2 };
            probe.on_pair(&sample, at(133 * i));
            if i == 30 {
                probe.on_pair(&pair(80, 0), at(133 * i));
            }
        }
        assert_eq!(probe.capacity().map(Rate::as_bits_per_sec), Some(80_000_000));
        assert!(probe.converged());
    }

    /// Once the pairs of the slower route have expired, that of the faster route is a rise, and nothing before.
    #[test]
    fn a_faster_route_is_a_rise() {
        let mut probe = TcpProbe::default();
        let mut now = 0;
        for mbit in [20, 80] {
            for _ in 0..2000 {
                now += 133;
                probe.on_pair(&pair(mbit, 0), at(now));
            }
        }
        assert_eq!(probe.capacity().map(Rate::as_bits_per_sec), Some(80_000_000));
        assert_eq!(probe.rises(), 1);
    }

    #[test]
    fn absurd_pairs_change_nothing() {
        let mut probe = TcpProbe::default();
        for absurd in [
            PairSample { dispersion: Span::ZERO, ..pair(80, 0) },
            PairSample { coalesced: true, ..pair(80, 0) },
            PairSample { bytes: Bytes::ZERO, ..pair(80, 0) },
        ] {
            probe.on_pair(&absurd, at(1));
        }
        assert_eq!(probe, TcpProbe::default());
        assert!(size_of::<TcpProbe>() <= 304, "{}", size_of::<TcpProbe>());
    }
}
