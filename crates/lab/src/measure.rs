//! Measures of a run. A measure refers to flows of one or two names, to the bottleneck, to a workload or to a probe.
//! Most can be restricted to a part of the run. A measure that is undefined, for example because a transfer did not
//! end, has no value.

mod arguments;
mod bottleneck;
mod epochs;
mod flows;
mod part;
mod phases;
mod probes;
mod senders;
mod several;

use longhaul_units::Span;

pub(crate) use arguments::link;
pub use arguments::{Asked, Losses, Parameter, Quantile};
use part::Part;

use crate::expression::{Argument, Call};
use crate::world::Outcome;

/// A measure.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// The name.
    pub name: &'static str,
    /// The parameters in parentheses.
    pub parameters: &'static [Parameter],
    /// The syntax.
    pub usage: &'static str,
    /// Description: quantity, unit, computation, and source.
    pub about: &'static str,
    /// Whether more is better, all else being equal.
    pub better: Better,
    /// The observations that it needs during the run.
    pub watch: Watch,
    value: fn(&Part<'_>) -> Option<f64>,
}

/// Whether more of a quantity is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    More,
    /// Less is better.
    Less,
    /// It depends on the experiment.
    Unknown,
}

/// An observation during a run, in addition to the counters that are sampled every second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// None.
    Nothing,
    /// The state of the senders, every second and at the times that metrics name.
    State,
    /// Each RTT sample of the senders.
    Rtt,
    /// The time at which a number of bytes has been read.
    Bytes,
    /// Data packets at the first shared link until a number of bytes has been read.
    Data,
    /// The time at which the congestion windows reach a number of bytes.
    Window,
    /// Drops at the shared links.
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

impl Measure {
    /// Marks a measure of which lower values are better.
    const fn less(self) -> Self {
        Self { better: Better::Less, ..self }
    }
}

const ANY: Parameter = Parameter::Times(&[0, 1, 2]);
/// At most one time, or the whole run.
const ONE: Parameter = Parameter::Times(&[0, 1]);

/// Returns all measures.
pub fn all() -> impl Iterator<Item = &'static Measure> {
    let of_populations = several::MEASURES.iter().chain(phases::MEASURES).chain(epochs::MEASURES);
    flows::MEASURES.iter().chain(of_populations).chain(bottleneck::MEASURES).chain(senders::ALL).chain(probes::ALL)
}

/// Returns the measure with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Measure> {
    all().find(|measure| measure.name == name)
}

/// Returns the times among the arguments of a call.
pub fn times(call: &Call) -> impl Iterator<Item = Span> {
    times_of(&call.arguments)
}

fn times_of(arguments: &[Argument]) -> impl Iterator<Item = Span> {
    arguments.iter().filter_map(|argument| match argument {
        Argument::Time(time) => Some(*time),
        _ => None,
    })
}

/// Returns the value of a call in a run.
#[must_use]
pub fn value(call: &Call, outcome: &Outcome) -> Option<f64> {
    let asked = Asked::read(call).ok()?;
    (asked.measure.value)(&Part::new(&asked, outcome))
}
