//! Host: an endpoint, its address, and its applications.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use longhaul_tcp::{Batch, Config, ConnId, DatagramMeta, Endpoint, EndpointEvent, SegmentMeta, Tuple};
use longhaul_units::{Span, Time};

use crate::agent::Agent;
use crate::card::Card;
use crate::packet::Packet;
use crate::plan::Content;
use crate::session::{Role, Session};
use crate::setup::HostSetup;

/// Maximum number of segments per `poll_transmit`, as Linux accepts with segmentation offload.
const MAX_SEGMENTS: usize = 64;

/// A host: an endpoint, its address, and its applications.
#[derive(Debug)]
pub struct Host {
    /// The endpoint. A test may act on it; the segments that this produces are sent at the next step.
    pub endpoint: Endpoint,
    /// UDP address of the endpoint.
    pub address: SocketAddr,
    /// Applications that run on the host.
    pub sessions: Vec<Session>,
    /// Offset of this host's clock from the simulation's time.
    pub clock_ahead: Span,
    /// Transport that has the host's datagrams instead of the endpoint, and the flow number of its packets.
    pub(crate) agent: Option<(Box<dyn Agent>, u32)>,
    pub(crate) config: Arc<Config>,
    timer_tick: Option<Span>,
    clock_granularity: Option<Span>,
    card: Option<Box<Card>>,
    /// Distance of the next connection's port from the host's own port. A listening host does not connect from its own
    /// port: if two hosts connected to each other from their own ports at the same time, they would get a single
    /// connection.
    pub(crate) next_port: u16,
    /// Index of the session of each connection, by connection index.
    by_connection: Vec<u32>,
    called: Vec<u32>,
    /// Wake-up times of applications, possibly stale.
    wakes: BinaryHeap<Reverse<(Time, u32)>>,
    pub(crate) released: usize,
    /// Released sessions of populations, whose entries can be reused once their epochs are stored.
    pub(crate) leaving: Vec<u32>,
    /// Entries of `sessions` that can be reused.
    pub(crate) free: Vec<u32>,
}

/// Scratch memory for transmission. It is shared by all hosts, because only one of them sends at a time.
#[derive(Debug, Default)]
pub(crate) struct TransmitScratch {
    batch: Batch,
    spare: Spare,
}

type Spare = Vec<Box<Packet>>;

/// Maximum number of packets kept for reuse. Fewer are sent between two arrivals.
const MAX_SPARE: usize = 256;
/// As many zeros as the payload of a datagram may have.
static ZEROS: [u8; u16::MAX as usize] = [0; u16::MAX as usize];

fn floor(at: Time, step: Option<Span>) -> Time {
    step.map_or(at, |step| Time::from_nanos(at.as_nanos() / step.as_nanos() * step.as_nanos()))
}

fn ceil(at: Time, step: Option<Span>) -> Time {
    let nanos = |step: Span| at.as_nanos().div_ceil(step.as_nanos()).saturating_mul(step.as_nanos());
    step.map_or(at, |step| Time::from_nanos(nanos(step)))
}

fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl TransmitScratch {
    pub(crate) fn recycle(&mut self, packet: Box<Packet>) {
        if self.spare.len() < MAX_SPARE {
            self.spare.push(packet);
        }
    }

    fn packet(spare: &mut Spare, packet: Packet) -> Box<Packet> {
        let Some(mut place) = spare.pop() else { return Box::new(packet) };
        let mut payload = std::mem::take(&mut place.payload);
        payload.clear();
        *place = Packet { payload, ..packet };
        place
    }
}

