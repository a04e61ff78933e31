//! A host: an endpoint, its address, its applications.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use longhaul_tcp::{Batch, Config, ConnId, DatagramMeta, Endpoint, EndpointEvent, SegmentMeta, Tuple};
use longhaul_units::{Span, Time};

use crate::packet::Packet;
use crate::plan::Content;
use crate::session::{Role, Session};
use crate::setup::HostSetup;

/// Segments of one `poll_transmit`: what Linux takes with segmentation offload.
const MAX_SEGMENTS: usize = 64;

/// A host: an endpoint, its address, its applications.
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
    pub(crate) config: Arc<Config>,
    timer_tick: Option<Span>,
    clock_granularity: Option<Span>,
    /// How far behind the host's own port the next connection leaves from. The own port of a listening host is for
    /// others: two hosts that connect to each other at once from there would have one connection.
    pub(crate) next_port: u16,
    /// The session of each connection, by its index.
    by_connection: Vec<u32>,
    /// Sessions that something happened to.
    called: Vec<u32>,
    /// When applications want to act, some of it out of date.
    wakes: BinaryHeap<Reverse<(Time, u32)>>,
    /// Sessions that have let go.
    pub(crate) released: usize,
    /// Those of them that nobody will ask for.
    pub(crate) leaving: Vec<u32>,
    /// Places of sessions that are left for others.
    pub(crate) free: Vec<u32>,
}

/// What a host's turn to send needs beside the host. Shared by all, as only one has its turn.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    batch: Batch,
    /// Packets that arrived, to be used again.
    spare: Spare,
}

/// The boxes are what is used again.
type Spare = Vec<Box<Packet>>;

/// Packets kept: more than are used between two arrivals.
const MAX_SPARE: usize = 256;
/// As many as a datagram may have.
static ZEROS: [u8; u16::MAX as usize] = [0; u16::MAX as usize];

/// The last multiple of `step`, which is not zero, up to `at`.
fn floor(at: Time, step: Option<Span>) -> Time {
    step.map_or(at, |step| Time::from_nanos(at.as_nanos() / step.as_nanos() * step.as_nanos()))
}

/// The first multiple of `step`, which is not zero, from `at` on.
fn ceil(at: Time, step: Option<Span>) -> Time {
    let nanos = |step: Span| at.as_nanos().div_ceil(step.as_nanos()).saturating_mul(step.as_nanos());
    step.map_or(at, |step| Time::from_nanos(nanos(step)))
}

