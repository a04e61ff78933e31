//! Loss detection and recovery episodes: RACK-TLP (RFC 8985), SACK counting (RFC 6675), duplicate ACKs (RFC 6582),
//! retransmission timeouts (RFC 6298), and the detection of spurious ones (RFC 3522, RFC 4015, RFC 5682).
//!
//! What is lost is decided here; what a loss means for the window is the controller's.

use longhaul_cc::{Detection, Episode, PathEvent, Timeout, TxId};
use longhaul_units::{Bytes, Span, Time};

use super::timers::Timer;
use super::{Connection, State};
use crate::error::ConnectionError;
use crate::scoreboard::{Record, Scoreboard};

mod detect;
mod outage;
mod spurious;
mod tail_probe;

use outage::Outage;
use spurious::{Eifel, Frto, Undo};
use tail_probe::TailProbe;

/// RFC 5681, section 3.2: three duplicates.
const DUP_THRESH: u32 = 3;
/// RFC 8985, section 6.2: recoveries after which an enlarged reordering window shrinks again.
const REO_WND_PERSIST: u32 = 16;
/// RFC 9293, section 3.8.3: R2 is at least 100 seconds; this many timeouts in a row take about 15 minutes at most.
const MAX_TIMEOUTS: u32 = 15;
/// Repetitions of a FIN that answers the peer's, with nothing else unacknowledged: a peer that closed and then ended
/// its process will never answer. About a minute and a half with the least RTO.
const MAX_FIN_TIMEOUTS: u32 = 8;
/// RFC 9293, section 3.8.3: how long a silent peer is not given up, at least 100 s; longer than the longest timeout, so
/// that one which answers every retransmission is never silent.
const R2: Span = Span::from_secs(250);
/// A sender silent for so long gives back the memory that it keeps for speed.
const REST_AFTER: Span = Span::from_secs(2);

/// Where repair stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing is under repair.
    #[default]
    Open,
    /// Fast recovery until the offset is acknowledged.
    Recovery(u64),
    /// After a timeout, until the offset is acknowledged.
    Timeout(u64),
}

/// RACK's state (RFC 8985, section 5.3).
#[derive(Clone, Debug, Default)]
pub(super) struct Rack {
    /// Send time, transmission and end of the newest delivered segment by send time. Of those that left at one time the
    /// order of sending decides: by sequence numbers, as in RFC 8985, section 6.2, a retransmission would be overtaken by
    /// what left just before it.
    xmit_at: Time,
    tx: TxId,
    end: u64,
    rtt: Span,
    /// The highest delivered offset.
    fack: u64,
    reordering_seen: bool,
    reo_wnd_mult: u32,
    reo_wnd_persist: u32,
    dsack_round: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Loss {
    pub(super) detection: Detection,
    pub(super) phase: Phase,
    pub(super) rack: Rack,
    tail_probe: Option<TailProbe>,
    /// An RTT sample was taken since the last probe.
    probe_allowed: bool,
    undo: Option<Undo>,
    frto: Option<Frto>,
    /// A retransmission of a transmission after this one begins a new episode when lost itself.
    episode_tx: TxId,
    /// One retransmission must leave, whatever the window says.
    pub(super) forced: bool,
    /// A segment to send as tail loss probe.
    pub(super) probe: Option<u64>,
    /// New segments that may exceed the window: a tail loss probe's, F-RTO's two.
    extra: u32,
    duplicates: u32,
    /// Without SACK: bytes that duplicate ACKs say were delivered (RFC 9937, section 6.2).
    emulated: u64,
    /// RFC 6675: the next offset to be considered for a verdict, and HighRxt and RescueRxt.
    verdict_from: u64,
    high_rxt: u64,
    /// The end of what was ever retransmitted.
    retransmitted_to: u64,
    /// Bytes ever retransmitted that no D-SACK has named.
    unreported: u64,
    /// The least round trip, as known before the ACK that is processed.
    least_rtt: Option<Span>,
    rescue_rxt: Option<u64>,
    timeouts: u32,
    outage: Option<Outage>,
    /// A tail loss probe turned out to have repaired a loss.
    tail_repaired: bool,
    /// Bytes of path MTU probes among those newly lost.
    mtu_probe_lost: u64,
}

impl Loss {
    pub(super) fn new() -> Self {
        Self {
            detection: Detection::RackTlp,
            phase: Phase::Open,
            rack: Rack { reo_wnd_mult: 1, reo_wnd_persist: REO_WND_PERSIST, ..Rack::default() },
            tail_probe: None,
            probe_allowed: true,
            undo: None,
            frto: None,
            episode_tx: TxId(0),
            forced: false,
            probe: None,
            extra: 0,
            duplicates: 0,
            emulated: 0,
            verdict_from: 0,
            high_rxt: 0,
            retransmitted_to: 0,
            unreported: 0,
            least_rtt: None,
            rescue_rxt: None,
            timeouts: 0,
            outage: None,
            tail_repaired: false,
            mtu_probe_lost: 0,
        }
    }

