//! End of ProbeRTT, which is the same in both versions.

use longhaul_units::Time;

use super::PROBE_RTT_DURATION;
use super::rounds::Rounds;
use super::sample::Sample;

/// State of ProbeRTT, which keeps little in flight for 200 ms or a round trip, whichever is longer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hold {
    /// End of the 200 ms; `None` until little is in flight.
    until: Option<Time>,
    round_done: bool,
}

impl Hold {
    /// Processes an ACK, where up to `least` bytes in flight count as little. Returns whether the round trip is over.
    pub(super) fn on_ack(&mut self, sample: &Sample, least: f64, rounds: &mut Rounds) -> bool {
        if self.until.is_some() {
            self.round_done |= rounds.start;
        } else if sample.in_flight <= least {
            self.until = Some(sample.now + PROBE_RTT_DURATION);
            rounds.restart(sample.total_delivered);
        }
        self.round_done
    }

    /// Returns whether the 200 ms are over.
    pub(super) fn is_over(&self, now: Time) -> bool {
        self.until.is_some_and(|until| now > until)
    }
}
