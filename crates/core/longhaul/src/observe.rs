//! Observers of connections: tracing and qlog.

use std::net::SocketAddr;

use longhaul_tcp::{ConnId, Event, IncomingObservers, Observer, Tuple};
use longhaul_units::Time;

#[cfg(feature = "qlog")]
use crate::qlog::{Place, Qlog};
use crate::shared::State;

mod trace;

use trace::Tracing;

/// End of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// This end opened the connection.
    Client,
    /// This end accepted the connection.
    Server,
}

impl Role {
    const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// Settings of a socket that decide which observers its connections get.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observers {
    #[cfg(feature = "qlog")]
    pub(crate) qlog: Option<Place>,
}

impl Observers {
    /// Creates the observers of a connection between these addresses, the local one first.
    pub(crate) fn create(&self, ends: [SocketAddr; 2], role: Role) -> Vec<Box<dyn Observer>> {
        let mut observers: Vec<Box<dyn Observer>> = Vec::new();
        if let Some(tracing) = Tracing::new(ends, role) {
            observers.push(Box::new(tracing));
        }
        #[cfg(feature = "qlog")]
        if let Some(qlog) = self.qlog.as_ref().and_then(|place| Qlog::new(place, ends, role)) {
            observers.push(Box::new(qlog));
        }
        observers
    }
}

#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) observers: Observers,
    pub(crate) local: SocketAddr,
}

impl IncomingObservers for Incoming {
    fn observers(&mut self, _: Time, tuple: &Tuple) -> Vec<Box<dyn Observer>> {
        self.observers.create([local_of(self.local, tuple), tuple.remote], Role::Server)
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
