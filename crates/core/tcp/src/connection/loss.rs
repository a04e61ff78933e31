//! Loss detection and recovery episodes: RACK-TLP (RFC 8985), SACK counting (RFC 6675), duplicate ACKs (RFC 6582),
//! retransmission timeouts (RFC 6298), and detection of spurious recovery (RFC 3522, RFC 4015, RFC 5682).
//!
//! This module decides which segments are lost; the controller decides how the window responds.

use longhaul_cc::{Detection, Episode, PathEvent, Timeout, TxId};
use longhaul_units::{Bytes, Span, Time};

use super::timers::Timer;
use super::{Connection, State};
use crate::error::ConnectionError;
use crate::observer::{ConnectionEvent, LossTrigger};
use crate::rtt::RttEstimator;
use crate::scoreboard::{Record, Scoreboard};

mod detect;
mod outage;
mod rest;
mod spurious;
mod tail_probe;

use detect::{DUP_THRESH, DuplicateAcks, Marking, Rack, SackCounting};
use outage::Outage;
pub(super) use rest::RestingLoss;
use spurious::{Begin, SpuriousDetection};
use tail_probe::TailLossProbe;

/// R2 in consecutive timeouts. It corresponds to about 15 minutes; RFC 9293, section 3.8.3, requires at least 100
/// seconds.
const MAX_TIMEOUTS: u32 = 15;
/// Maximum number of unanswered FIN retransmissions if both sides have closed and nothing else is unacknowledged, because
/// a peer that closed and then exited does not answer. About 90 seconds at the minimum RTO.
const MAX_FIN_TIMEOUTS: u32 = 8;
/// Maximum number of consecutive timeouts of a connection that discards the peer's data, if the peer was heard since the
/// last one: it discards ours as well.
const MAX_DISCARDED: u32 = 5;
/// Minimum silence of the peer before R2 applies, at least 100 s (RFC 9293, section 3.8.3). It exceeds the longest
/// RTO, so a peer that answers every retransmission is never considered silent.
const R2: Span = Span::from_secs(250);

/// State of loss recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// No recovery episode is in progress.
    #[default]
    Open,
    /// Fast recovery until the offset (RecoveryPoint) is acknowledged.
    Recovery(u64),
    /// Recovery after a timeout, until the offset is acknowledged.
    Timeout(u64),
}

/// Segments that may be sent regardless of cwnd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Grant {
    /// One retransmission bypasses cwnd and pacer.
    pub(super) forced: bool,
    /// Scoreboard index of a segment to send as tail loss probe, zero-window probe or outage probe.
    pub(super) probe: Option<u64>,
    /// Number of segments to send before cwnd limits new data again: one for a tail loss probe, two for F-RTO.
    extra: u32,
}

/// Loss recovery state: the detectors, the current episode, and consecutive timeouts.
#[derive(Debug)]
pub(super) struct Loss {
    pub(super) detection: Detection,
    pub(super) phase: Phase,
    rack: Rack,
    sack: SackCounting,
    duplicates: DuplicateAcks,
    tail: TailLossProbe,
    pub(super) spurious: SpuriousDetection,
    pub(super) grant: Grant,
    /// The last transmission before the episode. The loss of a later retransmission begins a new episode.
    episode_tx: TxId,
    /// Consecutive retransmission timeouts, and those since the last segment from the peer.
    timeouts: u32,
    pub(super) unanswered: u32,
    outage: Option<Outage>,
    /// Bytes of path MTU probes among the newly lost data.
    mtu_probe_lost: u64,
}

impl Loss {
    pub(super) fn new() -> Self {
        Self {
            detection: Detection::RackTlp,
            phase: Phase::Open,
            rack: Rack::default(),
            sack: SackCounting::default(),
            duplicates: DuplicateAcks::default(),
            tail: TailLossProbe::default(),
            spurious: SpuriousDetection::default(),
            grant: Grant::default(),
            episode_tx: TxId(0),
            timeouts: 0,
            unanswered: 0,
            outage: None,
            mtu_probe_lost: 0,
        }
    }

