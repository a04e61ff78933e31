//! Two endpoints, the datagrams between them, and configurations chosen by a script.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock};

use longhaul_cc::registry::known;
use longhaul_cc::{BuildParams, Congestion, Demands};
use longhaul_tcp::{
    Batch, Blocked, Config, ConnId, ConnectionError, DatagramMeta, Ecn, Endpoint, EndpointConfig, KeepAlive,
    SegmentMeta, Tuple,
};
use longhaul_units::{Span, Time};

#[path = "script.rs"]
pub mod script;

use script::Script;

/// One-way delay unless the script chooses another.
pub const DELAY: Span = Span::from_millis(10);
/// Maximum number of steps of one script. A longer exchange would mean an endless loop of answers.
const MAX_STEPS: u32 = 300_000;

/// Datagram in transit.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// Receiving side, and number of the connection.
    pub to: usize,
    pub flow: u8,
    pub ecn: Ecn,
    pub bytes: Vec<u8>,
}

/// Two endpoints and the datagrams between them, in virtual time.
pub struct Ends {
    pub sides: [Endpoint; 2],
    pub now: Time,
    /// How far the clock of each side is ahead of `now`.
    pub ahead: [Span; 2],
    pub under_way: BTreeMap<(Time, u64), Datagram>,
    sent: u64,
    steps: u32,
}

/// Returns the addresses of connection `flow` as seen by `side`.
pub fn tuple(side: usize, flow: u8) -> Tuple {
    let peer = Ipv4Addr::new(10, 0, 0, if side == 0 { 2 } else { 1 });
    Tuple { remote: SocketAddr::from((peer, 4000 + u16::from(flow))), local: IpAddr::from(Ipv4Addr::UNSPECIFIED) }
}

/// Returns the byte at `offset` of the stream that `side` writes.
pub fn pattern(side: usize, offset: u64) -> u8 {
    (offset ^ (offset >> 8) ^ (offset >> 16) ^ (side as u64) << 7) as u8
}

/// Returns `len` bytes of that stream from `offset` on.
pub fn part(side: usize, offset: u64, len: usize) -> Vec<u8> {
    (offset..offset + len as u64).map(|at| pattern(side, at)).collect()
}

impl Ends {
    pub fn new(initial: [Option<u32>; 2]) -> Self {
        let now = Time::ZERO + Span::from_secs(1);
        let side = |number: usize| {
            let mut config = EndpointConfig::new([7 + number as u8; 32]);
            config.initial_sequence = initial[number];
            config.backlog = 4;
            config.max_connections = 8;
            Endpoint::new(config, now)
        };
        Self { sides: [side(0), side(1)], now, ahead: [Span::ZERO; 2], under_way: BTreeMap::new(), sent: 0, steps: 0 }
    }

    pub fn clock(&self, side: usize) -> Time {
        self.now + self.ahead[side]
    }

    /// Takes all datagrams that a side has to send and passes each to `each`.
    pub fn flush(&mut self, side: usize, mut each: impl FnMut(&mut Self, Datagram)) {
        let mut batch = Batch::default();
        let now = self.clock(side);
        while let Some(to) = self.sides[side].poll_transmit(now, &mut batch, 8) {
            let flow = (to.tuple.remote.port() - 4000) as u8;
            let mut datagrams = Vec::new();
            for (segment, header) in batch.parts() {
                let mut bytes = header.to_vec();
                if let Some(id) = to.connection.filter(|_| segment.payload_len > 0) {
                    self.sides[side].payload(id, segment, |part| bytes.extend_from_slice(part));
                }
                assert_eq!(bytes.len(), usize::from(segment.header_len) + usize::from(segment.payload_len));
                datagrams.push(Datagram { to: 1 - side, flow, ecn: batch.ecn, bytes });
            }
            for datagram in datagrams {
                self.step();
                each(self, datagram);
            }
        }
        // Events are discarded, because the tests check all state after each step.
        while self.sides[side].poll_event().is_some() {}
    }

    pub fn send(&mut self, datagram: Datagram, delay: Span) {
        self.sent += 1;
        self.under_way.insert((self.now + delay, self.sent), datagram);
    }

    /// Delivers a datagram to its receiver.
    pub fn deliver(&mut self, datagram: &Datagram) {
        let now = self.clock(datagram.to);
        let mut meta = DatagramMeta::new(tuple(datagram.to, datagram.flow).remote, datagram.bytes.len());
        meta.tuple = tuple(datagram.to, datagram.flow);
        meta.segment = SegmentMeta::default();
        meta.segment.ecn = datagram.ecn;
        meta.segment.rx_time = Some(now);
        self.sides[datagram.to].handle_datagram(now, &meta, &datagram.bytes, None);
    }

    /// Returns the time of the next event: the arrival of a datagram, or a timer.
    pub fn next(&mut self) -> Option<Time> {
        let arrival = self.under_way.first_key_value().map(|((at, _), _)| *at);
        let ahead = self.ahead;
        let timers = [0, 1].map(|side| self.sides[side].poll_timeout().map(|at| at - ahead[side]));
        timers.into_iter().flatten().chain(arrival).min()
    }

