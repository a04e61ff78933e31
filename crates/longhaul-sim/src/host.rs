//! One end: an endpoint, its address, its applications.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use longhaul_tcp::{Batch, ConnId, DatagramMeta, Ecn, Endpoint, EndpointEvent, SegmentMeta, Tuple};
use longhaul_units::{Span, Time};

use crate::packet::Packet;
use crate::session::Session;

/// Segments of one `poll_transmit`: what Linux takes with segmentation offload.
const MAX_SEGMENTS: usize = 64;

/// One end: an endpoint, its address, its applications.
#[derive(Debug)]
pub struct Host {
    /// The endpoint. A test may act on it; what it then wants to send leaves at the next step.
    pub endpoint: Endpoint,
    /// Its UDP address.
    pub address: SocketAddr,
    /// The applications.
    pub sessions: Vec<Session>,
    /// What is added to the simulation's time to give this host's.
    pub clock_ahead: Span,
    /// When an application wants to act next.
    pub(crate) app_wakes: Option<Time>,
    batch: Batch,
}

impl Host {
    pub(crate) fn new(endpoint: Endpoint, address: SocketAddr, clock_ahead: Span) -> Self {
        Self { endpoint, address, sessions: Vec::new(), clock_ahead, app_wakes: None, batch: Batch::default() }
    }

    /// The simulation's time as this host's clock shows it.
    #[must_use]
    pub fn clock(&self, now: Time) -> Time {
        now + self.clock_ahead
    }

    /// How the endpoint names its connection with `remote`.
    #[must_use]
    pub fn tuple(&self, remote: SocketAddr) -> Tuple {
        Tuple { remote, local: IpAddr::V4(Ipv4Addr::UNSPECIFIED) }
    }

    /// When the endpoint's next timer is due, in the simulation's time.
    pub(crate) fn timer(&mut self) -> Option<Time> {
        let at = self.endpoint.poll_timeout()?;
        Some(at - self.clock_ahead)
    }

    /// Receives at `now` what arrived `at` some time before, if the host slept.
    pub(crate) fn receive(&mut self, now: Time, at: Time, packet: &Packet) {
        let mut segment = SegmentMeta::default();
        segment.ecn = packet.ecn;
        segment.rx_time = Some(self.clock(at));
        let mut meta = DatagramMeta::new(packet.from, packet.payload.len());
        meta.segment = segment;
        self.endpoint.handle_datagram(self.clock(now), &meta, &packet.payload, None);
    }

    pub(crate) fn fire(&mut self, now: Time) {
        self.endpoint.handle_timeout(self.clock(now));
    }

    /// Lets every application do what it can.
    pub(crate) fn run_sessions(&mut self, now: Time) {
        let clock = self.clock(now);
        self.app_wakes = None;
        for session in &mut self.sessions {
            if session.released {
                continue;
            }
            let id = session.id;
            let acted = self.endpoint.drive(clock, id, |connection| session.run(now, connection));
            let Some((again, done)) = acted else { continue };
            self.app_wakes = again.map_or(self.app_wakes, |at| Some(self.app_wakes.map_or(at, |w| w.min(at))));
            if done {
                session.released = true;
                self.endpoint.release(clock, id);
            }
        }
    }

    /// Takes the endpoint's events; what they say the applications find out by themselves.
    pub(crate) fn drain_events(&mut self) -> Vec<EndpointEvent> {
        std::iter::from_fn(|| self.endpoint.poll_event()).collect()
    }

    /// Everything the endpoint wants to send now.
    pub(crate) fn transmit(&mut self, now: Time, mut send: impl FnMut(Packet)) {
        let clock = self.clock(now);
        while let Some(to) = self.endpoint.poll_transmit(clock, &mut self.batch, MAX_SEGMENTS) {
            let mut headers = self.batch.headers.as_slice();
            for segment in &self.batch.segments {
                let (header, rest) = headers.split_at(usize::from(segment.header_len).min(headers.len()));
                headers = rest;
                let mut payload = header.to_vec();
                if let Some(id) = to.connection {
                    self.endpoint.payload(id, segment, |part| payload.extend_from_slice(part));
                }
                let (from, to) = (self.address, to.tuple.remote);
                send(Packet { from, to, ecn: Ecn::from(self.batch.ecn), dscp: self.batch.dscp, payload });
            }
        }
    }

    /// The session on connection `id`.
    #[must_use]
    pub fn session_of(&self, id: ConnId) -> Option<&Session> {
        self.sessions.iter().find(|s| s.id == id)
    }
}
