//! What can be recorded over time.

use longhaul_units::Span;

use crate::expression::{Argument, Call};
use crate::measure::link;

/// A kind of series.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// What it records.
    pub what: What,
    /// How it is written.
    pub usage: &'static str,
    /// What its values are, and what is done with several flows.
    pub about: &'static str,
}

/// What a series records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Data read since the last sample.
    Goodput,
    /// Data read so far.
    Read,
    /// The congestion window.
    Window,
    /// The slow-start threshold.
    Threshold,
    /// Bytes in flight.
    InFlight,
    /// The smoothed RTT.
    Srtt,
    /// The rate at which the receiver gets data, as the sender measures it.
    Rate,
    /// Bytes that wait at the bottleneck.
    Queue,
    /// Something that the sender has estimated.
    Estimate,
    /// Segments sent for the first time.
    Segments,
    /// Segments sent again.
    Resent,
    /// Acknowledgements.
    Acks,
    /// Round-trip times.
    Rtt,
    /// The round-trip time before each loss.
    RttBeforeLoss,
    /// Drops at the bottleneck.
    Drops,
}

/// All there are.
pub const ALL: &[Kind] = &[
    Kind {
        name: "goodput",
        what: What::Goodput,
        usage: "goodput(FLOWS)",
        about: "Mb/s that applications read since the last sample, of all flows together",
    },
    Kind {
        name: "read",
        what: What::Read,
        usage: "read(FLOWS)",
        about: "bytes that applications have read, of all flows together",
    },
    Kind {
        name: "cwnd",
        what: What::Window,
        usage: "cwnd(FLOWS)",
        about: "bytes of the congestion window, the mean over flows",
    },
    Kind {
        name: "ssthresh",
        what: What::Threshold,
        usage: "ssthresh(FLOWS)",
        about: "bytes of the slow-start threshold, the mean over those flows that have one",
    },
    Kind {
        name: "in-flight",
        what: What::InFlight,
        usage: "in-flight(FLOWS)",
        about: "bytes in flight, of all flows together",
    },
    Kind {
        name: "srtt",
        what: What::Srtt,
        usage: "srtt(FLOWS)",
        about: "seconds of the smoothed RTT, the mean over flows",
    },
    Kind {
        name: "rate",
        what: What::Rate,
        usage: "rate(FLOWS)",
        about: "Mb/s of the newest delivery-rate sample, of all flows together",
    },
    Kind { name: "queue", what: What::Queue, usage: "queue([link-N])", about: "bytes that wait at the bottleneck" },
    Kind {
        name: "estimate",
        what: What::Estimate,
        usage: "estimate(FLOWS, NAME)",
        about: "what the measure of this name is, the mean over those flows that have estimated it",
    },
    Kind {
        name: "segments",
        what: What::Segments,
        usage: "segments(FLOWS)",
        about: "by event: the first byte, from 0, of each segment that leaves for the first time, of the first flow",
    },
    Kind {
        name: "resent",
        what: What::Resent,
        usage: "resent(FLOWS)",
        about: "by event: the same of each segment that leaves again; probes that repeat old bytes are among them",
    },
    Kind {
        name: "acks",
        what: What::Acks,
        usage: "acks(FLOWS)",
        about: "by event: the bytes that each ACK acknowledges, when it comes to the sender of the first flow",
    },
    Kind {
        name: "rtt",
        what: What::Rtt,
        usage: "rtt(FLOWS)",
        about: "by event: seconds of each round-trip time that a sender measures, of all flows",
    },
    Kind {
        name: "rtt-before-loss",
        what: What::RttBeforeLoss,
        usage: "rtt-before-loss(FLOWS)",
        about: "by event: seconds of the round-trip time that a sender had measured last before a recovery began or a timeout, of all flows: one for \
                each, however many segments it lost",
    },
    Kind {
        name: "drops",
        what: What::Drops,
        usage: "drops([link-N])",
        about: "by event: packets that the bottleneck has dropped, whoever's, at each drop",
    },
];

/// A series that is to be recorded.
#[derive(Clone, Debug)]
pub struct SeriesSetup {
    /// Its name.
    pub name: String,
    /// What it records.
    pub what: What,
    /// The name of the flows; empty for the bottleneck.
    pub flows: String,
    /// The place of the shared link.
    pub link: usize,
    /// The name of what is estimated.
    pub estimate: String,
    /// Between samples; of what is recorded by event the least between two, and all if it is zero.
    pub every: Span,
    /// In the runs up to this seed.
    pub runs: u64,
}

impl What {
    /// Whether it is recorded when something happens, and not at fixed times.
    #[must_use]
    pub const fn is_by_event(self) -> bool {
        matches!(self, Self::Segments | Self::Resent | Self::Acks | Self::Rtt | Self::RttBeforeLoss | Self::Drops)
    }

    /// Whether it is taken from the packets at the sender's host.
    #[must_use]
    pub(crate) const fn is_of_packets(self) -> bool {
        matches!(self, Self::Segments | Self::Resent | Self::Acks)
    }

    /// Whether it is taken from the sender after each event.
    #[must_use]
    pub(crate) const fn is_of_sender_events(self) -> bool {
        matches!(self, Self::Rtt | Self::RttBeforeLoss)
    }
}

/// Understands a call: the kind, the name of flows and that of what is estimated, which are empty where there is none, and the place of the
/// shared link.
///
/// # Errors
/// There is no such series, or it is written otherwise.
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
