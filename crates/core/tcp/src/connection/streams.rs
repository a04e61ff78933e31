//! Reading of the peer's stream, and writing of ours (RFC 9293, sections 3.9.1.2 and 3.9.1.3).

use bytes::{Buf, Bytes};
use longhaul_units::Time;

use super::lifecycle::Blocked;
use super::{Lifecycle, Negotiated, Pressure, Receiver, Sender};
use crate::send_buffer::Layout;
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

/// Send side of a connection for the application. [`Connection::writer`](crate::Connection::writer) returns it.
pub struct Writer<'a> {
    pub(super) life: &'a Lifecycle,
    pub(super) layout: Layout,
    pub(super) snd: &'a mut Sender,
}

impl Writer<'_> {
    /// Sets the number of other connections of the endpoint that wait for their turn to send: with more connections,
    /// each may have less unsent data.
    #[inline]
    pub(crate) fn set_others(&mut self, others: usize) {
        self.snd.others = u16::try_from(others).unwrap_or(u16::MAX);
    }

    /// Queues a copy of as much of `data` as fits and returns its length in bytes.
    ///
    /// # Errors
    /// Returns [`Blocked::WouldBlock`] if the send buffer is full, or the reason why nothing more can be written.
    pub fn write(&mut self, data: &[u8]) -> Result<usize, Blocked> {
        self.life.admit_writer(self.snd)?;
        let taken = self.snd.write(data, self.layout);
        self.result(taken, data.is_empty())
    }

    /// Queues as much of `data` as fits, copying at most 256 KiB, and leaves the rest in `data`. Chunks of at least 4
    /// KiB are not copied if they are [`Bytes`](bytes::Bytes), as in a chain of them.
    ///
    /// # Errors
    /// See [`write`](Self::write).
    pub fn write_bytes(&mut self, data: &mut impl Buf) -> Result<usize, Blocked> {
        self.life.admit_writer(self.snd)?;
        let taken = self.snd.write_bytes(data, self.layout);
        self.result(taken, !data.has_remaining())
    }

    fn result(&mut self, taken: usize, is_all: bool) -> Result<usize, Blocked> {
        if taken > 0 || is_all {
            return Ok(taken);
        }
        self.snd.writer_blocked = true;
        Err(Blocked::WouldBlock)
    }

    /// Returns whether [`write`](Self::write) would not return [`Blocked::WouldBlock`]. If it would, an
    /// [`Event::Writable`](crate::Event::Writable) follows.
    pub fn is_writable(&mut self) -> bool {
        let waits = match self.life.check_writable(self.snd) {
            Ok(()) => self.snd.room() == 0,
            Err(blocked) => blocked == Blocked::WouldBlock,
        };
        if waits {
            self.snd.writer_blocked = true;
        }
        !waits
    }

    /// Disables or enables the Nagle algorithm.
    pub fn set_nodelay(&mut self, nodelay: bool) {
        self.snd.nodelay = nodelay;
    }
}
