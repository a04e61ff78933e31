//! Reactions of each state to single segments, sent by the test itself.
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test may fail by panicking, and shares its helpers")]

#[path = "../support/victim.rs"]
#[allow(dead_code, reason = "other crates' tests use more of it")]
mod victim;

mod closed_windows;
mod matrices;
mod rejected;
