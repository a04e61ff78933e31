//! Status page for a browser, and its data.

#![expect(non_camel_case_types, reason = "type parameters of objects have the names of members")]

use std::time::Duration;

use longhaul::SendLimit;
use serde::Serialize;
use tokio::time::Instant;

use super::{INTERVAL, Monitor, Point, StreamState, TunnelState};
use crate::report::{json_line, object};
use crate::sync::lock;
use crate::transport::Snapshot;

/// Maximum number of connections in the data: those with the highest rates.
const MAX_CONNECTIONS: usize = 500;
/// Placeholder for the nonce of the page's script and style.
const NONCE: &str = "{{nonce}}";

impl Monitor {
    #[expect(clippy::disallowed_methods, reason = "pages for people show real time")]
    pub(crate) fn status(&self) -> String {
        let (pool, now) = (self.pool(), Instant::now());
        let state = lock(&self.state);
        let (sent_bytes, received_bytes) = state.sums();
        let mut streams: Vec<_> = state.streams().collect();
        let open = streams.len();
        streams.sort_by(|(_, a), (_, b)| rate(b).total_cmp(&rate(a)));
        let connections = streams.into_iter().take(MAX_CONNECTIONS);
        let connections = connections.map(|(tunnel, stream)| connection(tunnel, stream, now));
        let list =
            |value: fn(&Point) -> f64| state.history.iter().map(|point| value(point).round()).collect::<Vec<_>>();
        let links = state.tunnels.values().map(|tunnel| tunnel.link.retransmitted_bytes);
        let status = object! {
            program: self.role.name(),
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: rounded(now.saturating_duration_since(self.started)),
            pool: pool,
            tunnels: state.tunnels.len(),
            // `connections` contains at most 500 of them.
            open: open,
            connections_total: state.totals.streams,
            sent_bytes: sent_bytes,
            received_bytes: received_bytes,
            retransmitted_bytes: state.totals.retransmitted_bytes + links.sum::<u64>(),
            refusals: state.totals.refused.values().sum::<u64>(),
            connections: connections.collect::<Vec<_>>(),
            history: object! {
                interval_seconds: INTERVAL.as_secs_f64(),
                sent_bytes_per_second: list(|point| point.sent_bytes_per_second),
                received_bytes_per_second: list(|point| point.received_bytes_per_second),
                connections: state.history.iter().map(|point| point.connections).collect::<Vec<_>>(),
            },
        };
        json_line(&status)
    }
}

/// Returns the page. Its script and style run only with `nonce`, which must not contain characters that HTML
/// interprets.
pub(super) fn page(nonce: &str) -> String {
    include_str!("page.html").replace(NONCE, nonce)
}

fn connection(tunnel: &TunnelState, stream: &StreamState, now: Instant) -> impl Serialize + use<> {
    let Snapshot { rtt, min_rtt, cwnd_bytes, retransmitted_bytes, .. } = tunnel.link;
    let (sent_bytes, received_bytes) = stream.traffic.now();
    object! {
        peer: tunnel.peer.clone(),
        address: tunnel.address.to_string(),
        target: stream.target.to_string(),
        open_seconds: rounded(now.saturating_duration_since(stream.opened)),
        sent_bytes: sent_bytes,
        received_bytes: received_bytes,
        sent_bytes_per_second: stream.rates.0.round(),
        received_bytes_per_second: stream.rates.1.round(),
        rtt_seconds: rtt.map(|rtt| rtt.as_secs_f64()),
        min_rtt_seconds: min_rtt.map(|rtt| rtt.as_secs_f64()),
        cwnd_bytes: cwnd_bytes,
        retransmitted_bytes: retransmitted_bytes,
        limited_by: tunnel.limited.map(SendLimit::name),
    }
}

fn rate(stream: &StreamState) -> f64 {
    stream.rates.0 + stream.rates.1
}

fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}