    /// Whether fast recovery is under way.
    pub(super) fn is_recovering(&self) -> bool {
        matches!(self.phase, Phase::Recovery(_))
    }

    pub(super) fn is_repairing(&self) -> bool {
        self.phase != Phase::Open
    }

    /// Whether something beside lost and new data is to be sent.
    pub(super) fn wants_to_send(&self) -> bool {
        self.probe.is_some() || (self.detection == Detection::Sack && self.is_repairing())
    }

    /// The end of what was ever retransmitted.
    pub(super) fn retransmitted_to(&self) -> u64 {
        self.retransmitted_to
    }

    /// A probe brought what was lost: to the controller that is a loss, as one that a tail loss probe repairs is (RFC 8985,
    /// section 7.4).
    pub(super) fn on_probe_repair(&mut self) {
        self.tail_repaired |= !self.is_repairing();
    }

    /// Room that new segments have whatever the window says.
    pub(super) fn allowance(&self, mss: u16) -> u64 {
        u64::from(self.extra) * u64::from(mss)
    }

    /// The scoreboard's records were cut anew: what was known of them by index is void.
    pub(super) fn on_renumbered(&mut self) {
        self.probe = None;
        self.verdict_from = 0;
    }

    /// An RTT sample was taken: another tail loss probe may be sent (RFC 8985, section 7.3).
    pub(super) fn allow_probe(&mut self) {
        self.probe_allowed = true;
    }

    pub(super) fn on_new_data(&mut self) {
        self.extra = self.extra.saturating_sub(1);
        self.forced = false;
    }

    pub(super) fn on_retransmit(&mut self, record: &Record, value: u32) {
        self.forced = false;
        self.probe = None;
        self.high_rxt = self.high_rxt.max(record.end());
        self.retransmitted_to = self.retransmitted_to.max(record.end());
        self.unreported += record.sequence_len();
        if let Some(undo) = &mut self.undo {
            undo.any = true;
            undo.retransmitted += record.sequence_len();
            undo.bytes += record.sequence_len();
            if let Eifel::Unsent = undo.eifel {
                undo.eifel = Eifel::Sent(value);
            }
        }
    }

    /// RFC 6675, section 4, NextSeg rules 3 and 4: when neither lost nor new data can go, the lowest segment in doubt,
    /// and once an episode the highest one.
    pub(super) fn rescue(&mut self, board: &Scoreboard, room: u64, new_data: bool, mss: u16) -> Option<u64> {
        if self.detection != Detection::Sack || room < u64::from(mss) || new_data {
            return None;
        }
        let Phase::Recovery(point) = self.phase else { return None };
        let in_doubt = board.next_in_doubt(self.high_rxt);
        if in_doubt.is_some() {
            return in_doubt;
        }
        let una = board.front()?.1.start;
        if self.rescue_rxt.is_some_and(|r| una <= r) {
            return None;
        }
        self.rescue_rxt = Some(point);
        board.last_unsacked_below(u64::MAX)
    }

