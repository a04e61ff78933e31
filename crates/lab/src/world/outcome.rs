//! The outcome of a run.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use longhaul_link::{Cause, Histogram, LinkConfig, LinkStats};
use longhaul_probe::sim::Probing;
use longhaul_sim::Epoch;
use longhaul_tcp::{Connection, Info};
use longhaul_units::{Span, Time};

use super::follow::Phases;
use crate::measure::{mbps, millis, number};
use crate::watching::Log;

/// The outcome of a run, from which measures are computed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) duration: Span,
    pub(crate) links: Vec<LinkConfig>,
    pub(crate) flows: BTreeMap<String, Range<usize>>,
    pub(crate) begun: Vec<Option<Span>>,
    /// RTT samples of each flow, if they are observed.
    pub(crate) rtts: Vec<Histogram>,
    /// Seconds from the first start of flows of a name until they had read a number of bytes, by first flow and
    /// number of bytes.
    pub(crate) reached: BTreeMap<(usize, u64), f64>,
    /// Delays in seconds of the messages of each flow, which exist only for flows in real time.
    pub(crate) messages: Vec<Vec<f64>>,
    /// Numbers of data packets offered to the first shared link, and dropped, until that time or the end of the run.
    pub(crate) data: BTreeMap<(usize, u64), [f64; 2]>,
    /// Seconds from a time until the windows of flows of a name reached a number of bytes, by first flow, number of
    /// bytes and time.
    pub(crate) windows_reached: BTreeMap<(usize, u64, Span), f64>,
    /// Seconds until the first drop for each cause, by shared link.
    pub(crate) first_drops: Vec<HashMap<Cause, f64>>,
    /// Congestion window of each flow at the first drop, in bytes.
    pub(crate) windows_at_drop: Vec<Option<f64>>,
    /// Start of each flow's first recovery in seconds, and the number of packets dropped before.
    pub(crate) reductions: Vec<Option<(f64, f64)>>,
    pub(crate) phases: Vec<Phases>,
    /// Observations of the senders at each ACK, by flow. Empty if no metric needs them.
    pub(crate) logs: Vec<Log>,
    /// Requests and responses of each workload, in no particular order.
    pub(crate) epochs: BTreeMap<String, Vec<Epoch>>,
    pub(crate) probes: BTreeMap<String, Probing>,
    /// The samples of the counters, which include all times named in metrics.
    pub(crate) samples: BTreeMap<Span, Sample>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) flows: Vec<FlowSample>,
    /// State of each flow's sender, if it is observed.
    pub(crate) states: Vec<Option<FlowState>>,
    /// Counters of each shared link, in the direction of the data.
    pub(crate) links: Vec<LinkSample>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct LinkSample {
    pub(crate) offered: f64,
    pub(crate) dropped: f64,
    /// Bytes of IP packets carried.
    pub(crate) carried: f64,
    /// Integral of the queue length over time, in byte seconds.
    pub(crate) waited: f64,
    pub(crate) stats: LinkStats,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowSample {
    /// Bytes read by the receiving application.
    pub(crate) read: f64,
    /// Bytes of new data sent.
    pub(crate) sent: f64,
    pub(crate) sent_again: f64,
    /// Bytes of low-priority probes.
    pub(crate) probes: f64,
    /// Number of data segments sent, including retransmissions.
    pub(crate) segments: f64,
    /// Number of segments received by the sender, which are ACKs.
    pub(crate) acks: f64,
    /// Segments retransmitted.
    pub(crate) resent: f64,
    /// Duplicates reported by the receiver (D-SACK).
    pub(crate) dsacks: f64,
    /// Whether the receiver can report them.
    pub(crate) has_sack: bool,
    /// Recovery episodes, including timeouts.
    pub(crate) recoveries: f64,
    /// Spurious recovery episodes.
    pub(crate) undone: f64,
    pub(crate) timeouts: f64,
    /// Seconds from connect to the last byte, once it has arrived.
    pub(crate) completion: Option<f64>,
}

#[derive(Clone, Debug)]
pub(crate) struct FlowState {
    /// Congestion window in bytes.
    pub(crate) cwnd: f64,
    /// Slow-start threshold in bytes.
    pub(crate) ssthresh: Option<f64>,
    pub(crate) in_flight: f64,
    /// Smoothed RTT in seconds.
    pub(crate) srtt: Option<f64>,
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
        self.acks = info.segments_in as f64;
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
        let own = connection.status().estimates();
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
    pub(crate) fn estimate(&self, name: &str) -> Option<f64> {
        self.estimates.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}
