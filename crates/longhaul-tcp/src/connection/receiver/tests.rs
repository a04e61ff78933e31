use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::reassembly::Limits;

const LIMITS: Limits = Limits { ranges: 1 << 16, memory: 1 << 40 };

fn receiver(capacity: usize) -> Receiver {
    let config = Config { recv_buffer: capacity, recv_buffer_max: capacity, ..Config::default() };
    let mut rcv = Receiver::new(&config, Time::ZERO);
    rcv.data = Reassembly::new(1);
    rcv.edge = 1 + (capacity as u64).min(u64::from(u16::MAX));
    rcv
}

#[derive(Clone, Debug)]
enum Op {
    /// The first number of sendable bytes arrives after a hole of the second number of bytes, which are sent later.
    Arrive(u64, u64),
    Read(usize),
    Grow(u64),
    Offer,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1u64..4_000, prop_oneof![9 => Just(0), 1 => 1u64..3_000]).prop_map(|(len, hole)| Op::Arrive(len, hole)),
        2 => (1u64..40).prop_map(|len| Op::Arrive(len, 0)),
        2 => (1usize..8_000).prop_map(Op::Read),
        1 => (0u64..20_000).prop_map(Op::Grow),
        2 => Just(Op::Offer),
    ]
}

/// Model of the peer that sends to the receiver.
struct Peer {
    shift: u8,
    /// The right edge of the newest advertisement, and the highest ever, up to which data may have been sent.
    edge: u64,
    highest: u64,
    /// The highest offset sent; a hole before it is retransmitted at the end.
    sent: u64,
}

impl Peer {
    /// Reads an advertisement and checks it.
    fn read_window(&mut self, rcv: &mut Receiver, mss: u16) -> Result<(), TestCaseError> {
        let (unit, next, before) = (1 << self.shift, rcv.next(), self.highest);
        let units = rcv.offer_window(self.shift, mss);
        self.edge = next + (u64::from(units) << self.shift);
        self.highest = self.highest.max(self.edge);
        // The highest edge ever advertised is the edge up to which data is accepted.
        prop_assert_eq!(rcv.edge, self.highest);
        // The edge moves left only by the part of a unit that cannot be expressed, and only if the next whole unit
        // would end a unit beyond the buffer.
        if self.edge < before {
            let limit = rcv.consumed + rcv.capacity;
            prop_assert!(before - self.edge < unit, "{} {}", before, self.edge);
            prop_assert!(self.edge + unit >= limit + unit, "{} {}", self.edge, limit);
        }
        prop_assert!(self.highest <= rcv.consumed + rcv.capacity + unit);
        Ok(())
    }
}

proptest! {
    /// RFC 9293, section 3.8.6.2.2 and SHLD-14; RFC 7323, section 2.4.
    #[test]
    fn data_within_the_offered_window_is_accepted_and_memory_is_bounded(
        ops in prop::collection::vec(op(), 1..400),
        shift in 0u8..=14,
        capacity in prop_oneof![1usize..3_000, 3_000usize..1_000_000],
        mss in 128u16..9_000,
    ) {
        let capacity = if shift == 0 { capacity.min(65_535) } else { capacity };
        let mut rcv = receiver(capacity);
        let first = rcv.edge;
        let mut peer = Peer { shift, edge: first, highest: first, sent: 1 };
        for op in ops {
            match op {
                Op::Arrive(len, hole) => {
                    // Data up to the highest edge may still be in flight.
                    let start = rcv.next() + hole;
                    let end = (start + len).min(peer.highest);
                    if start < end {
                        let bytes = vec![0; (end - start) as usize];
                        let inserted = rcv.data.insert(start, Bytes::from(bytes), LIMITS);
                        prop_assert!(!inserted.dropped_over_cap);
                        prop_assert!(end <= rcv.edge);
                        peer.sent = peer.sent.max(end);
                        peer.read_window(&mut rcv, mss)?;
                    }
                }
                Op::Read(len) => {
                    let read = rcv.data.read(len).map_or(0, |b| b.len());
                    rcv.consumed += read as u64;
                    if rcv.wants_update(shift, mss) {
                        // A window update must advance the edge.
                        let before = peer.highest;
                        peer.read_window(&mut rcv, mss)?;
                        prop_assert!(peer.highest > before);
                    }
                }
                Op::Grow(by) => rcv.capacity += if shift == 0 { 0 } else { by },
                Op::Offer => peer.read_window(&mut rcv, mss)?,
            }
            let held = (rcv.data.unread() + rcv.data.out_of_order()) as u64;
            prop_assert!(held <= rcv.capacity + (1 << shift), "{} {}", held, rcv.capacity);
        }
        // Once everything is read, the window is open.
        let missing = peer.sent.saturating_sub(rcv.next());
        rcv.data.insert(rcv.next(), Bytes::from(vec![0; missing as usize]), LIMITS);
        rcv.consumed = rcv.next();
        peer.read_window(&mut rcv, mss)?;
        prop_assert!(peer.edge > rcv.next());
    }

    /// If data arrives in multiples of the unit, or without window scaling, the edge never moves left.
    #[test]
    fn whole_units_never_move_the_edge_left(
        ops in prop::collection::vec((1u64..9, prop_oneof![Just(0usize), 1usize..50_000]), 1..300),
        shift in 0u8..=9,
        capacity in 1usize..200_000,
    ) {
        let mut rcv = receiver(if shift == 0 { capacity.min(65_535) } else { capacity });
        rcv.edge = 1;
        let (mut edge, unit) = (1, 1u64 << shift);
        for (units, read) in ops {
            let end = (rcv.next() + units * unit).min(edge);
            let bytes = vec![0; (end - rcv.next()) as usize];
            rcv.data.insert(rcv.next(), Bytes::from(bytes), LIMITS);
            rcv.consumed += rcv.data.read(read).map_or(0, |b| b.len() as u64);
            let now = rcv.next() + (u64::from(rcv.offer_window(shift, 1_448)) << shift);
            prop_assert!(now >= edge, "{} {}", edge, now);
            edge = now;
        }
    }
}

