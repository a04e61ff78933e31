//! Connections that move: two hosts, of which the client's address changes, and attackers who see and send anything.

use std::collections::BTreeMap;
use std::hash::Hasher;

use longhaul_wire::{MoveOption, MoveStep};
use proptest::prelude::*;
use siphasher::sip::SipHasher24;

use super::*;
use crate::{ConnectionEvent, Detail, Mobility, MoveTags, Observer};

mod claims;

const SERVER: ([u8; 4], u16) = ([192, 0, 2, 2], 443);
pub(super) const NUMBER: [u8; 8] = [3; 8];

#[derive(Debug)]
struct Tags(u64);

impl MoveTags for Tags {
    fn client(&self, message: &[u8]) -> [u8; 8] {
        let mut hasher = SipHasher24::new_with_keys(self.0, 1);
        hasher.write(message);
        hasher.finish().to_be_bytes()
    }

    fn server(&self, message: &[u8]) -> [u8; 8] {
        let mut hasher = SipHasher24::new_with_keys(self.0, 2);
        hasher.write(message);
        hasher.finish().to_be_bytes()
    }
}

pub(super) fn mobility(is_client: bool) -> Mobility {
    Mobility { number: NUMBER, is_client, tags: Arc::new(Tags(7)) }
}

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, host], port))
}

#[derive(Clone, Debug)]
struct Flight {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

impl Flight {
    fn moving(&self) -> Option<MoveOption> {
        CheshireCodec::parse(&self.bytes).ok()?.0.options.moving
    }
}

/// Client, server, and what is on its way between them.
struct World {
    now: Time,
    delay: Span,
    ends: [Endpoint; 2],
    ids: [ConnId; 2],
    /// The address from which the server receives the client's datagrams, and at which the client receives.
    client: SocketAddr,
    flying: BTreeMap<(Time, u64), Flight>,
    count: u64,
    /// What was sent to addresses that nobody has, or to attackers.
    elsewhere: Vec<Flight>,
    /// All datagrams that the client has sent.
    seen: Vec<Flight>,
    lose: Box<dyn FnMut(&Flight) -> bool>,
}

impl World {
    fn new(delay: Span, config: Config) -> Self {
        let config = Arc::new(config);
        let mut ends = [1, 2].map(|seed| Endpoint::new(EndpointConfig::new([seed; 32]), NOW));
        ends[1].listen(Arc::clone(&config));
        let client = ends[0].connect(NOW, Self::to_server(), config).unwrap();
        let mut world = Self {
            now: NOW,
            delay,
            ends,
            ids: [client, ConnId::default()],
            client: address(1, 5000),
            flying: BTreeMap::new(),
            count: 0,
            elsewhere: Vec::new(),
            seen: Vec::new(),
            lose: Box::new(|_| false),
        };
        while world.ends[1].is_empty() || world.ends[0].state(client) != Some(State::Established) {
            world.step();
        }
        world.run_for(world.delay * 3);
        world.ids[1] = world.ends[1].accept().unwrap();
        for end in [0, 1] {
            assert!(world.ends[end].set_mobility(world.ids[end], mobility(end == 0)));
        }
        world
    }

    fn to_server() -> Tuple {
        Tuple { remote: SocketAddr::from(SERVER), local: IpAddr::from([0, 0, 0, 0]) }
    }

    /// Lets the client continue from another address, of which it learns.
    fn relocate(&mut self, to: SocketAddr) -> bool {
        let moves = self.ends[0].relocate(self.now, self.ids[0], Self::to_server());
        if moves {
            self.client = to;
        }
        moves
    }

    /// Returns the address of the client by which the server knows it.
    fn known(&self) -> Option<SocketAddr> {
        Some(self.ends[1].tuple(self.ids[1])?.remote)
    }

    fn launch(&mut self, after: Span, flight: Flight) {
        self.count += 1;
        self.flying.insert((self.now + after, self.count), flight);
    }

