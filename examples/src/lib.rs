//! Code shared by the example programs: [`quickstart`] races congestion controllers over emulated links, and [`shim`]
//! passes longhaul's datagrams to a kernel's TCP.
#![forbid(unsafe_code)]

pub mod quickstart;
#[cfg(target_os = "linux")]
pub mod shim;
