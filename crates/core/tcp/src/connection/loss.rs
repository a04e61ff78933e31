//! Loss detection and recovery episodes: RACK-TLP (RFC 8985), SACK counting (RFC 6675), duplicate ACKs (RFC 6582),
//! retransmission timeouts (RFC 6298), and detection of spurious recovery (RFC 3522, RFC 4015, RFC 5682).
//!
//! This module decides which segments are lost; the controller decides how the window responds.

use longhaul_cc::{Detection, TxId};
use longhaul_units::{Span, Time};

use super::{Liveness, Sender, Timer, Timers};
use crate::{ConnectionError, Record, RecoveryState, RttEstimator, Scoreboard};

mod abandon;
mod detect;
mod outage;
mod recovery;
mod spurious;
mod tail_probe;

use detect::{DUP_THRESH, DuplicateAcks, Rack, SackCounting};
use outage::Outage;
use spurious::SpuriousDetection;
use tail_probe::TailLossProbe;

/// R2 in consecutive timeouts. It corresponds to about 15 minutes; RFC 9293, section 3.8.3, requires at least 100
/// seconds.
const MAX_TIMEOUTS: u32 = 15;
/// Maximum number of unanswered FIN retransmissions if both sides have closed and nothing else is unacknowledged, because
/// a peer that closed and then exited does not answer. About 90 seconds at the minimum RTO.
const MAX_FIN_TIMEOUTS: u32 = 8;
/// Maximum number of consecutive timeouts of a connection that discards the peer's data, if a segment from the peer has
/// arrived since the last one: the peer also discards our data.
const MAX_DISCARDED: u32 = 5;
/// Minimum silence of the peer before R2 applies, at least 100 s (RFC 9293, section 3.8.3). It exceeds the longest
/// RTO, so a peer that answers every retransmission is never considered silent.
pub(super) const R2: Span = Span::from_secs(250);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Open,
    /// Fast recovery until the offset (RecoveryPoint) is acknowledged.
    Recovery(u64),
    /// Recovery after a timeout, until the offset is acknowledged.
    Timeout(u64),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Grant {
    /// Whether one retransmission bypasses cwnd and pacer.
    pub(super) forced: bool,
    /// Scoreboard index of a segment to send as tail loss probe, zero-window probe or outage probe.
    pub(super) probe: Option<u64>,
    /// Number of segments to send before cwnd limits new data again: one for a tail loss probe, two for F-RTO.
    extra: u32,
}

/// Loss recovery state: the detectors, the current episode, and consecutive timeouts.
#[derive(Debug, Default)]
pub(super) struct Loss {
    pub(super) detection: Detection,
    pub(super) phase: Phase,
    rack: Rack,
    sack: SackCounting,
    duplicates: DuplicateAcks,
    pub(super) tail: TailLossProbe,
    pub(super) spurious: SpuriousDetection,
    pub(super) grant: Grant,
    /// The last transmission before the episode. The loss of a later retransmission begins a new episode.
    episode_tx: TxId,
    /// Consecutive retransmission timeouts, and those since the last segment from the peer.
    pub(super) timeouts: u32,
    pub(super) unanswered: u32,
    outage: Option<Outage>,
    /// Bytes of path MTU probes among the newly lost data.
    mtu_probe_lost: u64,
}

#[expect(clippy::multiple_inherent_impl, reason = "one file per mechanism")]
impl Loss {
    /// Returns the bytes in flight: the scoreboard's value, less the data that duplicate ACKs indicate as delivered
    /// without SACK.
    pub(super) fn pipe(&self, board: &Scoreboard) -> u64 {
        board.in_flight.saturating_sub(self.duplicates.emulated)
    }

    pub(super) fn recovery_state(&self) -> RecoveryState {
        match self.phase {
            Phase::Open => RecoveryState::Open,
            Phase::Recovery(_) => RecoveryState::Recovery,
            Phase::Timeout(_) => RecoveryState::Timeout,
        }
    }

    pub(super) fn in_fast_recovery(&self) -> bool {
        matches!(self.phase, Phase::Recovery(_))
    }

    /// Returns whether losses are detected by duplicate ACKs, without SACK.
    pub(super) fn counts_duplicates(&self) -> bool {
        matches!(self.detection, Detection::DuplicateAcks | Detection::Reno)
    }

    /// Returns whether a recovery episode is in progress, including recovery after a timeout.
    pub(super) fn in_episode(&self) -> bool {
        self.phase != Phase::Open
    }

    /// Returns whether a segment that is neither lost nor new may have to be sent.
    pub(super) fn wants_to_send(&self) -> bool {
        self.grant.probe.is_some() || (self.detection == Detection::Sack && self.in_episode())
    }

    /// Handles a probe that filled a hole: like a lost segment retransmitted by a tail loss probe (RFC 8985, section
    /// 7.4), the hole is reported to the controller as a loss.
    pub(super) fn on_probe_filled_hole(&mut self) {
        if !self.in_episode() {
            self.tail.was_needed = true;
        }
    }

    /// Retransmits the first outstanding segment at once, regardless of cwnd and pacer. If it is SACKed, the peer has
    /// discarded it or the report was forged (RFC 2018, section 8): SACKed segments are never retransmitted.
    pub(super) fn repeat_front(&mut self, snd: &mut Sender) {
        let Some((index, front)) = snd.board.front() else { return };
        if front.is_sacked() {
            snd.renege();
        }
        (self.grant.probe, self.grant.forced) = (Some(index), true);
    }

