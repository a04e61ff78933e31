//! The time for which the peer delayed an ACK (RFC 9002, section 5.3).

use std::time::Duration;

use longhaul_units::Span;
use s2n_quic::provider::congestion_controller::{RttEstimator, Timestamp};

/// Factor of the delay that s2n-quic 1.91 omits: it encodes the field of ACK frames with the exponent of RFC 9000, section
/// 18.2, which is 3 unless a peer says otherwise, and reads it without.
const SCALE: u32 = 8;

/// Delays of ACKs, computed from the stack's smoothed RTT, which contains an eighth of each sample without its delay.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckDelays {
    smoothed: Duration,
    /// The newest sample: the time of its ACK, and the delay.
    newest: Option<(Timestamp, Duration)>,
}

impl AckDelays {
    /// Records the update of the stack's estimates by an ACK that arrived at `now`.
    pub(crate) fn observe(&mut self, now: Timestamp, rtt: &RttEstimator) {
        let before = core::mem::replace(&mut self.smoothed, rtt.smoothed_rtt());
        let sample = (self.smoothed * 8).saturating_sub(before * 7);
        let delay = rtt.latest_rtt().saturating_sub(sample) * SCALE;
        let most = rtt.max_ack_delay().min(rtt.latest_rtt().saturating_sub(rtt.min_rtt()));
        self.newest = (self.smoothed != before).then_some((now, delay.min(most)));
    }

    /// Returns the delay of the ACK that arrived at `at`, or zero if it was no sample.
    pub(crate) fn of(&self, at: Timestamp) -> Span {
        self.newest.filter(|(newest, _)| *newest == at).map_or(Span::ZERO, |(_, delay)| delay.into())
    }
}

#[cfg(test)]
mod tests {
    use s2n_quic_core::packet::number::PacketNumberSpace;
    use s2n_quic_core::time::{Clock as _, NoopClock};

    use super::*;

    const fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    #[test]
    fn the_delay_is_that_of_the_frame() {
        let mut rtt = RttEstimator::new(ms(333));
        rtt.on_max_ack_delay(ms(25).try_into().unwrap());
        let (mut delays, start) = (AckDelays::default(), NoopClock.get_time());
        // Times, the peer's delays and the expected delays. The first sample is not adjusted. The last delay is not below
        // the minimum RTT.
        let acks = [(100, 16, 0), (124, 24, 24), (103, 0, 0), (150, 25, 25), (110, 24, 10)];
        for (nth, (sample, delay, expected)) in acks.into_iter().enumerate() {
            let at = start + ms(1000 * nth as u64);
            // What the stack reads from a frame.
            rtt.update_rtt(ms(delay) / SCALE, ms(sample), at, true, PacketNumberSpace::ApplicationData);
            delays.observe(at, &rtt);
            assert_eq!(delays.of(at).as_millis(), expected, "{sample}");
            assert_eq!(delays.of(at + ms(1)), Span::ZERO);
        }
    }

    #[test]
    fn a_sample_that_the_stack_ignores_has_no_delay() {
        let mut rtt = RttEstimator::new(ms(333));
        let (mut delays, at) = (AckDelays::default(), NoopClock.get_time());
        for sample in [100, 101] {
            rtt.update_rtt(ms(20), ms(sample), at, false, PacketNumberSpace::Handshake);
            delays.observe(at, &rtt);
            assert_eq!(delays.of(at), Span::ZERO);
        }
    }
}
