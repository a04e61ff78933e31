//! Packet captures in virtual time: classic pcap, nanoseconds, raw IP, with real TCP headers.

use std::io::{self, Write};

use longhaul_units::Time;
use longhaul_wire::pcap;
use longhaul_wire::shim::{IpFields, MAX_GROWTH, tcp_from_udp};

use crate::packet::Packet;
use crate::tap::{Sighting, Tap};

/// A [`Tap`] that writes what one host, or each of them, sends and receives, as the TCP segments that the datagrams stand
/// for: any tool reads them as plain TCP. Time 0 is the epoch. Cross traffic is not written.
#[derive(Debug)]
pub struct Pcap<W> {
    out: W,
    host: Option<usize>,
    identification: u16,
    error: Option<io::Error>,
    datagram: Vec<u8>,
    packet: Vec<u8>,
}

impl<W: Write> Pcap<W> {
    /// Begins a capture at the host of a node, as a capture on that machine would be.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn at_host(node: usize, out: W) -> io::Result<Self> {
        Self::begin(Some(node), out)
    }

    /// Begins a capture of everything that any host sends.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn of_senders(out: W) -> io::Result<Self> {
        Self::begin(None, out)
    }

    fn begin(host: Option<usize>, mut out: W) -> io::Result<Self> {
        out.write_all(&pcap::file_header())?;
        Ok(Self { out, host, identification: 0, error: None, datagram: Vec::new(), packet: Vec::new() })
    }

    /// Ends the capture and gives the output back.
    ///
    /// # Errors
    /// The first that writing met.
    pub fn finish(&mut self) -> io::Result<&mut W> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| &mut self.out),
        }
    }

    fn record(&mut self, now: Time, packet: &Packet) -> io::Result<()> {
        self.identification = self.identification.wrapping_add(1);
        let tos = packet.dscp << 2 | packet.ecn.bits();
        self.datagram.clear();
        self.datagram.extend_from_slice(&packet.payload);
        self.datagram.resize(packet.payload_len(), 0);
        let ip = IpFields { tos, identification: self.identification, ..IpFields::default() };
        self.packet.resize(self.datagram.len() + MAX_GROWTH, 0);
        // What is no segment cannot be shown as one.
        let Ok(len) = tcp_from_udp(&self.datagram, packet.from, packet.to, ip, &mut self.packet) else {
            return Ok(());
        };
        self.out.write_all(&pcap::packet_header(now.as_nanos().into(), len as u32))?;
        self.out.write_all(self.packet.get(..len).unwrap_or_default())
    }
}

impl<W: Write> Tap for Pcap<W> {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        let wanted = match (sighting, self.host) {
            (Sighting::Sent(_), None) => true,
            (Sighting::Sent(host) | Sighting::Received(host), Some(node)) => host == node,
            _ => false,
        };
        if wanted && self.error.is_none() {
            self.error = self.record(now, packet).err();
        }
    }
}