    /// Returns whether fast recovery is in progress.
    pub(super) fn in_fast_recovery(&self) -> bool {
        matches!(self.phase, Phase::Recovery(_))
    }

    /// Returns whether a recovery episode is in progress, including recovery after a timeout.
    pub(super) fn in_episode(&self) -> bool {
        self.phase != Phase::Open
    }

    /// Returns whether a segment that is neither lost nor new may have to be sent.
    pub(super) fn wants_to_send(&self) -> bool {
        self.grant.probe.is_some() || (self.detection == Detection::Sack && self.in_episode())
    }

    /// Handles a probe that filled a hole: like a lost segment that a tail loss probe retransmitted (RFC 8985, section
    /// 7.4), it is reported to the controller as a loss.
    pub(super) fn on_probe_filled_hole(&mut self) {
        if !self.in_episode() {
            self.tail.note_needed_retransmission();
        }
    }

    /// Returns the bytes by which new segments may exceed cwnd.
    pub(super) fn allowance(&self, mss: u16) -> u64 {
        u64::from(self.grant.extra) * u64::from(mss)
    }

    /// Invalidates scoreboard indices after the scoreboard was resegmented.
    pub(super) fn on_renumbered(&mut self) {
        self.grant.probe = None;
        self.sack.on_renumbered();
    }

    /// Permits another tail loss probe after an RTT sample.
    pub(super) fn on_rtt_sample(&mut self) {
        self.tail.allow();
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

    /// Returns whether the delivery of `record` shows that the timeout was spurious.
    pub(super) fn proves_spurious(&self, record: &Record) -> bool {
        self.spurious.proves(record)
    }

    /// Returns RACK's reordering window. During recovery, or with DupThresh segments SACKed, it is zero until
    /// reordering was observed (RFC 8985, section 6.2, step 4).
    fn reordering_window(&self, sacked: u64, mss: u16, rtt: &RttEstimator) -> Span {
        let many = sacked >= u64::from(DUP_THRESH) * u64::from(mss);
        self.rack.reordering_window(self.in_episode() || many, rtt.min(), rtt.srtt())
    }
}

/// Effects of one ACK that are relevant to loss recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AckOutcome {
    pub(super) una_advanced: u64,
    pub(super) newly_sacked: u64,
    pub(super) duplicate: bool,
    pub(super) dsack: Option<(u64, u64)>,
    pub(super) echo: Option<u32>,
    pub(super) proves_spurious: bool,
}

impl Connection {
    /// Returns the bytes in flight: the scoreboard's value, less the data that duplicate ACKs indicate as delivered
    /// without SACK.
    pub(super) fn pipe(&self) -> u64 {
        self.snd.board().in_flight().saturating_sub(self.loss.duplicates.emulated)
    }

    /// Runs the loss detector after an ACK. Returns the bytes newly marked lost and the state of the episode.
    pub(super) fn detect_losses(&mut self, at: Time, ack: &AckOutcome) -> (u64, Episode) {
        if self.loss.detection == Detection::DuplicateAcks {
            let (mss, in_episode) = (self.mss(), self.loss.in_episode());
            self.loss.duplicates.count(ack, mss, in_episode, self.snd.flight_size());
        }
        self.loss.tail.on_ack(self.snd.una(), ack);
        let before = self.snd.board().lost_bytes();
        let retransmission_lost = self.mark_losses(at, ack);
        let newly_lost = self.snd.board().lost_bytes().saturating_sub(before);
        self.count_lost(newly_lost);
        (newly_lost, self.update_episode(newly_lost, retransmission_lost))
    }

