//! What a run left.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use longhaul_link::{Cause, Histogram, LinkConfig, LinkStats};
use longhaul_sim::Epoch;
use longhaul_tcp::{Connection, Info};
use longhaul_units::{Span, Time};

use super::phases::Phases;
use crate::number::{mbps, millis, number};
use crate::probing::Probed;
use crate::watching::Log;

/// What a run left.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How long it was.
    pub duration: Span,
    /// The shared links, on the way of the data.
    pub links: Vec<LinkConfig>,
    /// Which flows bear a name.
    pub flows: BTreeMap<String, Range<usize>>,
    /// When each flow began, since the run did; none if it never did.
    pub begun: Vec<Option<Span>>,
    /// Round-trip times of each flow, if they were watched.
    pub rtts: Vec<Histogram>,
    /// By the first flow of a name and an amount of data: seconds from the flows' first beginning until it had been read.
    pub reached: BTreeMap<(usize, u64), f64>,
    /// By the first flow of a name, an amount of data and a time: seconds from then until the windows were as many bytes.
    pub windows_reached: BTreeMap<(usize, u64, Span), f64>,
    /// By shared link, when it first dropped something for a cause, seconds.
    pub first_drops: Vec<HashMap<Cause, f64>>,
    /// Bytes of each flow's window at the first drop.
    pub windows_at_drop: Vec<Option<f64>>,
    /// When each flow began its first recovery, in seconds, and how many packets had been dropped by then.
    pub reductions: Vec<Option<(f64, f64)>>,
    /// The phases that each flow's sender went through, if they were watched.
    pub phases: Vec<Phases>,
    /// What senders saw at each ACK, by flow; empty if no metric asks for it.
    pub logs: Vec<Log>,
    /// Requests and responses of each workload, in no order.
    pub epochs: BTreeMap<String, Vec<Epoch>>,
    /// What tools found of the path.
    pub probes: BTreeMap<String, Probed>,
    /// What was counted by some times; at least by those that the metrics name.
    pub(crate) samples: BTreeMap<Span, Sample>,
}

/// What was counted by a time.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// By flow.
    pub flows: Vec<FlowSample>,
    /// What each flow's sender was like, if that was of interest.
    pub states: Vec<Option<FlowState>>,
    /// What was counted of each shared link, on the way of the data.
    pub links: Vec<LinkSample>,
}

/// What was counted of a link.
#[derive(Clone, Debug, Default)]
pub struct LinkSample {
    /// Packets that came to it.
    pub offered: f64,
    /// Those of them that it dropped.
    pub dropped: f64,
    /// Bytes of IP packets that it carried.
    pub carried: f64,
    /// Bytes that waited for it, summed over time: byte seconds.
    pub waited: f64,
    /// All that it counted.
    pub stats: LinkStats,
}

/// What was counted of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowSample {
    /// Bytes that the receiver's application read.
    pub read: f64,
    /// Bytes of new data sent.
    pub sent: f64,
    /// Bytes sent again.
    pub sent_again: f64,
    /// Bytes of probes at low priority.
    pub probes: f64,
    /// Segments of data sent, the first time and again.
    pub segments: f64,
    /// Segments sent again.
    pub resent: f64,
    /// Duplicates that the receiver reported.
    pub dsacks: f64,
    /// Whether it can report them.
    pub has_sack: bool,
    /// Recoveries, timeouts among them.
    pub recoveries: f64,
    /// Those of them that were needless.
    pub undone: f64,
    /// Retransmission timeouts.
    pub timeouts: f64,
    /// Seconds from connect to the last byte, once it is there.
    pub completion: Option<f64>,
}

/// What a sender was like at a time.
#[derive(Clone, Debug)]
pub struct FlowState {
    /// Bytes of the congestion window.
    pub cwnd: f64,
    /// Bytes of the slow-start threshold.
    pub ssthresh: Option<f64>,
    /// Bytes in flight.
    pub in_flight: f64,
    /// Seconds of the smoothed round trip.
    pub srtt: Option<f64>,
    pub(crate) estimates: Vec<(&'static str, f64)>,
}

impl Outcome {
    /// What was counted by a time: at the latest sample until then.
    ///
    /// # Panics
    /// If nothing was counted by then; runs count when they begin.
    pub(crate) fn at(&self, time: Span) -> &Sample {
        let latest = self.samples.range(..=time).next_back();
        latest.map(|(_, sample)| sample).expect("a run counts when it begins")
    }
}

impl LinkSample {
    pub(crate) fn new(stats: &LinkStats, now: Time) -> Self {
        let all = stats.all();
        Self {
            offered: all.offered as f64,
            dropped: all.dropped_total() as f64,
            carried: all.sent_bytes as f64,
            waited: stats.byte_seconds(now),
            stats: stats.clone(),
        }
    }
}

impl FlowSample {
    pub(super) fn count(&mut self, info: &Info) {
        self.sent_again = info.bytes_retransmitted as f64;
        self.sent = info.bytes_sent as f64 - self.sent_again;
        self.probes = info.probes.map_or(0.0, |probes| probes.bytes_sent as f64);
        self.segments = info.data_segments_out as f64;
        self.resent = info.segments_retransmitted as f64;
        self.dsacks = info.dsacks as f64;
        self.has_sack = info.options[0];
        self.recoveries = info.recoveries as f64;
        self.undone = info.spurious_recoveries as f64;
        self.timeouts = info.timeouts as f64;
    }
}

impl FlowState {
    pub(super) fn new(connection: &Connection, info: &Info) -> Self {
        let rates = [
            ("delivery-rate", info.delivery_rate),
            ("pacing-rate", info.pacing_rate),
            ("capacity", info.pairs.and_then(|pairs| pairs.capacity)),
        ];
        let spans = [("srtt", info.srtt), ("latest-rtt", info.latest_rtt), ("min-rtt", info.min_rtt)];
        let rates = rates.into_iter().filter_map(|(name, rate)| Some((name, mbps(rate?))));
        let spans = spans.into_iter().filter_map(|(name, span)| Some((name, millis(span?))));
        let own = connection.estimates();
        let own = own.iter().filter_map(|estimate| Some((estimate.name, number(estimate.value)?)));
        Self {
            cwnd: info.cwnd.as_f64(),
            ssthresh: info.ssthresh.map(|ssthresh| ssthresh.as_f64()),
            in_flight: info.in_flight.as_f64(),
            srtt: info.srtt.map(Span::as_secs_f64),
            estimates: own.chain(rates).chain(spans).collect(),
        }
    }

    /// What has been estimated under a name: Mb/s, bytes, milliseconds or a number. What the controller names so comes first.
    #[must_use]
    pub fn estimate(&self, name: &str) -> Option<f64> {
        self.estimates.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}
