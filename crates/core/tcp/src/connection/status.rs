//! What a connection shows: its state, its limits, and what it has found.

use std::sync::Arc;

use longhaul_cc::{Control, Estimate};
use longhaul_units::{Bytes, Span, Time};
use longhaul_wire::Header;

use super::lifecycle::Blocked;
use super::liveness::{R1, unanswered};
use super::{
    CongestionDriver, Extensions, Lifecycle, Liveness, Loss, Negotiated, Numbers, Pmtu, Receiver, Sender, Timer,
    Timers, moderation,
};
use crate::endpoint::TimeWaitRecord;
use crate::{Config, ConnectionError, HostError, Info, RttEstimator, SegmentRef, State, Stats};

pub(super) fn threshold(control: &Control) -> Option<Bytes> {
    control.ssthresh.filter(|ssthresh| *ssthresh < Bytes(u64::MAX))
}

/// View of a connection for applications, logs and tests. [`Connection::status`](crate::Connection::status) returns it.
pub struct Status<'a> {
    pub(super) config: &'a Arc<Config>,
    pub(super) life: &'a Lifecycle,
    pub(super) negotiated: &'a Negotiated,
    pub(super) numbers: &'a Numbers,
    pub(super) snd: &'a Sender,
    pub(super) rcv: &'a Receiver,
    pub(super) rtt: &'a RttEstimator,
    pub(super) loss: &'a Loss,
    pub(super) cc: &'a CongestionDriver,
    pub(super) pmtu: &'a Pmtu,
    pub(super) ext: &'a Extensions,
    pub(super) peer: &'a Liveness,
    pub(super) timers: &'a Timers,
    pub(super) stats: &'a Stats,
}

