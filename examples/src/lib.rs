//! What the example programs share.
//!
//! `receive` and `send` are the two ends of [`protocol`], which carries files over one connection; [`quickstart`] runs
//! both in one process, over an emulated link if that is wanted. [`perf`] measures what a path carries, [`probe`] what it could.
//! [`shim`] joins longhaul's datagrams to a kernel's TCP.
#![forbid(unsafe_code)]

pub mod admission;
pub mod files;
pub mod memory;
pub mod names;
pub mod perf;
pub mod probe;
pub mod progress;
pub mod protocol;
pub mod quickstart;
pub mod receiver;
pub mod report;
pub mod sender;
pub mod session;
#[cfg(target_os = "linux")]
pub mod shim;
pub mod transport;
