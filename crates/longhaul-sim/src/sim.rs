//! The whole: two hosts, two links, one queue of events.

use std::collections::VecDeque;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use longhaul_tcp::{Config, ConnId, Endpoint, EndpointConfig};
use longhaul_units::{Span, Time};

use crate::host::Host;
use crate::link::{Link, LinkConfig};
use crate::packet::Packet;
use crate::pattern::Pattern;
use crate::plan::Plan;
use crate::queue::Queue;
use crate::random::Random;
use crate::session::Session;
use crate::tap::{Sighting, Tap, TraceHash};

/// What a host is like.
#[derive(Clone, Debug)]
pub struct HostSetup {
    /// Its UDP address.
    pub address: SocketAddr,
    /// Its endpoint's settings.
    pub endpoint: EndpointConfig,
    /// The settings of its connections, opened or accepted.
    pub config: Arc<Config>,
    /// What its clock shows when the simulation begins.
    pub clock_ahead: Span,
}

/// What a simulation begins with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Decides everything random.
    pub seed: u64,
    /// The hosts. Number 1 listens; so does number 0 if [`Sim::listen`] says so.
    pub hosts: [HostSetup; 2],
    /// The link out of each host.
    pub links: [LinkConfig; 2],
}

impl Setup {
    /// Two hosts with default settings, the same link both ways.
    #[must_use]
    pub fn symmetric(seed: u64, link: LinkConfig) -> Self {
        let host = |number: u8| HostSetup {
            address: SocketAddr::from(([10, 0, 0, number], 7000 + u16::from(number))),
            endpoint: EndpointConfig::new([number; 32]),
            config: Arc::default(),
            clock_ahead: Span::ZERO,
        };
        Self { seed, hosts: [host(1), host(2)], links: [link.clone(), link] }
    }

    /// The same, over IPv6: the hosts keep their ports and get addresses from the prefix for documentation (RFC 3849).
    /// Headers on the links then take [20 bytes more](crate::ip_header).
    #[must_use]
    pub fn over_ipv6(mut self) -> Self {
        for (number, host) in (1..).zip(&mut self.hosts) {
            let address = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number);
            host.address = SocketAddr::from((address, host.address.port()));
        }
        self
    }
}

/// A session: the host it is on, and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionId {
    /// Host `0` or `1`.
    pub host: usize,
    /// Its place among those of the host.
    pub index: usize,
}

/// What a step of the simulation was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This host received a packet.
    Packet(usize),
    /// A timer of this host's endpoint fired.
    Timer(usize),
    /// An application on this host acted.
    Session(usize),
}

enum Event {
    Arrival(usize, Packet),
}

/// Two hosts joined by a link each way, in virtual time.
pub struct Sim {
    now: Time,
    hosts: [Host; 2],
    configs: [Arc<Config>; 2],
    links: [Link; 2],
    queue: Queue<Event>,
    random: Random,
    taps: Vec<Box<dyn Tap>>,
    trace: TraceHash,
    /// Plans for connections that hosts will accept, in order, with their patterns.
    expected: [VecDeque<(Plan, Pattern, Pattern)>; 2],
    opened: u64,
}