    fn pump(&mut self) {
        let mut batch = Batch::default();
        for end in 0..2 {
            while let Some(to) = self.ends[end].poll_transmit(self.now, &mut batch, 64) {
                for (segment, header) in batch.parts() {
                    let mut bytes = header.to_vec();
                    if let Some(id) = to.connection {
                        self.ends[end].payload(id, segment, |part| bytes.extend_from_slice(part));
                    }
                    let from = if end == 0 { self.client } else { SERVER.into() };
                    let flight = Flight { from, to: to.tuple.remote, bytes };
                    if end == 0 {
                        self.seen.push(flight.clone());
                    }
                    if !(self.lose)(&flight) {
                        self.count += 1;
                        self.flying.insert((self.now + self.delay, self.count), flight);
                    }
                }
            }
        }
    }

    /// Advances to the next event; returns `false` if there is none.
    fn step(&mut self) -> bool {
        self.pump();
        let timers = [self.ends[0].poll_timeout(), self.ends[1].poll_timeout()];
        let arrival = self.flying.keys().next().map(|(at, _)| *at);
        let Some(next) = timers.into_iter().flatten().chain(arrival).min() else { return false };
        self.now = self.now.max(next);
        while let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let flight = entry.remove();
            let end = if flight.to == SERVER.into() {
                1
            } else if flight.to == self.client {
                0
            } else {
                self.elsewhere.push(flight);
                continue;
            };
            let meta = DatagramMeta::new(flight.from, flight.bytes.len());
            let meta = DatagramMeta { tuple: Tuple { local: IpAddr::from([0, 0, 0, 0]), ..meta.tuple }, ..meta };
            self.ends[end].handle_datagram(self.now, &meta, &flight.bytes, None);
        }
        for end in &mut self.ends {
            end.handle_timeout(self.now);
        }
        self.pump();
        true
    }

    fn run_for(&mut self, span: Span) {
        let end = self.now + span;
        loop {
            self.pump();
            let timers = [self.ends[0].poll_timeout(), self.ends[1].poll_timeout()];
            let arrival = self.flying.keys().next().map(|(at, _)| *at);
            if timers.into_iter().flatten().chain(arrival).min().is_none_or(|at| at > end) {
                break;
            }
            self.step();
        }
        self.now = end;
    }

    fn write(&mut self, end: usize, data: &[u8]) {
        let written = self.ends[end].drive(self.now, self.ids[end], |c| c.write(data)).unwrap();
        assert_eq!(written, Ok(data.len()));
    }

    fn read(&mut self, end: usize) -> Vec<u8> {
        let mut all = Vec::new();
        self.ends[end].drive(self.now, self.ids[end], |c| {
            while let Ok(part) = c.read(1 << 20) {
                if part.is_empty() {
                    break;
                }
                all.extend_from_slice(&part);
            }
        });
        all
    }

    /// Writes at one end and returns how long it takes until all of it has been read at the other.
    fn carry(&mut self, from: usize, len: usize, limit: Span) -> Span {
        let data: Vec<u8> = (0..len).map(|i| (i * 31 + i / 251) as u8).collect();
        let (start, mut written, mut got) = (self.now, 0, Vec::new());
        while got.len() < len {
            let id = self.ids[from];
            self.ends[from].drive(self.now, id, |c| {
                while let Ok(more @ 1..) = c.write(&data[written..]) {
                    written += more;
                }
            });
            self.pump();
            got.extend(self.read(1 - from));
            if got.len() < len {
                assert!(self.step(), "nothing is left to happen");
                assert!(self.now - start < limit, "{} of {len} bytes after {limit}", got.len());
            }
        }
        assert!(got == data, "other data than written");
        self.now - start
    }

    fn inject(&mut self, from: SocketAddr, bytes: Vec<u8>) {
        self.launch(Span::ZERO, Flight { from, to: SERVER.into(), bytes });
    }
}

const DELAY: Span = Span::from_millis(50);
const SECOND: Span = Span::from_secs(1);

