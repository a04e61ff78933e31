//! Converts the strings of a definition to settings.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;
use std::sync::Arc;

use longhaul_cc::{BuildParams, Congestion, unpaced, with_params};
use longhaul_link::spec::{LinkOptions, value};
use longhaul_link::topology::Duplex;
use longhaul_sim::full_segments;
use longhaul_tcp::{Config, PathCache};
use longhaul_units::{Bytes, Span};

use super::calls::Around;
use super::{CellSetup, FlowSetup, Source};
use crate::cell::Cell;
use crate::definition::{Choice, Definition, Fault, Flow, Setting, Tcp, Text};

/// Maximum number of connections per name.
const MOST_FLOWS: u32 = 1000;
/// Maximum duration of a run in seconds: one day.
const LONGEST: u64 = 86_400;
/// Maximum number of flow-seconds per run, because counters are kept per second: about 1 GB. A link counts as
/// [`FLOWS_OF_LINK`] flows.
const MOST_COUNTED: u64 = 10_000_000;
const FLOWS_OF_LINK: u64 = 50;
/// Bytes of a segment's header with timestamps (`docs/wire.md`), which the PLPMTU includes.
const HEADERS: u16 = 24;

/// Adds the choices in `add` to the axes, and then the given ones, which are not in the text.
pub(super) fn add(definition: &mut Definition, choices: &[(String, String)], source: Source<'_>) -> Result<(), Fault> {
    for (name, choices) in std::mem::take(&mut definition.add) {
        let axis = axis(definition, &name).map_err(|what| source.beside(&definition.id, "add", what))?;
        let choices = choices.into_iter().map(|name| Choice { name, variables: BTreeMap::new() });
        definition.axes[axis].choices.extend(choices);
    }
    for (name, choice) in choices {
        let axis = axis(definition, name).map_err(|what| source.fault(&definition.id, "add", what))?;
        let axis = &mut definition.axes[axis];
        // A choice that is not in the text has no position, so its faults are reported at its axis.
        let name = Text::new(axis.name.span(), choice.clone());
        axis.choices.push(Choice { name, variables: BTreeMap::new() });
    }
    Ok(())
}

/// Returns the index of an axis to which choices can be added by name.
fn axis(definition: &Definition, name: &str) -> Result<usize, String> {
    let place = definition.axes.iter().position(|axis| axis.name.get_ref() == name);
    let place = place.ok_or_else(|| format!("there is no axis {name:?}"))?;
    if definition.axes[place].choices.iter().any(|choice| !choice.variables.is_empty()) {
        return Err(format!("the choices on the axis {name:?} have variables, which a name does not tell"));
    }
    Ok(place)
}

pub(super) fn cell(definition: &Definition, cell: &Cell, source: Source<'_>) -> Result<CellSetup, Fault> {
    let filling = Filling { cell, source };
    let duration = filling.span(&definition.duration, "duration")?;
    if duration.is_zero() {
        return Err(source.fault(&definition.duration, "duration", "must be longer than 0 s"));
    }
    if duration > Span::from_secs(LONGEST) {
        return Err(source.fault(&definition.duration, "duration", format!("more than {LONGEST} s, a day")));
    }
    let links = filling.links(&definition.bottleneck)?;
    let flows = filling.flows(&definition.flows, links.len())?;
    let connections = flows.iter().map(|flow| u64::from(flow.count)).sum::<u64>();
    let seconds = duration.as_nanos() / 1_000_000_000;
    if seconds * (connections + FLOWS_OF_LINK * links.len() as u64) > MOST_COUNTED {
        let what =
            format!("too long for {connections} flows and {} links, which are sampled every second", links.len());
        return Err(source.fault(&definition.duration, "duration", what));
    }
    let traffic = definition.traffic.iter().map(|traffic| filling.traffic(traffic, links.len()));
    let traffic = traffic.collect::<Result<Vec<_>, _>>()?.concat();
    let probes = definition.probes.iter().map(|probe| filling.probe(probe, &traffic)).collect::<Result<Vec<_>, _>>()?;
    let workloads = definition.workloads.iter().map(|workload| filling.workload(workload, &links));
    let workloads = workloads.collect::<Result<Vec<_>, _>>()?;
    let crowds: Vec<&str> = workloads.iter().map(|workload| workload.name.as_str()).collect();
    let names: Vec<&str> = flows.iter().map(|flow| flow.name.as_str()).collect();
    let tools: Vec<&str> = probes.iter().map(|probe| probe.name.as_str()).collect();
    let around = Around { flows: &names, probes: &tools, workloads: &crowds, links: &links, duration };
    let metrics = definition.metrics.values().map(|metric| filling.metric(&metric.value, around));
    let metrics = metrics.collect::<Result<_, _>>()?;
    let series = definition.series.iter().map(|(name, series)| filling.series(name, series, around));
    let series = series.collect::<Result<_, _>>()?;
    Ok(CellSetup { links, metrics, series, flows, traffic, workloads, probes, duration })
}