    /// Arms or stops the retransmission timer and the tail loss probe, depending on whether data is in flight (RFC
    /// 6298, section 5; RFC 8985, section 7.2).
    pub(super) fn arm_timers(
        &self,
        now: Time,
        snd: &Sender,
        rtt: &RttEstimator,
        peer: &mut Liveness,
        timers: &mut Timers,
        user_timeout: Option<Span>,
    ) {
        if !snd.has_outstanding() {
            timers.stop(Timer::Rto);
            timers.stop(Timer::Probe);
            timers.stop(Timer::Reorder);
            timers.stop(Timer::User);
            timers.arm(Timer::Idle, now + rtt.base_rto());
            peer.stalled_since = None;
            return;
        }
        timers.stop(Timer::Idle);
        peer.arm_user_timeout(now, snd, user_timeout, timers);
        if snd.persist.in_flight {
            // Zero-window probes are retransmitted by the persist timer.
            timers.stop(Timer::Rto);
            timers.stop(Timer::Probe);
            return;
        }
        if !timers.is_armed(Timer::Rto) {
            timers.arm(Timer::Rto, now + rtt.rto());
        }
        let probing = self.detection == Detection::RackTlp
            && !self.in_episode()
            && snd.board.sacked_bytes == 0
            && self.tail.may_send();
        if probing {
            timers.arm(Timer::Probe, tail_probe::deadline(now, rtt, snd.board.len(), timers));
        } else {
            timers.set(Timer::Probe, self.outage_probe_at());
        }
    }

    /// Counts a retransmission timeout, and returns the resulting action. `resets` means that a RST follows the data in
    /// flight, and `only_fin` that only our FIN is unacknowledged and the peer's has arrived. If it `may_give_up`, the
    /// peer is silent.
    pub(super) fn on_timeout(&mut self, resets: bool, only_fin: bool, may_give_up: bool) -> TimeoutStep {
        self.timeouts += 1;
        self.unanswered += 1;
        match () {
            () if resets && self.timeouts > MAX_DISCARDED && self.unanswered == 1 => TimeoutStep::Reset,
            // All data is acknowledged and the peer has closed: it has most likely exited.
            () if self.unanswered > MAX_FIN_TIMEOUTS && only_fin => TimeoutStep::End(None),
            // The connection is not aborted while the peer answers, even if its window is closed below the data in
            // flight (RFC 9293, MUST-37).
            () if self.timeouts > MAX_TIMEOUTS && may_give_up => TimeoutStep::End(Some(ConnectionError::TimedOut)),
            () => TimeoutStep::Retransmit,
        }
    }

    /// Forgets timeouts after new data was acknowledged.
    pub(super) fn on_progress(&mut self) {
        self.timeouts = 0;
        self.outage = None;
    }

    /// Returns the number of bytes by which new segments may exceed cwnd.
    pub(super) fn allowance(&self, mss: u16) -> u64 {
        u64::from(self.grant.extra) * u64::from(mss)
    }

    /// Invalidates scoreboard indices after the scoreboard was resegmented.
    pub(super) fn on_renumbered(&mut self) {
        self.grant.probe = None;
        self.sack.on_renumbered();
    }

    pub(super) fn on_new_data(&mut self) {
        self.grant.extra = self.grant.extra.saturating_sub(1);
        self.grant.forced = false;
    }

    /// Records a retransmission with this TSval.
    pub(super) fn on_retransmit(&mut self, record: &Record, value: u32) {
        self.grant.extra = self.grant.extra.saturating_sub(1);
        (self.grant.forced, self.grant.probe) = (false, None);
        if let Phase::Recovery(point) | Phase::Timeout(point) = self.phase {
            self.sack.on_retransmit(record, point);
        }
        self.spurious.on_retransmit(record, value);
    }

    /// Returns the segment of NextSeg rules 3 and 4 (RFC 6675, section 4) if neither lost nor new data can be sent.
    pub(super) fn rescue(&mut self, board: &Scoreboard, room: u64, new_data: bool, mss: u16) -> Option<u64> {
        if self.detection != Detection::Sack || room < u64::from(mss) || new_data {
            return None;
        }
        self.in_fast_recovery().then(|| self.sack.rescue(board)).flatten()
    }

    /// Processes a delivered segment. `ambiguous` means that the ACK may belong to an earlier transmission.
    pub(super) fn on_delivered(&mut self, record: &Record, sent_at: Time, at: Time, ambiguous: bool) {
        self.rack.detect_reordering(record);
        self.spurious.on_delivered(record, sent_at, at);
        self.rack.on_delivered(record, sent_at, at, ambiguous);
    }

    /// Returns RACK's reordering window. During recovery, or with DupThresh segments SACKed, it is zero until
    /// reordering was observed (RFC 8985, section 6.2, step 4).
    fn reordering_window(&self, sacked: u64, mss: u16, rtt: &RttEstimator) -> Span {
        let many = sacked >= u64::from(DUP_THRESH) * u64::from(mss);
        self.rack.reordering_window(self.in_episode() || many, rtt.min, rtt.srtt)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeoutStep {
    Retransmit,
    Reset,
    End(Option<ConnectionError>),
}

/// Effects of one ACK that are relevant to loss recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AckOutcome {
    pub(super) una_advanced: u64,
    pub(super) newly_sacked: u64,
    pub(super) duplicate: bool,
    pub(super) dsack: Option<(u64, u64)>,
    /// Whether the D-SACK is for data that the sender itself has reordered.
    pub(super) is_swapped: bool,
    pub(super) echo: Option<u32>,
    pub(super) proves_spurious: bool,
}

#[cfg(test)]
mod tests;
