//! Code of the program `longhaul`, which the example programs share.
//!
//! [`sender`] and [`receiver`] are the two ends of [`protocol`], which carries files over one connection; [`session`]
//! opens and closes the connection. [`forward`] and [`gateway`] are the two ends of a [`tunnel`], which carries TCP
//! connections; [`monitor`] observes them. [`perf`] measures the throughput of a path, and [`probe`] its properties.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod address;
pub mod code;
pub mod doctor;
pub mod files;
pub mod forward;
pub mod gateway;
pub mod groups;
pub mod memory;
pub mod monitor;
pub mod names;
pub mod output;
mod packing;
pub mod perf;
pub mod plot;
pub mod probe;
pub mod program;
pub mod progress;
pub mod protocol;
pub mod receiver;
pub mod report;
pub mod sender;
pub mod session;
pub mod transport;
pub mod tunnel;
