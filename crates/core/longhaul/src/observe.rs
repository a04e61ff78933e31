//! Observers of connections: tracing and qlog.

use std::net::SocketAddr;

use longhaul_tcp::{ConnId, Event, IncomingObservers, Observer, Tuple};
use longhaul_units::Time;

#[cfg(feature = "qlog")]
use crate::qlog::Qlog;
use crate::setup::Habits;
use crate::shared::State;

mod trace;

use trace::Tracing;

impl Habits {
    /// Creates the observers of a connection between these addresses, the local one first.
    fn observers(&self, ends: [SocketAddr; 2], is_client: bool) -> Vec<Box<dyn Observer>> {
        let mut observers: Vec<Box<dyn Observer>> = Vec::new();
        if let Some(tracing) = Tracing::new(ends, is_client) {
            observers.push(Box::new(tracing));
        }
        #[cfg(feature = "qlog")]
        if let Some(qlog) = self.qlog.as_ref().and_then(|place| Qlog::new(place, ends, is_client)) {
            observers.push(Box::new(qlog));
        }
        observers
    }

    /// Installs observers on a connection that this socket has just opened. The endpoint's own connections get theirs
    /// from [`observe_incoming`](Self::observe_incoming).
    pub(crate) fn observe(&self, state: &mut State, now: Time, id: ConnId, ends: [SocketAddr; 2]) {
        for observer in self.observers(ends, true) {
            state.endpoint.observe(now, id, observer);
        }
    }

    /// Arranges for the connections of a listener on `local` to be observed from the SYN onwards.
    pub(crate) fn observe_incoming(&self, state: &mut State, local: SocketAddr) {
        let incoming = Incoming { habits: self.clone(), local };
        state.endpoint.observe_incoming(Some(Box::new(incoming)));
    }
}

#[derive(Debug)]
struct Incoming {
    habits: Habits,
    local: SocketAddr,
}

impl IncomingObservers for Incoming {
    fn observers(&mut self, _: Time, tuple: &Tuple) -> Vec<Box<dyn Observer>> {
        self.habits.observers([local_of(self.local, tuple), tuple.remote], false)
    }
}

/// Returns the local address of a connection that a listener on `local` accepts.
pub(crate) fn local_of(mut local: SocketAddr, tuple: &Tuple) -> SocketAddr {
    if !tuple.local.is_unspecified() {
        local.set_ip(tuple.local);
    }
    local
}

impl State {
    /// Handles an event of a connection for logs and captures.
    pub(crate) fn note(&mut self, id: ConnId, event: Event) {
        match event {
            Event::Stalled => self.warn(id),
            // The process may exit once the task that waits for this event is woken.
            Event::Finished | Event::Closed => self.flush_captures(),
            _ => {}
        }
    }

    /// Warns that several retransmissions went unanswered (R1 of RFC 9293, section 3.8.3).
    fn warn(&mut self, id: ConnId) {
        let (Some(connection), Some(tuple)) = (self.endpoint.connection(id), self.endpoint.tuple(id)) else { return };
        let cause = connection.status().host_error().map_or("unknown", longhaul_tcp::HostError::name);
        tracing::warn!(peer = %tuple.remote, state = %connection.state(), cause, "the peer does not respond");
    }

    fn flush_captures(&mut self) {
        for capture in &self.captures {
            capture.lock().flush();
        }
    }
}
