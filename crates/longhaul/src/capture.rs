//! Packet captures at the socket: classic pcap, nanoseconds, raw IP, with real TCP headers.

use std::net::SocketAddr;

use longhaul_units::Time;

use crate::io::{Incoming, Outgoing};

/// A capture under way.
#[derive(Debug)]
pub(crate) struct Capture {}

impl Capture {
    pub(crate) fn received(&mut self, _now: Time, _local: SocketAddr, _incoming: &Incoming<'_>) {}
    pub(crate) fn sent(&mut self, _now: Time, _local: SocketAddr, _outgoing: &Outgoing<'_>) {}
}
