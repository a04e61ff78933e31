//! Writing of our stream (RFC 9293, section 3.9.1.2).

use bytes::Buf;

use super::lifecycle::Blocked;
use super::{Lifecycle, Sender};
use crate::send_buffer::Layout;

/// Send side of a connection for the application. [`Connection::writer`](crate::Connection::writer) returns it.
pub struct Writer<'a> {
    pub(super) life: &'a Lifecycle,
    pub(super) layout: Layout,
    pub(super) snd: &'a mut Sender,
}

impl Writer<'_> {
    /// Sets the number of other connections of the endpoint that wait for their turn to send: the more there are, the less
    /// unsent data each has.
    #[inline]
    pub(crate) fn set_others(&mut self, others: usize) {
        self.snd.unsent_limit.others = u16::try_from(others).unwrap_or(u16::MAX);
    }

    /// Queues a copy of as much of `data` as fits and returns its length in bytes.
    ///
    /// # Errors
    /// Returns [`Blocked::WouldBlock`] if the send buffer is full, or the reason why nothing can be written any more.
    pub fn write(&mut self, data: &[u8]) -> Result<usize, Blocked> {
        self.life.admit_writer(self.snd)?;
        let taken = self.snd.write(data, self.layout);
        self.result(taken, data.is_empty())
    }

    /// Queues as much of `data` as fits, or what exceeds 256 KiB of copies, and leaves the rest in it. Chunks of at least 4 KiB are not
    /// copied if they are [`Bytes`](bytes::Bytes), as in a chain of them.
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
