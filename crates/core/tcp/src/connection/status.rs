//! Observable state of a connection: its state, limits and measurements.

use longhaul_cc::{Control, Estimate};
use longhaul_units::{Bytes, Span, Time};
use longhaul_wire::Header;

use super::lifecycle::Blocked;
use super::liveness::{R1, unanswered};
use super::{Connection, Timer, moderation};
use crate::endpoint::TimeWaitRecord;
use crate::{Config, ConnectionError, HostError, Info, SegmentRef, State};

pub(super) fn threshold(control: &Control) -> Option<Bytes> {
    control.ssthresh.filter(|ssthresh| *ssthresh < Bytes(u64::MAX))
}

/// View of a connection for applications, logs and tests. [`Connection::status`] returns it.
#[derive(Debug)]
pub struct Status<'a>(pub(super) &'a Connection);

#[expect(clippy::multiple_inherent_impl, reason = "metrics for the cache have their file")]
impl Status<'_> {
    /// Returns a snapshot at `now`.
    #[must_use]
    pub fn info(&self, now: Time) -> Info {
        let (now, incidents) = (now.max(self.0.timers.now), self.0.stats.incidents());
        let mut info = self.0.cc.peek(|sending| Info::new(self, now, sending, incidents));
        self.0.ext.list.iter().for_each(|extension| extension.info(&self.0.snd, &mut info));
        info
    }

    /// Returns the controller's estimates of path properties; empty if it has none.
    #[must_use]
    pub fn estimates(&self) -> Vec<Estimate> {
        self.0.cc.peek(|sending| sending.controller.snapshot().estimates.iter().collect())
    }

    /// Returns whether the sender benefits from waiting for the next write: the unsent data does not fill a batch yet,
    /// and either data is in flight, so that the path is not idle, or the application `writes_next`.
    #[must_use]
    pub fn is_gathering(&self, writes_next: bool) -> bool {
        const BATCH: u64 = 64 << 10;
        let unsent = self.0.snd.unsent();
        unsent > 0
            && unsent < BATCH
            && !self.0.life.resets
            && (writes_next || self.0.snd.has_outstanding())
            && !self.0.snd.fin_queued
            && !self.0.rcv.acks.due
    }

    /// Returns the number of bytes that [`Writer::write`](super::Writer::write) would accept.
    #[must_use]
    pub fn writable(&self) -> usize {
        if self.0.life.check_writable(&self.0.snd).is_ok() { self.0.snd.room() } else { 0 }
    }

    /// Returns whether all data of the peer's stream, up to its end, has arrived, whether read or not.
    #[must_use]
    pub fn is_read_closed(&self) -> bool {
        self.0.rcv.fin_reached() || self.0.life.state == State::Closed
    }

    /// Returns whether the peer's stream has been read to its end while ours has not ended: the application is likely
    /// to end it next.
    #[must_use]
    pub fn may_end_next(&self) -> bool {
        self.0.life.state == State::CloseWait && self.0.rcv.data.unread == 0
    }

    /// Returns whether nothing more can be written: the stream was shut down or the connection is over.
    #[must_use]
    pub fn is_write_closed(&self) -> bool {
        self.0.life.error.is_some() || self.0.life.check_writable(&self.0.snd) == Err(Blocked::ShutDown)
    }

    /// Returns the number of bytes that can be read.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.0.rcv.data.unread
    }

    /// Returns whether a read would not return [`Blocked::WouldBlock`].
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.0.rcv.data.unread > 0 || self.0.life.empty_read(&self.0.rcv) != Err(Blocked::WouldBlock)
    }

    /// Returns the error that ended the connection, or `None` if it is open or was closed normally.
    #[must_use]
    pub fn error(&self) -> Option<ConnectionError> {
        self.0.life.error
    }

    /// Returns whether the connection is closed and has no RST left to send, so it may be dropped.
    #[inline]
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.0.life.is_drained()
    }

    /// Returns whether the connection is half-open and `header` acknowledges another SYN than its own.
    pub(crate) fn is_other_handshake(&self, header: &Header) -> bool {
        let ack = self.0.numbers.our_offset(header.ack, self.0.snd.una);
        self.0.life.state == State::SynReceived && (ack < 1 || ack > self.0.snd.nxt as i64)
    }

    /// Returns the current configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// Calls `each` with the slices of a segment's payload in stream order.
    #[inline]
    pub fn payload(&self, segment: &SegmentRef, each: impl FnMut(&[u8])) {
        self.0.snd.payload(segment, each);
    }

    /// Returns whether the peer has acknowledged all data and our FIN.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.snd.fin_acknowledged() || (self.0.life.state == State::Closed && self.0.life.error.is_none())
    }

    /// Returns whether the Nagle algorithm is disabled.
    #[must_use]
    pub fn nodelay(&self) -> bool {
        self.0.snd.nodelay
    }

    /// Returns whether arriving data is discarded, and a RST follows the queued data.
    #[must_use]
    pub fn discards(&self) -> bool {
        self.0.life.resets
    }

    /// Returns the memory in bytes occupied by buffers and records, excluding the connection's own fixed size.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.0.snd.memory() + self.0.rcv.memory()
    }

    /// Returns the last host error unless a segment arrived from the peer since. It is the likely cause of a timeout.
    #[must_use]
    pub fn host_error(&self) -> Option<HostError> {
        let is_answered = |at| self.0.life.handshake.is_none() && at < self.0.peer.last_heard;
        self.0.peer.host_error.filter(|(_, at)| !is_answered(*at)).map(|(error, _)| error)
    }

    /// Returns whether R1 is reached: that many consecutive retransmissions, of a SYN as well, are unanswered.
    /// Zero-window probes count only if they are also unanswered.
    #[must_use]
    pub fn is_past_r1(&self) -> bool {
        unanswered(self.0.life.state, &self.0.snd, &self.0.rtt) >= R1
    }

    pub(crate) fn time_wait_record(&self) -> TimeWaitRecord {
        TimeWaitRecord {
            snd_nxt: self.0.numbers.sequence(self.0.snd.nxt),
            rcv_nxt: self.0.numbers.acknowledgment(self.0.rcv.next()),
            ts_recent: self.0.negotiated.timestamps.then_some(self.0.rcv.ts_recent),
            clock: self.0.numbers.clock,
            expires: self.0.timers.get(Timer::Linger).unwrap_or(self.0.timers.now),
            lasts: self.0.config.time_wait,
            answered_at: None,
        }
    }

    /// Returns the longest delay of a received segment that is small compared with the round-trip time, if known.
    pub(crate) fn tolerable_delay(&self) -> Option<Span> {
        self.0.rtt.srtt.map(|round_trip| round_trip / moderation::PART)
    }

    /// Returns the time for which the driver may leave further data of the peer unread. It is zero at the start of the
    /// connection and while the peer requests one ACK per segment.
    pub(crate) fn read_patience(&self, now: Time) -> Span {
        if !self.0.config.moderation || self.0.rcv.acks.is_each_acknowledged(self.0.config.ack_every()) {
            return Span::ZERO;
        }
        self.0.rcv.inflow.patience(now, self.0.rtt.srtt)
    }
}