impl Host {
    pub(crate) fn new(setup: HostSetup) -> Self {
        let HostSetup { address, endpoint, config, clock_ahead, timer_tick, clock_granularity, receive_hold, listens } =
            setup;
        // Virtual time serves as the shared clock of all hosts, to the extent that their own clocks agree with it.
        let mut config = Config::clone(&config);
        config.shared_clock = Some(Span::ZERO);
        let config = Arc::new(config);
        let clock_granularity = clock_granularity.filter(|granularity| !granularity.is_zero());
        let mut endpoint = Endpoint::new(endpoint, floor(Time::ZERO + clock_ahead, clock_granularity));
        if listens {
            endpoint.listen(Arc::clone(&config));
        }
        Self {
            endpoint,
            address,
            sessions: Vec::new(),
            clock_ahead,
            agent: None,
            config,
            timer_tick: timer_tick.filter(|tick| !tick.is_zero()),
            clock_granularity,
            card: receive_hold.map(|hold| Box::new(Card::new(hold))),
            next_port: u16::from(listens),
            by_connection: Vec::new(),
            called: Vec::new(),
            wakes: BinaryHeap::new(),
            released: 0,
            leaving: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Returns the transport that runs here instead of longhaul, if there is one.
    pub fn agent(&self) -> Option<&dyn Agent> {
        self.agent.as_ref().map(|(agent, _)| &**agent)
    }

    /// Converts the simulation's time to this host's clock.
    pub fn clock(&self, now: Time) -> Time {
        floor(now + self.clock_ahead, self.clock_granularity)
    }

    /// Returns the tuple by which the endpoint knows its connection with `remote` from the host's own port.
    pub fn tuple(&self, remote: SocketAddr) -> Tuple {
        self.tuple_from(0, remote)
    }

    /// Returns the tuple for a port at a distance from the host's own port. Because an endpoint has only one port and
    /// distinguishes its sockets by IP address, the distance is encoded as the local address.
    pub(crate) fn tuple_from(&self, distance: u16, remote: SocketAddr) -> Tuple {
        let local = match (distance, self.address) {
            (0, _) | (_, SocketAddr::V4(_)) => IpAddr::V4(Ipv4Addr::from_bits(u32::from(distance))),
            (_, SocketAddr::V6(_)) => IpAddr::V6(Ipv6Addr::from_bits(u128::from(distance))),
        };
        Tuple { remote, local }
    }

    pub(crate) fn source(&self, tuple: &Tuple) -> SocketAddr {
        let distance = match tuple.local {
            IpAddr::V4(ip) => ip.to_bits() as u16,
            IpAddr::V6(ip) => ip.to_bits() as u16,
        };
        SocketAddr::new(self.address.ip(), self.address.port().wrapping_add(distance))
    }

    /// Returns the time of the host's next event, in the simulation's time.
    pub(crate) fn due(&mut self) -> Option<Time> {
        let due = earlier(self.endpoint.poll_timeout(), self.app_due());
        let fires = due.map(|due| ceil(ceil(due, self.timer_tick), self.clock_granularity) - self.clock_ahead);
        let of_agent = self.agent.as_mut().and_then(|(agent, _)| agent.due()).map(|due| ceil(due, self.timer_tick));
        earlier(earlier(fires, of_agent), self.card.as_ref().and_then(|card| card.due))
    }

    fn app_due(&mut self) -> Option<Time> {
        while let Some(Reverse((at, index))) = self.wakes.peek() {
            if self.sessions.get(*index as usize).is_some_and(|session| session.wakes == Some(*at)) {
                return Some(*at);
            }
            self.wakes.pop();
        }
        None
    }

    /// Receives at `now` a packet that arrived at `at`, earlier if the host was suspended. Returns whether it was for
    /// this host.
    pub(crate) fn receive(&mut self, now: Time, at: Time, ttl: u8, packet: &Packet) -> bool {
        if packet.to.ip() != self.address.ip() {
            return false;
        }
        match &mut self.card {
            Some(card) => card.hold(now, ttl, packet),
            None => self.take(now, at, false, ttl, packet),
        }
        true
    }

    /// Processes a packet, with the arrival time `at`. `coalesced` states whether receive offload merged it with
    /// others.
    fn take(&mut self, now: Time, at: Time, coalesced: bool, ttl: u8, packet: &Packet) {
        if let Some((agent, _)) = &mut self.agent {
            return agent.receive(now, packet);
        }
        let distance = packet.to.port().wrapping_sub(self.address.port());
        let mut segment = SegmentMeta::default();
        segment.ecn = packet.ecn;
        segment.rx_time = Some(self.clock(at));
        segment.coalesced = coalesced;
        segment.ttl = Some(ttl);
        let mut meta = DatagramMeta::new(packet.from, packet.payload_len());
        meta.tuple = self.tuple_from(distance, packet.from);
        meta.segment = segment;
        let clock = self.clock(now);
        match ZEROS.get(..packet.zeros as usize).filter(|zeros| !zeros.is_empty()) {
            Some(zeros) => self.endpoint.handle_parts(clock, &meta, &packet.payload, &Bytes::from_static(zeros)),
            None => self.endpoint.handle_datagram(clock, &meta, &packet.payload, None),
        }
    }

    pub(crate) fn fire(&mut self, now: Time) -> bool {
        let of_agent = self.agent.as_mut().is_some_and(|(agent, _)| agent.due().is_some_and(|due| due <= now));
        self.deliver(now) | self.fire_endpoint(now) | of_agent
    }

    /// Processes the packets that the network card holds, if their delivery is due. Their arrival time is the delivery
    /// time.
    fn deliver(&mut self, now: Time) -> bool {
        let held = self.card.as_mut().and_then(|card| card.deliver(now));
        for held in held.iter().flatten() {
            self.take(now, now, held.merged, held.ttl, &held.packet);
        }
        held.is_some()
    }

    fn fire_endpoint(&mut self, now: Time) -> bool {
        let clock = self.clock(now);
        let due = self.endpoint.poll_timeout().is_some_and(|at| at <= clock);
        if due {
            self.endpoint.handle_timeout(clock);
        }
        due
    }

    pub(crate) fn start(&mut self, now: Time, id: ConnId, role: Role) -> usize {
        let session = Session::new(self.clock(now), id, role);
        let index = self.place(session);
        if self.by_connection.len() <= id.index() {
            self.by_connection.resize(id.index() + 1, u32::MAX);
        }
        self.by_connection[id.index()] = index as u32;
        self.call(index as u32);
        index
    }

    fn place(&mut self, session: Session) -> usize {
        let free = self.free.pop().map(|index| index as usize);
        if let Some((index, place)) = free.and_then(|index| Some((index, self.sessions.get_mut(index)?))) {
            *place = session;
            self.released -= 1;
            return index;
        }
        if self.sessions.is_empty() {
            // In a large network, most hosts have only one session.
            self.sessions.reserve_exact(1);
        }
        self.sessions.push(session);
        self.sessions.len() - 1
    }

    fn call(&mut self, index: u32) {
        if let Some(session) = self.sessions.get_mut(index as usize).filter(|s| !s.called && !s.released) {
            session.called = true;
            self.called.push(index);
        }
    }

    pub(crate) fn hear(&mut self) -> bool {
        let mut incoming = false;
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                EndpointEvent::Connection(id, _) => {
                    let index = self.by_connection.get(id.index()).copied().unwrap_or(u32::MAX);
                    if self.sessions.get(index as usize).is_some_and(|session| session.id == id) {
                        self.call(index);
                    }
                }
                _ => incoming = true,
            }
        }
        incoming
    }

