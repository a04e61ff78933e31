//! The simulator: hosts, a network, and a single order of events.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use longhaul_link::{ConfigError, EventQueue, Hook, Link, LinkConfig, Network, Schedule};
use longhaul_units::{Span, Time};

use crate::host::{Host, TransmitScratch};
use crate::packet::{Packet, Parcel, TTL};
use crate::qlog::Qlogs;
use crate::series::Recorder;
use crate::session::{Role, Session};
use crate::setup::{Setup, SetupError};
use crate::tap::{Sighting, Tap, TraceHash};

mod open;
mod population;
mod qlog;
mod traffic;

use open::Opening;
pub(crate) use population::Guest;
use population::Population;
pub use population::{Epoch, PopulationId, Visit};
pub use traffic::{Traffic, TrafficId};

/// Hook of a link; most links have none.
pub type LinkHook = Option<Box<dyn Hook<Parcel>>>;

const ROUTER: u32 = u32::MAX;

/// Identifier of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId {
    /// Node of the host.
    pub host: usize,
    number: u32,
}

/// Event that a step of the simulation has processed. Hosts are identified by their nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// This host received a packet.
    Packet(usize),
    /// A timer of this host's endpoint or network card fired.
    Timer(usize),
    /// An application on this host acted.
    Session(usize),
    /// A connection from this host was opened at its scheduled time.
    Opened(usize),
    /// This host sent cross traffic.
    Traffic(usize),
    /// A time series was sampled.
    Sample,
}

enum Event {
    Arrival(usize, Packet),
    Open(Box<Opening>),
    Traffic(u32),
    Visit(u32),
    Sample(u32),
}

#[derive(Clone, Copy)]
enum Next {
    Network,
    Queue,
    Host(u32),
}

/// Simulator of hosts on a network, in virtual time.
///
/// Among events at the same time, arrivals from the network come first, then scheduled actions, then hosts in the order
/// of their nodes.
///
/// Methods panic if they are given a node without a host, an invalid link number, or a session that does not exist yet.
pub struct Sim {
    now: Time,
    hosts: Vec<Host>,
    /// Index of the host of each node, and node of each host.
    places: Vec<u32>,
    nodes: Vec<u32>,
    addresses: HashMap<IpAddr, u32>,
    /// The last destination of each host, because most packets go to the same one.
    routes: Vec<(IpAddr, u32)>,
    network: Network<Parcel, LinkHook>,
    /// When each host is due, or an earlier time.
    schedule: Schedule,
    /// A host that was accessed mutably, whose due time must be computed again.
    touched: Option<u32>,
    queue: EventQueue<Event>,
    scratch: TransmitScratch,
    taps: Vec<Box<dyn Tap>>,
    trace: TraceHash,
    /// Roles in connections to be accepted from a known client, with their session numbers.
    expected: HashMap<(u32, SocketAddr), (Role, u32)>,
    /// Roles in connections to be accepted from any client, per host, in order.
    any_expected: HashMap<u32, VecDeque<Role>>,
    waiting: usize,
    without_port: Option<usize>,
    /// Index of each planned session's host, and index of the session at this host.
    sessions: Vec<Option<(u32, u32)>>,
    flows: u32,
    traffic: Vec<Traffic>,
    populations: Vec<Population>,
    pub(crate) recorders: Vec<Recorder>,
    qlogs: Qlogs,
}

