//! The program as users run it: its commands, its files of results, and its error messages.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod common;

mod adversary;
mod captures;
mod cli;
mod compare;
mod illustrate;
mod pack;
mod random;
mod refusals;
mod results;
mod scorecard;
mod shards;
mod verdicts;
