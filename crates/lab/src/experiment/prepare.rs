//! Converts the strings of a definition to settings.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;
use std::sync::Arc;

use longhaul_cc::{BuildParams, Congestion};
use longhaul_link::spec::{LinkOptions, value};
use longhaul_link::topology::Duplex;
use longhaul_probe::MethodKind;
use longhaul_probe::sim::ReceiverClock;
use longhaul_tcp::{Config, PathCache};
use longhaul_units::Span;

use super::calls::Around;
use super::{CellSetup, FlowSetup, Foreign, Source, TrafficSetup};
use crate::cell::Cell;
use crate::definition::{Axis, Choice, Definition, Fault, Flow, Probe, Text, Texts};
use crate::probing::ProbeSetup;
use crate::stack::{self, Stack};

/// Maximum number of connections per name.
const MOST_FLOWS: u32 = 1000;
/// Maximum duration of a run in seconds: one day.
const LONGEST: u64 = 86_400;
/// Maximum number of flow-seconds per run, because counters are kept per second: about 1 GB. A link counts as
/// [`FLOWS_OF_LINK`] flows.
const MOST_COUNTED: u64 = 10_000_000;
const FLOWS_OF_LINK: u64 = 50;

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

/// Sets variables that choices do not set to the defaults of their axis.
pub(super) fn set_defaults(definition: &mut Definition) {
    for Axis { defaults, choices, .. } in &mut definition.axes {
        for (name, value) in defaults {
            for choice in &mut *choices {
                choice.variables.entry(name.clone()).or_insert_with(|| value.get_ref().clone());
            }
        }
    }
}

fn axis(definition: &Definition, name: &str) -> Result<usize, String> {
    let place = definition.axis(name)?;
    let Axis { defaults, choices, .. } = &definition.axes[place];
    if choices.iter().flat_map(|choice| choice.variables.keys()).any(|name| !defaults.contains_key(name)) {
        return Err(format!("the choices on the axis {name:?} have variables, which a name does not tell"));
    }
    Ok(place)
}

pub(super) fn cell(definition: &Definition, cell: &Cell, source: Source<'_>) -> Result<CellSetup, Fault> {
    let filling = Filling { cell, source, host: definition.host.as_ref() };
    let duration = filling.read(&definition.duration, "duration", value::span)?;
    if duration.is_zero() {
        return Err(source.fault(&definition.duration, "duration", "must be longer than 0 s"));
    }
    if duration > Span::from_secs(LONGEST) {
        return Err(source.fault(&definition.duration, "duration", format!("more than {LONGEST} s, a day")));
    }
    let links = filling.links(&definition.bottleneck)?;
    let flows = filling.flows(&definition.flows, links.len())?;
    let foreign = definition.flows.iter().zip(&flows).filter_map(|(flow, setup)| Some((flow, setup.foreign.as_ref()?)));
    for (flow, foreign) in foreign {
        if foreign.is_in_virtual_time() == definition.real_time {
            let what = if definition.real_time { "runs only in virtual time" } else { "needs `real-time = true`" };
            let at = flow.transport.as_ref().unwrap_or(&flow.congestion);
            return Err(source.fault(at, "flows.transport", format!("{foreign} {what}")));
        }
    }
    let of_messages = definition.flows.iter().find_map(|flow| flow.message.as_ref());
    if let Some(message) = of_messages.filter(|_| !definition.real_time) {
        return Err(source.fault(message, "flows.message", "messages need `real-time = true`"));
    }
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
    let around = Around { flows: &flows, probes: &probes, workloads: &workloads, links: &links, duration };
    let metrics = definition.metrics.values().map(|metric| filling.metric(&metric.value, around));
    let metrics = metrics.collect::<Result<_, _>>()?;
    let series = definition.series.iter().map(|(name, series)| filling.series(name, series, around));
    let series = series.collect::<Result<_, _>>()?;
    let real_time = definition.real_time;
    Ok(CellSetup { links, metrics, series, flows, traffic, workloads, probes, duration, real_time, captures: None })
}

