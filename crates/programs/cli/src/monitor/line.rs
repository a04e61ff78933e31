//! Line at the bottom of a terminal.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::{Monitor, Role};
use crate::report::{count, duration, rate, round_trip};
use crate::sync::lock;

/// Minimum number of bytes for which the share of lost bytes is shown. With fewer bytes, a retransmitted handshake
/// would dominate the share.
const LEAST: u64 = 100_000;

impl Monitor {
    /// Returns a summary, most important values first. Data from tunnels counts as down at a forwarder, and as up at a
    /// gateway.
    #[expect(clippy::disallowed_methods, reason = "people read real time")]
    pub(super) fn glance(&self) -> Vec<String> {
        let uptime = Instant::now().saturating_duration_since(self.started).as_secs_f64();
        let state = lock(&self.state);
        let streams = count(state.streams().count() as u64, "stream");
        let last = state.history.back().copied().unwrap_or_default();
        let [sent_rate, received] =
            [last.sent_bytes_per_second, last.received_bytes_per_second].map(|bytes| rate(bytes * 8.0));
        let mut parts = match self.role {
            Role::Forward if state.tunnels.is_empty() => vec!["not connected".to_owned()],
            Role::Forward => {
                let mut times: Vec<Duration> = state.tunnels.values().filter_map(|tunnel| tunnel.link.rtt).collect();
                times.sort_unstable();
                let rtt = times.get(times.len() / 2).map(|rtt| round_trip(*rtt));
                let links = || state.tunnels.values().map(|tunnel| &tunnel.link);
                let lost = links().map(|link| link.retransmitted_bytes).sum::<u64>();
                let sent = lost + links().map(|link| link.acked_bytes).sum::<u64>();
                let share = 100.0 * lost as f64 / sent as f64;
                let lost = (sent >= LEAST).then(|| format!("{share:.1} % lost"));
                let rates = [streams, format!("{received} down"), format!("{sent_rate} up")];
                rates.into_iter().chain(rtt).chain(lost).collect()
            }
            Role::Gateway => {
                let peers: BTreeSet<_> =
                    state.tunnels.values().map(|tunnel| (&tunnel.peer, tunnel.address.ip())).collect();
                let peers = count(peers.len() as u64, "forwarder");
                vec![peers, streams, format!("{sent_rate} down"), format!("{received} up")]
            }
        };
        parts.push(duration(uptime));
        parts
    }
}
