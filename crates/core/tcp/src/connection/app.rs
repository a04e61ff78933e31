//! User calls (RFC 9293, section 3.9.1).

use bytes::{Buf, Bytes};
use longhaul_cc::PathEvent;
use longhaul_units::Time;

use super::Pressure;
use crate::{Chunks, Connection, ConnectionError, Event, State};

/// Reason for which [`Connection::read`] or [`Connection::write`] did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Blocked {
    /// There is nothing to read, or no room to write. An [`Event`] follows when that changes.
    #[error("would block")]
    WouldBlock,
    /// This side was shut down for writing.
    #[error("shut down for writing")]
    ShutDown,
    /// The connection failed.
    #[error(transparent)]
    Failed(#[from] ConnectionError),
}

#[expect(clippy::multiple_inherent_impl, reason = "one file per phase")]
impl Connection {
    /// Queues a copy of as much of `data` as fits and returns its length in bytes.
    ///
    /// # Errors
    /// Returns [`Blocked::WouldBlock`] if the send buffer is full, or the reason why nothing can be written any more.
    pub fn write(&mut self, data: &[u8]) -> Result<usize, Blocked> {
        self.life.admit_writer(&mut self.snd)?;
        let taken = self.snd.write(data, self.pmtu.layout());
        if taken == 0 && !data.is_empty() {
            self.snd.block_writer();
            return Err(Blocked::WouldBlock);
        }
        Ok(taken)
    }

    /// Queues as much of `data` as fits, or what exceeds 256 KiB of copies, and leaves the rest in it. Chunks of at least 4 KiB are not
    /// copied if they are [`Bytes`], as in a chain of them.
    ///
    /// # Errors
    /// See [`write`](Self::write).
    pub fn write_bytes(&mut self, data: &mut impl Buf) -> Result<usize, Blocked> {
        self.life.admit_writer(&mut self.snd)?;
        let taken = self.snd.write_bytes(data, self.pmtu.layout());
        if taken == 0 && data.has_remaining() {
            self.snd.block_writer();
            return Err(Blocked::WouldBlock);
        }
        Ok(taken)
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
            && !self.snd.is_fin_queued()
            && !self.rcv.acks.is_due()
    }

    /// Returns the number of bytes that [`write`](Self::write) would accept.
    #[must_use]
    pub fn writable(&self) -> usize {
        if self.life.check_writable(&self.snd).is_ok() { self.snd.room() } else { 0 }
    }

    /// Returns whether [`write`](Self::write) would not return [`Blocked::WouldBlock`]. If it would, an
    /// [`Event::Writable`] follows.
    pub fn is_writable(&mut self) -> bool {
        let waits = match self.life.check_writable(&self.snd) {
            Ok(()) => self.snd.room() == 0,
            Err(blocked) => blocked == Blocked::WouldBlock,
        };
        if waits {
            self.snd.block_writer();
        }
        !waits
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
        self.life.state == State::CloseWait && self.rcv.unread() == 0
    }

    /// Returns whether nothing more can be written: the stream was shut down or the connection is over.
    #[must_use]
    pub fn is_write_closed(&self) -> bool {
        self.life.error.is_some() || self.life.check_writable(&self.snd) == Err(Blocked::ShutDown)
    }

    /// Returns the current configuration.
    #[must_use]
    pub fn config(&self) -> &crate::config::Config {
        &self.config
    }

    /// Returns up to `max` bytes of in-order data; an empty result means the end of the stream.
    ///
    /// # Errors
    /// Returns [`Blocked::WouldBlock`] if there is no data, or the error that ended the connection.
    pub fn read(&mut self, max: usize) -> Result<Bytes, Blocked> {
        if let Some(data) = self.rcv.read(max) {
            self.after_read();
            return Ok(data);
        }
        self.life.empty_read(&self.rcv).map(|()| Bytes::new())
    }

