//! Hosts of papers, and the settings of what runs on them.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use longhaul_cc::Congestion;
use longhaul_link::spec::value;
use longhaul_sim::full_segments;
use longhaul_tcp::{Config, PathCache};
use longhaul_units::Bytes;
use longhaul_zoo::{unpaced, with_params};
use serde::Deserialize;

use super::prepare::{Filling, asks_routers, number, switch, within};
use crate::definition::{Fault, Tcp, Text};

/// The hosts by name.
const HOSTS: &str = include_str!("../../hosts.toml");
/// Bytes of a segment's header with timestamps (`docs/wire.md`), which the PLPMTU includes.
const HEADERS: u16 = 24;

/// Settings of a host, which apply unless a flow or workload has its own.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Host {
    /// Algorithms by slot.
    stages: BTreeMap<String, String>,
    tcp: Tcp,
}

impl Host {
    fn named(name: &str) -> Result<Self, String> {
        let mut all: BTreeMap<String, Self> = toml::from_str(HOSTS).map_err(|error| error.to_string())?;
        let known = all.keys().cloned().collect::<Vec<_>>().join(", ");
        all.remove(name).ok_or_else(|| format!("{name:?} is not a host; there are: {known}"))
    }

    /// Adds the host's algorithms to a controller in the long form, for the slots that it leaves open.
    fn complete(&self, congestion: &str) -> String {
        let is_long = congestion.split('(').next().is_some_and(|start| start.contains('='));
        let has = |slot: &str| congestion.split(',').any(|item| item.split('=').next().map(str::trim) == Some(slot));
        let added = self.stages.iter().filter(|(slot, _)| is_long && !has(slot));
        added.fold(congestion.to_owned(), |text, (slot, stage)| format!("{text},{slot}={stage}"))
    }
}

/// The settings of a flow or workload, with those of its host. Each is read once.
pub(super) struct Settings<'a> {
    filling: Filling<'a>,
    host: Host,
    unread: Tcp,
}

impl<'a> Filling<'a> {
    pub(super) fn settings(self, host: &Option<Text>, own: &Tcp) -> Result<Settings<'a>, Fault> {
        let at = host.as_ref().or(self.host);
        let host = at.map(|name| self.read(name, "flows.host", Host::named)).transpose()?.unwrap_or_default();
        // Faults of the host's settings are reported where it is named.
        let of_host = host.tcp.iter().zip(at.iter().cycle());
        let of_host = of_host.map(|((name, text), at)| (name.clone(), Text::new(at.span(), text.get_ref().clone())));
        let unread = of_host.chain(own.clone()).collect();
        Ok(Settings { filling: self, host, unread })
    }
}

impl Settings<'_> {
    pub(super) fn or<T, E: Display>(
        &mut self,
        usual: T,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, Fault> {
        self.filling.or(usual, &self.unread.remove(name), &format!("flows.tcp.{name}"), read)
    }

    /// Fails if there is a setting that nothing has read.
    pub(super) fn end(self) -> Result<(), Fault> {
        let fault = |(name, text)| self.filling.fault(text, &format!("flows.tcp.{name}"), "there is no such setting");
        self.unread.iter().next().map_or(Ok(()), |unread| Err(fault(unread)))
    }

    pub(super) fn config(&mut self, congestion: &Text) -> Result<Config, Fault> {
        let mut config = Config::default();
        if !self.or(false, "search-mtu", switch)? {
            full_segments(&mut config);
        }
        let complete = |text: &str| Congestion::from_str(&self.host.complete(text));
        config.congestion = self.filling.read(congestion, "flows.congestion", complete)?;
        config.routers_answer = self.or(asks_routers(&config.congestion), "routers-answer", switch)?;
        config.congestion = self.congestion(config.congestion)?;
        let segments = |text: &str| within::<u16>(text, 1..=u64::from(u16::MAX - HEADERS)).map(Some);
        if let Some(segment) = self.or(None, "segment", segments)? {
            let plpmtu = segment + HEADERS;
            (config.base_plpmtu, config.max_plpmtu) = (plpmtu, plpmtu);
        }
        let some = |text: &str| within(text, 1..=u64::MAX);
        if let Some(window) = self.or(None, "window", |text| some(text).map(Some))? {
            (config.recv_buffer, config.recv_buffer_max) = (window, window);
        }
        config.send_buffer = self.or(config.send_buffer, "send-buffer", some)?;
        config.ack_every = self.or(config.ack_every, "ack-every", number)?;
        config.quick_acks = self.or(config.quick_acks, "quick-acks", number)?;
        config.ack_delay = self.or(config.ack_delay, "ack-delay", value::span)?;
        config.min_rto = self.or(config.min_rto, "min-rto", value::span)?;
        config.ecn = self.or(config.ecn, "ecn", switch)?;
        config.sack = self.or(config.sack, "sack", switch)?;
        config.timestamps = self.or(config.timestamps, "timestamps", switch)?;
        config.extensions = self.or(config.extensions, "extensions", switch)?;
        config.moderation = self.or(config.moderation, "moderation", switch)?;
        config.probe_pairs = self.or(config.probe_pairs, "pairs", switch)?;
        config.path_cache = self.or(false, "cache", switch)?.then(PathCache::default);
        Ok(config)
    }

    /// Wraps `congestion` with the host's settings for thresholds, byte counting and pacing.
    fn congestion(&mut self, mut congestion: Congestion) -> Result<Congestion, Fault> {
        let size = |text: &str| match text {
            "infinite" => Ok(None),
            _ => value::size(text).map(|bytes| Some(Bytes(bytes))),
        };
        let threshold = self.or(None, "threshold", size)?;
        let byte_counting = self.or(true, "byte-counting", switch)?;
        if threshold.is_some() || !byte_counting {
            congestion = with_params(congestion, move |params| {
                params.initial_ssthresh = threshold.or(params.initial_ssthresh);
                params.byte_counting = byte_counting;
            });
        }
        Ok(if self.or(true, "paced", switch)? { congestion } else { unpaced(congestion) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_completes_what_a_controller_leaves_open() {
        let host = Host::named("freebsd-4.1").unwrap();
        let [recovery, slow_start] = [&host.stages["recovery"], &host.stages["slow-start"]];
        for (own, all) in [
            ("avoidance=new-reno", format!("avoidance=new-reno,recovery={recovery},slow-start={slow_start}")),
            (
                "startup=swift-start(gamma=4,tick=1),recovery=prr",
                format!("startup=swift-start(gamma=4,tick=1),recovery=prr,slow-start={slow_start}"),
            ),
            ("new-reno", "new-reno".into()),
            ("swift-start(gamma=4)+new-reno", "swift-start(gamma=4)+new-reno".into()),
        ] {
            assert_eq!(host.complete(own), all);
        }
        assert_eq!(Host::default().complete("avoidance=cubic"), "avoidance=cubic");
        assert!(
            Host::named("freebsd").unwrap_err().contains("freebsd-4.1, freebsd-4.5, linux-2.4, linux-2.6.18, ns-2")
        );
    }
}
