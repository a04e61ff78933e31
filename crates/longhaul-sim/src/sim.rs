//! The whole: hosts, a network, one order of events.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use longhaul_link::{ConfigError, Hook, Link, LinkConfig, Network, Schedule};
use longhaul_units::{Span, Time};

use crate::host::{Desk, Host};
use crate::packet::{Packet, Parcel, TTL};
use crate::qlog::Qlogs;
use crate::queue::Queue;
use crate::series::Recorder;
use crate::session::{Role, Session};
use crate::setup::{Setup, SetupError};
use crate::tap::{Sighting, Tap, TraceHash};

mod crowd;
mod open;
mod qlog;
mod traffic;

use crowd::Crowd;
pub(crate) use crowd::Guest;
pub use crowd::{CrowdId, Epoch, Visit};
use open::Opening;
use traffic::Workload;
pub use traffic::{Traffic, TrafficId, WorkloadId, exchange_of};

/// Who looks at the packets of a link; most links have nobody.
pub type LinkHook = Option<Box<dyn Hook<Parcel>>>;

/// Marks a node that is no host.
const ROUTER: u32 = u32::MAX;

/// A session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId {
    /// The node of its host.
    pub host: usize,
    /// Its number among all that were planned.
    number: u32,
}

/// What a step of the simulation was. Hosts are named by their nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// This host received a packet.
    Packet(usize),
    /// A timer of this host's endpoint fired.
    Timer(usize),
    /// An application on this host acted.
    Session(usize),
    /// A connection was opened from this host whose time had come.
    Opened(usize),
    /// Cross traffic left this host.
    Traffic(usize),
    /// Time series were sampled.
    Sample,
}

enum Event {
    Arrival(usize, Packet),
    Open(Box<Opening>),
    Traffic(u32),
    Workload(u32),
    Visit(u32),
    Sample(u32),
}

/// Who looks at every event of a host: a time series, a log, by their numbers.
#[derive(Clone, Copy)]
pub(crate) enum Follower {
    Series(u32),
    Qlog(u32),
}

/// What is next.
#[derive(Clone, Copy)]
enum Next {
    Network,
    Queue,
    Host(u32),
}

/// Hosts on a network, in virtual time.
///
/// Of things that happen at one time, arrivals from the network come first, then what was planned from outside, then
/// hosts by their nodes.
pub struct Sim {
    now: Time,
    hosts: Vec<Host>,
    /// The place of each node's host among the hosts, and back.
    places: Vec<u32>,
    nodes: Vec<u32>,
    addresses: HashMap<IpAddr, u32>,
    /// Where each host sent to last: most packets go there again.
    routes: Vec<(IpAddr, u32)>,
    network: Network<Parcel, LinkHook>,
    /// When each host is due, or some time before.
    schedule: Schedule,
    /// A host that was handed out to be acted upon: when it is due has to be looked up again.
    touched: Option<u32>,
    queue: Queue<Event>,
    desk: Desk,
    taps: Vec<Box<dyn Tap>>,
    trace: TraceHash,
    /// Roles in connections that hosts will accept: those of a known client,
    expected: HashMap<(u32, SocketAddr), (Role, u32)>,
    /// and of any, by host, in order.
    any_expected: HashMap<u32, VecDeque<Role>>,
    waiting: usize,
    /// The node of the first host that had no port left for a connection.
    without_port: Option<usize>,
    /// Where each planned session is: its host's place, and its own there.
    sessions: Vec<Option<(u32, u32)>>,
    flows: u32,
    traffic: Vec<Traffic>,
    workloads: Vec<Workload>,
    crowds: Vec<Crowd>,
    pub(crate) recorders: Vec<Recorder>,
    qlogs: Qlogs,
    /// Who looks at every event of a host.
    followers: Vec<(u32, Follower)>,
}

