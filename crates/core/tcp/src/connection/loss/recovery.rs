//! Recovery: which segments are marked lost, and when an episode begins and ends.

use super::detect::{DuplicateAcks, Marking};
use super::{AckOutcome, Phase};
use crate::connection::{Recovery, Timer};
use crate::{ConnectionEvent, LossTrigger};
use longhaul_cc::{Detection, Episode, PathEvent};
use longhaul_units::{Bytes, Span, Time};

impl Recovery<'_> {
    /// Undoes spurious recovery (RFC 3522, RFC 5682, RFC 2883), then detects losses (RFC 8985, RFC 6675, RFC 5681) after an ACK
    /// that arrived at `at`. Returns the bytes newly marked lost and the state of the episode.
    pub(in crate::connection) fn on_ack(&mut self, now: Time, at: Time, outcome: &AckOutcome) -> (u64, Episode) {
        let spurious = self.check_spurious(now, outcome);
        let (bytes, episode) = self.detect_losses(at, outcome);
        if episode == Episode::Enter {
            self.cc.history.forget_rate();
        }
        (bytes, if spurious && episode == Episode::In { Episode::None } else { episode })
    }

    /// Runs the loss detector after an ACK. Returns the bytes newly marked lost and the state of the episode.
    fn detect_losses(&mut self, at: Time, ack: &AckOutcome) -> (u64, Episode) {
        if self.loss.counts_duplicates() {
            let (mss, in_episode) = (self.pmtu.mss(), self.loss.in_episode());
            self.loss.duplicates.count(ack, mss, in_episode, self.snd.flight_size());
        }
        self.loss.tail.on_ack(self.snd.una, ack);
        let (newly_lost, retransmission_lost) = self.mark_losses(at, ack);
        (newly_lost, self.update_episode(newly_lost, retransmission_lost))
    }

    /// Marks lost segments with the current detector. Returns their bytes, and whether a retransmission of this episode is
    /// among them.
    fn mark_losses(&mut self, at: Time, ack: &AckOutcome) -> (u64, bool) {
        let before = self.snd.board.lost_bytes;
        let (mss, una, window) = (
            self.pmtu.mss(),
            self.snd.una,
            self.loss.reordering_window(self.snd.board.sacked_bytes, self.pmtu.mss(), self.rtt),
        );
        let lists = self.cc.segments_mut();
        let mut marking =
            Marking { board: &mut self.snd.board, lists, observed: self.observers.lost(), mtu_probe_bytes: 0 };
        let loss = &mut *self.loss;
        let mut retransmission_lost = false;
        match loss.detection {
            Detection::RackTlp => {
                let outcome = loss.rack.detect(at, window, loss.episode_tx, &mut marking);
                self.timers.set(Timer::Reorder, outcome.check_at);
                retransmission_lost = outcome.retransmission_lost;
            }
            Detection::Sack => loss.sack.detect(mss, loss.episode_tx, &mut marking),
            Detection::DuplicateAcks | Detection::Reno => {
                loss.grant.forced |= loss.duplicates.detect(ack, loss.phase, una, loss.episode_tx, &mut marking);
            }
        }
        if marking.mtu_probe_bytes > 0 {
            loss.mtu_probe_lost += marking.mtu_probe_bytes;
            self.pmtu.on_probe_lost(self.timers.now);
        }
        self.observers.report_lost(
            self.timers.now,
            self.numbers,
            match self.loss.detection {
                Detection::RackTlp => LossTrigger::TimeThreshold,
                _ => LossTrigger::ReorderingThreshold,
            },
        );
        (self.count_lost(before), retransmission_lost)
    }

    /// Marks segments lost when RACK's reordering window ends (RFC 8985, section 6.3). Returns the bytes, and the state of the
    /// episode, if there are any.
    pub(crate) fn on_reorder_timeout(&mut self, now: Time) -> Option<(u64, Episode)> {
        let (lost, again) = self.mark_losses(now, &AckOutcome::default());
        (lost > 0).then(|| (lost, self.update_episode(lost, again)))
    }

    /// Begins or continues an episode after a timeout, and marks segments lost; `index` is the first one. The peer has
    /// been silent for `silence`.
    pub(crate) fn begin_timeout(&mut self, now: Time, index: u64, silence: Span) {
        // RFC 2018, section 8: a SACKed first segment was discarded by the receiver.
        if self.snd.board.get(index).is_some_and(|front| front.is_sacked()) {
            self.snd.renege();
        }
        let first = !matches!(self.loss.phase, Phase::Timeout(_));
        if first {
            self.loss.consider_outage(now, self.snd, self.rtt.srtt, silence);
        }
        self.loss.put_off_outage_probe(now, self.rtt);
        // Start F-RTO on the first timeout.
        self.begin_episode(Phase::Timeout(self.snd.nxt), first);
        self.loss.spurious.on_timeout(first, self.snd.board.last_tx());
        self.loss.duplicates = DuplicateAcks::default();
        self.ext.list.iter_mut().for_each(|extension| extension.on_timeout(self.rtt));
        self.mark_timed_out(now, index);
    }

    /// Marks the first segment lost, and with RACK those that are overdue. Without RACK or after a second timeout,
    /// marks all outstanding segments lost.
    fn mark_timed_out(&mut self, now: Time, first: u64) {
        let before = self.snd.board.lost_bytes;
        let observed = self.observers.lost();
        // The timeout is reported to the controller as a whole.
        let mut marking = Marking { board: &mut self.snd.board, lists: None, observed, mtu_probe_bytes: 0 };
        marking.mark(first);
        let all = self.loss.detection != Detection::RackTlp || self.loss.timeouts > 1;
        let wait = self.loss.rack.rtt + (self.rtt.min.unwrap_or(Span::ZERO) / 4);
        while let Some(index) = marking.board.oldest_sent() {
            let Some(record) = marking.board.get(index).copied() else { break };
            if !all && marking.board.burst_of(&record).sent_at + wait > now {
                break;
            }
            marking.mark(index);
            if record.is_mtu_probe() {
                self.pmtu.on_probe_lost(now);
            }
        }
        self.count_lost(before);
        self.observers.report_lost(now, self.numbers, LossTrigger::Timeout);
    }

    /// Counts and returns the bytes marked lost since the total was `before`.
    fn count_lost(&mut self, before: u64) -> u64 {
        let bytes = self.snd.board.lost_bytes.saturating_sub(before);
        if bytes > 0 {
            self.cc.rate.lost += bytes;
            self.stats.incidents_mut().bytes_lost += bytes;
        }
        bytes
    }

    fn update_episode(&mut self, newly_lost: u64, retransmission_lost: bool) -> Episode {
        // The loss of a path MTU probe does not indicate congestion (RFC 8899, section 3).
        let congestion = newly_lost > std::mem::take(&mut self.loss.mtu_probe_lost);
        let was_needed = std::mem::take(&mut self.loss.tail.was_needed);
        let una = self.snd.una;
        // The recovery point: everything sent so far, or with Reno the next byte.
        let point = if self.loss.detection == Detection::Reno { una + 1 } else { self.snd.nxt };
        match self.loss.phase {
            Phase::Open if congestion || was_needed => {
                self.begin_episode(Phase::Recovery(point), false);
                self.loss.grant.forced = congestion;
                Episode::Enter
            }
            Phase::Open => Episode::None,
            Phase::Recovery(end) if una >= end => {
                self.end_episode();
                if congestion {
                    self.begin_episode(Phase::Recovery(point), false);
                    self.loss.grant.forced = true;
                    return Episode::Enter;
                }
                Episode::Exit
            }
            Phase::Recovery(_) if retransmission_lost => {
                self.begin_episode(Phase::Recovery(point), false);
                Episode::Again
            }
            Phase::Recovery(_) => Episode::In,
            Phase::Timeout(end) if una >= end => {
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
        self.loss.spurious.begin(self.snd.una, timeout, is_first);
        self.loss.phase = phase;
        self.loss.grant.extra = 0;
        self.loss.episode_tx = self.snd.board.last_tx();
        self.loss.tail.in_flight = None;
        self.loss.sack.begin_episode();
        self.cc.congestion_seen = true;
        self.timers.stop(Timer::Probe);
        self.stats.incidents_mut().recoveries += 1;
        let timeout = matches!(phase, Phase::Timeout(_));
        self.observers.report(self.timers.now, || ConnectionEvent::RecoveryStarted { timeout });
    }

    fn end_episode(&mut self) {
        self.loss.phase = Phase::Open;
        self.loss.spurious.frto = None;
        self.loss.duplicates = DuplicateAcks::default();
        (self.loss.grant.forced, self.loss.grant.extra) = (false, 0);
        self.loss.rack.on_episode_end();
        self.observers.report(self.timers.now, || ConnectionEvent::RecoveryEnded);
    }

    /// Looks for proof that the episode was spurious, before the ACK is reported to the controller. If there is one,
    /// reports it to the controller and returns `true`.
    fn check_spurious(&mut self, now: Time, ack: &AckOutcome) -> bool {
        self.process_dsack(ack);
        let Some(timeout) = self.loss.spurious.check(ack, self.rtt.min) else {
            self.loss.advance_frto(
                ack,
                self.negotiated.sack || self.snd.unsent().min(self.snd.usable_window()) >= self.pmtu.mss().into(),
            );
            return false;
        };
        self.snd.board.forgive();
        self.loss.on_spurious();
        self.stats.incidents_mut().spurious_recoveries += 1;
        self.observers.report(now, || ConnectionEvent::RecoveryUndone { timeout });
        if !timeout {
            // Eifel detects the spurious recovery before the D-SACK arrives. Without a larger reordering window, the
            // next ACK would mark the same data lost.
            self.loss.rack.widen(self.snd.una, self.snd.nxt);
        }
        let event = PathEvent::Spurious { now, timeout, in_flight: Bytes(self.loss.pipe(&self.snd.board)) };
        let path = self.cc.path(self.snd, self.loss, self.rtt, self.pmtu.mss());
        self.cc.controller.on_event(&event, &path);
        true
    }

    /// Processes a D-SACK, which reports an unnecessary retransmission. RACK treats it as a sign of reordering (RFC
    /// 8985, section 6.2), unless the sender itself has reordered the range.
    fn process_dsack(&mut self, ack: &AckOutcome) {
        let Some((left, right)) = ack.dsack else { return };
        self.stats.incidents_mut().dsacks += 1;
        if self.loss.spurious.on_dsack((left, right)) && !ack.is_swapped {
            self.loss.rack.widen(self.snd.una, self.snd.nxt);
        }
    }
}
