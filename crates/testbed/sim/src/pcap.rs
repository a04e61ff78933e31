//! Packet captures in virtual time: classic pcap with nanoseconds and raw IP, and with genuine TCP or UDP headers.

use std::io::{self, Write};

use longhaul_units::Time;
use longhaul_wire::pcap;
use longhaul_wire::shim::{IpFields, MAX_GROWTH, tcp_from_udp, udp_packet};

use crate::packet::Packet;
use crate::tap::{Sighting, Tap};

/// A [`Tap`] that writes the packets of one host. Each datagram is written as the TCP
/// segment that it encapsulates, so that any tool reads a plain TCP capture, or as it is at the hosts of
/// [agents](crate::Agent). Time 0 is the epoch. Cross traffic is not written.
#[derive(Debug)]
pub struct Pcap<W> {
    out: W,
    node: usize,
    is_tcp: bool,
    identification: u16,
    error: Option<io::Error>,
    datagram: Vec<u8>,
    packet: Vec<u8>,
}

impl<W: Write> Pcap<W> {
    /// Starts a capture at the host of a node, as if it ran on that machine.
    pub fn at_host(node: usize, out: W) -> io::Result<Self> {
        Self::new(node, true, out)
    }

    /// Starts a capture of UDP datagrams at the host of an agent.
    pub fn at_agent(node: usize, out: W) -> io::Result<Self> {
        Self::new(node, false, out)
    }

    fn new(node: usize, is_tcp: bool, mut out: W) -> io::Result<Self> {
        out.write_all(&pcap::file_header())?;
        Ok(Self { out, node, is_tcp, identification: 0, error: None, datagram: Vec::new(), packet: Vec::new() })
    }

    /// Ends the capture and returns the output.
    ///
    /// # Errors
    /// Returns the first error in writing.
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
        // Datagrams that cannot be converted are skipped.
        let convert = if self.is_tcp { tcp_from_udp } else { udp_packet };
        let Ok(len) = convert(&self.datagram, packet.from, packet.to, ip, &mut self.packet) else {
            return Ok(());
        };
        self.out.write_all(&pcap::packet_header(now.as_nanos().into(), len as u32))?;
        self.out.write_all(self.packet.get(..len).unwrap_or_default())
    }
}

impl<W: Write> Tap for Pcap<W> {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        let (Sighting::Sent(node) | Sighting::Received(node)) = sighting else { return };
        if node == self.node && self.error.is_none() {
            self.error = self.record(now, packet).err();
        }
    }
}
