//! Trains of segments, as receive offload merges them.

use longhaul_units::Span;
use proptest::prelude::*;

use super::*;
use crate::info::Info;
use crate::observer::{ConnectionEvent, Observer};

/// Bytes of payload of all segments but the last of a train. Short ones are always handled one by one.
const LENGTHS: [usize; 2] = [100, 600];

/// Observes nothing. Connections with observers handle each segment of a train like the first.
#[derive(Debug)]
struct Idle;

impl Observer for Idle {
    fn event(&mut self, _: Time, _: &ConnectionEvent<'_>) {}
}

/// Deviation of one segment from the others of a train.
#[derive(Clone, Copy, Debug)]
enum Oddity {
    None,
    /// It leaves out this many half segments, or repeats them.
    Jump(i32),
    Window,
    Acknowledgment,
    Timestamp,
    Echo,
    Push,
    Cwr,
    Fin,
    Short,
    /// A FIN without data arrives before the data of two segments.
    EarlyFin,
    /// So does an ACK, with another window.
    EarlyAck,
}

/// Properties of the connections.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// Bytes of payload of all segments but the last of a train.
    len: usize,
    /// Whether data is kept by reference.
    is_shared: bool,
    /// Whether the start of the connection, in which every second segment is acknowledged, has not passed.
    is_young: bool,
    /// Whether arrival times are reported, and segments were merged.
    reports: bool,
    merged: bool,
    /// Whether the receive buffer may grow.
    grows: bool,
    /// Whether the endpoint has no memory left.
    is_pressed: bool,
}

const PLAIN: Kind =
    Kind { len: 600, is_shared: true, is_young: false, reports: false, merged: false, grows: false, is_pressed: false };

fn kinds() -> impl Strategy<Value = Kind> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let len = prop::sample::select(&LENGTHS[..]);
    (len, flags, prop::bool::weighted(0.1)).prop_map(|(len, flags, is_pressed)| {
        let (is_shared, is_young, reports, merged, grows) = flags;
        Kind { len, is_shared, is_young, reports, merged, grows, is_pressed }
    })
}

fn oddities() -> impl Strategy<Value = Oddity> {
    use Oddity::{Acknowledgment, Cwr, EarlyAck, EarlyFin, Echo, Fin, Jump, Push, Short, Timestamp, Window};
    let odd = prop_oneof![
        (-3..3).prop_map(Jump),
        Just(Window),
        Just(Acknowledgment),
        Just(Timestamp),
        Just(Echo),
        Just(Push),
        Just(Cwr),
        Just(Fin),
        Just(Short),
        Just(EarlyFin),
        Just(EarlyAck),
    ];
    prop_oneof![9 => Just(Oddity::None), 1 => odd]
}

/// A connection and what its peer has sent.
struct End {
    endpoint: Endpoint,
    id: ConnId,
    header: Header,
    kind: Kind,
}

impl End {
    fn new(kind: Kind) -> Self {
        let recv_buffer = 40 * kind.len;
        let recv_buffer_max = if kind.grows { 10 * recv_buffer } else { recv_buffer };
        let mut endpoint = listening(Config { recv_buffer, recv_buffer_max, ..Config::default() });
        let mut syn = Header { flags: Flags::SYN | Flags::ECE | Flags::CWR, ..syn() };
        syn.options.arrival_permitted = kind.reports;
        let (id, mut header) = connect(&mut endpoint, tuple(there(), here()), &syn);
        header.window = 60_000;
        endpoint.drive(NOW, id, |c| c.write(&[7; 20_000])).unwrap().unwrap();
        sent(&mut endpoint, NOW);
        let mut end = Self { endpoint, id, header, kind };
        if !kind.is_young {
            end.pass_start();
        }
        if kind.is_pressed {
            let limits = EndpointConfig { max_memory: 1, ..EndpointConfig::new([5; 32]) };
            end.endpoint.set_limits(&limits);
        }
        end
    }

    fn pass_start(&mut self) {
        for _ in 0..13 {
            self.deliver(NOW, &[Oddity::None; 10], false);
            assert_eq!(self.state(NOW, usize::MAX).data.len(), 10 * self.kind.len);
        }
    }