    /// Advances the time to `now`, delivers datagrams that are due, and fires timers.
    pub fn happen(&mut self, now: Time) {
        self.step();
        self.now = self.now.max(now);
        while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let datagram = entry.remove();
            self.deliver(&datagram);
        }
        for side in 0..2 {
            let clock = self.clock(side);
            self.sides[side].handle_timeout(clock);
        }
    }

    pub fn step(&mut self) {
        self.steps += 1;
        assert!(self.steps < MAX_STEPS, "no end after {MAX_STEPS} steps, at {}: {:?}", self.now, self.describe());
    }

    pub fn describe(&self) -> Vec<String> {
        self.sides.iter().map(|side| format!("{} connections, {:?}", side.len(), side.stats())).collect()
    }

    /// Asserts that neither side has connections, TIME-WAIT records, memory or timers.
    pub fn assert_idle(&mut self) {
        for side in &mut self.sides {
            assert_eq!((side.len(), side.time_wait_len(), side.memory()), (0, 0, 0));
            assert_eq!(side.poll_timeout(), None);
        }
    }
}

/// Progress of both streams at one side of a connection.
#[derive(Clone, Debug, Default)]
pub struct App {
    pub id: ConnId,
    pub side: usize,
    pub written: u64,
    pub read: u64,
    pub ended: bool,
    pub error: Option<ConnectionError>,
}

impl App {
    pub fn new(side: usize, id: ConnId) -> Self {
        Self { id, side, ..Self::default() }
    }

    /// Writes up to `len` bytes; returns whether all were accepted.
    pub fn write(&mut self, ends: &mut Ends, len: usize) -> bool {
        let (bytes, now) = (part(self.side, self.written, len), ends.clock(self.side));
        match ends.sides[self.side].drive(now, self.id, |c| c.write(&bytes)) {
            Some(Ok(taken)) => {
                assert!(taken <= len);
                self.written += taken as u64;
                taken == len
            }
            Some(Err(Blocked::Failed(error))) => {
                self.error = Some(error);
                false
            }
            _ => false,
        }
    }

    /// Reads at most `len` bytes and asserts that the peer wrote them.
    pub fn read(&mut self, ends: &mut Ends, len: usize) -> usize {
        let now = ends.clock(self.side);
        match ends.sides[self.side].drive(now, self.id, |c| c.read(len)) {
            Some(Ok(bytes)) if bytes.is_empty() => {
                self.ended |= len > 0;
                0
            }
            Some(Ok(bytes)) => {
                assert!(bytes.len() <= len);
                assert!(bytes[..] == part(1 - self.side, self.read, bytes.len()), "read data that was not written");
                self.read += bytes.len() as u64;
                bytes.len()
            }
            Some(Err(Blocked::Failed(error))) => {
                self.error = Some(error);
                0
            }
            _ => 0,
        }
    }
}

/// Returns all compositions that the registry lists as tested.
pub fn compositions() -> &'static [Congestion] {
    static ALL: OnceLock<Vec<Congestion>> = OnceLock::new();
    ALL.get_or_init(|| {
        longhaul_zoo::register().expect("the names are free");
        let tested = known().entries.iter().flat_map(|entry| entry.tested.iter().copied());
        let names = known().profiles.iter().map(|profile| profile.name).chain(tested);
        names.map(|name| name.parse().expect("a composition of the registry")).collect()
    })
}

/// Returns whether a composition refuses a path or a peer that lacks a feature. If the server refuses, its
/// application never gets the connection, and the client gets a RST.
pub fn is_demanding(congestion: &Congestion) -> bool {
    congestion.build(&BuildParams::default()).needs().required != Demands::default()
}

/// Derives a configuration from 7 bytes of a script.
pub fn config(script: &mut Script<'_>) -> Arc<Config> {
    let mut config = Config::default();
    let all = compositions();
    config.congestion = all[usize::from(script.word()) % all.len()].clone();
    let (first, second) = (script.byte(), script.byte());
    // Zeros, which a script that has ended yields, select the defaults.
    (config.sack, config.timestamps) = (first & 1 == 0, first & 2 == 0);
    (config.window_scaling, config.ecn) = (first & 4 == 0, first & 8 == 0);
    (config.extensions, config.nagle) = (first & 16 == 0, first & 32 == 0);
    (config.arrival_times, config.probe_pairs) = (first & 64 != 0, first & 128 != 0);
    (config.user_timeout_option, config.routers_answer) = (second & 1 != 0, second & 2 != 0);
    config.ack_every = 2 + (second >> 2 & 3);
    config.ack_delay = Span::from_millis(u64::from(second >> 4) * 30);
    let buffer = |byte: u8| if byte == 0 { 256 << 10 } else { 1_000 + usize::from(byte) * 400 };
    (config.recv_buffer, config.send_buffer) = (buffer(script.byte()), buffer(script.byte()));
    if script.byte() & 1 != 0 {
        config.base_plpmtu = 600;
        config.max_plpmtu = 600;
    }
    // Keep-alive and user timeout detect a peer that has given up.
    config.keep_alive = Some(KeepAlive { idle: Span::from_secs(30), interval: Span::from_secs(10), probes: 6 });
    config.user_timeout = Some(Span::from_secs(300));
    Arc::new(config)
}
