//! Laws: how the window follows the network's share.

pub mod cubic;
pub mod new_reno;

pub use cubic::Cubic;
pub use new_reno::NewReno;
