//! Trains of segments, as receive offload merges them.

use longhaul_units::Span;
use proptest::prelude::*;

use super::*;
use crate::observer::{ConnectionEvent, Observer};

/// Bytes of payload of all segments but the last of a train.
const LEN: usize = 100;

/// Observes nothing. Connections with observers handle each segment of a train like the first.
#[derive(Debug)]
struct Idle;

impl Observer for Idle {
    fn event(&mut self, _: Time, _: &ConnectionEvent<'_>) {}
}

/// What is unusual about a segment of a train.
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
}

fn oddities() -> impl Strategy<Value = Oddity> {
    use Oddity::{Acknowledgment, Cwr, EarlyFin, Echo, Fin, Jump, Push, Short, Timestamp, Window};
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
    ];
    prop_oneof![9 => Just(Oddity::None), 1 => odd]
}

/// A connection and what its peer has sent.
struct End {
    endpoint: Endpoint,
    id: ConnId,
    header: Header,
    /// Whether data is kept by reference.
    is_shared: bool,
}

impl End {
    fn new(is_shared: bool) -> Self {
        let mut endpoint = listening(Config { recv_buffer: 2_500, recv_buffer_max: 2_500, ..Config::default() });
        let syn = Header { flags: Flags::SYN | Flags::ECE | Flags::CWR, ..syn() };
        let (id, mut header) = connect(&mut endpoint, tuple(there(), here()), &syn);
        header.window = 60_000;
        endpoint.drive(NOW, id, |c| c.write(&[7; 20_000])).unwrap().unwrap();
        sent(&mut endpoint, NOW);
        Self { endpoint, id, header, is_shared }
    }

    fn deliver(&mut self, now: Time, train: &[Oddity], is_marked: bool) {
        let mut datagrams = Vec::new();
        for oddity in train {
            let header = &mut self.header;
            let mut len = LEN;
            header.flags = Flags::ACK;
            let stamps = header.options.timestamps.as_mut().unwrap();
            match oddity {
                Oddity::None => {}
                Oddity::Jump(segments) => header.seq = header.seq.wrapping_add_signed(segments * LEN as i32 / 2),
                Oddity::Window => header.window = header.window.wrapping_mul(7),
                Oddity::Acknowledgment => header.ack = header.ack.wrapping_add(500),
                Oddity::Timestamp => stamps.value = stamps.value.wrapping_add(1),
                Oddity::Echo => header.flags |= Flags::ECE,
                Oddity::Push => header.flags |= Flags::PSH,
                Oddity::Cwr => header.flags |= Flags::CWR,
                Oddity::Fin => header.flags |= Flags::FIN,
                Oddity::Short => len = LEN / 2,
                Oddity::EarlyFin => {
                    (header.flags, len) = (Flags::ACK | Flags::FIN, 0);
                    header.seq = header.seq.wrapping_add(2 * LEN as u32);
                }
            }
            datagrams.extend(datagram(header));
            datagrams.extend((0..len).map(|index| header.seq.wrapping_add(index as u32) as u8));
            header.seq = header.seq.wrapping_add(len as u32);
            if matches!(oddity, Oddity::EarlyFin) {
                header.seq = header.seq.wrapping_sub(2 * LEN as u32);
            }
            if len < LEN {
                break;
            }
        }
        let mut meta = DatagramMeta::new(there_port(), 24 + LEN);
        meta.tuple = tuple(there(), here());
        meta.segment.ecn = if is_marked { longhaul_wire::Ecn::Ce } else { longhaul_wire::Ecn::NotEct };
        let shared = Bytes::from(datagrams);
        self.endpoint.handle_datagram(now, &meta, &shared, self.is_shared.then_some(&shared));
    }

    /// Reads up to `most` bytes and returns all that can be seen of the connection.
    fn state(&mut self, now: Time, most: usize) -> (String, Vec<Header>, Vec<u8>) {
        let mut data = Vec::new();
        while let Some(Ok(part)) = self.endpoint.drive(now, self.id, |c| c.read(most - data.len())) {
            if part.is_empty() {
                break;
            }
            data.extend_from_slice(&part);
        }
        let sent = sent(&mut self.endpoint, now);
        let info = self.endpoint.connection(self.id).map(|connection| format!("{:?}", connection.info(now)));
        (info.unwrap_or_default(), sent, data)
    }
}

fn there_port() -> SocketAddr {
    tuple(there(), here()).remote
}

/// RFC 9293, section 3.10.7.4: a segment older than the last one of a train does not change the window.
#[test]
fn the_window_is_that_of_the_last_segment_of_a_train() {
    let mut end = End::new(false);
    let first = end.header.seq;
    end.deliver(NOW, &[Oddity::None; 2], false);
    // Its data overlaps both segments, and goes beyond them.
    let older = Header { seq: first.wrapping_add(1), window: 5, ..end.header.clone() };
    deliver(&mut end.endpoint, NOW, tuple(there(), here()), &older, &[0; 3 * LEN]);
    let info = end.endpoint.connection(end.id).unwrap().info(NOW);
    assert_eq!((info.bytes_received, info.peer_window.0), (1 + 3 * LEN as u64, 60_000));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// A train has the same effect as its segments, one by one.
    #[test]
    fn trains_are_equal_to_their_segments(
        trains in prop::collection::vec(
            (prop::collection::vec(oddities(), 1..12), prop::bool::weighted(0.1), 0_usize..3_000),
            1..12,
        ),
        is_shared: bool,
    ) {
        let (mut fast, mut slow) = (End::new(is_shared), End::new(is_shared));
        prop_assert!(slow.endpoint.observe(NOW, slow.id, Box::new(Idle)));
        for (number, (train, is_marked, most)) in trains.iter().enumerate() {
            let now = NOW + Span::from_millis(number as u64);
            fast.deliver(now, train, *is_marked);
            slow.deliver(now, train, *is_marked);
            prop_assert_eq!(fast.state(now, *most), slow.state(now, *most));
        }
    }
}
