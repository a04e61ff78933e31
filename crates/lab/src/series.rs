//! Kinds of series that can be recorded over time.

use longhaul_units::Span;

use crate::expression::{Argument, Call};
use crate::measure::link;

/// A kind of series.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// The recorded quantity.
    pub what: What,
    /// Its syntax.
    pub usage: &'static str,
    /// Description of its values, and how several flows are combined.
    pub about: &'static str,
}

/// The quantity that a series records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Data read by applications since the last sample.
    Goodput,
    /// Data read by applications so far.
    Read,
    /// The congestion window.
    Window,
    /// The slow-start threshold.
    Threshold,
    /// Bytes in flight.
    InFlight,
    /// The smoothed RTT.
    Srtt,
    /// The delivery rate as measured by the sender.
    Rate,
    /// Bytes in the queue of the bottleneck.
    Queue,
    /// An estimate of the sender.
    Estimate,
    /// Segments sent for the first time.
    Segments,
    /// Retransmitted segments.
    Resent,
    /// Acknowledgements.
    Acks,
    /// RTT samples.
    Rtt,
    /// The latest RTT sample before each loss.
    RttBeforeLoss,
    /// Drops at the bottleneck.
    Drops,
}

/// All kinds of series.
pub const ALL: &[Kind] = &[
    Kind {
        name: "goodput",
        what: What::Goodput,
        usage: "goodput(FLOWS)",
        about: "goodput since the last sample, Mb/s, total",
    },
    Kind { name: "read", what: What::Read, usage: "read(FLOWS)", about: "bytes that applications have read, total" },
    Kind { name: "cwnd", what: What::Window, usage: "cwnd(FLOWS)", about: "congestion window in bytes, mean" },
    Kind {
        name: "ssthresh",
        what: What::Threshold,
        usage: "ssthresh(FLOWS)",
        about: "slow-start threshold in bytes, mean over the flows that have one",
    },
    Kind { name: "in-flight", what: What::InFlight, usage: "in-flight(FLOWS)", about: "bytes in flight, total" },
    Kind { name: "srtt", what: What::Srtt, usage: "srtt(FLOWS)", about: "smoothed RTT in seconds, mean" },
    Kind { name: "rate", what: What::Rate, usage: "rate(FLOWS)", about: "latest delivery-rate sample, Mb/s, total" },
    Kind { name: "queue", what: What::Queue, usage: "queue([link-N])", about: "bytes queued at the bottleneck" },
    Kind {
        name: "estimate",
        what: What::Estimate,
        usage: "estimate(FLOWS, NAME)",
        about: "the estimate of the measure with this name, mean over the flows that have it",
    },
    Kind {
        name: "segments",
        what: What::Segments,
        usage: "segments(FLOWS)",
        about: "by event: offset of the first byte of each new segment of the first flow",
    },
    Kind {
        name: "resent",
        what: What::Resent,
        usage: "resent(FLOWS)",
        about: "by event: the same for each retransmitted segment; probes that repeat old bytes are included",
    },
    Kind {
        name: "acks",
        what: What::Acks,
        usage: "acks(FLOWS)",
        about: "by event: bytes acknowledged by each ACK, when it arrives at the sender of the first flow",
    },
    Kind {
        name: "rtt",
        what: What::Rtt,
        usage: "rtt(FLOWS)",
        about: "by event: each RTT sample of a sender in seconds, of all flows",
    },
    Kind {
        name: "rtt-before-loss",
        what: What::RttBeforeLoss,
        usage: "rtt-before-loss(FLOWS)",
        about: "by event: latest RTT sample in seconds before each recovery or timeout of a sender, of all \
               flows",
    },
    Kind {
        name: "drops",
        what: What::Drops,
        usage: "drops([link-N])",
        about: "by event: number of packets of any source that the bottleneck has dropped so far, at each drop",
    },
];

/// A series to record.
#[derive(Clone, Debug)]
pub struct SeriesSetup {
    /// Its name.
    pub name: String,
    /// What it records.
    pub what: What,
    /// The name of the flows, or empty for the bottleneck.
    pub flows: String,
    /// Index of the shared link.
    pub link: usize,
    /// The name of the estimate.
    pub estimate: String,
    /// Sampling interval; for a series by event, the minimum time between two points, and 0 for no minimum.
    pub every: Span,
    /// The last seed whose run is recorded.
    pub runs: u64,
}

impl What {
    /// Returns whether the series has a point per event instead of samples at fixed intervals.
    #[must_use]
    pub const fn is_by_event(self) -> bool {
        matches!(self, Self::Segments | Self::Resent | Self::Acks | Self::Rtt | Self::RttBeforeLoss | Self::Drops)
    }

    /// Returns whether it is recorded from the packets at the sender's host.
    #[must_use]
    pub(crate) const fn is_of_packets(self) -> bool {
        matches!(self, Self::Segments | Self::Resent | Self::Acks)
    }

    /// Returns whether it is recorded from the sender after each event.
    #[must_use]
    pub(crate) const fn is_of_sender_events(self) -> bool {
        matches!(self, Self::Rtt | Self::RttBeforeLoss)
    }
}

/// Parses a call: the kind, the name of the flows, the name of the estimate, and the index of the shared link. Names
/// that the call does not have are empty.
///
/// # Errors
/// Returns an error if there is no such series, or if its arguments are wrong.
pub fn read(call: &Call) -> Result<(What, String, String, usize), String> {
    let Some(kind) = ALL.iter().find(|kind| kind.name == call.name) else {
        let known: Vec<&str> = ALL.iter().map(|kind| kind.name).collect();
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
    format!("{} is written {}", kind.name, kind.usage)
}
