//! The outcome of a run.

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

/// The outcome of a run, from which measures are computed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Duration of the run.
    pub duration: Span,
    /// The shared links, in the direction of the data.
    pub links: Vec<LinkConfig>,
    /// The indices of the flows of each name.
    pub flows: BTreeMap<String, Range<usize>>,
    /// Start time of each flow, or `None` if it never started.
    pub begun: Vec<Option<Span>>,
    /// RTT samples of each flow, if they are observed.
    pub rtts: Vec<Histogram>,
    /// Seconds from the first start of flows of a name until they had read a number of bytes, by first flow and
    /// number of bytes.
    pub reached: BTreeMap<(usize, u64), f64>,
    /// Delays in seconds of the messages of each flow, which only flows in real time have.
    pub messages: Vec<Vec<f64>>,
    /// Numbers of data packets offered to the first shared link, and dropped, until then or the end of the run.
    pub data: BTreeMap<(usize, u64), [f64; 2]>,
    /// Seconds from a time until the windows of flows of a name reached a number of bytes, by first flow, number of
    /// bytes and time.
    pub windows_reached: BTreeMap<(usize, u64, Span), f64>,
    /// Seconds until the first drop for each cause, by shared link.
    pub first_drops: Vec<HashMap<Cause, f64>>,
    /// Congestion window of each flow at the first drop, in bytes.
    pub windows_at_drop: Vec<Option<f64>>,
    /// Start of each flow's first recovery in seconds, and the number of packets dropped before.
    pub reductions: Vec<Option<(f64, f64)>>,
    /// The phases of each flow's sender, if they are observed.
    pub phases: Vec<Phases>,
    /// Observations of the senders at each ACK, by flow. Empty if no metric needs them.
    pub logs: Vec<Log>,
    /// Requests and responses of each workload, in no particular order.
    pub epochs: BTreeMap<String, Vec<Epoch>>,
    /// Results of the probes.
    pub probes: BTreeMap<String, Probed>,
    /// The samples of the counters, which include all times named in metrics.
    pub(crate) samples: BTreeMap<Span, Sample>,
}

/// The counters at one time.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Counters of each flow.
    pub flows: Vec<FlowSample>,
    /// State of each flow's sender, if it is observed.
    pub states: Vec<Option<FlowState>>,
    /// Counters of each shared link, in the direction of the data.
    pub links: Vec<LinkSample>,
}

/// Counters of a link.
#[derive(Clone, Debug, Default)]
pub struct LinkSample {
    /// Packets offered to the link.
    pub offered: f64,
    /// Packets dropped.
    pub dropped: f64,
    /// Bytes of IP packets carried.
    pub carried: f64,
    /// Integral of the queue length over time, in byte seconds.
    pub waited: f64,
    /// All counters of the link.
    pub stats: LinkStats,
}

/// Counters of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowSample {
    /// Bytes read by the receiving application.
    pub read: f64,
    /// Bytes of new data sent.
    pub sent: f64,
    /// Bytes retransmitted.
    pub sent_again: f64,
    /// Bytes of low-priority probes.
    pub probes: f64,
    /// Data segments sent, including retransmissions.
    pub segments: f64,
    /// Segments retransmitted.
    pub resent: f64,
    /// Duplicates reported by the receiver (D-SACK).
    pub dsacks: f64,
    /// Whether the receiver can report them.
    pub has_sack: bool,
    /// Recovery episodes, including timeouts.
    pub recoveries: f64,
    /// Spurious recovery episodes.
    pub undone: f64,
    /// Retransmission timeouts.
    pub timeouts: f64,
    /// Seconds from connect to the last byte, once it has arrived.
    pub completion: Option<f64>,
}

/// State of a sender at one time.
#[derive(Clone, Debug)]
pub struct FlowState {
    /// Congestion window in bytes.
    pub cwnd: f64,
    /// Slow-start threshold in bytes.
    pub ssthresh: Option<f64>,
    /// Bytes in flight.
    pub in_flight: f64,
    /// Smoothed RTT in seconds.
    pub srtt: Option<f64>,
    pub(crate) estimates: Vec<(&'static str, f64)>,
}

impl Outcome {
    /// Returns the latest sample up to a time.
    ///
    /// # Panics
    /// Panics if there is no sample up to this time. Runs are sampled at their start.
    pub(crate) fn at(&self, time: Span) -> &Sample {
        let latest = self.samples.range(..=time).next_back();
        latest.map(|(_, sample)| sample).expect("runs are sampled at their start")
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
        self.has_sack = info.options.sack;
        self.recoveries = info.recoveries as f64;
        self.undone = info.spurious_recoveries as f64;
        self.timeouts = info.timeouts as f64;
    }
}

impl FlowState {
    pub(super) fn new(connection: &Connection, info: &Info) -> Self {
        let rates = [
            ("bandwidth", info.bandwidth),
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

    /// Returns the estimate with this name: Mb/s, bytes, milliseconds or a number. Estimates of the controller take
    /// precedence.
    #[must_use]
    pub fn estimate(&self, name: &str) -> Option<f64> {
        self.estimates.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}