    /// Marks lost segments with the current detector. Returns whether a retransmission of this episode is among them.
    fn mark_losses(&mut self, at: Time, ack: &AckOutcome) -> bool {
        let (mss, una, window) = (self.mss(), self.snd.una(), self.reordering_window());
        let lists = self.cc.segments_mut();
        let mut marking =
            Marking { board: self.snd.board_mut(), lists, observed: self.observers.lost(), mtu_probe_bytes: 0 };
        let loss = &mut self.loss;
        let mut retransmission_lost = false;
        match loss.detection {
            Detection::RackTlp => {
                let outcome = loss.rack.detect(at, window, loss.episode_tx, &mut marking);
                self.timers.set(Timer::Reorder, outcome.check_at);
                retransmission_lost = outcome.retransmission_lost;
            }
            Detection::Sack => loss.sack.detect(mss, loss.episode_tx, &mut marking),
            Detection::DuplicateAcks => {
                loss.grant.forced |= loss.duplicates.detect(ack, loss.phase, una, loss.episode_tx, &mut marking);
            }
        }
        let mtu_probe_bytes = marking.mtu_probe_bytes;
        self.on_mtu_probe_lost(mtu_probe_bytes);
        self.report_lost(match self.loss.detection {
            Detection::RackTlp => LossTrigger::TimeThreshold,
            _ => LossTrigger::ReorderingThreshold,
        });
        retransmission_lost
    }

    fn reordering_window(&self) -> Span {
        self.loss.reordering_window(self.snd.board().sacked_bytes(), self.mss(), &self.rtt)
    }

    fn on_mtu_probe_lost(&mut self, bytes: u64) {
        if bytes > 0 {
            self.pmtu.on_probe_lost(self.timers.now());
            self.loss.mtu_probe_lost += bytes;
        }
    }

    fn count_lost(&mut self, bytes: u64) {
        if bytes > 0 {
            self.cc.rate.lost += bytes;
            self.stats.incidents_mut().bytes_lost += bytes;
        }
    }

    /// Begins, continues or ends an episode according to newly lost data.
    fn update_episode(&mut self, newly_lost: u64, retransmission_lost: bool) -> Episode {
        // The loss of a path MTU probe is no sign of congestion (RFC 8899, section 3).
        let congestion = newly_lost > std::mem::take(&mut self.loss.mtu_probe_lost);
        let was_needed = self.loss.tail.take_needed_retransmission();
        let una = self.snd.una();
        match self.loss.phase {
            Phase::Open if congestion || was_needed => {
                self.begin_episode(Phase::Recovery(self.snd.nxt()), false);
                self.loss.grant.forced = congestion;
                Episode::Enter
            }
            Phase::Open => Episode::None,
            Phase::Recovery(point) if una >= point => {
                self.end_episode();
                if congestion {
                    self.begin_episode(Phase::Recovery(self.snd.nxt()), false);
                    self.loss.grant.forced = true;
                    return Episode::Enter;
                }
                Episode::Exit
            }
            Phase::Recovery(_) if retransmission_lost => {
                self.begin_episode(Phase::Recovery(self.snd.nxt()), false);
                Episode::Again
            }
            Phase::Recovery(_) => Episode::In,
            Phase::Timeout(point) if una >= point => {
                self.end_episode();
                Episode::None
            }
            Phase::Timeout(_) => Episode::Rto,
        }
    }

    fn begin_episode(&mut self, phase: Phase, timeout: bool) {
        let is_first = self.loss.phase == Phase::Open;
        if is_first {
            self.ext.ecn_check.on_episode();
        }
        self.loss.spurious.begin(Begin { una: self.snd.una(), timeout, is_first });
        self.loss.phase = phase;
        self.loss.grant.extra = 0;
        self.loss.episode_tx = self.snd.board().last_tx();
        self.loss.tail.forget();
        self.loss.sack.begin_episode();
        self.cc.congestion_seen = true;
        self.timers.stop(Timer::Probe);
        self.stats.incidents_mut().recoveries += 1;
        let timeout = matches!(phase, Phase::Timeout(_));
        self.observers.report(self.timers.now(), || ConnectionEvent::RecoveryStarted { timeout });
    }

