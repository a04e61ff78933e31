//! Installation of observers on connections.

use longhaul_units::Time;

use crate::{ConnId, Endpoint, IncomingObservers, Observer};

#[expect(clippy::multiple_inherent_impl, reason = "one file per task")]
impl Endpoint {
    /// Adds an observer to a connection, in addition to any other. If this is done right after
    /// [`connect`](Self::connect), the observer receives every event of the connection. Returns `false` if the
    /// connection is over.
    pub fn observe(&mut self, now: Time, id: ConnId, observer: Box<dyn Observer>) -> bool {
        let now = self.advance(now);
        let Some(connection) = self.connection_mut(id).filter(|connection| !connection.status().is_drained()) else {
            return false;
        };
        connection.begin_call(now);
        connection.watch().add(observer);
        true
    }

    /// Sets the factory of observers for connections that peers open. It applies to connections whose SYN arrives
    /// later; they are observed from their SYN on.
    pub fn observe_incoming(&mut self, observers: Option<Box<dyn IncomingObservers>>) {
        self.incoming_observers = observers;
    }

    pub(super) fn observe_opened(&mut self, now: Time, index: u32) {
        let Some(factory) = &mut self.incoming_observers else { return };
        let Some(slot) = self.slots.get_mut(index as usize).and_then(Option::as_deref_mut) else { return };
        for observer in factory.observers(now, &slot.tuple) {
            slot.connection.begin_call(now);
            slot.connection.watch().add(observer);
        }
    }
}