/// From the first segment of the new address on, data from the client takes one round trip and a half, and data of the
/// server two round trips.
#[test]
fn a_connection_continues_from_a_new_address_within_two_round_trips() {
    for (from, halves) in [(0, 3), (1, 4)] {
        let mut world = World::new(DELAY, Config::default());
        world.carry(1, 100_000, SECOND * 5);
        let to = address(2, 6000);
        assert!(world.relocate(to));
        assert_eq!(world.carry(from, 100, SECOND * 5), DELAY * halves, "from {from}");
        world.run_for(SECOND);
        assert_eq!(world.known(), Some(to));
        world.carry(0, 300_000, SECOND * 9);
        world.carry(1, 300_000, SECOND * 9);
        assert!(world.elsewhere.iter().all(|flight| flight.to == address(1, 5000)));
    }
}

#[derive(Clone, Debug, Default)]
struct Moves(Arc<std::sync::Mutex<Vec<String>>>);

impl Observer for Moves {
    fn detail(&self) -> Detail {
        Detail::Changes
    }

    fn event(&mut self, _: Time, event: &ConnectionEvent<'_>) {
        let text = format!("{event:?}");
        if text.starts_with("Move") {
            self.0.lock().unwrap().push(text);
        }
    }
}

/// Both ends tell their observers of a move; the client also of its claims, of which the first is lost.
#[test]
fn observers_learn_of_moves() {
    let mut world = World::new(DELAY, Config::default());
    let moves = [(); 2].map(|()| Moves::default());
    for end in [0, 1] {
        assert!(world.ends[end].observe(world.now, world.ids[end], Box::new(moves[end].clone())));
    }
    world.carry(1, 100_000, SECOND * 5);
    let mut claims = 0;
    world.lose = Box::new(move |flight| {
        claims += u32::from(flight.from == address(2, 6000));
        claims == 1
    });
    assert!(world.relocate(address(2, 6000)));
    world.carry(0, 100, SECOND * 5);
    world.run_for(SECOND);
    let [client, server] = moves.map(|moves| std::mem::take(&mut *moves.0.lock().unwrap()));
    let expected = [
        "Moved { remote: 192.0.2.2:443, local: None, keeps_path: false }",
        "MoveClaimed { counter: 1, claims: 1 }",
        "MoveClaimed { counter: 2, claims: 2 }",
        "MoveChallenged { counter: 2 }",
    ];
    assert_eq!(client[..4], expected);
    assert_eq!(server, ["Moved { remote: 198.51.100.2:6000, local: None, keeps_path: false }"]);
}

/// A NAT gives the client another port while nothing is sent. The server resets what it does not know, and the client claims
/// its connection.
#[test]
fn a_nat_that_has_forgotten_the_client_costs_a_round_trip() {
    for reset_unknown in [true, false] {
        let mut world = World::new(DELAY, Config::default());
        world.carry(0, 100_000, SECOND * 5);
        let config = EndpointConfig { reset_unknown, ..EndpointConfig::new([2; 32]) };
        world.ends[1].set_limits(&config);
        for port in [5001, 5002] {
            world.run_for(SECOND * 30);
            world.client = address(1, port);
            let took = world.carry(0, 100, SECOND * 9);
            assert_eq!(world.known(), Some(world.client));
            // Without resets, the second timeout leads to a claim.
            assert!(took <= if reset_unknown { DELAY * 5 } else { SECOND * 2 }, "{took}");
            world.carry(1, 300_000, SECOND * 9);
        }
    }
}

/// Window, round-trip time and path MTU are those of the path.
#[test]
fn only_a_new_path_starts_anew() {
    for (to, keeps) in [(address(1, 5001), true), (address(2, 5000), false)] {
        let mut world = World::new(DELAY, Config::default());
        world.carry(1, 3_000_000, SECOND * 30);
        let info = |world: &World| world.ends[1].connection(world.ids[1]).unwrap().info(world.now);
        world.run_for(SECOND);
        let before = info(&world);
        assert!(before.cwnd.0 > 100_000 && before.plpmtu > 1400, "{} {}", before.cwnd.0, before.plpmtu);
        world.relocate(to);
        world.run_for(DELAY * 3);
        let after = info(&world);
        assert_eq!((world.known(), after.srtt.is_some()), (Some(to), keeps));
        assert_eq!((after.cwnd == before.cwnd, after.plpmtu == before.plpmtu), (keeps, keeps));
        assert_eq!(after.plpmtu < before.plpmtu, !keeps);
    }
}