    /// The longest time that a segment may be overtaken (RFC 8985, section 6.2, step 4).
    fn reordering_window(&self, board: &Scoreboard, mss: u16, min_rtt: Option<Span>, srtt: Option<Span>) -> Span {
        let many = board.sacked_bytes() >= u64::from(DUP_THRESH) * u64::from(mss);
        if !self.rack.reordering_seen && (self.is_repairing() || many) {
            return Span::ZERO;
        }
        let quarter = min_rtt.unwrap_or(Span::ZERO) / 4;
        (quarter * u64::from(self.rack.reo_wnd_mult)).min(srtt.unwrap_or(Span::MAX))
    }

    /// Digests a delivered segment (RFC 8985, section 6.2, steps 2 and 3). `ambiguous` says that the ACK may be of an
    /// earlier transmission.
    pub(super) fn on_delivered(&mut self, record: &Record, sent_at: Time, at: Time, ambiguous: bool) {
        if record.end() > self.rack.fack {
            self.rack.fack = record.end();
        } else if !record.is_retransmitted() && !record.is_flipped() && !record.is_copied() {
            self.rack.reordering_seen = true;
        }
        if let Some(undo) = self.undo.as_mut().filter(|_| record.is_retransmitted()) {
            match self.least_rtt {
                Some(least) if at - sent_at < least && !record.is_copied() => {
                    undo.answers.early += record.sequence_len()
                }
                _ => undo.answers.late = true,
            }
        }
        if ambiguous {
            return;
        }
        if (sent_at, record.tx, record.end()) > (self.rack.xmit_at, self.rack.tx, self.rack.end) {
            self.rack.rtt = at - sent_at;
            (self.rack.xmit_at, self.rack.tx, self.rack.end) = (sent_at, record.tx, record.end());
        }
    }

    /// Whether the delivery of `record` shows that the timeout was spurious (RFC 5682, section 3.1, step 3b).
    pub(super) fn proves_spurious(&self, record: &Record) -> bool {
        self.frto.is_some_and(|f| !record.is_retransmitted() && !record.is_copied() && record.tx <= f.before)
    }
}

/// What one ACK did, as far as loss recovery must know.
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
    /// Bytes in flight: the scoreboard's, less what duplicate ACKs say was delivered when there is no SACK.
    pub(super) fn pipe(&self) -> u64 {
        self.snd.board.in_flight().saturating_sub(self.loss.emulated)
    }

    /// Runs the detection in force after an ACK; returns bytes newly held lost and the episode's state.
    pub(super) fn detect_losses(&mut self, at: Time, ack: &AckOutcome) -> (u64, Episode) {
        self.count_duplicates(ack);
        self.check_tail_probe(ack);
        let before = self.snd.board.lost_bytes();
        let retransmission_lost = self.mark_losses(at, ack);
        let newly_lost = self.snd.board.lost_bytes().saturating_sub(before);
        self.count_lost(newly_lost);
        (newly_lost, self.update_episode(newly_lost, retransmission_lost))
    }

    fn count_lost(&mut self, bytes: u64) {
        self.cc.rate.lost += bytes;
        self.stats.bytes_lost += bytes;
    }

