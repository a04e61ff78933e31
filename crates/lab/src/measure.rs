//! Measures of a run. A measure refers to flows of one or two names, to the bottleneck, to a workload or to a probe.
//! Most can be restricted to a part of the run. A measure that is undefined, for example because a transfer did not
//! end, has no value.

mod arguments;
mod bottleneck;
mod flows;
mod probes;
mod senders;

use std::ops::Range;

use longhaul_cc::Quantity;
use longhaul_link::statistics::mean;
use longhaul_units::{Rate, Span};

use crate::expression::{Argument, Call};
use crate::world::{FlowSample, FlowState, Outcome, Sample};
pub(crate) use arguments::{Asked, Losses, Parameter, link};

/// A measure. `docs/lab.md` describes its quantity, unit, computation and source.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// The syntax: the name, and the parameters in parentheses.
    pub usage: &'static str,
    /// Whether more is better, all else being equal.
    pub(crate) better: Better,
    /// The observations that it needs during the run.
    pub(crate) watch: Watch,
    value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    More,
    Less,
    Unknown,
}

/// An observation during a run, in addition to the counters that are sampled every second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    Nothing,
    /// The state of the senders, every second and at the times that metrics name.
    State,
    Rtt,
    /// The time at which a number of bytes has been read.
    Bytes,
    /// Data packets at the first shared link until a number of bytes has been read.
    Data,
    /// The time at which the congestion windows reach a number of bytes.
    Window,
    Drops,
    /// The state of the senders at the first drop.
    FirstDrop,
    /// The start of each sender's first recovery.
    Reduction,
    /// The phases of the senders' congestion controllers, at each event.
    Phases,
    /// The senders, at each ACK.
    Acks,
    /// Nothing in the simulation of the flows: probes have separate simulations.
    Probe,
}

type Value = fn(&Part<'_>) -> Option<f64>;

/// Returns a measure that needs no observation, and for which neither more nor less is better.
const fn measure(usage: &'static str, value: Value) -> Measure {
    Measure { usage, better: Better::Unknown, watch: Watch::Nothing, value }
}

const fn more(usage: &'static str, value: Value) -> Measure {
    Measure { better: Better::More, ..measure(usage, value) }
}

const fn less(usage: &'static str, value: Value) -> Measure {
    Measure { better: Better::Less, ..measure(usage, value) }
}

impl Measure {
    const fn less(self) -> Self {
        Self { better: Better::Less, ..self }
    }

    const fn watches(self, watch: Watch) -> Self {
        Self { watch, ..self }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.usage.split('(').next().unwrap_or_default()
    }

    /// Returns the parameters that the syntax shows in parentheses. Words in brackets are optional.
    pub(crate) fn parameters(&self) -> Vec<Parameter> {
        let (mut parameters, mut times) = (Vec::new(), [0, 0]);
        let words = self.usage.split_once('(').map_or("", |(_, words)| words);
        let mut brackets = 0;
        for part in words.split_inclusive(['[', ']', ',', '|', ')']) {
            match part.trim_matches([' ', ',', '[', ']', '|', ')']) {
                "link-N" => parameters.push(Parameter::Link),
                "FLOWS" => parameters.push(Parameter::Flows),
                "PROBE" => parameters.push(Parameter::Probe),
                "WORKLOAD" => parameters.push(Parameter::Workload),
                "NAME" => parameters.push(Parameter::Estimate),
                "PHASE" => parameters.push(Parameter::Phase),
                "QUANTILE" => parameters.push(Parameter::Quantile),
                "BYTES" => parameters.push(Parameter::Bytes),
                "FROM_BYTES" => parameters.push(Parameter::Sizes),
                "normal" => parameters.push(Parameter::CausesAndClasses),
                "CAUSE" if !parameters.contains(&Parameter::CausesAndClasses) => parameters.push(Parameter::Causes),
                "FROM" | "TO" | "TIME" | "LEAST" | "MOST" => times[brackets.min(1)] += 1,
                _ => {}
            }
            match part.chars().last() {
                Some('[') => brackets += 1,
                Some(']') => brackets -= 1,
                _ => {}
            }
        }
        let [needed, optional] = times;
        if needed + optional > 0 {
            parameters.push(Parameter::Times { least: needed, most: needed + optional });
        }
        parameters
    }
}

/// Returns all measures.
pub fn all() -> impl Iterator<Item = &'static Measure> {
    flows::MEASURES.iter().chain(bottleneck::MEASURES).chain(senders::ALL).chain(probes::ALL)
}