/// Whoever has copied a claim and sends it first from elsewhere gets a challenge, which is not longer, and no more. The true
/// claim is not affected. Copies of a completed move lead to nothing.
#[test]
fn copied_claims_and_answers_move_nothing() {
    let mut world = World::new(DELAY, Config::default());
    world.carry(0, 100_000, SECOND * 5);
    let to = address(2, 6000);
    world.relocate(to);
    world.pump();
    let claim = world.seen.last().unwrap().clone();
    assert_eq!(claim.moving().map(|moving| moving.step), Some(MoveStep::Claim));
    for host in 10..110 {
        world.inject(address(host, 1), claim.bytes.clone());
    }
    let copies = |world: &World| world.elsewhere.iter().filter(|flight| flight.to.port() == 1).count();
    world.run_for(DELAY * 2);
    assert_eq!((copies(&world), world.known()), (100, Some(address(1, 5000))));
    assert!(world.elsewhere.iter().all(|flight| flight.bytes.len() <= claim.bytes.len()));
    // The answer of the client is for its own address.
    let is_answer = |flight: &&Flight| flight.moving().is_some_and(|moving| moving.step == MoveStep::Answer);
    let answer = world.seen.iter().find(is_answer).unwrap().clone();
    for host in 10..110 {
        world.inject(address(host, 1), answer.bytes.clone());
    }
    world.run_for(SECOND);
    assert_eq!((copies(&world), world.known()), (100, Some(to)));
    world.now += SECOND * 3600;
    for flight in world.seen.clone().into_iter().filter(|flight| flight.moving().is_some()) {
        world.inject(address(9, 9), flight.bytes);
    }
    world.run_for(SECOND);
    assert_eq!((copies(&world), world.known()), (100, Some(to)));
    world.carry(1, 100_000, SECOND * 5);
}

/// All copies arrive in one instant, before the claim of the client. They get some challenges, and so does the client; what
/// others are answered is not affected.
#[test]
fn ten_thousand_copies_that_arrive_first_hold_nobody_up() {
    let mut world = World::new(DELAY, Config::default());
    world.carry(0, 100_000, SECOND * 5);
    let to = address(2, 6000);
    world.relocate(to);
    world.pump();
    let claim = world.flying.pop_last().unwrap().1;
    assert_eq!(claim.moving().map(|moving| moving.step), Some(MoveStep::Claim));
    for nth in 0..10_000_u16 {
        world.inject(SocketAddr::from(([203, 0, 113, (nth >> 8) as u8], 1 + nth)), claim.bytes.clone());
    }
    let stranger = Header { flags: Flags::ACK, seq: 5, ack: 9, ..Header::default() };
    world.inject(address(9, 9), datagram(&stranger));
    world.launch(Span::ZERO, claim.clone());
    world.step();
    assert!(world.ends[1].memory() < 1 << 20);
    world.run_for(DELAY * 3);
    assert_eq!(world.known(), Some(to));
    // The rest is for the former address of the client.
    let to_others = world.elsewhere.iter().filter(|flight| flight.to.ip() != address(1, 0).ip());
    let (resets, copies): (Vec<_>, Vec<_>) = to_others.partition(|flight| flight.to == address(9, 9));
    assert_eq!((resets.len(), copies.len()), (1, 127), "128 challenges, of which the client has one");
    assert!(copies.iter().all(|flight| flight.bytes.len() <= claim.bytes.len()));
    let before = world.elsewhere.len();
    // Copies of a completed move cost no cryptography and have no answer.
    for nth in 0..100_000_u32 {
        world.inject(address((nth % 200) as u8, 1 + (nth >> 8) as u16), claim.bytes.clone());
    }
    world.step();
    world.run_for(DELAY * 3);
    assert_eq!((world.elsewhere.len(), world.known()), (before, Some(to)));
    world.carry(1, 100_000, SECOND * 5);
}