impl Sim {
    /// The state before anything has happened.
    ///
    /// # Panics
    /// If there can be no such simulation; [`try_new`](Self::try_new) says so instead.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        Self::try_new(setup).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The state before anything has happened.
    ///
    /// # Errors
    /// If there can be no such network, or the hosts don't fit it.
    pub fn try_new(setup: Setup) -> Result<Self, SetupError> {
        let Setup { seed, topology, hosts: setups } = setup;
        if setups.len() != topology.nodes() {
            return Err(SetupError::Hosts { nodes: topology.nodes(), hosts: setups.len() });
        }
        let (mut places, mut nodes, mut hosts) =
            (vec![ROUTER; setups.len()], Vec::new(), Vec::with_capacity(setups.len()));
        let mut addresses = HashMap::new();
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
        // What goes to an address that is nobody's takes the way to some other host.
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
            queue: Queue::default(),
            desk: Desk::default(),
            taps: Vec::new(),
            trace: TraceHash::default(),
            expected: HashMap::new(),
            any_expected: HashMap::new(),
            waiting: 0,
            without_port: None,
            sessions: Vec::new(),
            flows: 0,
            traffic: Vec::new(),
            workloads: Vec::new(),
            crowds: Vec::new(),
            recorders: Vec::new(),
            qlogs: Qlogs::default(),
            followers: Vec::new(),
        })
    }

    /// The simulation's time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// The host at a node.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn host(&self, node: usize) -> &Host {
        &self.hosts[self.place(node)]
    }

    /// The host at a node, to act on.
    ///
    /// # Panics
    /// If there is none.
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

    /// The nodes that hosts are at.
    #[must_use]
    pub fn host_nodes(&self) -> impl ExactSizeIterator<Item = usize> {
        self.nodes.iter().map(|node| *node as usize)
    }

    /// A link, by its number in the topology.
    ///
    /// # Panics
    /// If there is none of that number.
    #[must_use]
    pub fn link(&self, number: u32) -> &Link<Parcel, LinkHook> {
        self.network.link(number).unwrap_or_else(|| panic!("there is no link {number}"))
    }

    /// Lets everything happen on a link that has happened by now, so that its counters and its queue are of this time: a link decides as
    /// if it did so at the right time, but looks when a packet comes or arrives.
    ///
    /// # Panics
    /// If there is none of that number.
    pub fn catch_up(&mut self, number: u32) {
        let now = self.now;
        let done = self.network.with_link(number, |link| link.catch_up(now));
        done.unwrap_or_else(|| panic!("there is no link {number}"));
    }

    /// Makes a link another one from now on, but for its queue, as [`Link::reconfigure`] does.
    ///
    /// # Errors
    /// If there can be no such link.
    ///
    /// # Panics
    /// If there is none of that number.
    pub fn reconfigure(&mut self, number: u32, config: LinkConfig) -> Result<(), ConfigError> {
        let now = self.now;
        let done = self.network.with_link(number, |link| link.reconfigure(now, config));
        done.unwrap_or_else(|| panic!("there is no link {number}"))
    }

    /// Lets `hook` look at the packets of a link from now on, in place of any other: a router that answers, a log.
    ///
    /// # Panics
    /// If there is no link of that number.
    pub fn set_hook(&mut self, number: u32, hook: impl Hook<Parcel> + 'static) {
        let set = self.network.with_link(number, |link| *link.hook_mut() = Some(Box::new(hook)));
        set.unwrap_or_else(|| panic!("there is no link {number}"));
    }

    /// A hash of every packet so far: what two runs of one seed have in common.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.trace.value()
    }

    /// Lets `tap` see every packet from now on.
    pub fn add_tap(&mut self, tap: impl Tap + 'static) {
        self.taps.push(Box::new(tap));
    }

    /// A session.
    ///
    /// # Panics
    /// If it does not exist (yet).
    #[must_use]
    pub fn session(&self, id: SessionId) -> &Session {
        self.find(id).unwrap_or_else(|| panic!("{id:?} does not exist yet"))
    }

    /// A session, if it exists already.
    #[must_use]
    pub fn find(&self, id: SessionId) -> Option<&Session> {
        let (host, index) = (*self.sessions.get(id.number as usize)?)?;
        self.hosts.get(host as usize)?.sessions.get(index as usize)
    }

    /// Whether every application that was planned has come to its end. Workloads whose end is not reached have more.
    #[must_use]
    pub fn all_done(&self) -> bool {
        self.waiting == 0 && self.hosts.iter().all(|host| host.released == host.sessions.len())
    }

    /// Whether nothing of any connection is left.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.all_done() && self.hosts.iter().all(|h| h.endpoint.is_idle())
    }

    /// Puts an attacker's packet on the wire: it arrives at the host of `node` after `delay`, whatever the network does.
    pub fn inject(&mut self, delay: Span, node: usize, packet: Packet) {
        self.see(Sighting::Injected(node), &packet);
        self.queue.add(self.now + delay, Event::Arrival(node, packet));
    }

    /// Goes on to the next event; `None` if there is none, ever.
    pub fn step(&mut self) -> Option<Step> {
        self.step_until(Time::MAX)
    }

    /// Goes on to the next event if that is not after `end`; `None`, and the time stays, if it is.
    pub fn step_until(&mut self, end: Time) -> Option<Step> {
        self.look_up_touched();
        loop {
            let (at, next) = self.next().filter(|(at, _)| *at <= end)?;
            match next {
                Next::Network => {
                    // A hop, or a loss, is nothing that anybody notices.
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

    /// What is first, and when; of one time the first listed.
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
                // With the mark it got on the way.
                packet.ecn = delivery.packet.ecn;
                self.arrive(node, delivery.at, delivery.packet.ttl, &packet);
                self.desk.recycle(packet);
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
            Event::Workload(number) => Step::Opened(self.next_of_workload(number)),
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
        // Most timers move on before they fire: what is due later than planned is looked up again at the time planned.
        let planned = self.schedule.get(place).filter(|planned| *planned > self.now);
        if due.is_none() || planned.is_none_or(|planned| due < Some(planned)) {
            self.schedule.set(place, due);
        }
    }

    /// Lets time pass without anything happening, as suspended machines do: what fell due meanwhile happens then.
    pub fn jump(&mut self, span: Span) {
        self.now += span;
    }

    /// After anything happened to a host: its applications act, and what it wants to send leaves.
    ///
    /// # Panics
    /// If there is no host at that node.
    pub fn settle(&mut self, node: usize) {
        let place = self.place(node) as u32;
        self.settle_place(place);
    }

    fn settle_place(&mut self, place: u32) {
        let mut first = true;
        loop {
            if self.hosts[place as usize].hear() {
                self.accept(place);
            }
            if !self.followers.is_empty() {
                self.log_states(place);
            }
            // What an application says at once goes with the acknowledgment.
            let any_ran = self.hosts[place as usize].run_sessions(self.now);
            if !self.hosts[place as usize].leaving.is_empty() {
                self.see_off(place);
            }
            if !any_ran && !first {
                break;
            }
            first = false;
            self.flush(place);
        }
        self.reschedule(place);
        if !self.followers.is_empty() {
            self.follow(place);
        }
    }

    /// Sends what a host wants to send.
    fn flush(&mut self, place: u32) {
        let Self { now, hosts, places, nodes, addresses, routes, network, desk, taps, trace, .. } = self;
        let (now, node) = (*now, nodes[place as usize]);
        let route = &mut routes[place as usize];
        let sighting = Sighting::Sent(node as usize);
        hosts[place as usize].transmit(now, desk, |packet, flow| {
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

    pub(crate) fn add_follower(&mut self, node: usize, follower: Follower) {
        self.followers.push((self.place(node) as u32, follower));
    }

    pub(crate) fn plan_sample(&mut self, at: Time, recorder: u32) {
        self.queue.add(at, Event::Sample(recorder));
    }

    /// After anything happened to a host.
    fn follow(&mut self, place: u32) {
        for index in 0..self.followers.len() {
            let (host, follower) = self.followers[index];
            match follower {
                _ if host != place => {}
                Follower::Series(number) => self.add_row(number, true),
                Follower::Qlog(number) => {
                    if !self.sample_qlog(number) {
                        self.followers[index].0 = ROUTER;
                    }
                }
            }
        }
    }

    fn see(&mut self, sighting: Sighting, packet: &Packet) {
        self.trace.see(self.now, sighting, packet);
        for tap in &mut self.taps {
            tap.see(self.now, sighting, packet);
        }
    }

    /// Steps until `done`, or for `limit` at most. Whether it was done.
    pub fn run(&mut self, limit: Span, mut done: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now + limit;
        while !done(self) {
            if self.now > end || self.step().is_none() {
                return false;
            }
        }
        true
    }

    /// Steps through everything that happens within `span`.
    pub fn run_for(&mut self, span: Span) {
        let end = self.now + span;
        while self.step_until(end).is_some() {}
        self.now = self.now.max(end);
    }
}

#[cfg(test)]
mod tests;
