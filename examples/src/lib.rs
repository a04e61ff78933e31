//! Code shared by the example programs.
//!
//! `receive` and `send` are the two ends of [`longhaul_cli::protocol`], which carries files over one connection;
//! [`quickstart`] runs both in one process, optionally over an emulated link. [`shim`] passes longhaul's datagrams to
//! a kernel's TCP.
#![forbid(unsafe_code)]

pub mod quickstart;
#[cfg(target_os = "linux")]
pub mod shim;
