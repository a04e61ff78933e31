//! Link emulator in real time: runs the model of `longhaul-link` between real programs.
//!
//! * [`relay`]: a UDP relay, for programs that use UDP. It needs no privileges.
//! * [`shell`]: runs a command in its own network namespace behind the link. It works for any protocol and needs
//!   root. [`shell::Behind`] is such a namespace for a program with sockets at both ends.
//! * [`engine`]: both directions of a link, driven by the monotonic clock; `drive` is the thread that drives it.
//! * [`args`]: the command line; `summary`: the report at the end; [`log`]: logs in mahimahi's format.
//!
//! The links work with the arrival times of packets, and compute when to forward each packet. The additional delay, the
//! lateness of the emulator, is measured and reported, so that users can see when the emulator could not keep up.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod args;
mod drive;
pub mod engine;
pub mod log;
pub mod relay;
pub mod shell;
mod summary;
