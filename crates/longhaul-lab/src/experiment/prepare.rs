//! From texts to settings.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;

use longhaul_cc::{Congestion, unpaced, with_params};
use longhaul_link::spec::{LinkOptions, value};
use longhaul_link::topology::Duplex;
use longhaul_sim::unlimited;
use longhaul_tcp::Config;
use longhaul_units::{Bytes, Span};

use super::{CellSetup, FlowSetup, Source};
use crate::cell::Cell;
use crate::definition::{Definition, Fault, Flow, Setting, Tcp, Text};
use crate::expression::{Argument, Call, Expression};
use crate::measure::{self, Needs};

/// More than this no file may ask for: a typing mistake is no reason to run for days.
const MOST_CELLS: usize = 10_000;
const MOST_RUNS: u32 = 10_000;
const MOST_FLOWS: u32 = 1000;
/// Bytes of a segment's timestamps and of UDP's and TCP's headers, less than what IPv4's takes: see the wire format.
const HEADERS: u16 = 24;

/// What can be told without choosing.
pub(super) fn check(definition: &Definition, source: Source<'_>) -> Result<(), Fault> {
    let id = definition.id.get_ref();
    if id.is_empty() || !id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        return Err(source.fault(&definition.id, "id", format!("{id:?} is not made of a to z, 0 to 9 and dashes")));
    }
    let count: usize = definition.axes.iter().map(|axis| axis.choices.len()).product();
    if count == 0 || count > MOST_CELLS {
        return Err(source.fault(
            &definition.id,
            "axes",
            format!("{count} combinations; 1 to {MOST_CELLS} can be run"),
        ));
    }
    for (field, runs) in [("runs", definition.runs), ("quick-runs", definition.quick_runs)] {
        if runs == 0 || runs > MOST_RUNS {
            return Err(source.fault(&definition.id, field, format!("{runs} is not within 1 to {MOST_RUNS}")));
        }
    }
    unique(source, "axes.name", definition.axes.iter().map(|axis| &axis.name))?;
    for axis in &definition.axes {
        unique(source, "axes.choices", axis.choices.iter().map(|choice| &choice.name))?;
    }
    unique(source, "traffic.name", definition.traffic.iter().map(|traffic| &traffic.name))?;
    unique(source, "flows.name", definition.flows.iter().map(|flow| &flow.name))?;
    unique(source, "probes.name", definition.probes.iter().map(|probe| &probe.name))
}

fn unique<'a>(source: Source<'_>, field: &str, names: impl Iterator<Item = &'a Text>) -> Result<(), Fault> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name.get_ref()) {
            return Err(source.fault(name, field, format!("{:?} is there twice", name.get_ref())));
        }
    }
    Ok(())
}

