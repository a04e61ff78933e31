//! Recorded connections as the a-b-t model has them (Hernandez-Campos et al., Weigle et al., Tmix, CCR 2006): requests (a),
//! responses (b) and think times (t), independent of the network they were recorded on.

use longhaul_units::{Span, Time};

mod parse;
mod write;

/// One of the two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Who opened it; sends a-units.
    Initiator,
    /// Who accepted it; sends b-units.
    Acceptor,
}

/// An application data unit: what one side writes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adu {
    /// Who sends it.
    pub from: Side,
    /// How long after the last unit this side sent.
    pub after_send: Span,
    /// How long after the last unit this side received.
    pub after_receive: Span,
    /// Its length; 0 closes this side.
    pub bytes: u64,
}

/// In which order the units of both sides go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// One after the other, whoever it is from.
    Sequential(Vec<Adu>),
    /// Each side its own, independent of the other.
    Concurrent {
        /// Those of the initiator.
        initiator: Vec<Adu>,
        /// Those of the acceptor.
        acceptor: Vec<Adu>,
    },
}

/// A connection to be replayed.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionVector {
    /// When it is opened, since the beginning of the trace.
    pub start: Time,
    /// Numbers that the recorder gave it.
    pub ids: Vec<u64>,
    /// Largest windows in bytes, initiator and acceptor.
    pub windows: Option<(u64, u64)>,
    /// The recorded RTT.
    pub rtt: Option<Span>,
    /// The recorded loss, from initiator to acceptor and back.
    pub loss: Option<(f64, f64)>,
    /// Segment sizes, initiator and acceptor.
    pub mss: Option<(u64, u64)>,
    /// What is exchanged.
    pub exchange: Exchange,
}

/// Why a text is no list of connection vectors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VectorError {
    /// The line begins with none of the known words.
    #[error(
        "line {line} begins with {word:?}; known are SEQ, CONC, S, C, w, r, l, m, >, <, t, c>, c<, t>, t<, I, A and #"
    )]
    UnknownLine {
        /// The line, from 1.
        line: usize,
        /// Its first word, shortened.
        word: String,
    },
    /// A number is missing or is none.
    #[error("line {line}: {what} is missing or not a number")]
    NotANumber {
        /// The line, from 1.
        line: usize,
        /// Which.
        what: &'static str,
    },
    /// Something before the first connection.
    #[error("line {line} belongs to no connection; begin with SEQ, CONC, S or C")]
    NoConnection {
        /// The line, from 1.
        line: usize,
    },
    /// A unit of the other kind of connection.
    #[error("line {line}: {word:?} does not go into a {kind} connection")]
    WrongKind {
        /// The line, from 1.
        line: usize,
        /// Its first word.
        word: String,
        /// The kind of the connection it is in.
        kind: &'static str,
    },
    /// A connection starts before its predecessor.
    #[error("line {line}: the connection starts before the one above it; sort them by start")]
    Backwards {
        /// The line, from 1.
        line: usize,
    },
}

impl ConnectionVector {
    /// One that starts at `start` and carries nothing yet.
    #[must_use]
    pub fn new(start: Time, exchange: Exchange) -> Self {
        Self { start, ids: Vec::new(), windows: None, rtt: None, loss: None, mss: None, exchange }
    }

    /// Bytes that one side sends in all.
    #[must_use]
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
