//! Connection state (RFC 9293, section 3.3.2), the error that ended the connection, and events not polled yet.

use longhaul_units::Time;
use longhaul_wire::Header;

use super::handshake::Handshake;
use crate::error::ConnectionError;
use crate::state::State;

/// Memory pressure of the endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    /// Memory is available.
    #[default]
    None,
    /// Receive buffers do not grow.
    Soft,
    /// The memory ceiling is reached: data that would have to be buffered is refused.
    Hard,
}

/// Change of the connection that is reported to the application.
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

/// Set of [`Event`]s that were raised and not polled yet.
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

/// State machine, handshake, and the cause of the connection's end.
#[derive(Debug)]
pub(super) struct Lifecycle {
    pub(super) state: State,
    pub(super) error: Option<ConnectionError>,
    /// Present until the connection is established.
    pub(super) handshake: Option<Box<Handshake>>,
    /// A RST to be sent.
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

    /// Enters `next`, which must be a successor of the current state in RFC 9293's state diagram.
    pub(super) fn enter(&mut self, next: State) {
        debug_assert!(self.state.may_become(next), "{} -> {next} is not a transition of RFC 9293", self.state);
        self.state = next;
    }

    /// Enters CLOSED and raises the events that this entails. The first error is kept.
    pub(super) fn close(&mut self, error: Option<ConnectionError>) {
        self.state = State::Closed;
        self.error = self.error.or(error);
        self.handshake = None;
        for event in [Event::Readable, Event::Writable, Event::Closed] {
            self.events.raise(event);
        }
    }
}
