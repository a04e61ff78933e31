//! Congestion-avoidance algorithms: how the window follows the available bandwidth after slow start.

pub(crate) mod abse;
pub(crate) mod adaptive_reno;
pub(crate) mod bic;
pub(crate) mod fast;
pub(crate) mod h_tcp;
pub(crate) mod hstcp;
pub(crate) mod hybla;
pub(crate) mod illinois;
pub(crate) mod log_westwood_plus;
pub(crate) mod scalable;
pub(crate) mod vegas;
pub(crate) mod veno;
pub(crate) mod westwood;
pub(crate) mod westwood_bbe;
pub(crate) mod yeah;
