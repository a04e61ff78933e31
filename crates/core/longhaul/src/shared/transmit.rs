//! Transmit path: sends the endpoint's batches in turns.

use std::io::{self, IoSlice};

use arrayvec::ArrayVec;
use longhaul_tcp::{ConnId, Destination};
use longhaul_units::{Span, Time};

use super::{Shared, State};
use crate::error::from_host;
use crate::io::{ErrorClass, Outgoing};
use crate::roaming::Roaming;

/// Maximum number of batches sent in one turn, that is, while one holder keeps the lock.
pub(crate) const BATCHES_PER_TURN: usize = 16;
/// Number of bytes sent in one turn, and by tasks between two turns of the driver, before ACKs are received again. With
/// more data in flight, the data would be evicted from the processor's cache before it is acknowledged and its memory
/// reused, and the window would seem to be fully used.
pub(crate) const BYTES_PER_TURN: usize = 192 << 10;
/// Maximum number of slices per send call: 64 headers and their payloads, each of which may span two writes. In unit tests,
/// batches of data by reference exceed it.
const MAX_SLICES: usize = if cfg!(test) { 16 } else { 256 };
/// Delay before the next send after the kernel had no memory for a datagram.
const NO_BUFFERS_PAUSE: Span = Span::from_millis(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// There is nothing left to send.
    Done,
    /// The socket's send buffer is full.
    Blocked,
    /// There may be more to send, but other tasks run first.
    More,
}

impl State {
    /// Sends pending batches for one turn, but none while `writer` [gathers](longhaul_tcp::Status::is_gathering) data
    /// for a larger batch, or while a busy writer does and only its data remains to be sent.
    pub(crate) fn transmit(&mut self, shared: &Shared, now: Time, writer: Option<ConnId>) -> Turn {
        // Sending is paused, or the socket has failed.
        if self.resume_at.is_some_and(|at| now < at) || self.fatal.is_some() {
            return Turn::Done;
        }
        self.resume_at = None;
        let max_segments = shared.io.max_segments();
        for _ in 0..BATCHES_PER_TURN {
            let gathers =
                |id, writes_next| self.endpoint.connection(id).is_some_and(|c| c.status().is_gathering(writes_next));
            let busy = self.busy.filter(|id| self.endpoint.has_only(*id));
            if writer.is_some_and(|id| gathers(id, false)) || busy.is_some_and(|id| gathers(id, true)) {
                return Turn::More;
            }
            // A batch that the socket did not accept is sent first.
            let destination = match self.stuck.take() {
                Some(destination) => destination,
                None => match self.endpoint.poll_transmit(now, &mut self.batch, max_segments) {
                    Some(destination) => destination,
                    None => return Turn::Done,
                },
            };
            match self.send(shared, now, &destination) {
                Ok(sent) => self.sent += sent,
                Err(error) => match self.on_send_error(shared, now, destination, &error) {
                    Turn::More => {}
                    over => return over,
                },
            }
            if self.sent >= BYTES_PER_TURN {
                break;
            }
        }
        self.is_behind = true;
        Turn::More
    }

    /// Sends the current batch. Returns the number of bytes sent.
    fn send(&mut self, shared: &Shared, now: Time, destination: &Destination) -> io::Result<usize> {
        // Fill in the headers and collect the slices of headers and payloads.
        let batch = &self.batch;
        self.scratch.clear();
        let mut slices = Slices { list: ArrayVec::new(), joined: &mut self.scratch };
        let len = match destination.connection {
            Some(id) => self.endpoint.frames(id, batch, &mut slices),
            None => {
                slices.extend([batch.headers.as_slice()]);
                batch.headers.len()
            }
        };
        if len < batch.len {
            // After the socket refused the batch, part of its data has been acknowledged or its connection has ended.
            return Ok(0);
        }
        let Slices { list, joined } = &slices;
        let whole = [IoSlice::new(joined)];
        let slices = if joined.is_empty() { list.as_slice() } else { &whole };
        let several = batch.segments.len() > 1;
        let tuple = destination.tuple;
        let outgoing = Outgoing {
            destination: tuple.remote,
            tos: (if batch.dscp == 0 { self.dscp } else { batch.dscp }) << 2 | batch.ecn.bits(),
            src_ip: (!tuple.local.is_unspecified()).then_some(tuple.local),
            segment_size: several.then_some(batch.segment_size as u16),
            slices,
        };
        #[cfg(test)]
        if let Some(error) = self.faults.pop() {
            return Err(error);
        }
        shared.io.send(&outgoing)?;
        #[cfg(test)]
        {
            self.batches += 1;
        }
        for capture in &self.captures {
            capture.lock().sent(now, Roaming::local(self.roaming.as_deref(), shared), &outgoing);
        }
        Ok(len)
    }

    /// Handles a failed send, and returns whether the turn continues. A batch that is dropped counts as lost on the
    /// path and is retransmitted by the engine.
    fn on_send_error(&mut self, shared: &Shared, now: Time, destination: Destination, error: &io::Error) -> Turn {
        match shared.io.class(error) {
            ErrorClass::Refused | ErrorClass::Unreachable | ErrorClass::MessageTooLarge
                if self.fetch_errors(shared, now) =>
            {
                // The error refers to an earlier datagram, possibly to another peer; this batch was not sent.
                self.stuck = Some(destination);
            }
            ErrorClass::WouldBlock => {
                self.stuck = Some(destination);
                return Turn::Blocked;
            }
            ErrorClass::NoBuffers => {
                self.stats.send_faults += 1;
                self.stuck = Some(destination);
                self.pause(now);
                return Turn::Done;
            }
            ErrorClass::MessageTooLarge => {
                self.stats.too_long += 1;
                if let Some(id) = destination.connection {
                    self.endpoint.drive(now, id, |c| c.handle_too_long(now));
                }
            }
            ErrorClass::Refused => {
                self.endpoint.handle_host_error(now, destination.tuple, from_host(error));
                // The error refers to an earlier datagram; this batch was not sent.
                self.stuck = Some(destination);
            }
            ErrorClass::Unreachable => {
                self.stats.send_faults += 1;
                self.look_soon(now);
                self.endpoint.handle_host_error(now, destination.tuple, from_host(error));
            }
            ErrorClass::Fatal => {
                self.fail(error);
                return Turn::Done;
            }
        }
        Turn::More
    }

    pub(crate) fn pause(&mut self, now: Time) {
        self.resume_at = Some(now + NO_BUFFERS_PAUSE);
    }
}

/// The slices of a batch. If there are too many for one call, `joined` contains a copy of all of them.
struct Slices<'a, 'b> {
    list: ArrayVec<IoSlice<'a>, MAX_SLICES>,
    joined: &'b mut Vec<u8>,
}

impl<'a> Extend<&'a [u8]> for Slices<'a, '_> {
    fn extend<T: IntoIterator<Item = &'a [u8]>>(&mut self, parts: T) {
        for part in parts {
            if self.joined.is_empty() && self.list.try_push(IoSlice::new(part)).is_ok() {
                continue;
            }
            self.list.drain(..).for_each(|slice| self.joined.extend_from_slice(&slice));
            self.joined.extend_from_slice(part);
        }
    }
}