pub(crate) fn find(name: &str) -> Option<&'static Measure> {
    all().find(|measure| measure.name() == name)
}

pub(crate) fn times(call: &Call) -> impl Iterator<Item = Span> {
    times_of(&call.arguments)
}

fn times_of(arguments: &[Argument]) -> impl Iterator<Item = Span> {
    arguments.iter().filter_map(|argument| match argument {
        Argument::Time(time) => Some(*time),
        _ => None,
    })
}

pub(crate) fn value(call: &Call, outcome: &Outcome) -> Option<f64> {
    let asked = Asked::read(call).ok()?;
    (asked.measure.value)(&Part::new(&asked, outcome))
}

pub(crate) fn mbps(rate: Rate) -> f64 {
    rate.as_bytes_per_sec() as f64 * 8e-6
}

pub(crate) fn millis(span: Span) -> f64 {
    span.as_secs_f64() * 1e3
}

/// Returns a rate in Mb/s, a time in milliseconds, bytes, or a plain number. Returns `None` for anything else.
pub(crate) fn number(value: Quantity) -> Option<f64> {
    match value {
        Quantity::Rate(rate) => Some(mbps(rate)),
        Quantity::Bytes(bytes) => Some(bytes.as_f64()),
        Quantity::Span(span) => Some(millis(span)),
        Quantity::Number(number) => Some(number),
        _ => None,
    }
}

struct Part<'a> {
    asked: &'a Asked<'a>,
    outcome: &'a Outcome,
    from: Span,
    to: Span,
}

impl<'a> Part<'a> {
    fn new(asked: &'a Asked<'a>, outcome: &'a Outcome) -> Self {
        let (from, to) = match asked.times[..] {
            [] => (Span::ZERO, outcome.duration),
            [to] => (Span::ZERO, to),
            [from, to, ..] => (from, to),
        };
        Self { asked, outcome, from, to }
    }

    /// The start of the part: the first time, or the start of the run.
    fn since(&self) -> Span {
        self.asked.times.first().copied().unwrap_or_default()
    }

    fn flows(&self) -> Range<usize> {
        self.flows_of(0)
    }

    fn flows_of(&self, nth: usize) -> Range<usize> {
        self.asked.flows.get(nth).and_then(|name| self.outcome.flows.get(*name)).cloned().unwrap_or(0..0)
    }

    fn ends(&self) -> (&'a Sample, &'a Sample) {
        (self.outcome.at(self.from), self.outcome.at(self.to))
    }

    fn seconds(&self) -> f64 {
        (self.to - self.from).as_secs_f64()
    }

    fn each_of(&self, nth: usize, what: impl Fn(&FlowSample) -> f64) -> Vec<f64> {
        let (from, to) = self.ends();
        let range = self.flows_of(nth);
        from.flows[range.clone()].iter().zip(&to.flows[range]).map(|(from, to)| what(to) - what(from)).collect()
    }

    fn sum(&self, what: impl Fn(&FlowSample) -> f64) -> f64 {
        self.each_of(0, what).iter().sum()
    }

    fn mean_state(&self, what: impl Fn(&FlowState) -> Option<f64>) -> Option<f64> {
        let states = &self.outcome.at(self.to).states;
        mean(&states.get(self.flows())?.iter().flatten().filter_map(what).collect::<Vec<_>>())
    }

    /// Returns the estimate of each sender at each full second, `None` where it has none.
    fn estimates_by_second(&self) -> Vec<Option<f64>> {
        let seconds = self.from.as_nanos().div_ceil(1_000_000_000)..=self.to.as_nanos() / 1_000_000_000;
        let states = seconds.filter_map(|second| self.outcome.at(Span::from_secs(second)).states.get(self.flows()));
        states.flatten().map(|state| state.as_ref()?.estimate(self.asked.estimate)).collect()
    }

    /// Returns the total goodput in Mb/s of the nth flows in each full second from a time on.
    fn each_second_of(&self, nth: usize, from: Span) -> Vec<f64> {
        let range = self.flows_of(nth);
        let read = |second: u64| -> f64 {
            self.outcome.at(Span::from_secs(second)).flows[range.clone()].iter().map(|flow| flow.read).sum()
        };
        let first = from.as_nanos().div_ceil(1_000_000_000);
        let end = self.outcome.duration.as_nanos() / 1_000_000_000;
        (first..end).map(|second| (read(second + 1) - read(second)) * 8e-6).collect()
    }
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

fn percent(part: f64, whole: f64) -> Option<f64> {
    ratio(100.0 * part, whole)
}
