//! What `quickstart` does: a file travels once with each of several controllers, and how they did stands side by side.

pub mod choices;
pub mod link;
mod race;
mod running;
mod table;

pub use race::{Finish, Racer};
pub use running::Seen;
pub use table::{conclusion, table};
