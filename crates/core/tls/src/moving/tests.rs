use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use longhaul_tcp::{Batch, Config, ConnId, DatagramMeta, Endpoint, EndpointConfig, Tuple};
use longhaul_units::Time;
use longhaul_wire::{CheshireCodec, Codec, Flags, Header, MoveOption, MoveStep, Timestamps};
use rustix::time::{ClockId, clock_gettime};

use super::*;

/// The vectors of `docs/wire.md`: a claim, a challenge and an answer without tags, and what the tags cover in addition.
#[test]
fn tags_are_those_of_the_vectors() {
    let mut exported = [0; 40];
    exported[..8].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
    exported[8..].iter_mut().zip(0..).for_each(|(byte, number)| *byte = number);
    let Mobility { number, is_client, tags } = mobility(&exported, true);
    assert!(is_client && number == [1, 2, 3, 4, 5, 6, 7, 8]);
    let challenge = [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18];
    let message = |value: [u8; 8], step: u8, covered: &[u8]| [&value[..], &[step, 0, 0, 1], covered].concat();
    let claim = tags.client(&message(number, 0, &999_u32.to_be_bytes()));
    let challenged = tags.server(&message(challenge, 0x40, &number));
    let answer = tags.client(&message(number, 0x80, &challenge));
    let expected = [0x30e8_73de_0c61_5ca0, 0x40cb_9946_bcc7_f649, 0xbf3d_b45a_b36a_cc60_u64];
    assert_eq!([claim, challenged, answer], expected.map(u64::to_be_bytes));
    assert!(!format!("{tags:?}").contains("31"), "{tags:?} shows keys");
}

const NOW: Time = Time::from_nanos(1_000_000_000);

/// A server under attack, with a connection that can move.
struct Server {
    endpoint: Endpoint,
    connection: ConnId,
    batch: Batch,
    answers: u64,
}

fn from(nth: u32) -> SocketAddr {
    let [a, b, c, d] = nth.to_be_bytes();
    SocketAddr::from(([198, 18, a ^ b, c], 1024 + u16::from(d)))
}

fn bytes(header: &Header) -> Vec<u8> {
    let mut bytes = vec![0; 60];
    let len = CheshireCodec::emit(header, &mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

impl Server {
    fn new() -> Self {
        let mut settings = EndpointConfig::new([5; 32]);
        settings.always_cookies = true;
        let mut endpoint = Endpoint::new(settings, NOW);
        endpoint.listen(Arc::new(Config::default()));
        let mut server = Self { endpoint, connection: ConnId::default(), batch: Batch::default(), answers: 0 };
        server.receive(from(0), &bytes(&syn(0)));
        let answer = CheshireCodec::parse(&server.batch.headers).unwrap().0;
        let mut ack = Header { flags: Flags::ACK, seq: 1, ack: answer.seq.wrapping_add(1), ..Header::default() };
        ack.options.timestamps = answer.options.timestamps.map(|t| Timestamps { value: 2, echo: t.value });
        server.receive(from(0), &bytes(&ack));
        server.connection = server.endpoint.accept().unwrap();
        assert!(server.endpoint.set_mobility(server.connection, mobility(&[7; 40], false)));
        server
    }

    /// Handles a datagram, and takes the answers that are to be sent.
    fn receive(&mut self, from: SocketAddr, datagram: &[u8]) {
        let mut meta = DatagramMeta::new(from, datagram.len());
        meta.tuple = Tuple { remote: from, local: IpAddr::from([192, 0, 2, 1]) };
        self.endpoint.handle_datagram(NOW, &meta, datagram, None);
        while self.endpoint.poll_transmit(NOW, &mut self.batch, 64).is_some() {
            self.answers += 1;
        }
    }

    /// Handles these datagrams, and returns the processor time that this takes.
    fn cost(&mut self, first: u32, datagrams: &[Vec<u8>]) -> Duration {
        let start = clock_gettime(ClockId::ThreadCPUTime);
        for (datagram, nth) in datagrams.iter().zip(first..) {
            self.receive(from(nth), datagram);
        }
        let end = clock_gettime(ClockId::ThreadCPUTime);
        Duration::try_from(end - start).unwrap()
    }
}

fn syn(nth: u32) -> Header {
    let mut syn = Header { flags: Flags::SYN, seq: nth, window: 65_535, ..Header::default() };
    syn.options.mss = Some(1460);
    syn.options.sack_permitted = true;
    syn.options.window_scale = Some(7);
    syn.options.timestamps = Some(Timestamps { value: nth, echo: 0 });
    syn
}

fn forged(number: [u8; 8], nth: u32) -> Header {
    let mut header = Header { flags: Flags::ACK, seq: nth, ack: 9, ..Header::default() };
    header.options.timestamps = Some(Timestamps { value: nth, echo: 1 });
    let tag = u64::from(nth).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    header.options.moving = Some(MoveOption { step: MoveStep::Claim, value: number, counter: 1 + nth % 1000, tag });
    header
}

/// Forged moves, with a number that was seen on the path and with others, change nothing. They are interleaved with as many
/// SYNs, which are answered with cookies, to compare the processor time on a machine that is not quiet. `LONGHAUL_LONG` makes 10^6 of each.
#[test]
fn forged_moves_change_nothing_and_cost_less_than_syns() {
    const ROUND: u32 = 5_000;
    let is_long = std::env::var_os("LONGHAUL_LONG").is_some();
    let rounds = if is_long { 200 } else { 4 };
    let mut server = Server::new();
    let [mut syns, mut known, mut unknown] = [(); 3].map(|()| Vec::new());
    for round in 0..rounds {
        let first = round * ROUND;
        let all =
            |make: &dyn Fn(u32) -> Header| (first..first + ROUND).map(|nth| bytes(&make(nth))).collect::<Vec<_>>();
        let before = server.answers;
        syns.push(server.cost(first, &all(&syn)));
        assert_eq!(server.answers - before, u64::from(ROUND), "a cookie for each");
        let before = server.answers;
        known.push(server.cost(first, &all(&|nth| forged([7; 8], nth))));
        assert_eq!(server.answers, before, "a wrong tag has no answer");
        unknown.push(server.cost(first, &all(&|nth| forged(u64::from(nth).to_be_bytes(), nth))));
    }
    let tuple = server.endpoint.tuple(server.connection).unwrap();
    assert_eq!((tuple.remote, server.endpoint.len()), (from(0), 1));
    let [syns, known, unknown] = [syns, known, unknown].map(|mut times| {
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1e9 / f64::from(ROUND)
    });
    println!("ns each: SYN {syns:.0}, forged move {known:.0}, with an unknown number {unknown:.0}");
    assert!(!is_long || known < syns && unknown < syns);
}
