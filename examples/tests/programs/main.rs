//! The programs as users run them.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

#[path = "../../../crates/longhaul-cli/tests/program/child.rs"]
mod child;
mod cli;
mod common;
