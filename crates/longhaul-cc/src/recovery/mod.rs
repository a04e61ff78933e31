//! Recovery algorithms: the window while lost data is retransmitted.

pub mod new_reno;
pub mod probing;
pub mod prr;
pub mod rapid_start_recovery;
pub mod rfc6675;

pub use new_reno::NewReno;
pub use probing::{ProbingRecovery, ProbingRecoveryConfig, Scheme};
pub use prr::Prr;
pub use rapid_start_recovery::RapidStartRecovery;
pub use rfc6675::Rfc6675;