#[derive(Clone, Copy)]
pub(super) struct Filling<'a> {
    cell: &'a Cell,
    source: Source<'a>,
    /// The host of flows and workloads that name none.
    pub(super) host: Option<&'a Text>,
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

    /// Reads a text, if there is one.
    pub(super) fn given<T, E: std::fmt::Display>(
        self,
        text: &Option<Text>,
        field: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Fault> {
        text.as_ref().map(|text| self.read(text, field, read)).transpose()
    }

    /// Reads a text, or returns the default without one.
    pub(super) fn or<T, E: std::fmt::Display>(
        self,
        usual: T,
        text: &Option<Text>,
        field: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, Fault> {
        Ok(self.given(text, field, read)?.unwrap_or(usual))
    }

    pub(super) fn fault(self, at: &Text, field: &str, what: impl std::fmt::Display) -> Fault {
        self.source.fault(at, field, what)
    }

    /// Creates a fault at a field in the same table as the text `near`.
    pub(super) fn beside(self, near: &Text, field: &str, what: impl std::fmt::Display) -> Fault {
        self.source.beside(near, field, what)
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
            // Flows without connections in this cell have neither an end nor hosts.
            let existing = |place: &usize| setups[*place].count > 0;
            let (after, hosts) = (after.filter(existing), hosts.filter(existing));
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
        let has_own = flow.left.is_some() || flow.right.is_some() || flow.hops.is_some() || !flow.tcp.is_empty();
        let what = if has_own {
            "flows with `hosts` cannot have `left`, `right`, `hops` or `tcp`, which are those of the other flows"
        } else if other.foreign.is_some() || setup.foreign.is_some() {
            "only flows of longhaul can share hosts"
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
        let foreign = self.foreign(flow)?;
        let mut settings = self.settings(&flow.host, &flow.tcp)?;
        let mut config = if foreign.is_some() { Config::default() } else { settings.config(&flow.congestion)? };
        let messages = self.messages(flow)?;
        // Each write is a message, as with the kernel's TCP_NODELAY.
        config.nagle &= messages.is_none();
        let knows_path = settings.or(false, "known-path", switch)?;
        config.path_cache = config.path_cache.or_else(|| knows_path.then(PathCache::default));
        let arrival_times = settings.or(false, "arrival-times", switch)?;
        let receive_hold = settings.or(Span::ZERO, "receive-hold", value::span)?;
        let tick = settings.or(None, "tick", |text| value::span(text).map(Some))?;
        if foreign.is_none() {
            settings.end()?;
        }
        Ok(FlowSetup {
            name: flow.name.get_ref().clone(),
            count: self.or(1, &flow.count, "flows.count", |text| counted(text, 0..=MOST_FLOWS))?,
            config: Arc::new(config),
            foreign,
            bytes: self.or(u64::MAX, &flow.bytes, "flows.bytes", value::size)?,
            messages,
            after: None,
            hosts: None,
            knows_path,
            arrival_times,
            receive_hold,
            tick,
            hops: self.hops(&flow.hops, "flows.hops", links)?,
            start: self.or(Span::ZERO, &flow.start, "flows.start", value::span)?,
            apart: self.or(Span::ZERO, &flow.apart, "flows.apart", value::span)?,
            spread: self.or(Span::ZERO, &flow.start_spread, "flows.start-spread", value::span)?,
            reads_after: self.or(Span::ZERO, &flow.reads_after, "flows.reads-after", value::span)?,
            left: self.or(Duplex::default(), &flow.left, "flows.left", link)?,
            right: self.or(Duplex::default(), &flow.right, "flows.right", link)?,
        })
    }

    fn messages(self, flow: &Flow) -> Result<Option<(u64, Span)>, Fault> {
        let Some(message) = &flow.message else { return Ok(None) };
        let bytes = self.read(message, "flows.message", value::size)?;
        let every = self.or(Span::ZERO, &flow.message_every, "flows.message-every", value::span)?;
        if bytes == 0 || every.is_zero() {
            return Err(self.fault(message, "flows.message", "messages need a size and `message-every`"));
        }
        Ok(Some((bytes, every)))
    }

    /// Returns the transport of these flows, unless it is longhaul.
    fn foreign(self, flow: &Flow) -> Result<Option<Foreign>, Fault> {
        /// Relation of the name of the controller to the transport.
        enum Of {
            /// A stack if the name begins with one, else longhaul.
            Name,
            Others(fn(&str) -> Result<Foreign, String>),
            Stack(&'static dyn Stack),
        }
        let read = |text: &str| match text {
            "longhaul" => Ok(Of::Name),
            "kernel" => Ok(Of::Others(|congestion| Ok(Foreign::Kernel(congestion.into())))),
            "picoquic" => Ok(Of::Others(Foreign::picoquic)),
            other => match stack::find(other) {
                Some(stack) => Ok(Of::Stack(stack)),
                None => Err(format!("{other:?} is none of longhaul, kernel, picoquic{}", stack::names(", "))),
            },
        };
        let of = self.or(Of::Name, &flow.transport, "flows.transport", read)?;
        self.read(&flow.congestion, "flows.congestion", |congestion| match of {
            Of::Name => stack::split(congestion).map(|(stack, own)| Foreign::of_stack(stack, own)).transpose(),
            Of::Others(with) => with(congestion).map(Some),
            Of::Stack(stack) => Foreign::of_stack(stack, congestion).map(Some),
        })
    }
}

pub(super) fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not a whole number of at most {} bits", 8 * size_of::<T>()))
}

pub(super) fn switch(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("{text:?} is not true or false"))
}

pub(super) fn within<T: FromStr + Copy + TryInto<u64>>(text: &str, bounds: RangeInclusive<u64>) -> Result<T, String> {
    let number: T = number(text)?;
    match (*bounds.start(), *bounds.end()) {
        _ if number.try_into().is_ok_and(|number| bounds.contains(&number)) => Ok(number),
        (least, u64::MAX) => Err(format!("less than {least}")),
        (least, most) => Err(format!("not within {least} to {most}")),
    }
}

/// Reads the number of flows or sources of a name.
pub(super) fn counted(text: &str, bounds: RangeInclusive<u32>) -> Result<u32, String> {
    let count = number(text)?;
    if bounds.contains(&count) { Ok(count) } else { Err(format!("{count} is not within 1 to {}", bounds.end())) }
}

pub(super) fn link(text: &str) -> Result<Duplex, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut options = LinkOptions::new();
    let read = options.read(&words).map_err(|error| error.to_string())?;
    if let Some(rest) = words.get(read) {
        return Err(format!("{rest:?} is not an option of a link; write it as --rate 10mbit --rtt 500ms --queue 1bdp"));
    }
    options.build(trace).map(|path| path.link).map_err(|error| error.to_string())
}