impl Sim {
    /// The state before anything has happened; host 1 listens.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let configs = setup.hosts.each_ref().map(|h| Arc::clone(&h.config));
        let mut hosts = setup.hosts.map(|h| {
            let endpoint = Endpoint::new(h.endpoint, Time::ZERO + h.clock_ahead);
            Host::new(endpoint, h.address, h.clock_ahead)
        });
        hosts[1].endpoint.listen(Arc::clone(&configs[1]));
        Self {
            now: Time::ZERO,
            hosts,
            configs,
            links: setup.links.map(Link::new),
            queue: Queue::default(),
            random: Random::new(setup.seed),
            taps: Vec::new(),
            trace: TraceHash::default(),
            expected: [VecDeque::new(), VecDeque::new()],
            opened: 0,
        }
    }

    /// The simulation's time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// A host.
    ///
    /// # Panics
    /// If there is none of that number.
    #[must_use]
    pub fn host(&self, number: usize) -> &Host {
        &self.hosts[number]
    }

    /// A host, to act on.
    ///
    /// # Panics
    /// If there is none of that number.
    pub fn host_mut(&mut self, number: usize) -> &mut Host {
        &mut self.hosts[number]
    }

    /// The link out of a host.
    ///
    /// # Panics
    /// If there is none of that number.
    pub fn link_mut(&mut self, number: usize) -> &mut Link {
        &mut self.links[number]
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

    /// Makes host 0 listen too.
    pub fn listen(&mut self) {
        self.hosts[0].endpoint.listen(Arc::clone(&self.configs[0]));
    }

    /// Opens a connection from host 0 to host 1 with an application at each end. The second exists once host 1 has
    /// accepted.
    ///
    /// # Panics
    /// If host 0 has a connection to host 1 already.
    pub fn open(&mut self, client: Plan, server: Plan) -> (SessionId, SessionId) {
        let (up, down) = (Pattern::new(2 * self.opened), Pattern::new(2 * self.opened + 1));
        self.opened += 1;
        let server_id = SessionId { host: 1, index: self.hosts[1].sessions.len() + self.expected[1].len() };
        self.expected[1].push_back((server, down, up));
        let client_id = self.open_from(0, client, up, down);
        (client_id.expect("host 0 has a connection to host 1 already"), server_id)
    }

    /// Opens a connection from `from` to the other host, with an application on this side only; `None` if there is
    /// one.
    pub fn open_from(&mut self, from: usize, plan: Plan, writes: Pattern, reads: Pattern) -> Option<SessionId> {
        let to = self.hosts[1 - from].address;
        let host = &mut self.hosts[from];
        let (tuple, clock) = (host.tuple(to), host.clock(self.now));
        let id = host.endpoint.connect(clock, tuple, Arc::clone(&self.configs[from]))?;
        host.sessions.push(Session::new(id, plan, writes, reads));
        let index = self.hosts[from].sessions.len() - 1;
        self.settle(from);
        Some(SessionId { host: from, index })
    }

    /// Gives the next connection that `host` accepts to an application.
    pub fn expect(&mut self, host: usize, plan: Plan, writes: Pattern, reads: Pattern) {
        self.expected[host].push_back((plan, writes, reads));
    }

    /// An application.
    ///
    /// # Panics
    /// If it does not exist (yet).
    #[must_use]
    pub fn session(&self, id: SessionId) -> &Session {
        &self.hosts[id.host].sessions[id.index]
    }

    /// Whether every application that was planned has come to its end.
    #[must_use]
    pub fn all_done(&self) -> bool {
        self.expected.iter().all(VecDeque::is_empty) && self.hosts.iter().all(|h| h.sessions.iter().all(|s| s.released))
    }

    /// Whether nothing of any connection is left.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.all_done() && self.hosts.iter().all(|h| h.endpoint.is_idle())
    }

    /// Puts an attacker's packet on the wire: it arrives at `to` after `delay`, whatever the link does.
    pub fn inject(&mut self, delay: Span, to: usize, packet: Packet) {
        self.see(Sighting::Injected(to), &packet);
        self.queue.add(self.now + delay, Event::Arrival(to, packet));
    }

    /// Goes on to the next event; `None` if there is none, ever.
    pub fn step(&mut self) -> Option<Step> {
        let (at, step) = self.next()?;
        self.now = self.now.max(at);
        let host = match step {
            Step::Packet(_) => {
                let (_, Event::Arrival(to, packet)) = self.queue.take()?;
                self.see(Sighting::Received(to), &packet);
                self.hosts[to].receive(self.now, at, &packet);
                to
            }
            Step::Timer(host) => {
                self.hosts[host].fire(self.now);
                host
            }
            Step::Session(host) => host,
        };
        self.settle(host);
        Some(step)
    }

    fn next(&mut self) -> Option<(Time, Step)> {
        let mut all = [None; 5];
        all[0] = self.queue.peek().map(|(at, Event::Arrival(to, _))| (at, Step::Packet(*to)));
        for (number, host) in self.hosts.iter_mut().enumerate() {
            all[1 + number] = host.timer().map(|at| (at, Step::Timer(number)));
            all[3 + number] = host.app_wakes.map(|at| (at, Step::Session(number)));
        }
        // Of those due at one time the first listed.
        all.into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Lets time pass without anything happening, as a suspended machine does: what fell due meanwhile happens then.
    pub fn jump(&mut self, span: Span) {
        self.now += span;
    }

    /// After anything happened to a host: its applications act, and what it wants to send leaves.
    pub fn settle(&mut self, number: usize) {
        loop {
            self.flush(number);
            let events = self.hosts[number].drain_events();
            let accepted = self.accept(number);
            self.hosts[number].run_sessions(self.now);
            self.flush(number);
            if events.is_empty() && !accepted {
                return;
            }
        }
    }

    fn accept(&mut self, number: usize) -> bool {
        let host = &mut self.hosts[number];
        let Some(id): Option<ConnId> = host.endpoint.accept() else { return false };
        match self.expected[number].pop_front() {
            Some((plan, writes, reads)) => host.sessions.push(Session::new(id, plan, writes, reads)),
            // A SYN that was late, perhaps: nobody wants it.
            None => host.endpoint.release(host.clock(self.now), id),
        }
        true
    }

    fn flush(&mut self, number: usize) {
        let mut out = Vec::new();
        self.hosts[number].transmit(self.now, |packet| out.push(packet));
        for packet in out {
            let (now, queue, to) = (self.now, &mut self.queue, 1 - number);
            let elsewhere = packet.to != self.hosts[to].address;
            let seen = packet.clone();
            let fate = self.links[number].offer(now, packet, &mut self.random, |at, packet| {
                // What goes to a spoofed address arrives nowhere.
                if !elsewhere {
                    queue.add(at, Event::Arrival(to, packet));
                }
            });
            self.see(Sighting::Sent(number, fate), &seen);
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
        while self.next().is_some_and(|(at, _)| at <= end) {
            self.step();
        }
        self.now = self.now.max(end);
    }
}

#[cfg(test)]
mod tests;
