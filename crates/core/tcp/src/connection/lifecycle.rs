//! Connection state (RFC 9293, section 3.3.2), the error that ended the connection, and the events of a connection.

use longhaul_units::Time;
use longhaul_wire::Header;

use super::handshake::Handshake;
use super::{Receiver, Sender};
use crate::{ConnectionError, State};

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
    /// [`Status::host_error`](super::Status::host_error) may name the cause.
    Stalled,
    /// The connection is over. [`Status::error`](super::Status::error) returns the cause unless both sides
    /// closed it in order.
    Closed,
}

/// Reason why [`Reader::read`](super::Reader::read) or [`Writer::write`](super::Writer::write) did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Blocked {
    /// There is nothing to read, or no room to write. An [`Event`] follows when that changes.
    #[error("would block")]
    WouldBlock,
    /// This side was shut down for writing.
    #[error("shut down for writing")]
    ShutDown,
    /// The connection failed.
    #[error(transparent)]
    Failed(#[from] ConnectionError),
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
    pub(super) reset: Option<Box<Header>>,
    pub(super) created_at: Time,
    /// Whether the application dropped the connection, so that nothing will be read.
    pub(super) orphaned: bool,
    /// Whether data from the peer is discarded: a RST is sent once the queued data is acknowledged.
    pub(super) resets: bool,
    pub(super) pressure: Pressure,
    /// Time at which memory was last freed because the connection was idle.
    pub(super) rested_at: Time,
}

impl Lifecycle {
    /// Returns whether the connection is closed and has no RST left to send.
    pub(super) fn is_drained(&self) -> bool {
        self.state == State::Closed && self.reset.is_none()
    }

    pub(super) fn new(now: Time) -> Self {
        Self {
            state: State::Closed,
            error: None,
            handshake: None,
            reset: None,
            created_at: now,
            orphaned: false,
            resets: false,
            pressure: Pressure::None,
            rested_at: now,
        }
    }

    /// Enters `next`, which must be a successor of the current state in RFC 9293's state diagram.
    pub(super) fn enter(&mut self, next: State) {
        debug_assert!(self.state.may_become(next), "{} -> {next} is not a transition of RFC 9293", self.state);
        self.state = next;
    }

    /// Enters CLOSED and raises the events that this entails. The first error is kept.
    pub(super) fn close(&mut self, error: Option<ConnectionError>, events: &mut EventSet) {
        self.state = State::Closed;
        self.error = self.error.or(error);
        self.handshake = None;
        for event in [Event::Readable, Event::Writable, Event::Closed] {
            events.raise(event);
        }
    }

    pub(super) fn admit_writer(&self, snd: &mut Sender) -> Result<(), Blocked> {
        let checked = self.check_writable(snd);
        if checked == Err(Blocked::WouldBlock) {
            snd.writer_blocked = true;
        }
        checked
    }

    pub(super) fn check_writable(&self, snd: &Sender) -> Result<(), Blocked> {
        if let Some(error) = self.error {
            return Err(error.into());
        }
        if snd.fin_queued || self.resets || !self.state.can_send() {
            return Err(Blocked::ShutDown);
        }
        if self.pressure == Pressure::Hard && !snd.buffer.is_empty() {
            return Err(Blocked::WouldBlock);
        }
        Ok(())
    }

    pub(super) fn empty_read(&self, rcv: &Receiver) -> Result<(), Blocked> {
        if rcv.fin_reached() || rcv.closed {
            return Ok(());
        }
        if let Some(error) = self.error {
            return Err(error.into());
        }
        if self.state == State::Closed { Ok(()) } else { Err(Blocked::WouldBlock) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(events: &mut EventSet) -> Vec<Event> {
        std::iter::from_fn(|| events.take()).collect()
    }

    /// Events are reported in the order in which they can happen, each once, however often they were raised.
    #[test]
    fn events_have_an_order() {
        let mut events = EventSet::default();
        assert_eq!(events.take(), None);
        for event in EventSet::ORDER.into_iter().rev().chain([Event::Writable, Event::Closed]) {
            events.raise(event);
        }
        assert_eq!(drain(&mut events), EventSet::ORDER);
        events.raise(Event::Stalled);
        assert_eq!(drain(&mut events), [Event::Stalled], "and again");
    }

    /// The first error is the cause: an abort after a reset does not replace it. A normal end has none.
    #[test]
    fn the_first_error_is_kept() {
        for (errors, kept) in [
            (vec![None], None),
            (vec![None, Some(ConnectionError::TimedOut)], Some(ConnectionError::TimedOut)),
            (vec![Some(ConnectionError::Reset), Some(ConnectionError::Aborted)], Some(ConnectionError::Reset)),
            (vec![Some(ConnectionError::Reset), None], Some(ConnectionError::Reset)),
        ] {
            let (mut life, mut events) = (Lifecycle::new(Time::ZERO), EventSet::default());
            life.enter(State::SynSent);
            errors.iter().for_each(|error| life.close(*error, &mut events));
            assert_eq!((life.error, life.state, life.handshake.is_none()), (kept, State::Closed, true), "{errors:?}");
            assert_eq!(drain(&mut events), [Event::Readable, Event::Writable, Event::Closed], "whoever waits is woken");
        }
    }

    #[test]
    fn states_follow_the_diagram() {
        let mut life = Lifecycle::new(Time::ZERO);
        for next in [State::SynSent, State::Established, State::FinWait1, State::FinWait2, State::TimeWait] {
            life.enter(next);
            assert_eq!(life.state, next);
        }
        life.close(None, &mut EventSet::default());
        assert_eq!(life.state, State::Closed, "every state can be left by closing");
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "ESTABLISHED -> LAST-ACK is not a transition of RFC 9293")]
    fn a_transition_outside_the_diagram_is_a_fault() {
        let mut life = Lifecycle::new(Time::ZERO);
        for next in [State::Listen, State::SynReceived, State::Established, State::LastAck] {
            life.enter(next);
        }
    }

    /// Limits are compared: hard pressure includes what soft pressure forbids.
    #[test]
    fn pressure_is_ordered() {
        assert!(Pressure::None < Pressure::Soft && Pressure::Soft < Pressure::Hard);
        assert_eq!(Lifecycle::new(Time::ZERO).pressure, Pressure::None);
    }
}
