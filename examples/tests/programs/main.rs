//! The programs as users run them.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

mod cli;
mod common;