    pub(crate) fn run_sessions(&mut self, now: Time) -> bool {
        let clock = self.clock(now);
        while self.app_due().is_some_and(|at| at <= clock) {
            if let Some(Reverse((_, index))) = self.wakes.pop() {
                self.call(index);
            }
        }
        let mut called = std::mem::take(&mut self.called);
        for &index in &called {
            self.run_session(clock, index);
        }
        let any = !called.is_empty();
        called.clear();
        self.called = called;
        any
    }

    fn run_session(&mut self, clock: Time, index: u32) {
        let Some(session) = self.sessions.get_mut(index as usize) else { return };
        session.called = false;
        // Let the application act on its connection.
        let id = session.id;
        let acted = self.endpoint.drive(clock, id, |connection| session.run(clock, connection));
        let Some((again, done)) = acted else { return };
        // Schedule the next wake-up, and release the connection if the application is done.
        if session.wakes != again {
            session.wakes = again;
            self.wakes.extend(again.map(|at| Reverse((at, index))));
        }
        if done {
            session.released = true;
            session.released_at = Some(clock);
            session.wakes = None;
            self.released += 1;
            if session.guest.is_some() {
                self.leaving.push(index);
            } else {
                session.last = self.endpoint.connection(id).map(|connection| Box::new(connection.info(clock)));
            }
            self.endpoint.release(clock, id);
        }
    }

    pub(crate) fn transmit(
        &mut self,
        now: Time,
        scratch: &mut TransmitScratch,
        mut send: impl FnMut(Box<Packet>, u32),
    ) {
        if let Some((agent, flow)) = &mut self.agent {
            agent.transmit(now, &mut |packet| send(Box::new(packet), *flow));
        }
        let clock = self.clock(now);
        let TransmitScratch { batch, spare } = scratch;
        while let Some(to) = self.endpoint.poll_transmit(clock, batch, MAX_SEGMENTS) {
            // Build one packet per segment of the batch: header and payload, or header and a count of zeros.
            let (from, ecn, dscp) = (self.source(&to.tuple), batch.ecn, batch.dscp);
            let session = to.connection.and_then(|id| self.session_of(id));
            let flow = session.map_or(0, |session| session.flow);
            let is_zeros = session.is_some_and(|session| session.plan.content == Content::Zeros);
            for (segment, header) in batch.parts() {
                let zeros = if is_zeros { u32::from(segment.payload_len) } else { 0 };
                let packet = Packet { from, to: to.tuple.remote, ecn, dscp, payload: Vec::new(), zeros };
                let mut packet = TransmitScratch::packet(spare, packet);
                let payload = &mut packet.payload;
                payload.extend_from_slice(header);
                if let Some(id) = to.connection.filter(|_| segment.payload_len > 0 && !is_zeros) {
                    payload.reserve(usize::from(segment.payload_len));
                    self.endpoint.payload(id, segment, |part| payload.extend_from_slice(part));
                }
                send(packet, flow);
            }
        }
    }

    fn session_of(&self, id: ConnId) -> Option<&Session> {
        let index = *self.by_connection.get(id.index())?;
        self.sessions.get(index as usize).filter(|session| session.id == id)
    }
}
