//! Code of the program `longhaul`. The library is for [`program::main`], tests and fuzzing; its interface is not
//! stable.
//!
//! `sender` and `receiver` are the two ends of [`protocol`], which carries files over one connection; `session`
//! opens and closes the connection. `forward` and `gateway` are the two ends of a [`tunnel`], which carries TCP
//! connections; `monitor` observes them. [`perf`] measures the throughput of a path, and `probe` its properties.
#![forbid(unsafe_code)]
#![expect(missing_docs, reason = "public items are for tests and fuzzing only")]
#![warn(clippy::print_stdout, clippy::print_stderr)]

#[cfg(not(unix))]
compile_error!("the program needs a Unix system");

mod address;
mod bond;
mod code;
mod doctor;
mod files;
mod forward;
mod gateway;
mod groups;
mod meet;
mod memory;
mod mirror;
mod monitor;
mod names;
mod output;
mod packing;
pub mod perf;
mod plot;
mod probe;
pub mod program;
mod progress;
pub mod protocol;
mod receiver;
mod report;
mod sender;
mod session;
mod sidecar;
mod sync;
mod transport;
pub mod tunnel;
