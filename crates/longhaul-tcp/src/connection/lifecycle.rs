//! The connection's state (RFC 9293, section 3.3.2), the reason it ended, and the events the application has yet to poll.

use longhaul_units::Time;
use longhaul_wire::Header;

use super::handshake::Handshake;
use crate::error::ConnectionError;
use crate::state::State;

/// The endpoint's memory pressure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    /// Memory is available.
    #[default]
    None,
    /// Receive windows do not grow.
    Soft,
    /// The ceiling is reached: data that would have to be buffered is refused.
    Hard,
}

/// A change of the connection that the application should know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is complete.
    Connected,
    /// [`Connection::read`](super::Connection::read) will return data, the end of the stream, or an error.
    Readable,
    /// [`Connection::write`](super::Connection::write) will accept data or return an error.
    Writable,
    /// The peer acknowledged our FIN: everything written has arrived.
    Finished,
    /// R1 is reached: several retransmissions in a row went unanswered (RFC 9293, section 3.8.3).
    /// [`Connection::host_error`](super::Connection::host_error) may name the cause.
    Stalled,
    /// The connection is over. [`Connection::error`](super::Connection::error) returns the cause unless both sides
    /// closed it in order.
    Closed,
}

/// The set of [`Event`]s that were raised and not polled yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EventSet(u8);

impl EventSet {
    const ORDER: [Event; 6] =
        [Event::Connected, Event::Readable, Event::Writable, Event::Finished, Event::Stalled, Event::Closed];

    pub(super) fn raise(&mut self, event: Event) {
        self.0 |= 1 << event as u8;
    }

    pub(super) fn take(&mut self) -> Option<Event> {
        let event = *Self::ORDER.get(self.0.trailing_zeros() as usize)?;
        self.0 &= self.0 - 1;
        Some(event)
    }
}

/// State machine, handshake, and what ends a connection.
#[derive(Debug)]
pub(super) struct Lifecycle {
    pub(super) state: State,
    pub(super) error: Option<ConnectionError>,
    /// Present until the connection is established.
    pub(super) handshake: Option<Box<Handshake>>,
    /// A RST that waits to be sent.
    pub(super) reset: Option<Box<Header>>,
    pub(super) events: EventSet,
    pub(super) created_at: Time,
    /// The application dropped the connection: nothing will be read.
    pub(super) orphaned: bool,
    pub(super) pressure: Pressure,
}

impl Lifecycle {
    pub(super) fn new(now: Time) -> Self {
        Self {
            state: State::Closed,
            error: None,
            handshake: None,
            reset: None,
            events: EventSet::default(),
            created_at: now,
            orphaned: false,
            pressure: Pressure::None,
        }
    }

    /// Moves along an edge of RFC 9293's state diagram.
    pub(super) fn enter(&mut self, next: State) {
        debug_assert!(self.state.may_become(next), "{} -> {next} is no edge of RFC 9293", self.state);
        self.state = next;
    }

    /// Enters CLOSED and raises the events that follow. The first error is kept.
    pub(super) fn close(&mut self, error: Option<ConnectionError>) {
        self.state = State::Closed;
        self.error = self.error.or(error);
        self.handshake = None;
        for event in [Event::Readable, Event::Writable, Event::Closed] {
            self.events.raise(event);
        }
    }
}