    fn deliver(&mut self, now: Time, train: &[Oddity], is_marked: bool) {
        let mut datagrams = Vec::new();
        let whole = self.kind.len;
        for oddity in train {
            let header = &mut self.header;
            let mut len = whole;
            header.flags = Flags::ACK;
            let stamps = header.options.timestamps.as_mut().unwrap();
            match oddity {
                Oddity::None => {}
                Oddity::Jump(segments) => header.seq = header.seq.wrapping_add_signed(segments * whole as i32 / 2),
                Oddity::Window => header.window = header.window.wrapping_mul(7),
                Oddity::Acknowledgment => header.ack = header.ack.wrapping_add(500),
                Oddity::Timestamp => stamps.value = stamps.value.wrapping_add(1),
                Oddity::Echo => header.flags |= Flags::ECE,
                Oddity::Push => header.flags |= Flags::PSH,
                Oddity::Cwr => header.flags |= Flags::CWR,
                Oddity::Fin => header.flags |= Flags::FIN,
                Oddity::Short => len = whole / 2,
                Oddity::EarlyFin => {
                    (header.flags, len) = (Flags::ACK | Flags::FIN, 0);
                    header.seq = header.seq.wrapping_add(2 * whole as u32);
                }
                Oddity::EarlyAck => {
                    (header.window, len) = (header.window.wrapping_mul(7), 0);
                    header.seq = header.seq.wrapping_add(2 * whole as u32);
                }
            }
            datagrams.extend(datagram(header));
            datagrams.extend((0..len).map(|index| header.seq.wrapping_add(index as u32) as u8));
            header.seq = header.seq.wrapping_add(len as u32);
            if matches!(oddity, Oddity::EarlyFin | Oddity::EarlyAck) {
                header.seq = header.seq.wrapping_sub(2 * whole as u32);
            }
            if matches!(oddity, Oddity::EarlyAck) {
                header.window = 60_000;
            }
            if len < whole {
                break;
            }
        }
        let mut meta = DatagramMeta::new(there_port(), 24 + whole);
        meta.tuple = tuple(there(), here());
        meta.segment.ecn = if is_marked { longhaul_wire::Ecn::Ce } else { longhaul_wire::Ecn::NotEct };
        meta.segment.coalesced = self.kind.merged;
        let shared = Bytes::from(datagrams);
        self.endpoint.handle_datagram(now, &meta, &shared, self.kind.is_shared.then_some(&shared));
    }

    /// Reads up to `most` bytes and returns what can be seen of the connection.
    fn state(&mut self, now: Time, most: usize) -> Seen {
        let patience = self.endpoint.take_read_patience();
        let mut data = Vec::new();
        while let Some(Ok(part)) = self.endpoint.drive(now, self.id, |c| c.read(most - data.len())) {
            if part.is_empty() {
                break;
            }
            data.extend_from_slice(&part);
        }
        let sent = sent(&mut self.endpoint, now);
        let info = self.endpoint.connection(self.id).map(|connection| Info { memory: 0, ..connection.info(now) });
        Seen { info: format!("{info:#?}"), sent, data, patience }
    }
}

/// Visible state of a connection, except for its memory.
#[derive(Debug, PartialEq)]
struct Seen {
    info: String,
    sent: Vec<Header>,
    data: Vec<u8>,
    patience: Span,
}

fn there_port() -> SocketAddr {
    tuple(there(), here()).remote
}

/// RFC 9293, section 3.10.7.4: a segment older than the last one of a train does not change the window.
#[test]
fn the_window_is_that_of_the_last_segment_of_a_train() {
    for len in LENGTHS {
        let mut end = End::new(Kind { len, ..PLAIN });
        let first = end.header.seq;
        end.deliver(NOW, &[Oddity::None; 4], false);
        // Its data overlaps the last one, and goes beyond it.
        let seq = first.wrapping_add(3 * len as u32 - 1);
        let older = Header { seq, window: 5, ..end.header.clone() };
        deliver(&mut end.endpoint, NOW, tuple(there(), here()), &older, &[0; 1000]);
        let info = end.endpoint.connection(end.id).unwrap().info(NOW);
        assert_eq!(info.peer_window.0, 60_000);
        assert_eq!(info.bytes_received, (133 * len + 999) as u64);
    }
}

/// Without memory, only a little data in order is accepted.
#[test]
fn a_train_is_no_way_around_the_limit_of_memory() {
    let received = |observed| {
        let mut end = End::new(Kind { is_pressed: true, ..PLAIN });
        if observed {
            assert!(end.endpoint.observe(NOW, end.id, Box::new(Idle)));
        }
        let before = end.endpoint.connection(end.id).unwrap().info(NOW).bytes_received;
        for _ in 0..4 {
            // The memory is counted when nothing is left to be sent.
            sent(&mut end.endpoint, NOW);
            end.deliver(NOW, &[Oddity::None; 10], false);
        }
        let info = end.endpoint.connection(end.id).unwrap().info(NOW);
        (info.bytes_received - before, info.bytes_refused)
    };
    // 16 KiB are 27 segments of 600 bytes.
    assert_eq!(received(true), (27 * 600, 13 * 600));
    assert_eq!(received(false), received(true));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// A train has the same effect as its segments, one by one.
    #[test]
    fn trains_are_equal_to_their_segments(
        trains in prop::collection::vec(
            (prop::collection::vec(oddities(), 1..12), prop::bool::weighted(0.1), 0_usize..30),
            1..12,
        ),
        kind in kinds(),
        closes_at in 0_usize..40,
    ) {
        let (mut fast, mut slow) = (End::new(kind), End::new(kind));
        prop_assert!(slow.endpoint.observe(NOW, slow.id, Box::new(Idle)));
        for (number, (train, is_marked, most)) in trains.iter().enumerate() {
            let now = NOW + Span::from_millis(number as u64);
            for end in [&mut fast, &mut slow] {
                if number == closes_at {
                    end.endpoint.drive(now, end.id, Connection::close_read);
                }
                end.deliver(now, train, *is_marked);
            }
            // A train takes one entry in the queue of received data.
            prop_assert!(fast.endpoint.memory() <= slow.endpoint.memory());
            // Data is read up to somewhere within a segment.
            let most = most * kind.len + number;
            prop_assert_eq!(fast.state(now, most), slow.state(now, most));
        }
    }
}