/// The edge may move left. A receiver that acknowledges single bytes with a unit of two bytes has to retract one, or
/// to promise ever more than the buffer holds (RFC 7323, appendix F).
#[test]
fn a_unit_of_two_cannot_express_single_bytes() {
    let mut rcv = receiver(2);
    let mut edges = Vec::new();
    for _ in 0..3 {
        rcv.data.insert(rcv.next(), Bytes::from_static(b"x"), LIMITS);
        edges.push(rcv.next() + (u64::from(rcv.offer_window(1, 1_448)) << 1));
    }
    // The buffer ends at 3. The edge was rounded up to 4. After the second byte it cannot be expressed, but it is
    // honoured.
    assert_eq!((edges, rcv.edge), (vec![4, 3, 4], 4));
}

/// Returns which of `count` full-sized in-order segments trigger an ACK in the middle of a batch.
fn acked_segments(rcv: &mut Receiver, count: u32, own: u32) -> Vec<u32> {
    let is_acked = |rcv: &mut Receiver| {
        (rcv.unacked, rcv.unacked_full) = (rcv.unacked + 1, rcv.unacked_full + 1);
        let due = rcv.is_early_ack_due(own, true);
        if due {
            rcv.acknowledged();
        }
        due
    };
    (0..count).filter(|_| is_acked(rcv)).collect()
}

/// A request for an ACK every `n` segments applies to 256 segments, the first of which is acknowledged at once.
#[test]
fn an_ack_request_applies_to_256_segments() {
    let mut unasked = receiver(1 << 20);
    let without = acked_segments(&mut unasked, 300, 2);
    assert_eq!(without, (0..128).filter(|k| k % 2 == 1).collect::<Vec<_>>());
    let mut rcv = receiver(1 << 20);
    rcv.apply_ack_request(1);
    assert_eq!(acked_segments(&mut rcv, 300, 2), (0..256).collect::<Vec<_>>());
    let mut rcv = receiver(1 << 20);
    rcv.apply_ack_request(6);
    assert_eq!(acked_segments(&mut rcv, 256, 2), (0..256).filter(|k| k % 6 == 0).collect::<Vec<_>>());
    assert_eq!(rcv.every(2), 2);
    // A repeated request extends the period and triggers no immediate ACK.
    rcv.apply_ack_request(6);
    acked_segments(&mut rcv, 20, 2);
    rcv.acknowledged();
    rcv.apply_ack_request(6);
    assert_eq!(acked_segments(&mut rcv, 12, 2), [5, 11]);
    rcv.apply_ack_request(3);
    assert_eq!(acked_segments(&mut rcv, 7, 2), [0, 3, 6]);
}
