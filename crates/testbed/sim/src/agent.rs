//! Transports other than longhaul on the hosts of a simulation.

use std::fmt::Debug;

use longhaul_units::Time;

use crate::packet::Packet;

/// Transport other than longhaul, with its application: one end of a connection that needs neither sockets nor a clock
/// of its own.
///
/// It receives all datagrams of its host. After each datagram, and when it is due, it is asked for datagrams to send.
pub trait Agent: Debug {
    /// Returns the time at which [`transmit`](Self::transmit) must be called even if nothing arrives. An agent that
    /// returns the current time again and again stops the simulation's clock.
    fn due(&mut self) -> Option<Time>;

    /// Processes a datagram. Its ECN field is as marked on the path.
    fn receive(&mut self, now: Time, packet: &Packet);

    /// Handles timers, lets the application read and write, and sends datagrams.
    fn transmit(&mut self, now: Time, send: &mut dyn FnMut(Packet));

    /// Returns the counters of this end.
    fn progress(&self) -> Progress;
}

/// Counters of one end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that the application has read.
    pub read: u64,
    /// Time at which the application read the end of the stream.
    pub ended_at: Option<Time>,
    /// Packets sent that the peer must acknowledge.
    pub packets: u64,
    /// Packets declared lost.
    pub lost: u64,
}
