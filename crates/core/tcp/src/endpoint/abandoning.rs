//! End of an endpoint whose connections have not ended.

use longhaul_units::Time;

use crate::{Endpoint, State};

impl Endpoint {
    /// Prepares for the endpoint to be dropped: connections that did not finish sending get a RST, which
    /// [`poll_transmit`](Self::poll_transmit) returns. If the FIN was sent, or only the peer's window keeps it, there is
    /// no RST: the peer can do without our last acknowledgment, and a RST could make it discard unread data. If data has
    /// not been sent, the peer would wait forever, so it gets a RST, and so does a peer whose data is discarded.
    pub fn abandon(&mut self, now: Time) {
        self.unlisten(now);
        let ours = |state| matches!(state, State::FinWait1 | State::Closing | State::LastAck | State::TimeWait);
        for id in self.ids(|_| true) {
            self.drive(now, id, |connection| {
                if connection.status().discards() || !(ours(connection.state()) && connection.pending().hurry_fin()) {
                    connection.abort();
                }
            });
        }
    }
}