/// Returns the delivery opportunities of a trace, which an experiment writes as `20x100`: 100 after 20 ms, repeatedly.
fn trace(text: &str) -> Result<String, String> {
    let (millis, count) = text.split_once('x').unwrap_or(("", ""));
    match (millis.parse::<u32>(), count.parse::<u16>()) {
        (Ok(millis), Ok(count)) => Ok(format!("{millis}\n").repeat(count.into())),
        _ => Err(format!("{text:?}: experiments have no files; write 100 packets per 20 ms as 20x100")),
    }
}

/// Whether the controller requests assistance from routers. The routers in the experiment file are trusted.
pub(super) fn asks_routers(congestion: &Congestion) -> bool {
    let needs = congestion.build(&BuildParams::default()).needs();
    needs.required.network_header.or(needs.preferred.network_header).is_some()
}

const MOST_LINKS: usize = 16;

impl Filling<'_> {
    pub(super) fn links(self, links: &Texts) -> Result<Vec<Duplex>, Fault> {
        let number = links.each.len();
        if number == 0 || number > MOST_LINKS {
            let what = format!("{number} links are not within 1 to {MOST_LINKS}");
            return Err(Fault::at(self.source.file, self.source.text, links.span.clone(), "bottleneck", what));
        }
        links.each.iter().map(|text| self.read(text, "bottleneck", link)).collect()
    }

    /// Returns the indices of the links that the text gives, counted from 1 in the text, or all links without a text.
    pub(super) fn hops(self, hops: &Option<Text>, field: &str, links: usize) -> Result<Range<usize>, Fault> {
        self.or(0..links, hops, field, |text| places(text, links))
    }
}

fn places(text: &str, links: usize) -> Result<Range<usize>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) else {
        return Err(format!("{text:?} is not a link or range of links; write it as 2 or 1-3"));
    };
    if first == 0 || first > last || last > links {
        return Err(format!("{text:?} is not within the {links} links of the bottleneck, which are numbered from 1"));
    }
    Ok(first - 1..last)
}

impl Filling<'_> {
    pub(super) fn probe(self, probe: &Probe, traffic: &[TrafficSetup]) -> Result<ProbeSetup, Fault> {
        if traffic.iter().any(|traffic| traffic.stop != Span::MAX) {
            let what = "cross traffic must not end while a probe measures; leave out its `stop`";
            return Err(self.fault(&probe.name, "probes.name", what));
        }
        let clock = ReceiverClock::default();
        Ok(ProbeSetup {
            name: probe.name.get_ref().clone(),
            method: self.read(&probe.method, "probes.method", str::parse::<MethodKind>)?,
            start: self.or(Span::ZERO, &probe.start, "probes.start", value::span)?,
            left: self.given(&probe.left, "probes.left", link)?.map(|link| link.there),
            tick: self.or(clock.tick, &probe.tick, "probes.tick", value::span)?,
            skew: self.or(clock.skew_ppm, &probe.skew, "probes.skew", value::number)?,
        })
    }
}