    fn end_episode(&mut self) {
        self.loss.phase = Phase::Open;
        self.loss.spurious.end_episode();
        self.loss.duplicates.reset();
        (self.loss.grant.forced, self.loss.grant.extra) = (false, 0);
        self.loss.rack.on_episode_end();
        self.observers.report(self.timers.now(), || ConnectionEvent::RecoveryEnded);
    }

    /// Arms or stops the retransmission timer and the tail loss probe, depending on whether data is in flight (RFC
    /// 6298, section 5; RFC 8985, section 7.2).
    pub(super) fn arm_retransmission(&mut self, now: Time) {
        if !self.snd.has_outstanding() {
            self.timers.stop(Timer::Rto);
            self.timers.stop(Timer::Probe);
            self.timers.stop(Timer::Reorder);
            self.timers.stop(Timer::User);
            self.begin_idle_period(now);
            self.peer.on_progress();
            return;
        }
        self.timers.stop(Timer::Idle);
        self.arm_user_timeout(now);
        if self.snd.persist.is_in_flight() {
            // Zero-window probes are retransmitted by the persist timer.
            self.timers.stop(Timer::Rto);
            self.timers.stop(Timer::Probe);
            return;
        }
        if !self.timers.is_armed(Timer::Rto) {
            self.timers.arm(Timer::Rto, now + self.rtt.rto());
        }
        let probing = self.loss.detection == Detection::RackTlp
            && self.negotiated.sack
            && !self.loss.in_episode()
            && self.snd.board().sacked_bytes() == 0
            && self.loss.tail.may_send();
        if probing {
            self.timers.arm(Timer::Probe, self.probe_deadline(now));
        } else {
            self.timers.set(Timer::Probe, self.outage_probe_at());
        }
    }

    /// Arms the user timeout if data is outstanding (RFC 9293, section 3.8.3).
    pub(super) fn arm_user_timeout(&mut self, now: Time) {
        if !self.snd.has_outstanding() {
            return;
        }
        let since = self.peer.stall(now);
        if let Some(limit) = self.config.user_timeout {
            self.timers.arm(Timer::User, since + limit);
        }
    }

    /// Marks segments lost when RACK's reordering window ends (RFC 8985, section 6.3).
    pub(super) fn on_reorder_timeout(&mut self, now: Time) {
        let before = self.snd.board().lost_bytes();
        let again = self.mark_losses(now, &AckOutcome::default());
        let lost = self.snd.board().lost_bytes().saturating_sub(before);
        self.count_lost(lost);
        if lost > 0 {
            let episode = self.update_episode(lost, again);
            self.report_timer_losses(now, lost, episode);
        }
    }