impl Desk {
    /// Takes back a packet that nobody needs any more.
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
        let HostSetup { address, endpoint, config, clock_ahead, timer_tick, clock_granularity, listens } = setup;
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
            config,
            timer_tick: timer_tick.filter(|tick| !tick.is_zero()),
            clock_granularity,
            next_port: u16::from(listens),
            by_connection: Vec::new(),
            called: Vec::new(),
            wakes: BinaryHeap::new(),
            released: 0,
            leaving: Vec::new(),
            free: Vec::new(),
        }
    }

    /// The simulation's time as this host's clock shows it.
    #[must_use]
    pub fn clock(&self, now: Time) -> Time {
        floor(now + self.clock_ahead, self.clock_granularity)
    }

    /// How the endpoint names its connection with `remote` from the host's own port.
    #[must_use]
    pub fn tuple(&self, remote: SocketAddr) -> Tuple {
        self.tuple_from(0, remote)
    }

    /// The same from so many ports behind it. An endpoint tells its sockets apart by IP address, as it has one port; the
    /// distance stands in for that.
    pub(crate) fn tuple_from(&self, distance: u16, remote: SocketAddr) -> Tuple {
        let local = match (distance, self.address) {
            (0, _) | (_, SocketAddr::V4(_)) => IpAddr::V4(Ipv4Addr::from_bits(u32::from(distance))),
            (_, SocketAddr::V6(_)) => IpAddr::V6(Ipv6Addr::from_bits(u128::from(distance))),
        };
        Tuple { remote, local }
    }

    /// The address that a connection's packets come from.
    pub(crate) fn source(&self, tuple: &Tuple) -> SocketAddr {
        let distance = match tuple.local {
            IpAddr::V4(ip) => ip.to_bits() as u16,
            IpAddr::V6(ip) => ip.to_bits() as u16,
        };
        SocketAddr::new(self.address.ip(), self.address.port().wrapping_add(distance))
    }

    /// When something of the host is due next, in the simulation's time.
    pub(crate) fn due(&mut self) -> Option<Time> {
        let timer = self.endpoint.poll_timeout();
        let due = match (timer, self.app_due()) {
            (Some(timer), Some(app)) => timer.min(app),
            (timer, app) => timer.or(app)?,
        };
        let fires = ceil(ceil(due, self.timer_tick), self.clock_granularity);
        Some(fires - self.clock_ahead)
    }

    /// When an application wants to act next.
    fn app_due(&mut self) -> Option<Time> {
        while let Some(Reverse((at, index))) = self.wakes.peek() {
            if self.sessions.get(*index as usize).is_some_and(|session| session.wakes == Some(*at)) {
                return Some(*at);
            }
            self.wakes.pop();
        }
        None
    }

    /// Receives at `now` what arrived `at` some time before, if the host slept, with this TTL. Whether it was for this host.
    pub(crate) fn receive(&mut self, now: Time, at: Time, ttl: u8, packet: &Packet) -> bool {
        if packet.to.ip() != self.address.ip() {
            return false;
        }
        let distance = packet.to.port().wrapping_sub(self.address.port());
        let mut segment = SegmentMeta::default();
        segment.ecn = packet.ecn;
        segment.rx_time = Some(self.clock(at));
        segment.ttl = Some(ttl);
        let mut meta = DatagramMeta::new(packet.from, packet.payload_len());
        meta.tuple = self.tuple_from(distance, packet.from);
        meta.segment = segment;
        let clock = self.clock(now);
        match ZEROS.get(..packet.zeros as usize).filter(|zeros| !zeros.is_empty()) {
            Some(zeros) => self.endpoint.handle_parts(clock, &meta, &packet.payload, &Bytes::from_static(zeros)),
            None => self.endpoint.handle_datagram(clock, &meta, &packet.payload, None),
        }
        true
    }

    /// Fires the endpoint's timers that are due. Whether any was.
    pub(crate) fn fire(&mut self, now: Time) -> bool {
        let clock = self.clock(now);
        let due = self.endpoint.poll_timeout().is_some_and(|at| at <= clock);
        if due {
            self.endpoint.handle_timeout(clock);
        }
        due
    }

    /// Gives a connection to an application; its place.
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

    /// Keeps a session; its place.
    fn place(&mut self, session: Session) -> usize {
        let free = self.free.pop().map(|index| index as usize);
        if let Some((index, place)) = free.and_then(|index| Some((index, self.sessions.get_mut(index)?))) {
            *place = session;
            self.released -= 1;
            return index;
        }
        if self.sessions.is_empty() {
            // Most hosts of a large network have one.
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

    /// Takes the endpoint's events to whom they concern. Whether there is a connection to accept.
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

    /// Lets every application act that something happened to, or whose time has come. Whether any was.
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
        let id = session.id;
        let acted = self.endpoint.drive(clock, id, |connection| session.run(clock, connection));
        let Some((again, done)) = acted else { return };
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

    /// Everything the endpoint wants to send now.
    pub(crate) fn transmit(&mut self, now: Time, desk: &mut Desk, mut send: impl FnMut(Box<Packet>, u32)) {
        let clock = self.clock(now);
        let Desk { batch, spare } = desk;
        while let Some(to) = self.endpoint.poll_transmit(clock, batch, MAX_SEGMENTS) {
            let (from, ecn, dscp) = (self.source(&to.tuple), batch.ecn, batch.dscp);
            let session = to.connection.and_then(|id| self.session_of(id));
            let flow = session.map_or(0, |session| session.flow);
            let is_zeros = session.is_some_and(|session| session.plan.content == Content::Zeros);
            for (segment, header) in batch.parts() {
                let zeros = if is_zeros { u32::from(segment.payload_len) } else { 0 };
                let packet = Packet { from, to: to.tuple.remote, ecn, dscp, payload: Vec::new(), zeros };
                let mut packet = Desk::packet(spare, packet);
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

    /// The session on connection `id`.
    #[must_use]
    pub fn session_of(&self, id: ConnId) -> Option<&Session> {
        let index = *self.by_connection.get(id.index())?;
        self.sessions.get(index as usize).filter(|session| session.id == id)
    }
}