#[derive(Clone, Copy)]
pub(super) struct Filling<'a> {
    cell: &'a Cell,
    source: Source<'a>,
}

impl Filling<'_> {
    pub(super) fn read<T, E: std::fmt::Display>(
        self,
        text: &Text,
        field: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, Fault> {
        let filled = self.cell.fill(text.get_ref()).map_err(|what| self.source.fault(text, field, what))?;
        read(&filled).map_err(|what| self.source.fault(text, field, what))
    }

    pub(super) fn span(self, text: &Text, field: &str) -> Result<Span, Fault> {
        self.read(text, field, value::span)
    }

    pub(super) fn link(self, text: &Text, field: &str) -> Result<Duplex, Fault> {
        self.read(text, field, |text| {
            let words: Vec<&str> = text.split_whitespace().collect();
            let mut options = LinkOptions::new();
            let read = options.read(&words).map_err(|error| error.to_string())?;
            if let Some(rest) = words.get(read) {
                return Err(format!(
                    "{rest:?} is not an option of a link; write it as --rate 10mbit --rtt 500ms --queue 1bdp"
                ));
            }
            let no_files = |_: &str| Err("experiments hold no files".to_owned());
            options.build(no_files).map(|path| path.link).map_err(|error| error.to_string())
        })
    }

    /// Reads an optional text, or returns the default without one.
    pub(super) fn optional<T: Default>(
        self,
        text: &Option<Text>,
        read: impl FnOnce(&Text) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        text.as_ref().map_or_else(|| Ok(T::default()), read)
    }

    /// Creates a fault at a text.
    pub(super) fn fault(self, at: &Text, field: &str, what: impl std::fmt::Display) -> Fault {
        self.source.fault(at, field, what)
    }

    /// Creates a fault at a field in the same table as the text `near`.
    pub(super) fn beside(self, near: &Text, field: &str, what: impl std::fmt::Display) -> Fault {
        self.source.beside(near, field, what)
    }

    /// Creates a fault at a position that is not a single text.
    pub(super) fn fault_at(self, span: Range<usize>, field: &str, what: impl std::fmt::Display) -> Fault {
        Fault::at(self.source.file, self.source.text, span, field, what)
    }

    /// Reads all flows. A flow can follow, or share hosts with, flows defined before it.
    fn flows(self, flows: &[Flow], links: usize) -> Result<Vec<FlowSetup>, Fault> {
        let mut setups: Vec<FlowSetup> = Vec::new();
        for flow in flows {
            let before = |text: &Option<Text>, field| {
                let place = |text: &Text| {
                    let found = setups.iter().position(|setup| setup.name == *text.get_ref());
                    let told = || format!("no flows {:?} are defined before these", text.get_ref());
                    found.ok_or_else(|| self.fault(text, field, told()))
                };
                text.as_ref().map(place).transpose()
            };
            let (after, hosts) = (before(&flow.after, "flows.after")?, before(&flow.hosts, "flows.hosts")?);
            let setup = FlowSetup { after, hosts, ..self.flow(flow, links)? };
            self.check_others(flow, &setup, &setups)?;
            setups.push(setup);
        }
        Ok(setups)
    }

    fn check_others(self, flow: &Flow, setup: &FlowSetup, before: &[FlowSetup]) -> Result<(), Fault> {
        let other = |place: Option<usize>| place.and_then(|place| before.get(place));
        if let (Some(text), Some(other)) = (&flow.after, other(setup.after))
            && other.bytes == u64::MAX
        {
            return Err(self.fault(text, "flows.after", format!("{} have no `bytes` and never end", other.name)));
        }
        let (Some(text), Some(other)) = (&flow.hosts, other(setup.hosts)) else { return Ok(()) };
        let has_own = flow.left.is_some() || flow.right.is_some() || flow.hops.is_some() || flow.tcp != Tcp::default();
        let what = if has_own {
            "flows with `hosts` cannot have `left`, `right`, `hops` or `tcp`, which are those of the other flows"
        } else if other.count != setup.count {
            "flows with `hosts` must have the same `count` as the other flows"
        } else if other.hosts.is_some() || other.config.congestion.name() != setup.config.congestion.name() {
            "a host has one congestion controller; `hosts` must name flows with their own hosts and the same controller"
        } else {
            return Ok(());
        };
        Err(self.fault(text, "flows.hosts", what))
    }

    fn flow(self, flow: &Flow, links: usize) -> Result<FlowSetup, Fault> {
        let count = self.number::<u32>(&flow.count, "flows.count")?.unwrap_or(1);
        if count == 0 || count > MOST_FLOWS {
            let what = format!("{count} is not within 1 to {MOST_FLOWS}");
            return Err(self.beside(&flow.name, "flows.count", what));
        }
        let span = |text, field| self.optional(text, |text| self.span(text, field));
        let access = |text, field| self.optional(text, |text| self.link(text, field));
        Ok(FlowSetup {
            name: flow.name.get_ref().clone(),
            count,
            config: Arc::new(self.config(&flow.congestion, &flow.tcp)?),
            bytes: match &flow.bytes {
                Some(text) => self.read(text, "flows.bytes", value::size)?,
                None => u64::MAX,
            },
            after: None,
            hosts: None,
            hops: self.hops(&flow.hops, "flows.hops", links)?,
            start: span(&flow.start, "flows.start")?,
            apart: span(&flow.apart, "flows.apart")?,
            spread: span(&flow.start_spread, "flows.start-spread")?,
            reads_after: span(&flow.reads_after, "flows.reads-after")?,
            left: access(&flow.left, "flows.left")?,
            right: access(&flow.right, "flows.right")?,
        })
    }

    pub(super) fn config(self, congestion: &Text, tcp: &Tcp) -> Result<Config, Fault> {
        let mut config = Config::default();
        full_segments(&mut config);
        config.congestion = self.read(congestion, "flows.congestion", FromStr::from_str)?;
        config.routers_answer = asks_routers(&config.congestion);
        config.congestion = self.host(tcp, config.congestion)?;
        let Tcp { segment, window, send_buffer, ack_every, ack_delay, ecn, sack, min_rto, pairs, cache, .. } = tcp;
        let segments = 1..=u64::from(u16::MAX - HEADERS);
        if let Some(segment) = self.within::<u16>(segment, "flows.tcp.segment", segments)? {
            let plpmtu = segment + HEADERS;
            (config.base_plpmtu, config.max_plpmtu) = (plpmtu, plpmtu);
        }
        if let Some(window) = self.within(window, "flows.tcp.window", 1..=u64::MAX)? {
            (config.recv_buffer, config.recv_buffer_max) = (window, window);
        }
        let send_buffer = self.within(send_buffer, "flows.tcp.send-buffer", 1..=u64::MAX)?;
        config.send_buffer = send_buffer.unwrap_or(config.send_buffer);
        config.ack_every = self.number(ack_every, "flows.tcp.ack-every")?.unwrap_or(config.ack_every);
        if let Some(Setting(text)) = ack_delay {
            config.ack_delay = self.span(text, "flows.tcp.ack-delay")?;
        }
        if let Some(Setting(text)) = min_rto {
            config.min_rto = self.span(text, "flows.tcp.min-rto")?;
        }
        config.ecn = self.switch(ecn, "flows.tcp.ecn")?.unwrap_or(config.ecn);
        config.sack = self.switch(sack, "flows.tcp.sack")?.unwrap_or(config.sack);
        config.timestamps = self.switch(&tcp.timestamps, "flows.tcp.timestamps")?.unwrap_or(config.timestamps);
        config.probe_pairs = self.switch(pairs, "flows.tcp.pairs")?.unwrap_or(config.probe_pairs);
        if self.switch(cache, "flows.tcp.cache")? == Some(true) {
            config.path_cache = Some(PathCache::default());
        }
        Ok(config)
    }

    /// Wraps `congestion` with the host's settings for thresholds, byte counting and pacing.
    fn host(self, tcp: &Tcp, congestion: Congestion) -> Result<Congestion, Fault> {
        let size = |text: &str| match text {
            "infinite" => Ok(None),
            _ => value::size(text).map(|bytes| Some(Bytes(bytes))),
        };
        let threshold = match &tcp.threshold {
            Some(Setting(text)) => self.read(text, "flows.tcp.threshold", size)?,
            None => None,
        };
        let byte_counting = self.switch(&tcp.byte_counting, "flows.tcp.byte-counting")?.unwrap_or(true);
        let mut congestion = congestion;
        if threshold.is_some() || !byte_counting {
            congestion = with_params(congestion, move |params| {
                params.initial_ssthresh = threshold.or(params.initial_ssthresh);
                params.byte_counting = byte_counting;
            });
        }
        let paced = self.switch(&tcp.paced, "flows.tcp.paced")?.unwrap_or(true);
        Ok(if paced { congestion } else { unpaced(congestion) })
    }

    pub(super) fn number<T: FromStr>(self, setting: &Option<Setting>, field: &str) -> Result<Option<T>, Fault> {
        self.setting(setting, field, &format!("a whole number of at most {} bits", 8 * size_of::<T>()))
    }

    /// Reads a number within the bounds.
    fn within<T: FromStr + Copy + TryInto<u64>>(
        self,
        setting: &Option<Setting>,
        field: &str,
        bounds: RangeInclusive<u64>,
    ) -> Result<Option<T>, Fault> {
        let number = self.number::<T>(setting, field)?;
        let is_outside = |number: &T| (*number).try_into().is_ok_and(|number| !bounds.contains(&number));
        let (Some(Setting(text)), Some(_)) = (setting, number.filter(is_outside)) else { return Ok(number) };
        let what = match (*bounds.start(), *bounds.end()) {
            (least, u64::MAX) => format!("less than {least}"),
            (least, most) => format!("not within {least} to {most}"),
        };
        Err(self.fault(text, field, what))
    }

    pub(super) fn switch(self, setting: &Option<Setting>, field: &str) -> Result<Option<bool>, Fault> {
        self.setting(setting, field, "true or false")
    }

    fn setting<T: FromStr>(self, setting: &Option<Setting>, field: &str, wanted: &str) -> Result<Option<T>, Fault> {
        let read = |text: &str| text.parse().map_err(|_| format!("{text:?} is not {wanted}"));
        setting.as_ref().map(|Setting(text)| self.read(text, field, read)).transpose()
    }
}

/// Whether the controller requests assistance from routers. The routers in the experiment file are trusted.
fn asks_routers(congestion: &Congestion) -> bool {
    let needs = congestion.build(&BuildParams::default()).needs();
    needs.required.network_header.or(needs.preferred.network_header).is_some()
}
