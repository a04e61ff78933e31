//! Recovery algorithms: the window while lost data is retransmitted.

pub(crate) mod new_reno;
pub(crate) mod probing;
pub(crate) mod prr;
pub(crate) mod rapid_start_recovery;
pub(crate) mod rfc6675;

pub use new_reno::NewReno;
pub(crate) use prr::Prr;
