//! The part of a snapshot that concerns experiments.

use longhaul_tcp::{AckRateInfo, Info, NetworkInfo, PairInfo, ProbeInfo, SavedPathInfo};
use longhaul_units::Rate;

/// State of the experiments that a connection takes part in. With the feature `serde`, the fields are those of
/// [`TcpInfo`](crate::TcpInfo).
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TcpExperiments {
    /// Whether the peer reports the arrival times of segments.
    pub arrival_times: bool,
    /// Capacity estimate from flipped packet pairs, if they are sent.
    pub pairs: Option<TcpPairs>,
    /// Counters of low-priority probes, if the controller sends them.
    pub probes: Option<TcpProbes>,
    /// Counters of requests to routers, if the controller makes them.
    pub network: Option<TcpNetwork>,
    /// Use of the metrics cache, if there is one ([`Config::path_cache`](crate::Config::path_cache)) and the start-up
    /// scheme reads it.
    pub saved_path: Option<TcpSavedPath>,
    /// Requests to change the ACK frequency, if both sides support the option.
    pub ack_rate: Option<TcpAckRate>,
}

impl TcpExperiments {
    pub(super) fn new(info: &Info) -> Self {
        Self {
            arrival_times: info.arrival_times,
            pairs: info.pairs.map(TcpPairs::new),
            probes: info.probes.map(TcpProbes::new),
            network: info.network.map(TcpNetwork::new),
            saved_path: info.saved_path.map(TcpSavedPath::new),
            ack_rate: info.ack_rate.map(TcpAckRate::new),
        }
    }
}

/// Capacity estimate from flipped packet pairs (TCPProbe, [`Config::probe_pairs`](crate::Config::probe_pairs)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TcpPairs {
    /// The rate of the bottleneck link, counting whole IP packets; `None` before the first pair.
    pub capacity_bytes_per_second: Option<u64>,
    /// Whether the estimate has converged.
    pub converged: bool,
    /// Pairs measured.
    pub measured: u64,
    /// Measured pairs that receive offload had merged, so that their spacing carries no information.
    pub coalesced: u64,
    /// Pairs that gave no measurement.
    pub dropped: u64,
}

impl TcpPairs {
    fn new(info: PairInfo) -> Self {
        Self {
            capacity_bytes_per_second: info.capacity.map(Rate::as_bytes_per_sec),
            converged: info.converged,
            measured: info.measured,
            coalesced: info.coalesced,
            dropped: info.dropped,
        }
    }
}

/// Counters of low-priority probes: copies of data sent outside the congestion window (TCP-Peach, TCP-Swift and
/// similar), and new data that the RC3 loop sends from the tail of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TcpProbes {
    /// Probes sent. Of the counters of sent segments, only `segs_out` includes them.
    pub sent: u64,
    /// Payload bytes of the probes sent.
    pub bytes_sent: u64,
    /// Probes acknowledged by the peer.
    pub acked: u64,
    /// Probes unanswered for one retransmission timeout, and segments whose data the RC3 loop had sent from the tail
    /// and that had to be retransmitted. Neither counts as loss or as a sign of congestion.
    pub lost: u64,
    /// Answers that no honest peer gives; they do not open the window. If the peer supports the option of
    /// `docs/wire.md`, "Probe echo", these are echoes of a time at which nothing was sent, and answers to a probe
    /// that was already answered (which packet duplication in the network causes, too). Otherwise they are DSACKs for
    /// octets that were never sent; DSACKs for octets that were sent are not counted, because the network may have
    /// duplicated them. Acknowledgments of tail data that was not sent are included.
    pub refused: u64,
    /// Payload sent from the tail that arrived, so that the regular window did not have to carry it.
    pub carried_bytes: u64,
}

impl TcpProbes {
    fn new(info: ProbeInfo) -> Self {
        let ProbeInfo { sent, bytes_sent, acked, lost, refused, carried, .. } = info;
        Self { sent, bytes_sent, acked, lost, refused, carried_bytes: carried }
    }
}

/// Requests to change the ACK frequency, sent and received (draft-ietf-tcpm-ack-rate-request).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TcpAckRate {
    /// Segments per ACK that we have asked the peer for; 0 if the choice is left to the peer.
    pub ratio: u8,
    /// Requests sent.
    pub requests: u64,
    /// Requests from the peer that were honoured.
    pub heeded: u64,
    /// Requests from the peer that were refused because they asked for too few ACKs.
    pub refused: u64,
}

impl TcpAckRate {
    fn new(info: AckRateInfo) -> Self {
        let AckRateInfo { ratio, requests, heeded, refused, .. } = info;
        Self { ratio, requests, heeded, refused }
    }
}

/// Counters of requests to routers (Quick-Start, RCP, XCP; [`Config::routers_answer`](crate::Config::routers_answer)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TcpNetwork {
    /// Requests sent.
    pub requests: u64,
    /// Answers that grant a rate.
    pub granted: u64,
    /// Denials, including a SYN that was not answered.
    pub denied: u64,
    /// Answers that were forged, replayed, unsolicited or late.
    pub refused: u64,
}

impl TcpNetwork {
    fn new(info: NetworkInfo) -> Self {
        let NetworkInfo { requests, granted, denied, refused, .. } = info;
        Self { requests, granted, denied, refused }
    }
}

/// Use of the metrics that an earlier connection to the host left in the cache, for start-up schemes that begin with
/// them (Careful Resume, TCP Fast Start). At most one of these fields is 1. All are 0 if there was no entry, if the
/// decision is still open, or if the entry offers no more than a start without it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TcpSavedPath {
    /// The connection started with the saved values.
    pub used: u64,
    /// The entry was too old ([`PathCacheConfig::with_max_age`](crate::PathCacheConfig::with_max_age)).
    pub too_old: u64,
    /// The RTT shows that the entry belongs to another path (RFC 9959, section 3.2).
    pub other_path: u64,
    /// The entry holds values that no connection can have measured.
    pub damaged: u64,
}

impl TcpSavedPath {
    fn new(info: SavedPathInfo) -> Self {
        let SavedPathInfo { used, too_old, other_path, damaged, .. } = info;
        Self { used, too_old, other_path, damaged }
    }
}