/// A forged claim with the right number is dropped without an answer, and one with another number is answered like any
/// segment without a connection.
#[test]
fn forged_moves_lead_to_nothing() {
    let mut world = World::new(DELAY, Config::default());
    world.carry(0, 100_000, SECOND * 5);
    let memory = world.ends[1].memory();
    let mut header = Header { flags: Flags::ACK, seq: 5, ack: 9, ..Header::default() };
    // A challenge would not be longer.
    header.options.timestamps = Some(Timestamps { value: 1, echo: 1 });
    for nth in 0..10_000_u32 {
        let step = if nth % 2 == 0 { MoveStep::Claim } else { MoveStep::Answer };
        let tag = u64::from(nth).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        header.options.moving = Some(MoveOption { step, value: NUMBER, counter: 1 + nth % 7, tag });
        world.inject(address(9, 9), datagram(&header));
    }
    world.run_for(SECOND);
    assert!(world.elsewhere.is_empty() && world.ends[1].memory() <= memory);
    header.options.moving = Some(MoveOption { step: MoveStep::Claim, value: [9; 8], counter: 1, tag: [0; 8] });
    world.inject(address(9, 9), datagram(&header));
    world.run_for(SECOND);
    let [reset] = world.elsewhere.as_slice() else { panic!("{:?}", world.elsewhere) };
    assert_eq!(CheshireCodec::parse(&reset.bytes).unwrap().0.flags, Flags::RST);
    assert_eq!(world.known(), Some(address(1, 5000)));
}

/// Once the connection is over, its number is unknown. The reset for the first claim has its timestamp, and ends the
/// connection after a round trip. Resets without timestamps end it after the fourth claim: at 0, 300, 900 and 2100 ms.
#[test]
fn a_server_that_has_forgotten_the_connection_resets_claims() {
    let without = Config { timestamps: false, ..Config::default() };
    for (config, millis) in [(Config::default(), 100), (without, 2200)] {
        claims_are_reset(config, Span::from_millis(millis));
    }
}

fn claims_are_reset(config: Config, expected: Span) {
    let mut world = World::new(DELAY, config);
    world.carry(0, 100_000, SECOND * 5);
    world.lose = Box::new(|flight| flight.from == SERVER.into());
    let id = world.ids[1];
    world.ends[1].drive(world.now, id, Connection::abort);
    world.ends[1].release(world.now, id);
    world.run_for(DELAY);
    world.lose = Box::new(|_| false);
    assert!(world.ends[1].is_empty());
    let start = world.now;
    world.relocate(address(2, 6000));
    while world.ends[0].state(world.ids[0]) != Some(State::Closed) {
        assert!(world.step());
    }
    let took = world.now - start;
    assert!(expected - Span::from_millis(1) < took && took <= expected, "{took}");
}

/// More than ten moves per second are refused at the client, and what the server has moved just now stays.
#[test]
fn moves_are_limited() {
    let mut world = World::new(Span::from_millis(1), Config::default());
    let mut moved = 0;
    for nth in 0..1000 {
        moved += u32::from(world.relocate(address(2 + (nth % 200) as u8, 6000)));
        world.run_for(Span::from_millis(1));
    }
    assert_eq!(moved, 10);
    world.carry(1, 100_000, SECOND * 5);
}

/// A claim from the address that the server knows already is answered like a keep-alive: nothing waits for a challenge.
#[test]
fn a_move_to_the_same_address_goes_on() {
    let mut world = World::new(DELAY, Config::default());
    world.carry(0, 100_000, SECOND * 5);
    world.relocate(address(1, 5000));
    assert!(world.carry(0, 100, SECOND * 5) <= DELAY * 3);
    world.carry(1, 100_000, SECOND * 5);
}

