//! Kinds of series that can be recorded over time.

use longhaul_units::{Span, named};

use crate::expression::{Argument, Call};
use crate::measure::link;
use crate::record::nth;

named! {
    /// A kind of series, by its syntax. `docs/lab.md` describes its values.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum What, ALL {
        Goodput = "goodput(FLOWS)",
        Read = "read(FLOWS)",
        Window = "cwnd(FLOWS)",
        Threshold = "ssthresh(FLOWS)",
        InFlight = "in-flight(FLOWS)",
        Srtt = "srtt(FLOWS)",
        Rate = "rate(FLOWS)",
        Queue = "queue([link-N])",
        Estimate = "estimate(FLOWS, NAME)",
        Segments = "segments(FLOWS)",
        Resent = "resent(FLOWS)",
        Acks = "acks(FLOWS)",
        Rtt = "rtt(FLOWS)",
        RttBeforeLoss = "rtt-before-loss(FLOWS)",
        Drops = "drops([link-N])",
    }
}

/// Returns the syntax of each kind of series.
pub fn usages() -> impl Iterator<Item = &'static str> {
    What::ALL.into_iter().map(What::name)
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

    /// Returns whether the run with this seed is recorded.
    pub(crate) const fn has(&self, seed: u64) -> bool {
        nth(seed) <= self.runs
    }

    /// Returns the sampling times in a run of this duration.
    pub(crate) fn times(&self, duration: Span) -> impl Iterator<Item = Span> + use<> {
        let every = self.interval();
        (0..=duration.as_nanos() / every.as_nanos()).map(move |nth| every * nth)
    }
}

impl What {
    /// Returns the name without parameters.
    fn call(self) -> &'static str {
        self.name().split('(').next().unwrap_or_default()
    }

    /// Returns whether the series has a point per event instead of samples at fixed intervals.
    pub(crate) const fn is_by_event(self) -> bool {
        matches!(self, Self::Segments | Self::Resent | Self::Acks | Self::Rtt | Self::RttBeforeLoss | Self::Drops)
    }

    /// Returns whether the series is recorded from the packets at the sender's host.
    pub(crate) const fn is_of_packets(self) -> bool {
        matches!(self, Self::Segments | Self::Resent | Self::Acks)
    }

    /// Returns whether the series is recorded from the sender after each event.
    pub(crate) const fn is_of_sender_events(self) -> bool {
        matches!(self, Self::Rtt | Self::RttBeforeLoss)
    }
}

/// Parses a call: the kind, the name of the flows, the name of the estimate, and the index of the shared link. Names
/// that the call does not have are empty.
pub(crate) fn read(call: &Call) -> Result<(What, String, String, usize), String> {
    let Some(what) = What::ALL.into_iter().find(|what| what.call() == call.name) else {
        let known = What::ALL.map(What::call);
        return Err(format!("there is no series {:?}; there are: {}", call.name, known.join(", ")));
    };
    if matches!(what, What::Queue | What::Drops) {
        let (link, rest) = link(&call.arguments)?;
        return if rest.is_empty() { Ok((what, String::new(), String::new(), link)) } else { Err(usage(what)) };
    }
    let (flows, estimate) = match (what, &call.arguments[..]) {
        (What::Estimate, [Argument::Name(flows), Argument::Name(estimate)]) => (flows.clone(), estimate.clone()),
        (What::Estimate, _) => return Err(usage(what)),
        (_, [Argument::Name(flows)]) => (flows.clone(), String::new()),
        _ => return Err(usage(what)),
    };
    Ok((what, flows, estimate, 0))
}

fn usage(what: What) -> String {
    format!("{} is written {what}", what.call())
}
