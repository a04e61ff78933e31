//! Estimators of a path, usable by themselves: fed with what ACKs say, asked for rates in bytes/s or round trips.
//!
//! A law that uses one owns it; a law that does not pays nothing.

pub mod achieved_rate;
pub mod bandwidth;
pub mod congestion_level;
pub mod round_rate;
pub mod round_rtt;

pub use achieved_rate::AchievedRate;
pub use bandwidth::Bandwidth;
pub use congestion_level::CongestionLevel;
pub use round_rate::RoundRate;
pub use round_rtt::{RoundRtt, RoundStat};
