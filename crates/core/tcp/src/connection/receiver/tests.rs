use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::reassembly::Limits;

const LIMITS: Limits = Limits { ranges: 1 << 16, memory: usize::MAX };

fn receiver(capacity: usize) -> Receiver {
    let config = Config { recv_buffer: capacity, recv_buffer_max: capacity, ..Config::default() };
    let mut rcv = Receiver::new(&config, Time::ZERO);
    rcv.data = Reclaimable::new(1);
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
            let held = (rcv.data.unread + rcv.data.out_of_order) as u64;
            prop_assert!(held <= rcv.capacity + (1 << shift), "{} {}", held, rcv.capacity);
        }
        // Once everything is read, the window is open.
        let missing = peer.sent.saturating_sub(rcv.next());
        let next = rcv.next();
        rcv.data.insert(next, Bytes::from(vec![0; missing as usize]), LIMITS);
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
            let next = rcv.next();
            rcv.data.insert(next, Bytes::from(bytes), LIMITS);
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
        let next = rcv.next();
        rcv.data.insert(next, Bytes::from_static(b"x"), LIMITS);
        edges.push(rcv.next() + (u64::from(rcv.offer_window(1, 1_448)) << 1));
    }
    // The buffer ends at 3. The edge was rounded up to 4. After the second byte it cannot be expressed, but it is
    // honoured.
    assert_eq!((edges, rcv.edge), (vec![4, 3, 4], 4));
}

/// Without window scaling the buffer is limited to what the window field can express.
#[test]
fn a_window_without_scaling_has_16_bits() {
    for (scaling, capacity) in [(false, 65_535), (true, 100_000)] {
        let mut rcv = receiver(100_000);
        rcv.on_peer_syn(65_535, scaling);
        assert_eq!((rcv.capacity, rcv.edge, rcv.next()), (capacity, 65_536, 1), "{scaling}");
    }
}

/// The table of RFC 9293, section 3.10.7.4, and its deviations: an ACK at the right edge, and beyond a closed window.
#[test]
fn segments_are_acceptable_that_overlap_the_window() {
    let mut rcv = receiver(1000);
    let accepted = |rcv: &Receiver, cases: &[(i64, i64)]| -> Vec<bool> {
        cases.iter().map(|(start, end)| rcv.is_acceptable(*start, *end, false)).collect()
    };
    // The window is 1..1001.
    assert_eq!(
        accepted(&rcv, &[(0, 0), (1, 1), (1000, 1000), (1001, 1001), (1002, 1002)]),
        [false, true, true, true, false]
    );
    assert!(!rcv.is_acceptable(1001, 1001, true), "a RST lies within the window");
    assert_eq!(
        accepted(&rcv, &[(-5, 1), (-5, 2), (1000, 1001), (1001, 1002), (-5, 2000)]),
        [false, true, true, false, true]
    );
    // Closed: only what starts at RCV.NXT, and an ACK that follows the octet of a probe.
    rcv.edge = 1;
    assert_eq!(
        accepted(&rcv, &[(0, 0), (1, 1), (2, 2), (3, 3), (1, 2), (0, 2), (2, 3)]),
        [false, true, true, false, true, false, false]
    );
}

/// A FIN is refused below data that has arrived, beyond the window, and if it moves.
#[test]
fn a_fin_must_be_consistent_with_the_data() {
    let mut rcv = receiver(1000);
    rcv.insert(101, Bytes::from_static(&[0; 100]));
    assert!(!rcv.record_fin(200) && !rcv.record_fin(1002));
    assert!(rcv.record_fin(201) && !rcv.record_fin(300));
    assert_eq!((rcv.acceptable_data(), rcv.fin_reached()), (1..201, false));
    rcv.insert(1, Bytes::from_static(&[0; 100]));
    assert_eq!((rcv.data.next, rcv.next(), rcv.fin_reached()), (201, 202, true));
    assert!(receiver(1000).record_fin(1001), "at the edge");
}

#[test]
fn an_outdated_timestamp_is_older_than_none() {
    let (mut rcv, hour) = (receiver(1000), Span::from_secs(3600));
    let at = |seconds| Time::ZERO + Span::from_secs(seconds);
    assert!(!rcv.is_older_timestamp(at(0), 4, hour), "nothing to compare with");
    rcv.set_ts_recent(5, at(0));
    assert!(rcv.is_older_timestamp(at(3600), 4, hour) && !rcv.is_older_timestamp(at(3600), 5, hour));
    assert!(!rcv.is_older_timestamp(at(3601), 4, hour));
    let half = 5 + (1 << 31);
    assert!(!rcv.is_older_timestamp(at(0), half, hour) && rcv.is_older_timestamp(at(0), half + 1, hour));
}

#[test]
fn little_data_is_accepted_under_memory_pressure() {
    let mut rcv = receiver(1 << 20);
    assert!(rcv.has_memory_for(16 << 10, true, true) && !rcv.has_memory_for((16 << 10) + 1, true, true));
    assert!(!rcv.has_memory_for(1, false, true) && rcv.has_memory_for(1 << 20, false, false));
    rcv.insert(1, Bytes::from_static(&[0; 1000]));
    assert!(!rcv.has_memory_for((16 << 10) - 999, true, true));
    assert_eq!(rcv.data.read(1000).map(|data| data.len()), Some(1000));
    assert!(rcv.has_memory_for((16 << 10) - 999, true, true), "the application has read");
}
