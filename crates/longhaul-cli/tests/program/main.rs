//! The program `longhaul` as users run it: processes over real sockets.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

mod codes;
#[cfg(unix)]
mod directories;
mod forward;
#[cfg(unix)]
mod lists;
mod machine;
mod monitoring;
#[cfg(unix)]
mod remote;
#[cfg(target_os = "linux")]
mod resume;
mod strangers;
mod transfer;
#[cfg(target_os = "linux")]
mod transparent;
mod trust;
mod usage;