impl Sim {
    /// Creates the simulation in its initial state.
    ///
    /// # Panics
    /// Panics if the setup is invalid; [`try_new`](Self::try_new) returns the error instead.
    pub fn new(setup: Setup) -> Self {
        Self::try_new(setup).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Creates the simulation in its initial state.
    pub fn try_new(setup: Setup) -> Result<Self, SetupError> {
        let Setup { seed, topology, hosts: setups } = setup;
        if setups.len() != topology.nodes() {
            return Err(SetupError::Hosts { nodes: topology.nodes(), hosts: setups.len() });
        }
        let (mut places, mut nodes, mut hosts) =
            (vec![ROUTER; setups.len()], Vec::new(), Vec::with_capacity(setups.len()));
        let mut addresses = HashMap::new();
        // Create a host at each node that is not a router, and check that addresses are unique.
        for (node, setup) in (0u32..).zip(setups) {
            if topology.is_router(node) {
                continue;
            }
            if let Some(first) = addresses.insert(setup.address.ip(), node) {
                return Err(SetupError::SameAddress { first: first as usize, second: node as usize });
            }
            places[node as usize] = hosts.len() as u32;
            nodes.push(node);
            hosts.push(Host::new(setup.with_own_path_cache()));
        }
        // Packets to an address that no host has are routed towards some other host.
        let others = nodes.iter().map(|node| *nodes.iter().find(|other| *other != node).unwrap_or(node));
        let routes = others.map(|other| (hosts[places[other as usize] as usize].address.ip(), other)).collect();
        Ok(Self {
            now: Time::ZERO,
            network: Network::with_hooks(topology, seed, |_, _| None)?,
            schedule: Schedule::new(hosts.len()),
            hosts,
            places,
            nodes,
            addresses,
            routes,
            touched: None,
            queue: EventQueue::default(),
            scratch: TransmitScratch::default(),
            taps: Vec::new(),
            trace: TraceHash::default(),
            expected: HashMap::new(),
            any_expected: HashMap::new(),
            waiting: 0,
            without_port: None,
            sessions: Vec::new(),
            flows: 0,
            traffic: Vec::new(),
            populations: Vec::new(),
            recorders: Vec::new(),
            qlogs: Qlogs::default(),
        })
    }

    /// Returns the simulation's time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the host at a node.
    pub fn host(&self, node: usize) -> &Host {
        &self.hosts[self.place(node)]
    }

    /// Returns the host at a node for modification.
    pub fn host_mut(&mut self, node: usize) -> &mut Host {
        let place = self.place(node);
        self.look_up_touched();
        self.touched = Some(place as u32);
        &mut self.hosts[place]
    }

    fn place(&self, node: usize) -> usize {
        match self.places.get(node) {
            Some(&place) if place != ROUTER => place as usize,
            _ => panic!("there is no host at node {node}"),
        }
    }

    /// Returns a link by its number in the topology.
    pub fn link(&self, number: u32) -> &Link<Parcel, LinkHook> {
        self.network.link(number).unwrap_or_else(|| panic!("there is no link {number}"))
    }

    /// Advances a link to the present, so that its counters and its queue are up to date. Links take their decisions as
    /// of the correct time, but process their events only when a packet is offered or arrives.
    pub fn catch_up(&mut self, number: u32) {
        let now = self.now;
        self.with_link(number, |link| link.catch_up(now));
    }

    /// Replaces the configuration of a link for later packets, except for that of its queue, like
    /// [`Link::reconfigure`].
    pub fn reconfigure(&mut self, number: u32, config: LinkConfig) -> Result<(), ConfigError> {
        let now = self.now;
        self.with_link(number, |link| link.reconfigure(now, config))
    }

    /// Sets the hook of a link in place of any other: a router, or a log.
    pub fn set_hook(&mut self, number: u32, hook: impl Hook<Parcel> + 'static) {
        self.with_link(number, |link| link.hook = Some(Box::new(hook)));
    }

    fn with_link<R>(&mut self, number: u32, change: impl FnOnce(&mut Link<Parcel, LinkHook>) -> R) -> R {
        self.network.with_link(number, change).unwrap_or_else(|| panic!("there is no link {number}"))
    }

    /// Returns a hash of every packet so far, which is the same in all runs with the same seed.
    pub fn trace(&self) -> u64 {
        self.trace.value()
    }

    /// Adds a tap that sees every later packet.
    pub fn add_tap(&mut self, tap: impl Tap + 'static) {
        self.taps.push(Box::new(tap));
    }

    /// Returns a session.
    pub fn session(&self, id: SessionId) -> &Session {
        self.find(id).unwrap_or_else(|| panic!("{id:?} does not exist yet"))
    }

    /// Returns a session, if it exists already.
    pub fn find(&self, id: SessionId) -> Option<&Session> {
        let (host, index) = (*self.sessions.get(id.number as usize)?)?;
        self.hosts.get(host as usize)?.sessions.get(index as usize)
    }

    /// Returns whether all planned applications have ended. Workloads with connections still to be opened have not.
    pub fn all_done(&self) -> bool {
        self.waiting == 0 && self.hosts.iter().all(|host| host.released == host.sessions.len())
    }

    /// Returns whether all applications have ended and no endpoint has any connection state left.
    pub fn is_quiet(&self) -> bool {
        self.all_done() && self.hosts.iter().all(|h| h.endpoint.is_idle())
    }

    /// Injects a packet from an attacker: it arrives at the host of `node` after `delay`, unaffected by the network.
    pub fn inject(&mut self, delay: Span, node: usize, packet: Packet) {
        self.see(Sighting::Injected(node), &packet);
        self.queue.add(self.now + delay, Event::Arrival(node, packet));
    }

    /// Advances to the next event. Returns `None` if there will never be one.
    pub fn step(&mut self) -> Option<Step> {
        self.step_until(Time::MAX)
    }

    /// Advances to the next event. If there is none until `end`, returns `None` without advancing the time.
    pub fn step_until(&mut self, end: Time) -> Option<Step> {
        self.look_up_touched();
        loop {
            let (at, next) = self.next().filter(|(at, _)| *at <= end)?;
            match next {
                Next::Network => {
                    // A packet that was forwarded or lost is not a step.
                    let Some(delivery) = self.network.poll(at) else { continue };
                    self.now = self.now.max(at);
                    return Some(self.deliver(delivery));
                }
                Next::Queue => {
                    let (_, event) = self.queue.take()?;
                    self.now = self.now.max(at);
                    return Some(self.happen(at, event));
                }
                Next::Host(place) => {
                    let due = self.hosts[place as usize].due();
                    if due.is_none_or(|due| due > at) {
                        self.schedule.set(place, due);
                        continue;
                    }
                    self.now = self.now.max(at);
                    let node = self.nodes[place as usize] as usize;
                    let fired = self.hosts[place as usize].fire(self.now);
                    self.settle_place(place);
                    return Some(if fired { Step::Timer(node) } else { Step::Session(node) });
                }
            }
        }
    }

    /// Returns the next event and its time; of events at the same time, the first source listed.
    fn next(&self) -> Option<(Time, Next)> {
        let mut first = self.network.next_event().map(|at| (at, Next::Network));
        let queue = self.queue.peek().map(|(at, _)| (at, Next::Queue));
        let host = self.schedule.first().map(|(at, place)| (at, Next::Host(place)));
        for (at, next) in [queue, host].into_iter().flatten() {
            if first.is_none_or(|(before, _)| at < before) {
                first = Some((at, next));
            }
        }
        first
    }

    fn deliver(&mut self, mut delivery: longhaul_link::Delivery<Parcel>) -> Step {
        let node = delivery.node as usize;
        match delivery.packet.payload.take() {
            Some(mut packet) => {
                // Apply the ECN field as marked on the path.
                packet.ecn = delivery.packet.ecn;
                self.arrive(node, delivery.at, delivery.packet.ttl, &packet);
                self.scratch.recycle(packet);
            }
            None => self.take_traffic(&delivery),
        }
        Step::Packet(node)
    }

    fn arrive(&mut self, node: usize, at: Time, ttl: u8, packet: &Packet) {
        self.see(Sighting::Received(node), packet);
        let Some(&place) = self.places.get(node).filter(|place| **place != ROUTER) else { return };
        if self.hosts[place as usize].receive(self.now, at, ttl, packet) {
            self.settle_place(place);
        }
    }

    fn happen(&mut self, at: Time, event: Event) -> Step {
        match event {
            Event::Arrival(node, packet) => {
                self.arrive(node, at, TTL, &packet);
                Step::Packet(node)
            }
            Event::Open(opening) => Step::Opened(self.open_planned(*opening)),
            Event::Traffic(number) => Step::Traffic(self.send_traffic(number)),
            Event::Visit(number) => Step::Opened(self.next_visit(number)),
            Event::Sample(number) => {
                self.sample(number);
                Step::Sample
            }
        }
    }

    fn look_up_touched(&mut self) {
        if let Some(place) = self.touched.take() {
            self.reschedule(place);
        }
    }

    fn reschedule(&mut self, place: u32) {
        let due = self.hosts[place as usize].due();
        // Timers often move to a later time before they fire. Instead of moving the entry, check it when its time
        // comes.
        let planned = self.schedule.get(place).filter(|planned| *planned > self.now);
        if due.is_none() || planned.is_none_or(|planned| due < Some(planned)) {
            self.schedule.set(place, due);
        }
    }

    /// Advances the time without processing events, like a machine that is suspended. Events due in between are
    /// processed afterwards.
    pub fn jump(&mut self, span: Span) {
        self.now += span;
    }

    /// Lets a host react after any change: its applications act, and its packets are sent.
    pub fn settle(&mut self, node: usize) {
        let place = self.place(node) as u32;
        self.settle_place(place);
    }

    fn settle_place(&mut self, place: u32) {
        let mut first = true;
        loop {
            // Accept connections and dispatch events, then run the applications.
            if self.hosts[place as usize].hear() {
                self.accept(place);
            }
            // An application's immediate response is sent together with the acknowledgment.
            let any_ran = self.hosts[place as usize].run_sessions(self.now);
            if !self.hosts[place as usize].leaving.is_empty() {
                self.see_off(place);
            }
            if !any_ran && !first {
                break;
            }
            // Send, and repeat as long as applications act.
            first = false;
            self.flush(place);
        }
        self.reschedule(place);
    }

    fn flush(&mut self, place: u32) {
        let Self { now, hosts, places, nodes, addresses, routes, network, scratch, taps, trace, .. } = self;
        let (now, node) = (*now, nodes[place as usize]);
        let route = &mut routes[place as usize];
        let sighting = Sighting::Sent(node as usize);
        hosts[place as usize].transmit(now, scratch, |packet, flow| {
            trace.see(now, sighting, &packet);
            taps.iter_mut().for_each(|tap| tap.see(now, sighting, &packet));
            if route.0 != packet.to.ip()
                && let Some(&to) = addresses.get(&packet.to.ip()).filter(|to| places[**to as usize] != ROUTER)
            {
                *route = (packet.to.ip(), to);
            }
            network.offer(now, node, packet.addressed(route.1, flow));
        });
    }

    pub(crate) fn plan_sample(&mut self, at: Time, recorder: u32) {
        self.queue.add(at, Event::Sample(recorder));
    }

    fn see(&mut self, sighting: Sighting, packet: &Packet) {
        self.trace.see(self.now, sighting, packet);
        for tap in &mut self.taps {
            tap.see(self.now, sighting, packet);
        }
    }

    /// Advances until `done`, or for at most `limit`. Returns whether `done` was reached.
    pub fn run(&mut self, limit: Span, mut done: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now + limit;
        while !done(self) {
            if self.now > end || self.step().is_none() {
                return false;
            }
        }
        true
    }

    /// Processes everything that happens within `span`.
    pub fn run_for(&mut self, span: Span) {
        let end = self.now + span;
        while self.step_until(end).is_some() {}
        self.now = self.now.max(end);
    }
}

#[cfg(test)]
mod tests;
