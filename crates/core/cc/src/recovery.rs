//! Recovery algorithms: the window while lost data is retransmitted.

pub(crate) mod prr;
pub(crate) mod rfc6675;

pub use prr::Prr;
