//! Fields of a snapshot that concern experiments.

pub use longhaul_tcp::{
    AckRateInfo as TcpAckRate, NetworkInfo as TcpNetwork, ProbeInfo as TcpProbes, SavedPathInfo as TcpSavedPath,
};
use longhaul_tcp::{Info, PairInfo};
use longhaul_units::Rate;

snapshot! {
    /// State of the experiments in which a connection takes part. With the feature `serde`, the fields are those of
    /// [`TcpInfo`](crate::TcpInfo).
    #[derive(Clone, Debug, PartialEq)]
    pub struct TcpExperiments(info: &Info) {
        /// Whether the peer reports the arrival times of segments.
        pub arrival_times: bool = info.arrival_times,
        /// Capacity estimate from flipped packet pairs, if they are sent.
        pub pairs: Option<TcpPairs> = info.pairs.map(TcpPairs::new),
        /// Counters of low-priority probes, if the controller sends them.
        pub probes: Option<TcpProbes> = info.probes,
        /// Counters of requests to routers, if the controller makes them
        /// ([`Config::routers_answer`](crate::Config::routers_answer)).
        pub network: Option<TcpNetwork> = info.network,
        /// Use of the metrics cache, if there is one ([`Config::path_cache`](crate::Config::path_cache)) and the
        /// start-up scheme reads it.
        pub saved_path: Option<TcpSavedPath> = info.saved_path,
        /// Requests to change the ACK frequency, if both sides support the option.
        pub ack_rate: Option<TcpAckRate> = info.ack_rate,
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
        /// Number of measured pairs that receive offload had merged, so that their spacing carries no information.
        pub coalesced: u64 = info.coalesced,
        /// Number of pairs without a measurement.
        pub dropped: u64 = info.dropped,
    }
}
