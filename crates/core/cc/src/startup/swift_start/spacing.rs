//! Spacing of the ACKs of the first flight, which limits the rate that reported arrival times may claim.

use longhaul_units::{Bytes, Rate, Span, Time};

use crate::Ack;

/// Maximum ratio of the rate of the paced round to that of the ACKs. A slow reverse path and jitter may space ACKs more
/// widely than the segments that they acknowledge.
const MOST: f64 = 4.0;

/// Highest rate of the ACKs, measured from the first one.
///
/// ACKs leave the receiver no closer together than the segments arrive. If the arrival times claim a much faster link,
/// either they are false, or the ACKs were delayed by different amounts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spacing {
    first: Option<Time>,
    bytes: Bytes,
    /// The highest rate so far. A delayed ACK, the last one of a flight, lowers the rate over all of them.
    most: Option<Rate>,
}

impl Spacing {
    /// Processes an ACK. ACKs that arrive together with the first one count as one with it.
    pub(super) fn on_ack(&mut self, ack: &Ack<'_>) {
        if ack.delivered == Bytes::ZERO {
            return;
        }
        let first = *self.first.get_or_insert(ack.now);
        if ack.now > first {
            self.bytes += ack.delivered;
            self.most = self.most.max(Some(Rate::from_bytes_over(self.bytes, ack.now.since(first))));
        }
    }

    /// Returns the number of bytes that the ACK spacing permits in `rtt`, or `None` if they all arrived at the same
    /// time.
    pub(super) fn most_in(&self, rtt: Span) -> Option<Bytes> {
        self.most.map(|most| most.mul_f64(MOST).bytes_in(rtt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many bytes ACKs of 2000 bytes at these times in milliseconds permit in a second.
    fn most(times: &[u64]) -> Option<Bytes> {
        let mut spacing = Spacing::default();
        for ms in times {
            let mut ack = Ack::new(Time::ZERO + Span::from_millis(*ms));
            ack.delivered = Bytes(2000);
            spacing.on_ack(&ack);
        }
        spacing.most_in(Span::from_secs(1))
    }

    /// ACKs of 2000 bytes per millisecond permit four times that rate. A split ACK at the beginning counts as one, and one
    /// that was delayed does not matter.
    #[test]
    fn acks_permit_four_times_their_rate() {
        for times in [&[10, 11][..], &[10, 11, 12, 13], &[10, 10, 11], &[10, 11, 51]] {
            assert_eq!(most(times), Some(Bytes(8_000_000)), "{times:?}");
        }
    }

    #[test]
    fn acks_without_spacing_permit_anything() {
        assert_eq!(most(&[10]), None);
        assert_eq!(most(&[10, 10, 10]), None);
    }
}
