//! Packet captures at the socket: classic pcap with nanosecond timestamps, raw IP, real TCP headers.
//!
//! Each datagram is written as the TCP segment that it carries, so that any tool can read the capture as plain TCP.
//! Batches made by segmentation offload are split into their segments. Sent segments are stamped with the time of the
//! send call, received ones with the kernel's receive timestamp if there is one. Both directions are merged in the
//! order of these times. Another thread writes the file. If the disk is too slow, packets are omitted and counted, and
//! sending is never delayed.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use longhaul_units::{Span, Time};
use longhaul_wire::pcap;
use longhaul_wire::shim::{IpFields, MAX_GROWTH, tcp_from_udp};

use crate::disk::Output;
use crate::io::{Incoming, Io, Outgoing};
use crate::sync::Mutex;

/// Limits, in time and bytes, on holding back sent segments for older received ones that have not been read yet.
const HOLD: Span = Span::from_millis(50);
const HOLD_BYTES: usize = 4 << 20;

/// A capture to which all shards of a listener write.
pub(crate) type SharedCapture = Arc<Mutex<Capture>>;

#[derive(Debug)]
pub(crate) struct Capture {
    path: PathBuf,
    output: Output,
    /// Nanoseconds by which the wall clock was ahead of the monotonic clock when the capture began. Later steps of
    /// the wall clock are not followed, so that intervals stay correct.
    epoch: u128,
    /// Times and lengths of sent packets, oldest first, which are held back because older received packets may not have
    /// been read yet.
    held: VecDeque<(Time, usize)>,
    held_bytes: VecDeque<u8>,
    sent_at: Time,
    written_at: Time,
    identification: [u16; 2],
    scratch: Vec<u8>,
    packet: Vec<u8>,
}

impl Capture {
    /// Starts a capture in a new file and replaces an existing one of that name.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut file = File::create(path)?;
        file.write_all(&pcap::file_header())?;
        let (now, wall) = Io::clocks();
        let mut output = Output::new(now);
        output.to(path.to_owned(), Some(file));
        Ok(Self {
            path: path.to_owned(),
            output,
            epoch: wall.as_nanos().saturating_sub(u128::from(now.as_nanos())),
            held: VecDeque::new(),
            held_bytes: VecDeque::new(),
            sent_at: Time::ZERO,
            written_at: Time::ZERO,
            identification: [0; 2],
            scratch: Vec::new(),
            packet: Vec::new(),
        })
    }

    /// Records datagrams received on the socket bound to `local`.
    pub(crate) fn received(&mut self, now: Time, local: SocketAddr, incoming: &Incoming<'_>) {
        if self.has_failed() {
            return;
        }
        let at = incoming.rx_time.unwrap_or(now).min(now);
        let mut to = local;
        if let Some(ip) = incoming.dst_ip.filter(|_| local.ip().is_unspecified()) {
            to.set_ip(ip);
        }
        self.release(at);
        let mut ip = IpFields { tos: incoming.ecn, ..IpFields::default() };
        ip.ttl = incoming.ttl.unwrap_or(ip.ttl);
        let mut packet = std::mem::take(&mut self.packet);
        for datagram in incoming.data.chunks(incoming.stride.max(1)) {
            ip.identification = self.next_identification(0);
            if synthesise(datagram, incoming.source, to, ip, &mut packet) {
                self.record(at, &packet);
            }
        }
        self.packet = packet;
        self.output.submit_sometimes(now);
    }

    /// Records datagrams sent from the socket bound to `local`.
    pub(crate) fn sent(&mut self, now: Time, local: SocketAddr, outgoing: &Outgoing<'_>) {
        if self.has_failed() {
            return;
        }
        self.sent_at = self.sent_at.max(now);
        let mut from = local;
        if let Some(ip) = outgoing.src_ip.filter(|_| local.ip().is_unspecified()) {
            from.set_ip(ip);
        }
        let mut data = std::mem::take(&mut self.scratch);
        data.clear();
        outgoing.slices.iter().for_each(|slice| data.extend_from_slice(slice));
        let mut packet = std::mem::take(&mut self.packet);
        let size = outgoing.segment_size.map_or(data.len(), usize::from).max(1);
        let mut ip = IpFields { tos: outgoing.tos, ..IpFields::default() };
        for datagram in data.chunks(size) {
            ip.identification = self.next_identification(1);
            if synthesise(datagram, from, outgoing.destination, ip, &mut packet) {
                self.held_bytes.extend(&packet);
                self.held.push_back((self.sent_at, packet.len()));
            }
        }
        self.packet = packet;
        self.scratch = data;
        if let Some(long_ago) = now.as_nanos().checked_sub(HOLD.as_nanos()) {
            self.release(Time::from_nanos(long_ago));
        }
        while self.held_bytes.len() > HOLD_BYTES {
            self.release_one();
        }
        self.output.submit_sometimes(now);
    }

    /// Returns whether writing has failed: the capture ends, and the connections continue.
    fn has_failed(&mut self) -> bool {
        let failed = self.output.has_failed();
        if failed {
            self.output.data = Vec::new();
            (self.held, self.held_bytes) = Default::default();
        }
        failed
    }

    /// Passes all packets to the thread that writes the file.
    pub(crate) fn flush(&mut self) {
        self.release(Time::MAX);
        self.output.submit();
    }

    fn release(&mut self, until: Time) {
        while self.held.front().is_some_and(|(at, _)| *at <= until) {
            self.release_one();
        }
    }

    fn release_one(&mut self) {
        if let Some((at, len)) = self.held.pop_front() {
            let mut packet = std::mem::take(&mut self.scratch);
            packet.clear();
            packet.extend(self.held_bytes.drain(..len));
            self.record(at, &packet);
            self.scratch = packet;
        }
    }

    /// Records a packet. If its time is before that of the preceding packet, it is given that packet's time.
    fn record(&mut self, at: Time, packet: &[u8]) {
        self.written_at = self.written_at.max(at);
        if !self.output.admits() {
            return;
        }
        let wall = self.epoch.saturating_add(u128::from(self.written_at.as_nanos()));
        self.output.data.extend_from_slice(&pcap::packet_header(wall, packet.len() as u32));
        self.output.data.extend_from_slice(packet);
    }

    fn next_identification(&mut self, direction: usize) -> u16 {
        let Some(counter) = self.identification.get_mut(direction) else { return 0 };
        *counter = counter.wrapping_add(1);
        *counter
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.release(Time::MAX);
        let packets = self.output.dropped;
        if packets > 0 {
            tracing::warn!(path = %self.path.display(), packets, "the disk was too slow for all packets of the capture");
        }
    }
}

/// Builds the IP packet that `datagram` represents. Returns false for a datagram that is not a segment and cannot be
/// shown as TCP.
fn synthesise(datagram: &[u8], from: SocketAddr, to: SocketAddr, ip: IpFields, packet: &mut Vec<u8>) -> bool {
    packet.resize(datagram.len() + MAX_GROWTH, 0);
    let written = tcp_from_udp(datagram, from, to, ip, packet);
    packet.truncate(written.unwrap_or(0));
    written.is_ok()
}

#[cfg(test)]
mod tests;
