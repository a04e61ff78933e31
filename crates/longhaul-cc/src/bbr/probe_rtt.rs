//! The stay in ProbeRTT, which both versions end alike.

use longhaul_units::Time;

use super::PROBE_RTT_DURATION;
use super::rounds::Rounds;
use super::sample::Sample;

/// Little in flight for 200 ms and a round, whichever is longer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hold {
    /// When the 200 ms are over; `None` until little is in flight.
    until: Option<Time>,
    round_done: bool,
}

impl Hold {
    /// Follows an ACK, for which up to `least` bytes in flight are little; whether the round is over.
    pub(super) fn on_ack(&mut self, sample: &Sample, least: f64, rounds: &mut Rounds) -> bool {
        if self.until.is_some() {
            self.round_done |= rounds.start;
        } else if sample.in_flight <= least {
            self.until = Some(sample.now + PROBE_RTT_DURATION);
            rounds.restart(sample.total_delivered);
        }
        self.round_done
    }

    /// Whether the 200 ms are over.
    pub(super) fn is_over(&self, now: Time) -> bool {
        self.until.is_some_and(|until| now > until)
    }
}
