//! Estimators of a path, usable by themselves: fed with what ACKs say, asked for rates in bytes/s or round trips.
//!
//! A law that uses one owns it; a law that does not pays nothing.

pub mod achieved_rate;
pub mod active;
pub mod bandwidth;
pub mod buffer;
pub mod cap_probe;
pub mod congestion_level;
mod delivered;
pub mod eligible_rate;
pub mod packet_pair;
pub mod round_rate;
pub mod round_rtt;
pub mod tcp_probe;
pub mod windowed;

pub use achieved_rate::AchievedRate;
pub use bandwidth::Bandwidth;
pub use buffer::{BufferDelay, LossRate};
pub use cap_probe::{CapProbe, CapProbeConfig, CapProbeEstimate};
pub use congestion_level::CongestionLevel;
pub use eligible_rate::{EligibleRate, EligibleRateConfig};
pub use packet_pair::{PacketPair, PairSample};
pub use round_rate::RoundRate;
pub use round_rtt::{RoundRtt, RoundStat};
pub use tcp_probe::{TcpProbe, TcpProbeConfig};
pub use windowed::{WindowedMax, WindowedMin};
