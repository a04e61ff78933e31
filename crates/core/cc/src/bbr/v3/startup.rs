//! Startup, which doubles the rate to find the bandwidth, and Drain, which empties the queue that Startup has built.

use super::super::{Phase, Sample};
use super::{Bbr, State};

/// Number of lost ranges in a round that ends Startup, if the loss rate is also high (`BBRStartupFullLossCnt`).
const FULL_LOSS_RANGES: u32 = 6;
/// Number of rounds after which Drain ends even if there is a queue.
const DRAIN_ROUNDS: u64 = 3;

impl Bbr {
    /// `BBRCheckStartupDone`.
    pub(super) fn check_startup_done(&mut self, sample: &Sample) {
        self.check_startup_high_loss(sample);
        if self.state == State::Startup && self.base.filled {
            self.state = State::Drain;
            self.drain_start_round = self.base.round;
        }
    }

    /// `BBRCheckStartupHighLoss`: checks the losses at the end of a full round of fast recovery, so that their extent
    /// is known and a short burst of losses does not count as a full pipe.
    fn check_startup_high_loss(&mut self, sample: &Sample) {
        let ranges = self.latest.lost_ranges;
        if self.latest.round_start {
            self.latest.lost_ranges = 0;
        }
        if self.base.filled || self.state != State::Startup || self.base.phase != Phase::Fast {
            return;
        }
        let many = self.latest.round_start && ranges >= FULL_LOSS_RANGES;
        let too_high = if self.sack { many && self.is_too_high(sample.lost, sample.tx_in_flight) } else { ranges > 0 };
        if too_high {
            self.undo.state = Some(State::Startup);
            self.base.filled = true;
            self.long_term = self.bdp_multiple(self.max_bw.get(), 1.0).max(self.latest.inflight);
        }
    }

    /// `BBRCheckDrainDone`.
    pub(super) fn check_drain_done(&mut self, sample: &Sample) {
        if self.state != State::Drain {
            return;
        }
        let drained = sample.in_flight <= self.inflight(self.bw, 1.0);
        if drained || self.base.round > self.drain_start_round + DRAIN_ROUNDS {
            self.start_down(sample.now, sample.total_delivered, sample.rtt);
        }
    }
}