    /// Begins, continues or ends an episode.
    fn update_episode(&mut self, newly_lost: u64, retransmission_lost: bool) -> Episode {
        // A lost path MTU probe says nothing of congestion (RFC 8899, section 3).
        let congestion = newly_lost > std::mem::take(&mut self.loss.mtu_probe_lost);
        let repaired = std::mem::take(&mut self.loss.tail_repaired);
        let una = self.snd.una;
        match self.loss.phase {
            Phase::Open if congestion || repaired => {
                self.begin_episode(Phase::Recovery(self.snd.nxt), false);
                self.loss.forced = congestion;
                Episode::Enter
            }
            Phase::Open => Episode::None,
            Phase::Recovery(point) if una >= point => {
                self.end_episode();
                if congestion {
                    self.begin_episode(Phase::Recovery(self.snd.nxt), false);
                    self.loss.forced = true;
                    return Episode::Enter;
                }
                Episode::Exit
            }
            Phase::Recovery(_) if retransmission_lost => {
                self.begin_episode(Phase::Recovery(self.snd.nxt), false);
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
        // While retransmissions of an earlier episode are unacknowledged, what answers them would be taken for an answer
        // to those of this one: nothing can be told. Nor can what went before a second reduction be undone any more.
        let is_clear = self.loss.retransmitted_to <= self.snd.una;
        let is_first = self.loss.phase == Phase::Open && is_clear;
        let may_undo = timeout || is_first;
        if self.loss.phase == Phase::Open {
            self.ext.ecn_check.on_episode();
        }
        let eifel = if is_clear { Eifel::Unsent } else { Eifel::Over };
        self.loss.undo = may_undo.then(|| Undo { marker: self.snd.una, timeout, eifel, ..Undo::default() });
        self.loss.phase = phase;
        self.loss.episode_tx = self.snd.board.last_tx();
        self.loss.tail_probe = None;
        self.loss.high_rxt = 0;
        self.loss.rescue_rxt = None;
        self.cc.congestion_seen = true;
        self.timers.stop(Timer::Probe);
        self.stats.recoveries += 1;
    }

    fn end_episode(&mut self) {
        self.loss.phase = Phase::Open;
        self.loss.frto = None;
        self.loss.emulated = 0;
        self.loss.duplicates = 0;
        self.loss.forced = false;
        let rack = &mut self.loss.rack;
        rack.reo_wnd_persist = rack.reo_wnd_persist.saturating_sub(1);
        if rack.reo_wnd_persist == 0 {
            rack.reo_wnd_mult = 1;
        }
    }

    /// Arms the retransmission timer and the tail loss probe, as there is something in flight or not
    /// (RFC 6298, section 5; RFC 8985, section 7.2).
    pub(super) fn arm_retransmission(&mut self, now: Time) {
        if self.snd.board.is_empty() {
            self.timers.stop(Timer::Rto);
            self.timers.stop(Timer::Probe);
            self.timers.stop(Timer::Reorder);
            self.timers.stop(Timer::User);
            self.timers.arm(Timer::Rest, now + REST_AFTER);
            self.peer.stalled_since = None;
            return;
        }
        self.timers.stop(Timer::Rest);
        self.arm_user_timeout(now);
        if self.snd.persist.in_flight {
            // A probe of a closed window is repeated by a timer of its own.
            self.timers.stop(Timer::Rto);
            self.timers.stop(Timer::Probe);
            return;
        }
        if !self.timers.is_armed(Timer::Rto) {
            self.timers.arm(Timer::Rto, now + self.rtt.rto());
        }
        let probing = self.loss.detection == Detection::RackTlp
            && self.negotiated.sack
            && !self.loss.is_repairing()
            && self.snd.board.sacked_bytes() == 0
            && self.loss.tail_probe.is_none()
            && self.loss.probe_allowed;
        if probing {
            self.timers.arm(Timer::Probe, self.probe_deadline(now));
        } else {
            self.timers.set(Timer::Probe, self.outage_probe_at());
        }
    }

    /// Arms the user timeout if data is unacknowledged (RFC 9293, section 3.8.3).
    pub(super) fn arm_user_timeout(&mut self, now: Time) {
        if self.snd.board.is_empty() {
            return;
        }
        let since = *self.peer.stalled_since.get_or_insert(now);
        if let Some(limit) = self.config.user_timeout {
            self.timers.arm(Timer::User, since + limit);
        }
    }

    /// RFC 8985, section 6.3: the reordering window has passed.
    pub(super) fn on_reorder_timeout(&mut self, now: Time) {
        let before = self.snd.board.lost_bytes();
        let again = self.rack_detect(now);
        let lost = self.snd.board.lost_bytes().saturating_sub(before);
        self.count_lost(lost);
        if lost > 0 {
            let episode = self.update_episode(lost, again);
            self.report_timer_losses(now, lost, episode);
        }
    }

    /// RFC 6298, section 5.4 to 5.6; RFC 8985, section 6.3, on what is then held lost.
    pub(super) fn on_retransmission_timeout(&mut self, now: Time) {
        if self.life.state == State::SynSent || self.life.state == State::SynReceived {
            self.retransmit_syn(now);
            return;
        }
        let Some((index, front)) = self.snd.board.front().map(|(i, r)| (i, *r)) else { return };
        self.loss.timeouts += 1;
        if self.loss.timeouts > MAX_FIN_TIMEOUTS && self.only_fin_unanswered() {
            // Everything written was acknowledged and the peer had said goodbye: it is gone.
            self.finish(None);
            return;
        }
        // A peer that still answers, with its window closed below what is in flight, is not given up (MUST-37).
        let silent = now - self.peer.last_heard >= R2;
        if self.loss.timeouts > MAX_TIMEOUTS && silent && self.config.user_timeout.is_none() {
            self.finish(Some(ConnectionError::TimedOut));
            return;
        }
        if front.is_sacked() {
            self.renege();
        }
        let first = !matches!(self.loss.phase, Phase::Timeout(_));
        if first {
            self.consider_outage(now);
        }
        self.put_off_outage_probe(now);
        self.begin_episode(Phase::Timeout(self.snd.nxt), first);
        if first {
            self.loss.frto = Some(Frto { before: self.snd.board.last_tx(), second_step: false });
        } else {
            self.loss.frto = None;
        }
        (self.loss.emulated, self.loss.duplicates) = (0, 0);
        let flight = self.snd.flight_size();
        self.forget_probes();
        self.mark_timed_out(now, index);
        if self.pmtu.on_timeout(now, self.loss.timeouts) {
            self.change_mss(now);
        }
        self.rtt.back_off();
        self.loss.forced = true;
        self.stats.timeouts += 1;
        let mut event = Timeout::new(now, self.loss.timeouts, Bytes(flight));
        event.in_flight = Bytes(self.pipe());
        let path = self.path();
        self.cc.controller.on_timeout(&event, &path);
        self.refresh_control();
        self.timers.arm(Timer::Rto, now + self.rtt.rto());
    }

    /// The first segment, and with RACK those overdue by its clock; without it everything in flight.
    fn mark_timed_out(&mut self, now: Time, first: u64) {
        let before = self.snd.board.lost_bytes();
        self.snd.board.mark_lost(first);
        let all = self.loss.detection != Detection::RackTlp || self.loss.timeouts > 1;
        let wait = self.loss.rack.rtt + (self.rtt.min().unwrap_or(Span::ZERO) / 4);
        while let Some(index) = self.snd.board.oldest_sent() {
            let Some(record) = self.snd.board.get(index).copied() else { break };
            if !all && self.snd.board.burst_of(&record).sent_at + wait > now {
                break;
            }
            self.snd.board.mark_lost(index);
            if record.is_mtu_probe() {
                self.pmtu.on_probe_lost(now);
            }
        }
        let lost = self.snd.board.lost_bytes().saturating_sub(before);
        self.count_lost(lost);
    }

    /// Whether only our FIN is unacknowledged, and the peer's has come.
    fn only_fin_unanswered(&self) -> bool {
        matches!(self.life.state, State::LastAck | State::Closing) && self.snd.una >= self.snd.buffer.end()
    }

    /// The segment size changed: what is in flight and longer is cut, the controller is told.
    pub(super) fn change_mss(&mut self, now: Time) {
        let mss = self.mss();
        self.snd.board.resegment(mss);
        self.loss.on_renumbered();
        let event = PathEvent::Mss { now, old: self.cc.mss };
        self.cc.mss = Bytes::from(mss);
        let path = self.path();
        self.cc.controller.on_event(&event, &path);
        self.refresh_control();
    }

    /// New data was acknowledged.
    pub(super) fn on_progress(&mut self, now: Time) {
        self.rtt.on_progress();
        self.loss.timeouts = 0;
        self.loss.outage = None;
        self.peer.stalled_since = None;
        self.timers.stop(Timer::Rto);
        self.arm_retransmission(now);
    }
}
