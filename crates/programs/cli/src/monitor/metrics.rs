//! Metrics in the text format of Prometheus (version 0.0.4).

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::time::Duration;

use super::Monitor;
use crate::sync::lock;
use crate::tunnel::Reason;

pub(super) const ORDERLY: &str = "orderly";
pub(super) const TUNNEL_FAILED: &str = "tunnel-failed";

pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Monitor {
    #[expect(clippy::disallowed_methods, reason = "the uptime is real time")]
    pub(crate) fn metrics(&self) -> String {
        let pool = self.pool();
        let state = lock(&self.state);
        let totals = &state.totals;
        let (sent, received) = state.sums();
        let mut text = Text::default();
        text.family("info", "gauge", "Program and version.");
        text.labelled("info", &[("program", self.role.name()), ("version", env!("CARGO_PKG_VERSION"))], 1);
        let uptime = tokio::time::Instant::now().saturating_duration_since(self.started);
        text.single("uptime_seconds", "gauge", "Time since the start of the program.", uptime.as_secs_f64());

        text.single("connections", "gauge", "Forwarded connections that are open.", state.streams().count());
        text.single("connections_total", "counter", "Forwarded connections that were opened.", totals.streams);
        let reasons = |refusals| Reason::all().filter(move |reason| reason.is_refusal() == refusals).map(Reason::name);
        let ends = [ORDERLY, TUNNEL_FAILED].into_iter().chain(reasons(false));
        text.family("connections_ended_total", "counter", "Forwarded connections that have ended, by how they ended.");
        text.counts("connections_ended_total", "how", ends, &totals.ended);
        text.family("refusals_total", "counter", "Connections that were not opened, by reason.");
        text.counts("refusals_total", "reason", reasons(true), &totals.refused);
        text.single("sent_bytes_total", "counter", "Bytes from forwarded connections into tunnels.", sent);
        text.single("received_bytes_total", "counter", "Bytes from tunnels to forwarded connections.", received);

        text.single("tunnels", "gauge", "Tunnels that are open.", state.tunnels.len());
        text.single("tunnels_total", "counter", "Tunnels that were opened.", totals.tunnels);
        text.single("tunnels_failed_total", "counter", "Tunnels that failed.", totals.tunnels_failed);
        text.single(
            "tunnels_refused_total",
            "counter",
            "Tunnels over a limit of their number.",
            totals.tunnels_refused,
        );
        let links = || state.tunnels.values().map(|tunnel| &tunnel.link);
        let retransmissions = totals.retransmissions + links().map(|link| link.retransmissions).sum::<u64>();
        let bytes = totals.retransmitted_bytes + links().map(|link| link.retransmitted_bytes).sum::<u64>();
        text.single("retransmissions_total", "counter", "Segments retransmitted by this end.", retransmissions);
        text.single("retransmitted_bytes_total", "counter", "Payload bytes retransmitted by this end.", bytes);
        let limited = links().fold(totals.limited, |sum, link| super::plus(&sum, &link.limited_by));
        text.family("limited_seconds_total", "counter", "Time of the senders of all tunnels by what limited them.");
        for (limit, time) in limited.fields() {
            text.labelled("limited_seconds_total", &[("by", limit.name())], time.as_secs_f64());
        }
        text.family("round_trip_seconds", "gauge", "Smoothed round-trip time of the tunnels that are open.");
        let mut times: Vec<Duration> = links().filter_map(|link| link.rtt).collect();
        times.sort_unstable();
        let quantile = |part: f64| times.get((times.len().saturating_sub(1) as f64 * part).round() as usize);
        for (name, part) in [("min", 0.0), ("median", 0.5), ("max", 1.0)] {
            if let Some(time) = quantile(part) {
                text.labelled("round_trip_seconds", &[("of", name)], time.as_secs_f64());
            }
        }
        if let Some(members) = self.members.get() {
            text.family("strays_total", "counter", "Datagrams for tunnels of other gateways of the group.");
            for (name, count) in members.counts.all() {
                text.labelled("strays_total", &[("what", name)], count);
            }
        }
        if let Some(pool) = pool {
            text.family("pool_tunnels", "gauge", "Tunnels of the pool by state.");
            for (name, count) in [("idle", pool.idle), ("busy", pool.busy), ("building", pool.building)] {
                text.labelled("pool_tunnels", &[("state", name)], count);
            }
            text.single("pool_waiting", "gauge", "Connections that wait for a tunnel.", pool.waiting);
        }
        text.0
    }
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = write!(self.0, "# HELP longhaul_{name} {help}\n# TYPE longhaul_{name} {kind}\n");
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        let _ = writeln!(self.0, "longhaul_{name} {value}");
    }

    fn labelled(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<_> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let _ = writeln!(self.0, "longhaul_{name}{{{}}} {value}", labels.join(","));
    }

    /// Writes counts with one label. Counts that are not in the map are zero.
    fn counts<'a>(
        &mut self,
        name: &str,
        label: &str,
        values: impl Iterator<Item = &'a str>,
        counts: &BTreeMap<&'static str, u64>,
    ) {
        for value in values {
            self.labelled(name, &[(label, value)], counts.get(value).copied().unwrap_or(0));
        }
    }
}
