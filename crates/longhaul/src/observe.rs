//! Observation of connections: tracing events, qlog samples, flushing of captures.

use longhaul_tcp::{ConnId, Event};
use longhaul_units::Time;

use crate::shared::{State, slot};

impl State {
    /// Assigns a tracing span to a connection.
    pub(crate) fn set_span(&mut self, id: ConnId, span: tracing::Span) {
        let opening = self.endpoint.connection(id).is_some_and(|c| !c.state().is_synchronized());
        tracing::debug!(parent: &span, "{}", if opening { "connecting" } else { "accepted" });
        slot(&mut self.waiters, id).span = Some(Box::new(span));
    }

    /// Records an event of a connection.
    pub(crate) fn note(&mut self, id: ConnId, event: Event) {
        match event {
            Event::Connected => self.log(id, "connected"),
            Event::Stalled => self.warn(id),
            // The process may exit once the task that waits for this event is woken.
            Event::Finished => self.flush_captures(),
            Event::Closed => {
                self.log(id, "ended");
                self.flush_captures();
            }
            _ => {}
        }
    }

    /// Records that the application has dropped its handle of a connection.
    pub(crate) fn note_release(&mut self, id: ConnId) {
        self.log(id, "released");
    }

    /// Warns that several retransmissions went unanswered (R1 of RFC 9293, section 3.8.3).
    fn warn(&mut self, id: ConnId) {
        let Some(span) = &slot(&mut self.waiters, id).span else { return };
        let Some(connection) = self.endpoint.connection(id) else { return };
        let cause = connection.host_error().map_or("unknown", longhaul_tcp::HostError::name);
        tracing::warn!(parent: &**span, state = %connection.state(), cause, "the peer does not respond");
    }

    fn log(&mut self, id: ConnId, what: &'static str) {
        let Some(span) = &slot(&mut self.waiters, id).span else { return };
        let Some(connection) = self.endpoint.connection(id) else { return };
        let state = connection.state();
        match connection.error() {
            Some(error) => tracing::debug!(parent: &**span, %state, %error, "{what}"),
            None => tracing::debug!(parent: &**span, %state, "{what}"),
        }
    }

    /// Takes the qlog samples that are due. It is called once per poll of the driver.
    pub(crate) fn observe(&mut self, now: Time) {
        if !self.qlogs.is_empty() {
            self.qlogs.sample(now, &self.endpoint);
        }
    }

    fn flush_captures(&mut self) {
        for capture in &mut self.captures {
            capture.flush();
        }
    }
}
