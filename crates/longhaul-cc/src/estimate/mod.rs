//! Estimators of path properties, which can be used on their own. They take ACKs and return rates in bytes/s or RTTs.
//!
//! Estimators are value types. A congestion-avoidance algorithm, start-up scheme or loss classifier that uses one
//! owns it, with its own parameters, and may restart it at any time; others have no cost. RTT and delivery-rate
//! samples come with every ACK. Other inputs (individual segments, arrival times, flipped pairs) are requested by the
//! owner in its [`Needs`](crate::Needs). To run an estimator without influence on the controller, own it in the
//! function that [`watched`](crate::watched) calls.

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