    /// Moves at most `max` bytes of in-order data to the end of `chunks`, without a copy, and returns their number; zero
    /// means the end of the stream, unless `max` is zero.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub fn read_chunks(&mut self, chunks: &mut Chunks, max: usize) -> Result<usize, Blocked> {
        let read = self.rcv.read_chunks(chunks, max);
        if read > 0 || max == 0 {
            self.after_read();
            return Ok(read);
        }
        self.life.empty_read(&self.rcv).map(|()| 0)
    }

    /// Copies in-order data into `buffer` and returns its length; zero means the end of the stream.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub fn read_into(&mut self, buffer: &mut [u8]) -> Result<usize, Blocked> {
        let read = self.rcv.read_into(buffer);
        if read > 0 || buffer.is_empty() {
            self.after_read();
            return Ok(read);
        }
        self.life.empty_read(&self.rcv).map(|()| 0)
    }

    /// Copies in-order data into `buffer` without consuming it.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub fn peek(&self, buffer: &mut [u8]) -> Result<usize, Blocked> {
        let seen = self.rcv.peek_into(buffer);
        if seen > 0 || buffer.is_empty() {
            return Ok(seen);
        }
        self.life.empty_read(&self.rcv).map(|()| 0)
    }

    /// Returns in-order data that arrived in one piece, without consuming it, and its offset in the stream; no data means
    /// the end of the stream. [`consume_to`](Self::consume_to) consumes it.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub fn front(&mut self) -> Result<(u64, Bytes), Blocked> {
        let offset = self.rcv.consumed();
        match self.rcv.front() {
            Some(data) => Ok((offset, data)),
            None => self.life.empty_read(&self.rcv).map(|()| (offset, Bytes::new())),
        }
    }

    /// Consumes in-order data before `offset`, as far as reads have not consumed it already.
    pub fn consume_to(&mut self, offset: u64) {
        let mut left = usize::try_from(offset.saturating_sub(self.rcv.consumed())).unwrap_or(usize::MAX);
        while let Some(data) = self.rcv.read(left) {
            left = left.saturating_sub(data.len());
        }
        self.after_read();
    }

    /// Returns the number of bytes that can be read.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.rcv.unread()
    }

    /// Returns whether a read would not return [`Blocked::WouldBlock`].
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.rcv.unread() > 0 || self.life.empty_read(&self.rcv) != Err(Blocked::WouldBlock)
    }

    /// Grows the receive buffer and announces a larger window, if the application has read enough.
    fn after_read(&mut self) {
        let rtt = self.rtt.srtt();
        if self.life.pressure == Pressure::None {
            self.rcv.tune(self.timers.now(), rtt);
        }
        if self.life.state.can_receive() && self.rcv.wants_update(self.negotiated.recv_shift, self.pmtu.mss()) {
            self.rcv.acks.request();
        }
    }

    /// Shuts down this side for writing: a FIN follows the queued data. Further calls have no effect.
    pub fn shutdown(&mut self) {
        if self.snd.is_fin_queued() {
            return;
        }
        match self.life.state {
            State::SynSent => {
                // RFC 9293, section 3.10.4: in SYN-SENT with no data queued, the connection is deleted.
                if self.snd.is_buffer_empty() {
                    self.finish(None);
                    return;
                }
            }
            State::SynReceived | State::Established => {}
            State::CloseWait => {}
            _ => return,
        }
        self.snd.queue_fin();
        self.advance_closing();
    }

    /// Changes state for a queued FIN once the handshake is complete (RFC 9293, section 3.10.4).
    pub(super) fn advance_closing(&mut self) {
        if !self.snd.is_fin_queued() {
            return;
        }
        match self.life.state {
            State::Established => self.enter(State::FinWait1),
            State::CloseWait => self.enter(State::LastAck),
            _ => {}
        }
    }

    /// Returns whether the peer has acknowledged all data and our FIN.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.snd.fin_acknowledged() || (self.life.state == State::Closed && self.life.error.is_none())
    }

    /// Handles the error that a datagram of the current size exceeds the MTU of the first hop.
    pub fn handle_too_long(&mut self, now: Time) {
        let now = self.timers.advance(now);
        self.pmtu.on_too_long(now);
    }

    /// Sets the endpoint's memory pressure.
    pub(crate) fn set_pressure(&mut self, pressure: Pressure) {
        self.life.pressure = pressure;
    }

    /// Shares with this connection what connections to the same host have found: its part of their congestion windows
    /// (RFC 9040, section 7). Ignored while data is in flight, before the handshake has completed, and by most controllers.
    pub fn share_window(&mut self, now: Time, window: longhaul_units::Bytes) {
        if self.state() == State::Established && !self.snd.has_outstanding() {
            self.control_loop().tell(&PathEvent::Shared { now, window });
        }
    }

    /// Disables or enables the Nagle algorithm.
    pub fn set_nodelay(&mut self, nodelay: bool) {
        self.snd.set_nodelay(nodelay);
    }

    /// Returns whether the Nagle algorithm is disabled.
    #[must_use]
    pub fn nodelay(&self) -> bool {
        self.snd.nodelay()
    }

    /// Changes settings of an open connection.
    pub fn update_config(&mut self, change: impl FnOnce(&mut crate::config::Config)) {
        let announce = self.peer.user_timeout.change(&mut self.config, self.rtt.rto(), change);
        self.snd.configure(&self.config);
        if self.snd.wake_writer() {
            self.life.events.raise(Event::Writable);
        }
        if self.life.state == State::Closed {
            return;
        }
        let now = self.timers.now();
        if announce {
            self.announce_user_timeout(now);
        }
        self.peer.arm_keep_alive(now, &self.config, self.life.state, &mut self.timers);
        if self.life.state.is_synchronized() {
            // During the handshake the timer is that of the SYN.
            self.arm_retransmission(now);
        }
        if self.cc.sending().is_some() {
            self.control_loop().refresh();
        } else {
            self.cc.configure(&self.config);
        }
    }
}
