//! Line at the bottom of a terminal.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::{Monitor, Role};
use crate::report::{count, duration, rate, round_trip};
use crate::sync::lock;

impl Monitor {
    /// Returns what a person wants to know at a glance, the most important first. Data from tunnels goes down to
    /// clients of a forwarder, and up to targets of a gateway.
    #[expect(clippy::disallowed_methods, reason = "people read real time")]
    pub(super) fn glance(&self) -> Vec<String> {
        let uptime = Instant::now().saturating_duration_since(self.started).as_secs_f64();
        let state = lock(&self.state);
        let streams = count(state.streams().count() as u64, "stream");
        let last = state.history.back().copied().unwrap_or_default();
        let [sent, received] =
            [last.sent_bytes_per_second, last.received_bytes_per_second].map(|bytes| rate(bytes * 8.0));
        let mut parts = match self.role {
            Role::Forward if state.tunnels.is_empty() => vec!["not connected".to_owned()],
            Role::Forward => {
                let mut times: Vec<Duration> = state.tunnels.values().filter_map(|tunnel| tunnel.link.rtt).collect();
                times.sort_unstable();
                let rtt = times.get(times.len() / 2).map(|rtt| round_trip(*rtt));
                let links = state.tunnels.values().map(|tunnel| tunnel.link.retransmitted_bytes);
                let lost = (state.totals.retransmitted_bytes + links.sum::<u64>()) as f64;
                let share = 100.0 * lost / (lost + state.sums().0 as f64).max(1.0);
                let rates = [streams, format!("{received} down"), format!("{sent} up")];
                rates.into_iter().chain(rtt).chain([format!("{share:.1} % lost")]).collect()
            }
            Role::Gateway => {
                let peers: BTreeSet<_> =
                    state.tunnels.values().map(|tunnel| (&tunnel.peer, tunnel.address.ip())).collect();
                let peers = count(peers.len() as u64, "forwarder");
                vec![peers, streams, format!("{sent} down"), format!("{received} up")]
            }
        };
        parts.push(duration(uptime));
        parts
    }
}
