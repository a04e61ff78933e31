//! The part of a snapshot that concerns experiments.

use longhaul_tcp::{AckRateInfo, Info, NetworkInfo, PairInfo, ProbeInfo, SavedPathInfo};
use longhaul_units::Rate;

snapshot! {
    /// State of the experiments that a connection takes part in. With the feature `serde`, the fields are those of
    /// [`TcpInfo`](crate::TcpInfo).
    #[derive(Clone, Debug, PartialEq)]
    pub struct TcpExperiments(info: &Info) {
        /// Whether the peer reports the arrival times of segments.
        pub arrival_times: bool = info.arrival_times,
        /// Capacity estimate from flipped packet pairs, if they are sent.
        pub pairs: Option<TcpPairs> = info.pairs.map(TcpPairs::new),
        /// Counters of low-priority probes, if the controller sends them.
        pub probes: Option<TcpProbes> = info.probes.map(TcpProbes::new),
        /// Counters of requests to routers, if the controller makes them.
        pub network: Option<TcpNetwork> = info.network.map(TcpNetwork::new),
        /// Use of the metrics cache, if there is one ([`Config::path_cache`](crate::Config::path_cache)) and the
        /// start-up scheme reads it.
        pub saved_path: Option<TcpSavedPath> = info.saved_path.map(TcpSavedPath::new),
        /// Requests to change the ACK frequency, if both sides support the option.
        pub ack_rate: Option<TcpAckRate> = info.ack_rate.map(TcpAckRate::new),
    }
}

snapshot! {
    /// Capacity estimate from flipped packet pairs (TCPProbe, [`Config::probe_pairs`](crate::Config::probe_pairs)).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TcpPairs(info: PairInfo) {
        /// The rate of the bottleneck link, counting whole IP packets; `None` before the first pair.
        pub capacity_bytes_per_second: Option<u64> = info.capacity.map(Rate::as_bytes_per_sec),
        /// Whether the estimate has converged.
        pub converged: bool = info.converged,
        /// Pairs measured.
        pub measured: u64 = info.measured,
        /// Measured pairs that receive offload had merged, so that their spacing carries no information.
        pub coalesced: u64 = info.coalesced,
        /// Pairs that gave no measurement.
        pub dropped: u64 = info.dropped,
    }
}

snapshot! {
    /// Counters of low-priority probes: copies of data sent outside the congestion window (TCP-Peach, TCP-Swift and
    /// similar), and new data that the RC3 loop sends from the tail of the queue.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct TcpProbes(info: ProbeInfo) {
        /// Probes sent. Of the counters of sent segments, only `segs_out` includes them.
        pub sent: u64 = info.sent,
        /// Payload bytes of the probes sent.
        pub bytes_sent: u64 = info.bytes_sent,
        /// Probes acknowledged by the peer.
        pub acked: u64 = info.acked,
        /// Probes unanswered for one retransmission timeout, and segments whose data the RC3 loop had sent from the
        /// tail and that had to be retransmitted. Neither counts as loss or as a sign of congestion.
        pub lost: u64 = info.lost,
        /// Answers that no honest peer gives; they do not open the window. If the peer supports the option of
        /// `docs/wire.md`, "Probe echo", these are echoes of a time at which nothing was sent, and answers to a probe
        /// that was already answered (which packet duplication in the network causes, too). Otherwise they are DSACKs
        /// for octets that were never sent; DSACKs for octets that were sent are not counted, because the network may
        /// have duplicated them. Acknowledgments of tail data that was not sent are included.
        pub refused: u64 = info.refused,
        /// Payload sent from the tail that arrived, so that the regular window did not have to carry it.
        pub carried_bytes: u64 = info.carried,
    }
}

snapshot! {
    /// Requests to change the ACK frequency, sent and received (draft-ietf-tcpm-ack-rate-request).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct TcpAckRate(info: AckRateInfo) {
        /// Segments per ACK that we have asked the peer for; 0 if the choice is left to the peer.
        pub ratio: u8 = info.ratio,
        /// Requests sent.
        pub requests: u64 = info.requests,
        /// Requests from the peer that were honoured.
        pub heeded: u64 = info.heeded,
        /// Requests from the peer that were refused because they asked for too few ACKs.
        pub refused: u64 = info.refused,
    }
}

snapshot! {
    /// Counters of requests to routers (Quick-Start, RCP, XCP;
    /// [`Config::routers_answer`](crate::Config::routers_answer)).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct TcpNetwork(info: NetworkInfo) {
        /// Requests sent.
        pub requests: u64 = info.requests,
        /// Answers that grant a rate.
        pub granted: u64 = info.granted,
        /// Denials, including a SYN that was not answered.
        pub denied: u64 = info.denied,
        /// Answers that were forged, replayed, unsolicited or late.
        pub refused: u64 = info.refused,
    }
}

snapshot! {
    /// Use of the metrics that an earlier connection to the host left in the cache, for start-up schemes that begin
    /// with them (Careful Resume, TCP Fast Start). At most one of these fields is 1. All are 0 if there was no entry,
    /// if the decision is still open, or if the entry offers no more than a start without it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct TcpSavedPath(info: SavedPathInfo) {
        /// The connection started with the saved values.
        pub used: u64 = info.used,
        /// The entry was too old ([`PathCacheConfig::with_max_age`](crate::PathCacheConfig::with_max_age)).
        pub too_old: u64 = info.too_old,
        /// The RTT shows that the entry belongs to another path (RFC 9959, section 3.2).
        pub other_path: u64 = info.other_path,
        /// The entry holds values that no connection can have measured.
        pub damaged: u64 = info.damaged,
    }
}
