//! What the tests of longhaul share: a watcher of the wire that knows the rules, and its bookkeeping.
#![forbid(unsafe_code)]

pub mod bursts;
mod intervals;
mod side;
pub mod victim;
pub mod watch;

pub use intervals::Intervals;
pub use victim::Victim;
pub use watch::Watch;
