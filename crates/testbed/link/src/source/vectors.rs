//! Connection vectors of the a-b-t model (Hernandez-Campos et al., Weigle et al., Tmix, CCR 2006): requests (a),
//! responses (b) and think times (t), independent of the network on which they are exchanged.

use longhaul_units::{Span, Time};

/// One of the two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The side that opened the connection; sends a-units.
    Initiator,
    /// The side that accepted the connection; sends b-units.
    Acceptor,
}

/// Application data unit: what one side writes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adu {
    /// Side from which the traffic is sent.
    pub from: Side,
    /// Wait since the last unit that this side sent.
    pub after_send: Span,
    /// Wait since the last unit that this side received.
    pub after_receive: Span,
    /// Length in bytes, at least 1.
    pub bytes: u64,
}

impl Adu {
    /// Creates a unit that is sent without a wait.
    pub const fn new(from: Side, bytes: u64) -> Self {
        Self { from, after_send: Span::ZERO, after_receive: Span::ZERO, bytes }
    }
}

/// A connection, as the sequence of units that its two ends exchange.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionVector {
    /// Time at which the connection is opened.
    pub start: Time,
    /// The units in order, from either side.
    pub adus: Vec<Adu>,
}

impl ConnectionVector {
    /// Returns the total bytes sent by one side.
    pub fn bytes_from(&self, side: Side) -> u64 {
        self.adus.iter().filter(|adu| adu.from == side).map(|adu| adu.bytes).sum()
    }
}
