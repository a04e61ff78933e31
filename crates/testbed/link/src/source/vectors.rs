//! Connection vectors of the a-b-t model (Hernandez-Campos et al., Weigle et al., Tmix, CCR 2006): requests (a),
//! responses (b) and think times (t), independent of the network on which they were recorded.

use longhaul_units::{Span, Time};

mod parse;
mod write;

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
    /// The sending side.
    pub from: Side,
    /// Wait since the last unit that this side sent.
    pub after_send: Span,
    /// Wait since the last unit that this side received.
    pub after_receive: Span,
    /// Length in bytes; 0 closes this side.
    pub bytes: u64,
}

/// Order of the units of both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// One unit after the other, from either side.
    Sequential(Vec<Adu>),
    /// The two sides send independently of each other.
    Concurrent {
        /// The units of the initiator.
        initiator: Vec<Adu>,
        /// The units of the acceptor.
        acceptor: Vec<Adu>,
    },
}

/// A recorded connection to replay.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionVector {
    /// When it is opened, relative to the start of the trace.
    pub start: Time,
    /// Identifiers assigned by the recorder.
    pub ids: Vec<u64>,
    /// Maximum windows in bytes, of initiator and acceptor.
    pub windows: Option<(u64, u64)>,
    /// The recorded RTT.
    pub rtt: Option<Span>,
    /// The recorded loss, from initiator to acceptor and in reverse.
    pub loss: Option<(f64, f64)>,
    /// Segment sizes in bytes, of initiator and acceptor.
    pub mss: Option<(u64, u64)>,
    /// The units exchanged.
    pub exchange: Exchange,
}

/// Error in a list of connection vectors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VectorError {
    /// The line begins with none of the known words.
    #[error(
        "line {line} begins with {word:?}; known are SEQ, CONC, S, C, w, r, l, m, >, <, t, c>, c<, t>, t<, I, A and #"
    )]
    UnknownLine {
        /// The line number, from 1.
        line: usize,
        /// The first word of the line, truncated.
        word: String,
    },
    /// A number is missing or malformed.
    #[error("line {line}: {what} is missing or not a number")]
    NotANumber {
        /// The line number, from 1.
        line: usize,
        /// The field.
        what: &'static str,
    },
    /// A line before the first connection.
    #[error("line {line} belongs to no connection; begin with SEQ, CONC, S or C")]
    NoConnection {
        /// The line number, from 1.
        line: usize,
    },
    /// A unit that does not fit the kind of its connection.
    #[error("line {line}: {word:?} does not belong in a {kind} connection")]
    WrongKind {
        /// The line number, from 1.
        line: usize,
        /// The first word of the line.
        word: String,
        /// The kind of the connection.
        kind: &'static str,
    },
    /// A connection starts before its predecessor.
    #[error("line {line}: the connection starts before the one above it; sort them by start")]
    Backwards {
        /// The line number, from 1.
        line: usize,
    },
}

impl ConnectionVector {
    /// Creates a connection that starts at `start`, without its optional properties.
    pub fn new(start: Time, exchange: Exchange) -> Self {
        Self { start, ids: Vec::new(), windows: None, rtt: None, loss: None, mss: None, exchange }
    }

    /// Returns the total bytes sent by one side.
    pub fn bytes_from(&self, side: Side) -> u64 {
        let sum = |adus: &[Adu]| adus.iter().filter(|adu| adu.from == side).map(|adu| adu.bytes).sum();
        match &self.exchange {
            Exchange::Sequential(adus) => sum(adus),
            Exchange::Concurrent { initiator, acceptor } => sum(initiator) + sum(acceptor),
        }
    }
}

#[cfg(test)]
mod tests;