pub(super) fn cell(definition: &Definition, cell: &Cell, source: Source<'_>) -> Result<CellSetup, Fault> {
    let filling = Filling { cell, source };
    let duration = filling.span(&definition.duration, "duration")?;
    if duration.is_zero() {
        return Err(source.fault(&definition.duration, "duration", "no time at all"));
    }
    let flows = definition.flows.iter().map(|flow| filling.flow(flow)).collect::<Result<Vec<_>, _>>()?;
    let traffic = definition.traffic.iter().map(|traffic| filling.traffic(traffic)).collect::<Result<Vec<_>, _>>()?;
    let probes = definition.probes.iter().map(|probe| filling.probe(probe, &traffic)).collect::<Result<Vec<_>, _>>()?;
    let names: Vec<&str> = probes.iter().map(|probe| probe.name.as_str()).collect();
    let metrics = definition.metrics.values().map(|metric| filling.metric(&metric.value, &flows, &names, duration));
    Ok(CellSetup {
        bottleneck: filling.link(&definition.bottleneck, "bottleneck")?,
        metrics: metrics.collect::<Result<_, _>>()?,
        flows,
        traffic,
        probes,
        duration,
    })
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
                    "{rest:?} is no option of a link; write it as --rate 10mbit --rtt 500ms --queue 1bdp"
                ));
            }
            let no_files = |_: &str| Err("experiments hold no files".to_owned());
            options.build(no_files).map(|path| path.link).map_err(|error| error.to_string())
        })
    }

    /// What a text says, or what it is without one.
    pub(super) fn optional<T: Default>(
        self,
        text: &Option<Text>,
        read: impl FnOnce(&Text) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        text.as_ref().map_or_else(|| Ok(T::default()), read)
    }

    /// What is wrong with a field.
    pub(super) fn fault(self, at: &Text, field: &str, what: impl std::fmt::Display) -> Fault {
        self.source.fault(at, field, what)
    }

    fn flow(self, flow: &Flow) -> Result<FlowSetup, Fault> {
        if flow.count == 0 || flow.count > MOST_FLOWS {
            let what = format!("{} is not within 1 to {MOST_FLOWS}", flow.count);
            return Err(self.source.fault(&flow.name, "flows.count", what));
        }
        let span = |text, field| self.optional(text, |text| self.span(text, field));
        let access = |text, field| self.optional(text, |text| self.link(text, field));
        Ok(FlowSetup {
            name: flow.name.get_ref().clone(),
            count: flow.count,
            config: Arc::new(self.config(flow)?),
            bytes: match &flow.bytes {
                Some(text) => self.read(text, "flows.bytes", value::size)?,
                None => u64::MAX,
            },
            start: span(&flow.start, "flows.start")?,
            apart: span(&flow.apart, "flows.apart")?,
            spread: span(&flow.start_spread, "flows.start-spread")?,
            reads_after: span(&flow.reads_after, "flows.reads-after")?,
            left: access(&flow.left, "flows.left")?,
            right: access(&flow.right, "flows.right")?,
        })
    }

    fn config(self, flow: &Flow) -> Result<Config, Fault> {
        let mut config = Config::default();
        unlimited(&mut config);
        config.congestion = self.read(&flow.congestion, "flows.congestion", FromStr::from_str)?;
        config.congestion = self.host(&flow.tcp, config.congestion)?;
        let Tcp { segment, window, send_buffer, ack_every, ack_delay, ecn, sack, min_rto, pairs, .. } = &flow.tcp;
        if let Some(segment) = self.number::<u16>(segment, "flows.tcp.segment")? {
            let plpmtu = segment.saturating_add(HEADERS);
            (config.base_plpmtu, config.max_plpmtu) = (plpmtu, plpmtu);
        }
        if let Some(window) = self.number(window, "flows.tcp.window")? {
            (config.recv_buffer, config.recv_buffer_max) = (window, window);
        }
        config.send_buffer = self.number(send_buffer, "flows.tcp.send-buffer")?.unwrap_or(config.send_buffer);
        config.ack_every = self.number(ack_every, "flows.tcp.ack-every")?.unwrap_or(config.ack_every);
        if let Some(Setting(text)) = ack_delay {
            config.ack_delay = self.span(text, "flows.tcp.ack-delay")?;
        }
        if let Some(Setting(text)) = min_rto {
            config.min_rto = self.span(text, "flows.tcp.min-rto")?;
        }
        config.ecn = self.switch(ecn, "flows.tcp.ecn")?.unwrap_or(config.ecn);
        config.sack = self.switch(sack, "flows.tcp.sack")?.unwrap_or(config.sack);
        config.probe_pairs = self.switch(pairs, "flows.tcp.pairs")?.unwrap_or(config.probe_pairs);
        Ok(config)
    }

    /// `congestion` as a host with these settings runs it.
    fn host(self, tcp: &Tcp, congestion: Congestion) -> Result<Congestion, Fault> {
        let threshold = match &tcp.threshold {
            Some(Setting(text)) => Some(Bytes(self.read(text, "flows.tcp.threshold", value::size)?)),
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

    fn number<T: FromStr>(self, setting: &Option<Setting>, field: &str) -> Result<Option<T>, Fault> {
        self.setting(setting, field, &format!("a whole number of at most {} bits", 8 * size_of::<T>()))
    }

    fn switch(self, setting: &Option<Setting>, field: &str) -> Result<Option<bool>, Fault> {
        self.setting(setting, field, "true or false")
    }

    fn setting<T: FromStr>(self, setting: &Option<Setting>, field: &str, wanted: &str) -> Result<Option<T>, Fault> {
        let read = |text: &str| text.parse().map_err(|_| format!("{text:?} is not {wanted}"));
        setting.as_ref().map(|Setting(text)| self.read(text, field, read)).transpose()
    }

    fn metric(self, text: &Text, flows: &[FlowSetup], probes: &[&str], duration: Span) -> Result<Expression, Fault> {
        let field = "metrics.value";
        let expression = self.read(text, field, Expression::parse)?;
        for call in expression.calls() {
            self.call(call, flows, probes, duration).map_err(|what| self.source.fault(text, field, what))?;
        }
        Ok(expression)
    }

    fn call(self, call: &Call, flows: &[FlowSetup], probes: &[&str], duration: Span) -> Result<(), String> {
        let Call { name, arguments } = call;
        let Some(known) = measure::find(name) else {
            let all: Vec<&str> = measure::all().map(|measure| measure.name).collect();
            return Err(format!("there is no measure {name:?}; there are: {}", all.join(", ")));
        };
        let (names, times): (Vec<_>, Vec<_>) = arguments.iter().partition(|a| matches!(a, Argument::Name(_)));
        let fits = match known.of {
            Needs::Flows => matches!(arguments.first(), Some(Argument::Name(_))) && names.len() == 1,
            Needs::Probe => matches!(arguments.first(), Some(Argument::Name(_))) && names.len() == 1,
            Needs::Estimate => matches!(arguments[..], [Argument::Name(_), Argument::Name(_), ..]) && names.len() == 2,
            Needs::Bottleneck => names.is_empty(),
        };
        if !fits || !known.times.contains(&times.len()) {
            return Err(format!("{name} is written {}", known.usage));
        }
        if let Some(Argument::Name(of)) = arguments.first() {
            let is_probe = known.of == Needs::Probe;
            let all: Vec<&str> =
                if is_probe { probes.to_vec() } else { flows.iter().map(|f| f.name.as_str()).collect() };
            if !all.contains(&of.as_str()) {
                let what = if is_probe { "is no probe" } else { "are no flows" };
                return Err(format!("there {what} {of:?}; there are: {}", all.join(", ")));
            }
        }
        for argument in arguments {
            if let Argument::Time(time) = argument
                && *time > duration
            {
                let [time, end] = [*time, duration].map(Span::as_secs_f64);
                return Err(format!("{name} at {time} s, but a run ends at {end} s"));
            }
        }
        let all: Vec<Span> = measure::times(call).collect();
        if all.windows(2).any(|two| two[0] >= two[1]) {
            return Err(format!("{name} up to a time that is not after its beginning"));
        }
        Ok(())
    }
}
