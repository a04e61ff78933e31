//! Implementation of `quickstart`: sends a file once with each of several congestion controllers and compares the
//! results.

pub mod choices;
pub mod link;
mod race;
mod running;
mod table;

pub use race::{Finish, Racer};
pub use running::Seen;
pub use table::{conclusion, table};
