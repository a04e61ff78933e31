//! Emulated links in real time: the model of `longhaul-link` between real programs.
//!
//! * [`relay`]: a UDP relay, for programs that speak UDP. Needs no privileges.
//! * [`shell`]: a command in a network namespace of its own behind the link, for everything else. Needs root.
//! * [`engine`]: both directions of a link, driven by the monotonic clock; [`drive`] is the thread that does so.
//! * [`args`]: the command line; [`summary`]: what is told at the end; [`log`]: mahimahi's logs.
//!
//! The links decide with the times at which packets came in, and say when each is to go out; how much later than that it
//! went out is measured and told, so that a user sees when the emulator itself could not keep up.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

pub mod args;
pub mod drive;
pub mod engine;
pub mod log;
pub mod relay;
pub mod shell;
pub mod summary;
