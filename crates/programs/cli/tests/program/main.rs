//! The program `longhaul` as users run it: processes over real sockets.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

#[cfg(target_os = "linux")]
mod addresses;
mod authority;
mod codes;
#[cfg(target_os = "linux")]
mod connection;
mod crowds;
#[cfg(unix)]
mod directories;
#[cfg(target_os = "linux")]
mod disk;
#[cfg(target_os = "linux")]
mod doctor;
mod forward;
#[cfg(target_os = "linux")]
mod gateways;
#[cfg(unix)]
mod homes;
#[cfg(target_os = "linux")]
mod link;
#[cfg(unix)]
mod lists;
mod machine;
#[cfg(target_os = "linux")]
mod meet;
mod messages;
#[cfg(target_os = "linux")]
mod mirror;
mod monitoring;
#[cfg(target_os = "linux")]
mod moving;
mod outputs;
mod packaging;
mod perf;
#[cfg(target_os = "linux")]
mod pictures;
#[cfg(target_os = "linux")]
mod plot;
#[cfg(target_os = "linux")]
mod probe;
#[cfg(target_os = "linux")]
mod probe_hops;
mod process;
#[cfg(unix)]
mod programs;
#[cfg(target_os = "linux")]
mod relay;
#[cfg(unix)]
mod remote;
#[cfg(target_os = "linux")]
mod resume;
#[cfg(target_os = "linux")]
mod screens;
#[cfg(target_os = "linux")]
mod ssh;
#[cfg(unix)]
mod stdio;
mod strangers;
#[cfg(target_os = "linux")]
mod terminal;
mod transfer;
#[cfg(target_os = "linux")]
mod transparent;
mod trust;
mod usage;
