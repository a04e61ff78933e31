//! A driver under stacks that call as they document and under stacks that do not, and its samples beside longhaul-tcp's.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod choices;
mod orderly;
mod play;
mod random;
mod recorder;
mod trace;