#[expect(clippy::multiple_inherent_impl, reason = "metrics for the cache have their file")]
impl Status<'_> {
    /// Returns a snapshot at `now`.
    #[must_use]
    pub fn info(&self, now: Time) -> Info {
        let mut info = self.cc.peek(|sending| {
            let now = now.max(self.timers.now);
            let stats = self.stats;
            let incidents = stats.incidents();
            let snapshot = sending.controller.snapshot();
            Info {
                state: self.life.state,
                initial_sequence: self.numbers.initial,
                congestion: sending.controller.name(),
                phase: snapshot.phase,
                startup: snapshot.startup,
                recovery: self.loss.recovery_state(),
                cwnd: sending.control.cwnd,
                ssthresh: threshold(&sending.control),
                delivery_rate: self.cc.rate.latest,
                bandwidth: snapshot.bandwidth,
                pacing_rate: sending.pacer.rate(),
                in_flight: Bytes(self.loss.pipe(&self.snd.board)),
                unacked_segments: self.snd.board.len() as u64,
                mss: self.pmtu.mss(),
                plpmtu: self.pmtu.current,
                srtt: self.rtt.srtt,
                rttvar: self.rtt.rttvar,
                latest_rtt: self.rtt.latest,
                rtt_samples: u64::from(self.rtt.samples),
                min_rtt: self.rtt.min,
                rto: self.rtt.rto(),
                backoff: self.rtt.backoff,
                peer_window: Bytes(self.snd.window),
                recv_buffer: Bytes(self.rcv.capacity),
                unread: Bytes::from(self.rcv.data.unread),
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
                echoes_asked: self.ext.ecn_check.marked,
                echoes_missing: self.ext.ecn_check.missing,
                host_error: self.peer.host_error.map(|(error, _)| error),
                host_errors: self.peer.host_errors,
                r1_reached: self.is_past_r1(),
                user_timeout: self.config.user_timeout,
                peer_user_timeout: self.peer.user_timeout.remote,
                delivered: self.cc.rate.delivered,
                limited: self.cc.limits.spent(now, self.life.state.is_synchronized()),
                age: now - self.life.created_at,
                memory: self.memory(),
            }
        });
        self.ext.list.iter().for_each(|extension| extension.info(self.snd, &mut info));
        info
    }

    /// Returns the controller's estimates of path properties; empty if it has none.
    #[must_use]
    pub fn estimates(&self) -> Vec<Estimate> {
        self.cc.peek(|sending| sending.controller.snapshot().estimates.iter().collect())
    }

    /// Returns whether the sender gains by waiting for the next write: the unsent data does not fill a batch yet, and
    /// data is in flight, so the path is not idle meanwhile, or the application `writes_next`.
    #[must_use]
    pub fn is_gathering(&self, writes_next: bool) -> bool {
        const BATCH: u64 = 64 << 10;
        let unsent = self.snd.unsent();
        unsent > 0
            && unsent < BATCH
            && !self.life.resets
            && (writes_next || self.snd.has_outstanding())
            && !self.snd.fin_queued
            && !self.rcv.acks.due
    }

    /// Returns the number of bytes that [`Writer::write`](super::Writer::write) would accept.
    #[must_use]
    pub fn writable(&self) -> usize {
        if self.life.check_writable(self.snd).is_ok() { self.snd.room() } else { 0 }
    }

    /// Returns whether all data of the peer's stream, up to its end, has arrived, whether read or not.
    #[must_use]
    pub fn is_read_closed(&self) -> bool {
        self.rcv.fin_reached() || self.life.state == State::Closed
    }

    /// Returns whether the peer's stream has been read to its end while ours has not ended: the application is likely
    /// to end it next.
    #[must_use]
    pub fn may_end_next(&self) -> bool {
        self.life.state == State::CloseWait && self.rcv.data.unread == 0
    }

    /// Returns whether nothing more can be written: the stream was shut down or the connection is over.
    #[must_use]
    pub fn is_write_closed(&self) -> bool {
        self.life.error.is_some() || self.life.check_writable(self.snd) == Err(Blocked::ShutDown)
    }

    /// Returns the number of bytes that can be read.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.rcv.data.unread
    }

    /// Returns whether a read would not return [`Blocked::WouldBlock`].
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.rcv.data.unread > 0 || self.life.empty_read(self.rcv) != Err(Blocked::WouldBlock)
    }

    /// Returns the error that ended the connection, or `None` if it is open or was closed normally.
    #[must_use]
    pub fn error(&self) -> Option<ConnectionError> {
        self.life.error
    }

    /// Returns whether the connection is closed and has no RST left to send, so it may be dropped.
    #[inline]
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.life.is_drained()
    }

    /// Returns whether the connection is half-open and `header` acknowledges another SYN than its own.
    pub(crate) fn is_other_handshake(&self, header: &Header) -> bool {
        let ack = self.numbers.our_offset(header.ack, self.snd.una);
        self.life.state == State::SynReceived && (ack < 1 || ack > self.snd.nxt as i64)
    }

    /// Returns the current configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        self.config
    }

    /// Calls `each` with the slices of a segment's payload in stream order.
    #[inline]
    pub fn payload(&self, segment: &SegmentRef, each: impl FnMut(&[u8])) {
        self.snd.payload(segment, each);
    }

    /// Returns whether the peer has acknowledged all data and our FIN.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.snd.fin_acknowledged() || (self.life.state == State::Closed && self.life.error.is_none())
    }

    /// Returns whether the Nagle algorithm is disabled.
    #[must_use]
    pub fn nodelay(&self) -> bool {
        self.snd.nodelay
    }

    /// Returns whether arriving data is discarded, and a RST follows what is queued.
    #[must_use]
    pub fn discards(&self) -> bool {
        self.life.resets
    }

    /// Returns the memory in bytes occupied by buffers and records, excluding the connection's own fixed size.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.snd.memory() + self.rcv.memory()
    }

    /// Returns the last host error unless a segment arrived from the peer since. It is the likely cause of a timeout.
    #[must_use]
    pub fn host_error(&self) -> Option<HostError> {
        let is_answered = |at| self.life.handshake.is_none() && at < self.peer.last_heard;
        self.peer.host_error.filter(|(_, at)| !is_answered(*at)).map(|(error, _)| error)
    }

    /// Returns whether R1 is reached: that many consecutive retransmissions, of a SYN as well, are unanswered.
    /// Zero-window probes count only if they are unanswered too.
    #[must_use]
    pub fn is_past_r1(&self) -> bool {
        unanswered(self.life.state, self.snd, self.rtt) >= R1
    }

    /// Returns the state of this connection to keep during TIME-WAIT.
    pub(crate) fn time_wait_record(&self) -> TimeWaitRecord {
        TimeWaitRecord {
            snd_nxt: self.numbers.sequence(self.snd.nxt),
            rcv_nxt: self.numbers.acknowledgment(self.rcv.next()),
            ts_recent: self.negotiated.timestamps.then_some(self.rcv.ts_recent),
            clock: self.numbers.clock,
            expires: self.timers.get(Timer::Linger).unwrap_or(self.timers.now),
            lasts: self.config.time_wait,
            answered_at: None,
        }
    }

    /// Returns the longest delay of a received segment that is small compared with the round-trip time, if known.
    pub(crate) fn tolerable_delay(&self) -> Option<Span> {
        self.rtt.srtt.map(|round_trip| round_trip / moderation::PART)
    }

    /// Returns the time for which the driver may leave further data of the peer unread. It is zero at the start of the
    /// connection and while the peer has requested an ACK per segment.
    pub(crate) fn read_patience(&self, now: Time) -> Span {
        if !self.config.moderation || self.rcv.acks.is_each_acknowledged(self.config.ack_every()) {
            return Span::ZERO;
        }
        self.rcv.inflow.patience(now, self.rtt.srtt)
    }
}
