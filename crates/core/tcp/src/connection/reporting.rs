//! Snapshots of a connection for applications, logs and tests.

use longhaul_cc::{Control, Estimate};
use longhaul_units::{Bytes, Span, Time};

use super::host_errors::{R1, unanswered};
use super::{Timer, moderation};
use crate::endpoint::TimeWaitRecord;
use crate::{Connection, HostError, Info, State};

/// Returns the slow-start threshold, if one is set.
pub(super) fn threshold(control: &Control) -> Option<Bytes> {
    control.ssthresh.filter(|ssthresh| *ssthresh < Bytes(u64::MAX))
}

#[expect(clippy::multiple_inherent_impl, reason = "one file per phase")]
impl Connection {
    /// Returns the controller's estimates of path properties; empty if it has none.
    #[must_use]
    pub fn estimates(&self) -> Vec<Estimate> {
        self.cc.peek(|sending| sending.controller.snapshot().estimates.iter().collect())
    }

    /// Returns a snapshot at `now`.
    #[must_use]
    pub fn info(&self, now: Time) -> Info {
        let mut info = self.cc.peek(|sending| {
            let now = now.max(self.timers.now());
            let stats = &self.stats;
            let incidents = stats.incidents();
            let echoes = self.ext.ecn_check.counts();
            let snapshot = sending.controller.snapshot();
            Info {
                state: self.life.state,
                initial_sequence: self.numbers.initial(),
                congestion: sending.controller.name(),
                phase: snapshot.phase,
                startup: snapshot.startup,
                recovery: self.loss.recovery_state(),
                cwnd: sending.control.cwnd,
                ssthresh: threshold(&sending.control),
                delivery_rate: self.cc.rate.latest,
                bandwidth: snapshot.bandwidth,
                pacing_rate: sending.pacer.rate(),
                in_flight: Bytes(self.loss.pipe(self.snd.board())),
                unacked_segments: self.snd.board().len() as u64,
                mss: self.pmtu.mss(),
                plpmtu: self.pmtu.current(),
                srtt: self.rtt.srtt(),
                rttvar: self.rtt.rttvar(),
                latest_rtt: self.rtt.latest(),
                rtt_samples: u64::from(self.rtt.samples()),
                min_rtt: self.rtt.min(),
                rto: self.rtt.rto(),
                backoff: self.rtt.backoff(),
                peer_window: Bytes(self.snd.window()),
                recv_buffer: Bytes(self.rcv.capacity()),
                unread: Bytes::from(self.rcv.unread()),
                unsent: Bytes(self.snd.unsent()),
                options: self.negotiated.options(),
                arrival_times: self.ext.arrivals.is_some(),
                pairs: None,
                network: None,
                saved_path: self.cc.saved_path_info(),
                ack_rate: None,
                probes: None,
                bytes_acked: stats.bytes_acked,
                bytes_sent: stats.bytes_sent + incidents.bytes_retransmitted,
                bytes_retransmitted: incidents.bytes_retransmitted,
                bytes_received: stats.bytes_received,
                bytes_lost: incidents.bytes_lost,
                duplicate_bytes_in: incidents.duplicate_bytes_in,
                bytes_refused: incidents.bytes_refused,
                segments_in: stats.segments_in,
                segments_out: stats.segments_out,
                data_segments_out: stats.data_segments_out,
                segments_retransmitted: incidents.segments_retransmitted,
                timeouts: incidents.timeouts,
                tail_probes: incidents.tail_probes,
                recoveries: incidents.recoveries,
                spurious_recoveries: incidents.spurious_recoveries,
                dsacks: incidents.dsacks,
                challenge_acks: incidents.challenge_acks,
                paws_dropped: incidents.paws_dropped,
                windows_shrunk: incidents.windows_shrunk,
                ce_in: incidents.ce_in,
                echoes_asked: echoes.asked,
                echoes_missing: echoes.missing,
                host_error: self.peer.host_errors.last(),
                host_errors: self.peer.host_errors.count(),
                r1_reached: self.is_past_r1(),
                user_timeout: self.config.user_timeout,
                peer_user_timeout: self.peer.user_timeout.remote(),
                delivered: self.cc.rate.delivered,
                limited: self.cc.limits.spent(now, self.life.state.is_synchronized()),
                age: now - self.life.created_at,
                memory: self.memory(),
            }
        });
        self.ext.describe(&self.snd, &mut info);
        info
    }

    /// Returns the memory in bytes occupied by buffers and records, excluding the connection's own fixed size.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.snd.memory() + self.rcv.memory()
    }

    /// Returns the state of this connection to keep during TIME-WAIT.
    pub(crate) fn time_wait_record(&self) -> TimeWaitRecord {
        TimeWaitRecord {
            snd_nxt: self.numbers.sequence(self.snd.nxt()),
            rcv_nxt: self.numbers.acknowledgment(self.rcv.next()),
            ts_recent: self.negotiated.timestamps.then_some(self.rcv.ts_recent()),
            clock: self.numbers.clock,
            window: u16::MAX,
            expires: self.timers.get(Timer::Linger).unwrap_or(self.timers.now()),
            lasts: self.config.time_wait,
            answered_at: None,
        }
    }

    /// Returns the last host error unless a segment arrived from the peer since. It is the likely cause of a timeout.
    #[must_use]
    pub fn host_error(&self) -> Option<HostError> {
        let heard_after = |at| self.life.handshake.is_none() && self.peer.was_heard_after(at);
        self.peer.host_errors.unanswered(heard_after)
    }

    /// Returns whether R1 is reached: that many consecutive retransmissions, of a SYN as well, are unanswered.
    /// Zero-window probes count only if they are unanswered too.
    #[must_use]
    pub fn is_past_r1(&self) -> bool {
        unanswered(self.life.state, &self.snd, &self.rtt) >= R1
    }

    /// Returns the longest delay of a received segment that is small compared with the round-trip time, if known.
    pub(crate) fn tolerable_delay(&self) -> Option<Span> {
        moderation::tolerable_delay(&self.rtt)
    }

    /// Returns the time for which the driver may leave further data of the peer unread. It is zero at the start of the
    /// connection and while the peer has requested an ACK per segment.
    pub(crate) fn read_patience(&self, now: Time) -> Span {
        if !self.config.moderation || self.rcv.acks.is_each_acknowledged(self.config.ack_every()) {
            return Span::ZERO;
        }
        self.rcv.inflow.patience(now, self.rtt.srtt())
    }

    /// Returns once whether the connection may rest: it has been idle for long enough, or woken by a call without effect.
    pub(crate) fn may_rest(&mut self) -> bool {
        std::mem::take(&mut self.life.may_rest)
    }

    /// Records that the connection has woken.
    pub(crate) fn note_waking(&mut self) {
        self.life.woken_at = Some(self.stats.segments());
    }

    /// Ends the call that has woken the connection, if one has: it rests again at once after a call without effect, and
    /// otherwise after another idle period, unless it has sent data or does not wait for any more.
    pub(crate) fn settle_after_waking(&mut self, now: Time) {
        let Some(segments) = self.life.woken_at.take() else { return };
        if segments == self.stats.segments() {
            self.life.may_rest = true;
        } else if self.life.state == State::Established && !self.snd.has_outstanding() {
            self.timers.arm(Timer::Idle, now + self.rtt.base_rto());
        }
    }
}
