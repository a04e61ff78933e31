//! Reading of the peer's stream (RFC 9293, section 3.9.1.3).

use bytes::Bytes;
use longhaul_units::Time;

use super::lifecycle::Blocked;
use super::{Lifecycle, Negotiated, Pressure, Receiver};
use crate::{Chunks, RttEstimator};

/// Receive side of a connection for the application. [`Connection::reader`](crate::Connection::reader) returns it.
pub struct Reader<'a> {
    pub(super) now: Time,
    pub(super) life: &'a Lifecycle,
    pub(super) negotiated: &'a Negotiated,
    pub(super) rtt: &'a RttEstimator,
    pub(super) mss: u16,
    pub(super) rcv: &'a mut Receiver,
}

impl Reader<'_> {
    /// Returns up to `max` bytes of in-order data; an empty result means the end of the stream.
    ///
    /// # Errors
    /// Returns [`Blocked::WouldBlock`] if there is no data, or the error that ended the connection.
    pub fn read(&mut self, max: usize) -> Result<Bytes, Blocked> {
        if let Some(data) = self.rcv.data.read(max) {
            self.after_read(data.len());
            return Ok(data);
        }
        self.life.empty_read(self.rcv).map(|()| Bytes::new())
    }

    /// Moves at most `max` bytes of in-order data to the end of `chunks`, without a copy, and returns their number; zero
    /// means the end of the stream, unless `max` is zero.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub fn read_chunks(&mut self, chunks: &mut Chunks, max: usize) -> Result<usize, Blocked> {
        let read = self.rcv.data.read_chunks(chunks, max);
        self.result(read, max == 0)
    }

    /// Copies in-order data into `buffer` and returns its length; zero means the end of the stream.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub fn read_into(&mut self, buffer: &mut [u8]) -> Result<usize, Blocked> {
        let read = self.rcv.data.read_into(buffer);
        self.result(read, buffer.is_empty())
    }

    /// Copies in-order data into `buffer` without consuming it.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub fn peek(&self, buffer: &mut [u8]) -> Result<usize, Blocked> {
        let seen = self.rcv.data.peek_into(buffer);
        if seen > 0 || buffer.is_empty() {
            return Ok(seen);
        }
        self.life.empty_read(self.rcv).map(|()| 0)
    }

    /// Returns in-order data that arrived in one piece, without consuming it, and its offset in the stream; no data means
    /// the end of the stream. [`consume_to`](Self::consume_to) consumes it.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub fn front(&mut self) -> Result<(u64, Bytes), Blocked> {
        let offset = self.rcv.consumed;
        match self.rcv.data.front() {
            Some(data) => Ok((offset, data)),
            None => self.life.empty_read(self.rcv).map(|()| (offset, Bytes::new())),
        }
    }

    /// Consumes in-order data before `offset`, as far as reads have not consumed it already.
    pub fn consume_to(&mut self, offset: u64) {
        let wanted = usize::try_from(offset.saturating_sub(self.rcv.consumed)).unwrap_or(usize::MAX);
        let mut read = 0;
        while let Some(data) = self.rcv.data.read(wanted - read) {
            read += data.len();
        }
        self.after_read(read);
    }

    /// Returns the result of a read of `read` bytes, or of nothing if `wants_none`.
    fn result(&mut self, read: usize, wants_none: bool) -> Result<usize, Blocked> {
        if read == 0 && !wants_none {
            return self.life.empty_read(self.rcv).map(|()| 0);
        }
        self.after_read(read);
        Ok(read)
    }

    /// Grows the receive buffer and announces a larger window, if the application has read enough.
    fn after_read(&mut self, bytes: usize) {
        self.rcv.consumed += bytes as u64;
        let rtt = self.rtt.srtt;
        if self.life.pressure == Pressure::None {
            self.rcv.tune(self.now, rtt);
        }
        if self.life.state.can_receive() && self.rcv.wants_update(self.negotiated.recv_shift, self.mss) {
            self.rcv.acks.due = true;
        }
    }
}
