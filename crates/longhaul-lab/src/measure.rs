//! What can be measured of a run. Each measure is of connections of one name or two, of the bottleneck, or of a tool that
//! measures it; most can be restricted to a part of the run. One that cannot be told, because a transfer did not end, has no value.

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
    /// Its name.
    pub name: &'static str,
    /// What stands in its parentheses.
    pub parameters: &'static [Parameter],
    /// How it is written.
    pub usage: &'static str,
    /// What it is, its unit, how it is computed, and by whom it was proposed.
    pub about: &'static str,
    /// Whether more of it is better, all else being equal.
    pub better: Better,
    /// What has to be watched for it while a run goes on.
    pub watch: Watch,
    value: fn(&Part<'_>) -> Option<f64>,
}

/// Whether more of something is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// It is.
    More,
    /// Less is.
    Less,
    /// It depends on something else.
    Unknown,
}

/// What has to be watched while a run goes on, beside what is counted each second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Nothing.
    Nothing,
    /// The state of the flows' senders, each second and at the times that are named.
    State,
    /// Each round-trip time that they measure.
    Rtt,
    /// When so many bytes have been read.
    Bytes,
    /// When the windows are so many bytes.
    Window,
    /// Drops at the bottleneck.
    Drops,
    /// The senders when the bottleneck first drops.
    FirstDrop,
    /// When a sender begins to recover from its first loss.
    Reduction,
    /// The phases of senders' congestion control, at each event.
    Phases,
    /// What senders see at each ACK.
    Acks,
    /// Nothing in the world of the flows: tools have worlds of their own.
    Probe,
}

impl Measure {
    /// The same, of which less is better.
    const fn less(self) -> Self {
        Self { better: Better::Less, ..self }
    }
}

const ANY: Parameter = Parameter::Times(&[0, 1, 2]);
/// At the end, or at a time.
const ONE: Parameter = Parameter::Times(&[0, 1]);

/// All there are.
pub fn all() -> impl Iterator<Item = &'static Measure> {
    let of_crowds = several::MEASURES.iter().chain(phases::MEASURES).chain(epochs::MEASURES);
    flows::MEASURES.iter().chain(of_crowds).chain(bottleneck::MEASURES).chain(senders::ALL).chain(probes::ALL)
}

/// The measure of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Measure> {
    all().find(|measure| measure.name == name)
}

/// The times that a call names.
pub fn times(call: &Call) -> impl Iterator<Item = Span> {
    times_of(&call.arguments)
}

fn times_of(arguments: &[Argument]) -> impl Iterator<Item = Span> {
    arguments.iter().filter_map(|argument| match argument {
        Argument::Time(time) => Some(*time),
        _ => None,
    })
}

/// A call's value in a run.
#[must_use]
pub fn value(call: &Call, outcome: &Outcome) -> Option<f64> {
    let asked = Asked::read(call).ok()?;
    (asked.measure.value)(&Part::new(&asked, outcome))
}
