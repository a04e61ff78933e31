//! Implementation of `quickstart`: sends the same data with each of several congestion controllers and compares the
//! results.

pub mod choices;
mod data;
pub mod link;
mod progress;
mod race;
mod running;
mod table;

pub use progress::{Progress, show_progress};
pub use race::{Finish, Racer};
pub use running::Seen;
pub use table::{conclusion, table};
