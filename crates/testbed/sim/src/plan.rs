//! Behaviour of an application on its connection.

use longhaul_units::{Span, Time};

/// When an application starts to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// As soon as possible.
    AtOnce,
    /// After the end of the peer's stream.
    AfterEnd,
}

/// When an application closes its side of the connection for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// After it has written everything.
    AfterWriting,
    /// After it has written everything and read the end of the peer's stream.
    AfterEnd,
    /// After it has written everything and read this many bytes.
    AfterReading(u64),
    /// Never.
    Never,
}

/// Request-response turns: an application that has read `read` bytes may have written `each * (ahead + read / per)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Bytes written per turn.
    pub each: u64,
    /// Bytes read per turn.
    pub per: u64,
    /// Turns that may be written before anything is read: 1 for the side that speaks first.
    pub ahead: u64,
}

/// Alternation between writing and pausing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnOff {
    /// Time for which the application writes as fast as it may.
    pub on: Span,
    /// Time for which the application pauses.
    pub off: Span,
}

/// Contents of the streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// Bytes that depend on their position, which the reader verifies.
    #[default]
    Pattern,
    /// Zeros that are not verified, for large volumes: packets contain only their number. Undetected bit errors can
    /// then affect only headers.
    Zeros,
}

/// Behaviour of an application on its connection. Times are by its host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// Total number of bytes to write.
    pub send: u64,
    /// Maximum number of bytes per write.
    pub write_chunk: usize,
    /// Pause after each write.
    pub write_pause: Span,
    /// Time or event at which the application starts to write.
    pub begin: Begin,
    /// Time after establishment at which the application stops writing, regardless of how much it has written.
    pub stop_after: Option<Span>,
    /// Alternation between writing and pausing, starting at establishment.
    pub on_off: Option<OnOff>,
    /// The data that the application writes and expects to read. Both ends must agree.
    pub content: Content,
    /// Whether the application takes turns with its peer.
    pub turn: Option<Turn>,
    /// Event at which the application closes its side for writing.
    pub close: Close,
    /// Maximum number of bytes per read.
    pub read_chunk: usize,
    /// Pause after each read; together with `read_chunk`, it determines the reading rate.
    pub read_pause: Span,
    /// Time before which the application does not read.
    pub read_from: Time,
    /// Time at which the application aborts the connection.
    pub abort_at: Option<Time>,
    /// Whether the application releases the connection after it has closed its side, although the peer may still send.
    pub leave_early: bool,
}

impl Plan {
    /// Writes nothing, reads everything at once, and closes at the end of the peer's stream.
    pub const fn sink() -> Self {
        Self {
            send: 0,
            write_chunk: 16 << 10,
            write_pause: Span::ZERO,
            begin: Begin::AtOnce,
            stop_after: None,
            on_off: None,
            content: Content::Pattern,
            turn: None,
            close: Close::AfterEnd,
            read_chunk: 1 << 20,
            read_pause: Span::ZERO,
            read_from: Time::ZERO,
            abort_at: None,
            leave_early: false,
        }
    }

    /// Writes `bytes` as fast as possible and closes; reads everything.
    pub const fn bulk(bytes: u64) -> Self {
        Self { send: bytes, close: Close::AfterWriting, ..Self::sink() }
    }

    /// Writes for `span` as fast as possible and closes; reads everything.
    pub const fn timed(span: Span) -> Self {
        Self { stop_after: Some(span), ..Self::bulk(u64::MAX) }
    }

    /// Writes for `on` as fast as possible, pauses for `off`, and repeats this until it has written `bytes`.
    pub const fn bursts(bytes: u64, on: Span, off: Span) -> Self {
        Self { on_off: Some(OnOff { on, off }), ..Self::bulk(bytes) }
    }

    /// Uses zeros, which take no time to generate and to verify.
    #[must_use]
    pub const fn zeros(self) -> Self {
        Self { content: Content::Zeros, ..self }
    }

    /// Sends `rounds` requests of `request` bytes, each after the previous response of `response` bytes; then closes.
    pub const fn requests(rounds: u64, request: u64, response: u64) -> Self {
        let turn = Some(Turn { each: request, per: response, ahead: 1 });
        Self { send: rounds * request, turn, close: Close::AfterWriting, ..Self::sink() }
    }

    /// Answers the requests of [`requests`](Self::requests).
    pub const fn responses(rounds: u64, request: u64, response: u64) -> Self {
        let turn = Some(Turn { each: response, per: request, ahead: 0 });
        Self { send: rounds * response, turn, ..Self::sink() }
    }

    /// Reads to the end of the peer's stream, then writes `bytes` and closes; the peer is half-closed during this time.
    pub const fn reply_at_end(bytes: u64) -> Self {
        Self { send: bytes, begin: Begin::AfterEnd, close: Close::AfterWriting, ..Self::sink() }
    }

    /// Returns whether the application is in a writing phase at `since` after establishment, and when the phase ends.
    pub(crate) fn is_on(&self, since: Span) -> (bool, Option<Span>) {
        let Some(OnOff { on, off }) = self.on_off else { return (true, None) };
        let period = on.as_nanos().saturating_add(off.as_nanos());
        let Some(place) = since.as_nanos().checked_rem(period) else { return (true, None) };
        let begins = since.as_nanos() - place;
        let (is_on, until) = if place < on.as_nanos() { (true, on.as_nanos()) } else { (false, period) };
        (is_on, Some(Span::from_nanos(begins.saturating_add(until))))
    }

    /// Returns how many bytes the application may have written in total, having read `read` bytes; `ended` states
    /// whether it has read the end.
    pub(crate) fn may_have_written(&self, read: u64, ended: bool) -> u64 {
        if self.begin == Begin::AfterEnd && !ended {
            return 0;
        }
        let turn = self.turn.map_or(u64::MAX, |t| {
            let turns = read.checked_div(t.per).unwrap_or(u64::MAX).saturating_add(t.ahead);
            turns.saturating_mul(t.each)
        });
        turn.min(self.send)
    }
}
