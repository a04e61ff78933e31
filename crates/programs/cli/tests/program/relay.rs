//! Emulated links between processes.
use std::net::SocketAddr;

use longhaul_link::spec::{LinkOptions, Path};
use longhaul_linkem::log::Logs;
use longhaul_linkem::relay::{Options, Running};

/// Parses the options of a link, as `longhaul link` takes them.
pub(crate) fn link(options: &str) -> Path {
    let words: Vec<_> = options.split_whitespace().collect();
    let mut link = LinkOptions::new();
    assert_eq!(link.read(&words).unwrap(), words.len());
    link.build(|file| Err(format!("{file}: no files here"))).unwrap()
}

/// Starts a link from a free port on the same host to `to`.
pub(crate) fn relay(options: &str, to: SocketAddr) -> Running {
    start(options, &Options::new((to.ip(), 0).into(), to))
}

/// Does the same as [`relay`] between the given addresses.
pub(crate) fn start(link_options: &str, options: &Options) -> Running {
    Running::start(options, &link(link_options), Logs::default()).unwrap()
}

/// Starts a link to `address` that takes seconds for a file of 30 MB, so that the transfer can be interrupted on a busy
/// machine.
pub(crate) fn slow(address: &str) -> Running {
    relay("--rate 100mbit --rtt 10ms --queue 200p", address.parse().unwrap())
}
