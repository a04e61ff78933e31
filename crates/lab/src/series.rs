//! Kinds of series that can be recorded over time.

use longhaul_units::Span;

use crate::expression::{Argument, Call};
use crate::measure::link;

/// A kind of series. `docs/lab.md` describes its values.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub(crate) what: What,
    /// Its syntax.
    pub usage: &'static str,
}

impl Kind {
    fn name(&self) -> &'static str {
        self.usage.split('(').next().unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Goodput,
    Read,
    Window,
    Threshold,
    InFlight,
    Srtt,
    Rate,
    Queue,
    Estimate,
    Segments,
    Resent,
    Acks,
    Rtt,
    RttBeforeLoss,
    Drops,
}

/// All kinds of series.
pub const ALL: &[Kind] = &[
    kind(What::Goodput, "goodput(FLOWS)"),
    kind(What::Read, "read(FLOWS)"),
    kind(What::Window, "cwnd(FLOWS)"),
    kind(What::Threshold, "ssthresh(FLOWS)"),
    kind(What::InFlight, "in-flight(FLOWS)"),
    kind(What::Srtt, "srtt(FLOWS)"),
    kind(What::Rate, "rate(FLOWS)"),
    kind(What::Queue, "queue([link-N])"),
    kind(What::Estimate, "estimate(FLOWS, NAME)"),
    kind(What::Segments, "segments(FLOWS)"),
    kind(What::Resent, "resent(FLOWS)"),
    kind(What::Acks, "acks(FLOWS)"),
    kind(What::Rtt, "rtt(FLOWS)"),
    kind(What::RttBeforeLoss, "rtt-before-loss(FLOWS)"),
    kind(What::Drops, "drops([link-N])"),
];

const fn kind(what: What, usage: &'static str) -> Kind {
    Kind { what, usage }
}

#[derive(Clone, Debug)]
pub(crate) struct SeriesSetup {
    pub(crate) name: String,
    pub(crate) what: What,
    /// The name of the flows, or empty for the bottleneck.
    pub(crate) flows: String,
    pub(crate) link: usize,
    pub(crate) estimate: String,
    /// Sampling interval; for a series by event, the minimum time between two points, and 0 for no minimum.
    pub(crate) every: Span,
    pub(crate) runs: u64,
}

impl SeriesSetup {
    /// Returns the sampling interval, which is not 0.
    pub(crate) fn interval(&self) -> Span {
        self.every.max(Span::from_nanos(1))
    }

    /// Returns the sampling times in a run of this duration.
    pub(crate) fn times(&self, duration: Span) -> impl Iterator<Item = Span> + use<> {
        let every = self.interval();
        (0..=duration.as_nanos() / every.as_nanos()).map(move |nth| every * nth)
    }
}

impl What {
    /// Returns whether the series has a point per event instead of samples at fixed intervals.
    pub(crate) const fn is_by_event(self) -> bool {
        matches!(self, Self::Segments | Self::Resent | Self::Acks | Self::Rtt | Self::RttBeforeLoss | Self::Drops)
    }

    /// Returns whether it is recorded from the packets at the sender's host.
    pub(crate) const fn is_of_packets(self) -> bool {
        matches!(self, Self::Segments | Self::Resent | Self::Acks)
    }

    /// Returns whether it is recorded from the sender after each event.
    pub(crate) const fn is_of_sender_events(self) -> bool {
        matches!(self, Self::Rtt | Self::RttBeforeLoss)
    }
}

/// Parses a call: the kind, the name of the flows, the name of the estimate, and the index of the shared link. Names
/// that the call does not have are empty.
pub(crate) fn read(call: &Call) -> Result<(What, String, String, usize), String> {
    let Some(kind) = ALL.iter().find(|kind| kind.name() == call.name) else {
        let known: Vec<&str> = ALL.iter().map(Kind::name).collect();
        return Err(format!("there is no series {:?}; there are: {}", call.name, known.join(", ")));
    };
    if matches!(kind.what, What::Queue | What::Drops) {
        let (link, rest) = link(&call.arguments)?;
        return if rest.is_empty() { Ok((kind.what, String::new(), String::new(), link)) } else { Err(usage(kind)) };
    }
    let (flows, estimate) = match (kind.what, &call.arguments[..]) {
        (What::Estimate, [Argument::Name(flows), Argument::Name(estimate)]) => (flows.clone(), estimate.clone()),
        (What::Estimate, _) => return Err(usage(kind)),
        (_, [Argument::Name(flows)]) => (flows.clone(), String::new()),
        _ => return Err(usage(kind)),
    };
    Ok((kind.what, flows, estimate, 0))
}

fn usage(kind: &Kind) -> String {
    format!("{} is written {}", kind.name(), kind.usage)
}
