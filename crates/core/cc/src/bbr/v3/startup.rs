//! Startup, which doubles the rate to find the bandwidth, and Drain, which empties the queue that Startup has built.

use longhaul_units::Bytes;

use super::super::full_pipe::FullPipe;
use super::super::recovery::Phase;
use super::super::sample::Sample;
use super::{Bbr, State};

/// Number of lost ranges in a round that ends Startup, if the loss rate is high, too (`BBRStartupFullLossCnt`).
const FULL_LOSS_RANGES: u32 = 6;
/// Rounds after which Drain ends even if there is a queue.
const DRAIN_ROUNDS: u64 = 3;

impl Bbr {
    /// `BBRCheckFullBWReached`.
    pub(super) fn check_full_pipe(&mut self, sample: &Sample) {
        if self.pipe.is_full() || !self.rounds.start || sample.app_limited {
            return;
        }
        self.pipe.on_round(sample.bw);
        self.filled |= self.pipe.is_full();
    }

    pub(super) fn reset_full_pipe(&mut self, baseline: f64) {
        self.pipe = FullPipe::from(baseline);
    }

    /// `BBRCheckStartupDone`.
    pub(super) fn check_startup_done(&mut self, sample: &Sample) {
        self.check_startup_high_loss(sample);
        if self.state == State::Startup && self.filled {
            self.enter_drain();
        }
    }

    pub(super) const fn enter_startup(&mut self) {
        self.state = State::Startup;
    }

    const fn enter_drain(&mut self) {
        self.state = State::Drain;
        self.drain_start_round = self.rounds.count;
    }

    /// `BBRCheckStartupHighLoss`: checks the losses at the end of a full round of fast recovery, so that their extent
    /// is known and a short burst of losses does not count as a full pipe.
    fn check_startup_high_loss(&mut self, sample: &Sample) {
        let ranges = self.latest.lost_ranges;
        if self.latest.round_start {
            self.latest.lost_ranges = 0;
        }
        if self.filled || self.state != State::Startup || self.recovery.phase != Phase::Fast {
            return;
        }
        let many = self.latest.round_start && ranges >= FULL_LOSS_RANGES;
        let too_high = if self.sack { many && self.is_too_high(sample.lost, sample.tx_in_flight) } else { ranges > 0 };
        if too_high {
            self.undo.state = Some(State::Startup);
            self.filled = true;
            self.long_term = self.bdp_multiple(self.max_bw.get(), 1.0).max(self.latest.inflight);
        }
    }

    /// `BBRCheckDrainDone`.
    pub(super) fn check_drain_done(&mut self, sample: &Sample) {
        if self.state != State::Drain {
            return;
        }
        let drained = sample.in_flight <= self.inflight(self.bw, 1.0);
        if drained || self.rounds.count > self.drain_start_round + DRAIN_ROUNDS {
            self.start_down(sample.now, sample.total_delivered, sample.rtt);
        }
    }

    /// Counts a lost range: the lost segment does not directly follow the previous one.
    pub(super) const fn note_lost_range(&mut self) {
        self.latest.lost_ranges = self.latest.lost_ranges.saturating_add(1);
    }

    /// Starts a round (`BBRStartRound`).
    pub(super) const fn start_round(&mut self, delivered: Bytes) {
        self.rounds.restart(delivered);
    }
}