/// Only the server can challenge: others get no answer, and the move goes on.
#[test]
fn forged_challenges_are_not_answered() {
    let mut world = World::new(DELAY, Config::default());
    world.carry(0, 100_000, SECOND * 5);
    world.relocate(address(2, 6000));
    let is = |flight: &Flight, step| flight.moving().is_some_and(|moving| moving.step == step);
    while !world.flying.values().any(|flight| is(flight, MoveStep::Challenge)) {
        assert!(world.step());
    }
    let challenge = world.flying.values_mut().find(|flight| is(flight, MoveStep::Challenge)).unwrap();
    let mut header = CheshireCodec::parse(&challenge.bytes).unwrap().0;
    header.options.moving.as_mut().unwrap().tag[0] ^= 1;
    challenge.bytes = datagram(&header);
    world.run_for(DELAY);
    assert!(!world.seen.iter().any(|flight| is(flight, MoveStep::Answer)));
    world.carry(0, 100_000, SECOND * 5);
    assert_eq!(world.known(), Some(address(2, 6000)));
}

#[derive(Clone, Debug)]
enum Act {
    /// The client knows of its new address.
    Relocate(u8, u16),
    /// A NAT gives it another port or address.
    Rebind(u8, u16),
    Outage(u64),
    Wait(u64),
    /// Everything that was seen is sent again from elsewhere.
    Replay(u8),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (1..5_u8, 5000..5005_u16).prop_map(|(host, port)| Act::Relocate(host, port)),
        (1..5_u8, 5000..5005_u16).prop_map(|(host, port)| Act::Rebind(host, port)),
        (1..10_000_u64).prop_map(Act::Outage),
        (1..2000_u64).prop_map(Act::Wait),
        (9..12_u8).prop_map(Act::Replay),
    ]
}

proptest! {
    /// Transfers in both directions over addresses that change, with losses, outages and replays, arrive as they were sent.
    #[test]
    fn transfers_over_changing_addresses_end(
        acts in prop::collection::vec(act(), 0..12),
        loss in 0..8_u64,
        seed in any::<u64>(),
        millis in 1..200_u64,
        pauses in prop::collection::vec(1..60_000_usize, 12),
    ) {
        let mut world = World::new(Span::from_millis(millis), Config::default());
        let mut random = seed | 1;
        let mut draw = move || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % 100 < loss
        };
        world.lose = Box::new(move |_| draw());
        let limit = Span::from_secs(3000);
        for (act, len) in acts.into_iter().zip(pauses) {
            // Some data is on its way when the address changes.
            for end in [0, 1] {
                world.write(end, &vec![end as u8; len]);
            }
            world.pump();
            match act {
                Act::Relocate(host, port) => {
                    world.run_for(Span::from_millis(100));
                    prop_assert!(world.relocate(address(host, port)));
                }
                Act::Rebind(host, port) => world.client = address(host, port),
                Act::Outage(millis) => {
                    let lose = std::mem::replace(&mut world.lose, Box::new(|_| true));
                    world.run_for(Span::from_millis(millis));
                    world.lose = lose;
                }
                Act::Wait(millis) => world.run_for(Span::from_millis(millis)),
                Act::Replay(host) => {
                    for flight in world.seen.clone() {
                        world.inject(address(host, 1), flight.bytes);
                    }
                }
            }
            let mut left = [len, len];
            let start = world.now;
            while left != [0, 0] {
                for end in [0, 1] {
                    let got = world.read(end);
                    prop_assert!(got.iter().all(|byte| usize::from(*byte) == 1 - end));
                    left[end] -= got.len();
                }
                if left != [0, 0] {
                    prop_assert!(world.step());
                    prop_assert!(world.now - start < limit, "{left:?} bytes are missing");
                }
            }
            world.seen.truncate(200);
        }
        let known = world.known();
        prop_assert!(known.is_some_and(|known| known.ip() != address(9, 0).ip()));
    }
}
