//! Virtual networks of the Linux kernel: network namespaces, veth pairs, TUN devices and settings of interfaces, and
//! PID and mount namespaces for the programs that run in them. The crate is empty on other systems. Errors are those of
//! the system, such as `PermissionDenied` without privileges, unless a function states otherwise.
//!
//! All unsafe code is in `syscall.rs`, whose functions are safe to call. Interface requests are encoded as plain bytes.
#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

mod link;
mod netns;
mod process;
mod syscall;
mod tun;
pub mod veth;

pub use link::Link;
pub use netns::NetNs;
pub use process::{die_with_parent, own_mounts, own_processes, terminate, wait_any};
pub use tun::Tun;
pub use veth::VethPair;
