//! Recovery: the window while losses are repaired.

pub mod new_reno;
pub mod prr;
pub mod rfc6675;

pub use new_reno::NewReno;
pub use prr::Prr;
pub use rfc6675::Rfc6675;
