//! Estimators of path properties, which can be used on their own. They take ACKs and return rates in bytes/s or RTTs.
//!
//! Estimators are value types. A congestion-avoidance algorithm, start-up scheme or loss classifier that uses one owns
//! it, with its own parameters, and may restart it at any time; unused estimators cost nothing. RTT and delivery-rate
//! samples come with every ACK. Other inputs (individual segments, arrival times, flipped pairs) are requested by the
//! owner in its [`Needs`](crate::Needs). To run an estimator without influence on the controller, own it in the
//! function that [`observed`](crate::observed) calls.

pub(crate) mod cap_probe;
pub(crate) mod congestion_level;
pub(crate) mod neighbours;
mod newest;
pub(crate) mod packet_pair;
mod rate_range;
pub(crate) mod tcp_probe;
pub(crate) mod windowed;

pub use packet_pair::PairSample;
pub use rate_range::RateRange;
pub use windowed::{WindowedMax, WindowedMin};

// Estimators of particular algorithms, which are not part of the public interface.
pub(crate) use self::{
    congestion_level::CongestionLevel, neighbours::Neighbours, newest::Newest, packet_pair::PacketPair,
};