    /// Handles the retransmission timeout (RFC 6298, steps 5.4 to 5.6). RFC 8985, section 6.3, determines the
    /// segments marked lost.
    pub(super) fn on_retransmission_timeout(&mut self, now: Time) {
        if self.life.state == State::SynSent || self.life.state == State::SynReceived {
            self.retransmit_syn(now);
            return;
        }
        // R2: close the connection if the peer is silent (RFC 9293, section 3.8.3).
        let Some((index, front)) = self.snd.board().front().map(|(i, r)| (i, *r)) else { return };
        self.loss.timeouts += 1;
        self.loss.unanswered += 1;
        if self.life.resets && self.loss.timeouts > MAX_DISCARDED && self.loss.unanswered == 1 {
            self.reset(now);
            return;
        }
        if self.loss.unanswered > MAX_FIN_TIMEOUTS && self.is_only_fin_unacked() {
            // All data is acknowledged and the peer has closed: it has most likely exited.
            self.finish(None);
            return;
        }
        // A peer that still answers is not given up, even if its window is closed below the data in flight (RFC 9293,
        // MUST-37).
        let silent = self.peer.silence(now) >= R2;
        if self.loss.timeouts > MAX_TIMEOUTS && silent && self.config.user_timeout.is_none() {
            self.finish(Some(ConnectionError::TimedOut));
            return;
        }
        // RFC 2018, section 8: a SACKed first segment was discarded by the receiver.
        if front.is_sacked() {
            self.snd.renege();
        }
        let first = !matches!(self.loss.phase, Phase::Timeout(_));
        if first {
            self.consider_outage(now);
        }
        self.put_off_outage_probe(now);
        // Begin or continue the episode, and start F-RTO on the first timeout.
        self.begin_episode(Phase::Timeout(self.snd.nxt()), first);
        self.loss.spurious.on_timeout(first, self.snd.board().last_tx());
        self.loss.duplicates.reset();
        // Mark segments lost. A black hole reduces the path MTU.
        let flight = self.snd.flight_size();
        self.forget_probes();
        self.mark_timed_out(now, index);
        if self.pmtu.on_timeout(now, self.loss.timeouts) {
            self.change_mss(now);
        }
        // RFC 6298, steps 5.4 to 5.6: retransmit the first segment, back off the timer and restart it.
        self.rtt.back_off();
        self.loss.grant.forced = true;
        self.stats.incidents_mut().timeouts += 1;
        let mut event = Timeout::new(now, self.loss.timeouts, Bytes(flight));
        event.in_flight = Bytes(self.pipe());
        let path = self.path();
        self.cc.controller.on_timeout(&event, &path);
        self.cc.bursts.on_timeout();
        self.refresh_control();
        self.timers.arm(Timer::Rto, now + self.rtt.rto());
    }

    /// Marks the first segment lost, and with RACK those that are overdue. Without RACK or after a second timeout,
    /// marks all outstanding segments lost.
    fn mark_timed_out(&mut self, now: Time, first: u64) {
        let before = self.snd.board().lost_bytes();
        if let Some(record) = self.snd.board().get(first).copied()
            && self.snd.board_mut().mark_lost(first)
        {
            self.note_lost(&record);
        }
        let all = self.loss.detection != Detection::RackTlp || self.loss.timeouts > 1;
        let wait = self.loss.rack.rtt + (self.rtt.min().unwrap_or(Span::ZERO) / 4);
        while let Some(index) = self.snd.board().oldest_sent() {
            let Some(record) = self.snd.board().get(index).copied() else { break };
            if !all && self.snd.board().burst_of(&record).sent_at + wait > now {
                break;
            }
            if self.snd.board_mut().mark_lost(index) {
                self.note_lost(&record);
            }
            if record.is_mtu_probe() {
                self.pmtu.on_probe_lost(now);
            }
        }
        let lost = self.snd.board().lost_bytes().saturating_sub(before);
        self.count_lost(lost);
        self.report_lost(LossTrigger::Timeout);
    }

    /// Returns whether only our FIN is unacknowledged and the peer's FIN has arrived.
    fn is_only_fin_unacked(&self) -> bool {
        matches!(self.life.state, State::LastAck | State::Closing) && self.snd.una() >= self.snd.queued_end()
    }

    /// Adapts to a changed segment size: splits longer segments in flight and reports the change to the controller.
    pub(super) fn change_mss(&mut self, now: Time) {
        let mss = self.mss();
        if Bytes::from(mss) < self.cc.mss {
            self.snd.resegment(mss);
            self.loss.on_renumbered();
        }
        let event = PathEvent::Mss { now, old: self.cc.mss };
        self.cc.mss = Bytes::from(mss);
        self.tell(&event);
    }

    /// Restarts timers and clears timeout state after new data was acknowledged.
    pub(super) fn on_progress(&mut self, now: Time) {
        self.rtt.on_progress();
        self.loss.timeouts = 0;
        self.loss.outage = None;
        self.peer.on_progress();
        self.timers.stop(Timer::Rto);
        self.arm_retransmission(now);
    }
}

#[cfg(test)]
mod tests;
