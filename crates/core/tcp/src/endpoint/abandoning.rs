//! End of an endpoint whose connections have not ended.

use longhaul_units::Time;

use crate::{ConnId, Connection, Endpoint, State};

impl Endpoint {
    /// Prepares for the endpoint to be dropped: connections that did not finish sending get a RST, which
    /// [`poll_transmit`](Self::poll_transmit) returns. If the FIN was sent, or only the peer's window keeps it, there is
    /// no RST: the peer can do without our last acknowledgment, and a RST could make it discard unread data. If data has
    /// not been sent, the peer would wait forever, so it gets a RST, and so does a peer whose data is discarded.
    ///
    /// Connections at rest are left for [`abandon_resting`](Self::abandon_resting), since their RSTs take memory.
    pub fn abandon(&mut self, now: Time) {
        self.unlisten(now);
        let ours = |state| matches!(state, State::FinWait1 | State::Closing | State::LastAck | State::TimeWait);
        for id in self.ids(|slot| slot.connection.is_awake()) {
            self.drive(now, id, |connection| {
                if connection.status().discards() || !(ours(connection.state()) && connection.pending().hurry_fin()) {
                    connection.abort();
                }
            });
        }
    }

    /// Resets and forgets up to `most` connections at rest in the slots from `first` on. Returns the first slot that has
    /// not been looked at, or `None` if there is none.
    pub fn abandon_resting(&mut self, now: Time, first: usize, most: usize) -> Option<usize> {
        let mut left = most;
        for index in first..self.slots.len() {
            if left == 0 {
                return Some(index);
            }
            let slot = self.slots.get(index).and_then(Option::as_deref).filter(|slot| !slot.connection.is_awake());
            let Some(generation) = slot.map(|slot| slot.generation) else { continue };
            let id = ConnId { slot: index as u32, generation };
            self.drive(now, id, Connection::abort);
            // Otherwise, it would keep its larger form.
            self.release(now, id);
            left -= 1;
        }
        None
    }
}
