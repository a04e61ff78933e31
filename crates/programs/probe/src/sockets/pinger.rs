//! Single packets to a reflector, for checks of a path that are not measurements.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use longhaul_units::{Bytes, Span, Time};
use longhaul_wire::probe::Answer;

use super::error::Error;
use super::socket::{Event, Socket};
use crate::Planned;

/// Socket that exchanges single packets with a reflector. Sizes are those of IP packets in bytes.
#[derive(Debug)]
pub struct Pinger {
    socket: Socket,
    /// Number of the first packet whose answer is not ignored.
    first: u32,
}

/// An answered packet.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Echo {
    /// The answer. Each packet has a train of its own.
    pub answer: Answer,
    /// Round-trip time.
    pub rtt: Duration,
}

impl Pinger {
    /// Creates a socket for the reflector at `peer`.
    ///
    /// # Errors
    ///
    /// The system refuses the socket.
    pub fn connect(peer: SocketAddr) -> Result<Self, Error> {
        Ok(Self { socket: Socket::connect(peer)?, first: 0 })
    }

    /// Returns the size of the headers of IP and UDP.
    pub fn headers(&self) -> u32 {
        self.socket.headers
    }

    /// Returns the size of the smallest packet that is answered.
    pub fn smallest(&self) -> u32 {
        self.socket.smallest()
    }

    /// Sets the type of service of the following packets.
    ///
    /// # Errors
    ///
    /// Error of the system.
    pub fn set_tos(&self, tos: u8) -> io::Result<()> {
        self.socket.set_tos(tos)
    }

    /// Returns the time since the socket was created.
    pub fn now(&self) -> Duration {
        self.socket.now().since(Time::ZERO).into()
    }

    /// Ignores answers to the packets so far.
    pub fn forget(&mut self) {
        self.first = self.socket.next_train;
    }

    /// Sends a packet. One that is too large, or refused by the host, counts as lost.
    ///
    /// # Errors
    ///
    /// Error of the system.
    pub fn send(&mut self, size: u32) -> io::Result<()> {
        self.socket.send(&[Planned::new(Span::ZERO, Bytes(size.into()))], &[size]).map(drop)
    }

    /// Waits for the next answer until the time `until` since the socket was created.
    ///
    /// # Errors
    ///
    /// Answers can no longer be received.
    pub fn receive(&mut self, until: Duration) -> Result<Option<Echo>, Error> {
        let until = Time::ZERO + Span::from(until);
        while let Some(event) = self.socket.receive(until)? {
            if let Event::Answer(answer, at) = event
                && answer.probe.train >= self.first
            {
                let rtt = Duration::from_nanos(at.as_nanos().saturating_sub(answer.probe.sent));
                return Ok(Some(Echo { answer, rtt }));
            }
        }
        Ok(None)
    }

    /// Sends a packet up to `tries` times until one is answered within `patience`.
    ///
    /// # Errors
    ///
    /// Error of the system.
    pub fn exchange(&mut self, size: u32, tries: u32, patience: Duration) -> Result<Option<Echo>, Error> {
        self.forget();
        for _ in 0..tries {
            self.send(size)?;
            if let Some(echo) = self.receive(self.now() + patience)? {
                return Ok(Some(echo));
            }
        }
        Ok(None)
    }
}
