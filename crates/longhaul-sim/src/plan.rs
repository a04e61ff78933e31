//! What an application does with its connection.

use longhaul_units::{Span, Time};

/// When an application begins to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// As soon as it may.
    AtOnce,
    /// At the end of what the peer sends.
    AfterEnd,
}

/// When an application says that it will write no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// When it has written all.
    AfterWriting,
    /// When it has written all and read the end of what the peer sends.
    AfterEnd,
    /// When it has written all and read so many bytes.
    AfterReading(u64),
    /// Not at all.
    Never,
}

/// Taking turns: an application may have written `each * (ahead + read / per)` bytes, `read` being what it has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Bytes it writes in a turn.
    pub each: u64,
    /// Bytes it reads in a turn.
    pub per: u64,
    /// Turns it may write before it has read anything: 1 for who speaks first.
    pub ahead: u64,
}

/// Writing by fits and starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnOff {
    /// For so long it writes what it may,
    pub on: Span,
    /// and for so long it rests.
    pub off: Span,
}

/// What streams consist of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// Bytes that tell where they belong, and whoever reads them checks that.
    #[default]
    Pattern,
    /// Zeros that nobody looks at, for large volumes: packets say how many there are. Bit errors that no checksum finds
    /// hit headers alone then.
    Zeros,
}

/// What an application does with its connection. Times are those of its host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// Bytes it writes in all.
    pub send: u64,
    /// Bytes a write has at most.
    pub write_chunk: usize,
    /// The pause after a write.
    pub write_pause: Span,
    /// When it begins.
    pub begin: Begin,
    /// So long after the connection is established it stops writing, whatever it has written.
    pub stop_after: Option<Span>,
    /// Bursts and rests, from when the connection is established.
    pub on_off: Option<OnOff>,
    /// What it writes and takes what it reads for. Both ends must agree.
    pub content: Content,
    /// Whether it waits for answers.
    pub turn: Option<Turn>,
    /// When it shuts down for writing.
    pub close: Close,
    /// Bytes a read takes at most.
    pub read_chunk: usize,
    /// The pause after a read: with `read_chunk`, the rate.
    pub read_pause: Span,
    /// It reads nothing before.
    pub read_from: Time,
    /// It gives the connection up then.
    pub abort_at: Option<Time>,
    /// It lets go of the connection once all is written and closed, though the peer may still send.
    pub leave_early: bool,
}

impl Plan {
    /// Writes nothing, reads all at once, closes at the end.
    #[must_use]
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

    /// Writes `bytes` as fast as it may and closes; reads what comes.
    #[must_use]
    pub const fn bulk(bytes: u64) -> Self {
        Self { send: bytes, close: Close::AfterWriting, ..Self::sink() }
    }

    /// Writes for `span` as fast as it may and closes; reads what comes.
    #[must_use]
    pub const fn timed(span: Span) -> Self {
        Self { stop_after: Some(span), ..Self::bulk(u64::MAX) }
    }

    /// Writes for `on` as fast as it may, rests for `off`, and so on until it has written `bytes`.
    #[must_use]
    pub const fn bursts(bytes: u64, on: Span, off: Span) -> Self {
        Self { on_off: Some(OnOff { on, off }), ..Self::bulk(bytes) }
    }

    /// The same with zeros, which cost no time to make and to check.
    #[must_use]
    pub const fn zeros(self) -> Self {
        Self { content: Content::Zeros, ..self }
    }

    /// Asks `rounds` times with `request` bytes and waits for `response` bytes each time; then closes.
    #[must_use]
    pub const fn requests(rounds: u64, request: u64, response: u64) -> Self {
        let turn = Some(Turn { each: request, per: response, ahead: 1 });
        Self { send: rounds * request, turn, close: Close::AfterWriting, ..Self::sink() }
    }

    /// The other side of [`requests`](Self::requests).
    #[must_use]
    pub const fn responses(rounds: u64, request: u64, response: u64) -> Self {
        let turn = Some(Turn { each: response, per: request, ahead: 0 });
        Self { send: rounds * response, turn, ..Self::sink() }
    }

    /// Reads to the end, then writes `bytes` and closes: what a half-closed peer waits for.
    #[must_use]
    pub const fn reply_at_end(bytes: u64) -> Self {
        Self { send: bytes, begin: Begin::AfterEnd, close: Close::AfterWriting, ..Self::sink() }
    }

    /// Whether it writes `since` the connection was established, and when that changes next.
    pub(crate) fn is_on(&self, since: Span) -> (bool, Option<Span>) {
        let Some(OnOff { on, off }) = self.on_off else { return (true, None) };
        let period = on.as_nanos().saturating_add(off.as_nanos());
        let Some(place) = since.as_nanos().checked_rem(period) else { return (true, None) };
        let begins = since.as_nanos() - place;
        let (is_on, until) = if place < on.as_nanos() { (true, on.as_nanos()) } else { (false, period) };
        (is_on, Some(Span::from_nanos(begins.saturating_add(until))))
    }

    /// How many bytes it may have written, when it has read `read` and, if `ended`, the end.
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
