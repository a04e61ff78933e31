//! Estimators of a path, usable by themselves: fed with what ACKs say, asked for rates in bytes/s or round trips.
//!
//! They are value types. A law, a start or a classifier that uses one owns it, with parameters of its own, and begins it anew
//! when it likes; one that does not pays nothing. What an estimator lives on beyond RTT and delivery-rate samples, which every
//! ACK has, its owner asks for by [`Needs`](crate::Needs): segments one by one, arrival times, flipped pairs. To run one beside
//! any law, own it in what [`watched`](crate::watched) calls.

pub mod achieved_rate;
pub mod bandwidth;
pub mod buffer;
pub mod cap_probe;
pub mod congestion_level;
mod delivered;
pub mod eligible_rate;
pub mod fused_capacity;
pub mod packet_pair;
mod rate_range;
pub mod round_rate;
pub mod round_rtt;
pub mod tcp_probe;
pub mod windowed;

pub use achieved_rate::AchievedRate;
pub use bandwidth::{Bandwidth, BandwidthStart};
pub use buffer::{BufferDelay, LossRate};
pub use cap_probe::{CapProbe, CapProbeConfig, CapProbeEstimate};
pub use congestion_level::CongestionLevel;
pub use eligible_rate::{EligibleRate, EligibleRateConfig};
pub use fused_capacity::{FusedCapacity, FusedConfig, FusedEstimate};
pub use packet_pair::{PacketPair, PairSample};
pub use rate_range::RateRange;
pub use round_rate::RoundRate;
pub use round_rtt::{RoundRtt, RoundStat};
pub use tcp_probe::{TcpProbe, TcpProbeConfig};
pub use windowed::{WindowedMax, WindowedMin};
