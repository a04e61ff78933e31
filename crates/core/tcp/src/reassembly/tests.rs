#![expect(clippy::single_range_in_vec_init, reason = "lists of ranges that happen to hold one")]

use std::io::IoSlice;

use proptest::prelude::*;

use super::*;

const FREE: Limits = Limits { ranges: usize::MAX, memory: usize::MAX };

fn bytes(length: usize, value: u8) -> Bytes {
    Bytes::from(vec![value; length])
}

fn read_all(buffer: &mut Reassembly) -> Vec<u8> {
    core::iter::from_fn(|| buffer.read(usize::MAX)).flatten().collect()
}

/// A train that is cut between and within its payloads.
#[test]
fn chunks_lie_where_they_have_been_received() {
    let mut buffer = Reassembly::from_kept(&1);
    let whole = Bytes::from((0..4 * 1_020).map(|at| (at / 20 % 256) as u8).collect::<Vec<_>>());
    assert!(buffer.append_train(&Train { buffer: &whole, part: &whole[20..], count: 4, payload: 1_000, header: 20 }));
    let mut chunks = Chunks::default();
    let mut reads = Vec::new();
    for max in [1_000, 300, 700, 1_500, 9_000, 1] {
        reads.push(buffer.read_chunks(&mut chunks, max));
    }
    assert_eq!(reads, [1_000, 300, 700, 1_500, 500, 0]);
    let mut parts = Vec::new();
    while chunks.has_remaining() {
        let part = chunks.copy_to_bytes(chunks.chunk().len());
        let at = part.as_ptr() as usize - whole.as_ptr() as usize;
        assert_eq!(part, whole[at..at + part.len()]);
        parts.push(at..at + part.len());
    }
    assert_eq!(parts, [20..1_020, 1_040..1_340, 1_340..2_040, 2_060..3_060, 3_080..3_580, 3_580..4_080]);
    assert!(whole.is_unique(), "nothing is kept");
}

#[test]
fn a_train_can_be_cut_everywhere_twice() {
    let data: Vec<u8> = (1..=21).collect();
    let bytes: Vec<u8> = data.chunks(7).flat_map(|payload| [&[0; 3], payload].concat()).skip(3).collect();
    let whole = StreamPart::train(bytes.into(), 7, 3);
    for second in 1..21 {
        for first in 1..second {
            let mut rest = whole.clone();
            let mut middle = rest.split_to(second);
            let front = middle.split_to(first);
            let pieces = [front, middle, rest];
            assert_eq!(pieces.each_ref().map(StreamPart::len), [first, second - first, 21 - second]);
            assert_eq!(
                pieces.each_ref().map(|piece| piece.parts().flatten().count()),
                pieces.each_ref().map(StreamPart::len)
            );
            assert!(pieces.iter().flat_map(StreamPart::parts).flatten().eq(&data));
        }
    }
}

fn two_bytes() -> Chunks {
    let mut buffer = Reassembly::from_kept(&1);
    buffer.insert(1, bytes(2, 0), FREE);
    let mut chunks = Chunks::default();
    assert_eq!(buffer.read_chunks(&mut chunks, 9), 2);
    chunks
}

#[test]
#[should_panic(expected = "advance beyond the end: 3 of 2 bytes")]
fn chunks_do_not_advance_beyond_their_end() {
    two_bytes().advance(3);
}

#[test]
#[should_panic(expected = "read beyond the end: 3 of 2 bytes")]
fn chunks_are_not_read_beyond_their_end() {
    two_bytes().copy_to_bytes(3);
}

#[test]
fn in_order_data_passes_through_uncopied() {
    let mut buffer = Reassembly::from_kept(&1);
    let data = bytes(1_448, 7);
    let at = data.as_ptr();
    let inserted = buffer.insert(1, data, FREE);
    assert_eq!(inserted, Inserted { new_bytes: 1_448, advanced: true, in_order: true, ..Inserted::default() });
    assert_eq!((buffer.next, buffer.unread), (1_449, 1_448));
    assert_eq!(buffer.read(1_000).map(|read| (read.as_ptr(), read.len())), Some((at, 1_000)));
    assert_eq!(buffer.read(1_000).map(|read| read.len()), Some(448));
    assert_eq!(buffer.read(1_000), None);
}

#[test]
fn filling_a_hole_delivers_the_waiting_range() {
    let mut buffer = Reassembly::from_kept(&1);
    let waiting = buffer.insert(11, bytes(10, 2), FREE);
    assert_eq!(waiting, Inserted { new_bytes: 10, ..Inserted::default() });
    // This segment spans from before RCV.NXT to the middle of the waiting range; only the hole is taken from it.
    buffer.insert(1, bytes(5, 1), FREE);
    let filling = buffer.insert(3, bytes(13, 9), FREE);
    let expected = Inserted { new_bytes: 5, duplicate: Some(3..6), advanced: true, ..Inserted::default() };
    assert_eq!(filling, expected);
    assert_eq!(read_all(&mut buffer), [[1; 5], [9; 5], [2; 5], [2; 5]].concat());
    assert_eq!((buffer.next, buffer.out_of_order, buffer.ranges().len()), (21, 0, 0));
}

/// Inserts `from..to`; returns RCV.NXT and the blocks of the acknowledgment with the D-SACK block first.
fn acknowledge(buffer: &mut Reassembly, from: u64, to: u64) -> (u64, Vec<Range<u64>>) {
    let duplicate = buffer.insert(from, bytes((to - from) as usize, 0), FREE).duplicate;
    (buffer.next, duplicate.into_iter().chain(buffer.recent_ranges()).collect())
}

/// RFC 2883, sections 4.1.1 to 4.1.3.
#[test]
fn full_duplicates_are_reported_as_in_rfc_2883() {
    let mut buffer = Reassembly::from_kept(&3_000);
    acknowledge(&mut buffer, 3_000, 3_500);
    acknowledge(&mut buffer, 3_500, 4_000);
    assert_eq!(acknowledge(&mut buffer, 3_000, 3_500), (4_000, vec![3_000..3_500]));
    acknowledge(&mut buffer, 4_500, 5_000);
    assert_eq!(acknowledge(&mut buffer, 3_000, 3_500), (4_000, vec![3_000..3_500, 4_500..5_000]));
    assert_eq!(acknowledge(&mut buffer, 5_000, 5_500), (4_000, vec![4_500..5_500]));
    assert_eq!(acknowledge(&mut buffer, 5_000, 5_500), (4_000, vec![5_000..5_500, 4_500..5_500]));
}

/// RFC 2883, sections 4.2.2 and 4.2.3: of two duplicate parts, the first is reported.
#[test]
fn partial_duplicates_are_reported_as_in_rfc_2883() {
    let mut below = Reassembly::from_kept(&1_000);
    assert_eq!(acknowledge(&mut below, 3_000, 3_500), (1_000, vec![3_000..3_500]));
    assert_eq!(acknowledge(&mut below, 1_000, 1_500), (1_500, vec![3_000..3_500]));
    assert_eq!(acknowledge(&mut below, 2_000, 2_500), (1_500, vec![2_000..2_500, 3_000..3_500]));
    assert_eq!(acknowledge(&mut below, 1_000, 2_500), (2_500, vec![1_000..1_500, 3_000..3_500]));
    let mut above = Reassembly::from_kept(&1_000);
    assert_eq!(acknowledge(&mut above, 3_500, 4_000), (1_000, vec![3_500..4_000]));
    assert_eq!(acknowledge(&mut above, 1_500, 2_000), (1_000, vec![1_500..2_000, 3_500..4_000]));
    acknowledge(&mut above, 2_500, 3_000);
    assert_eq!(acknowledge(&mut above, 1_500, 3_000), (1_000, vec![1_500..2_000, 1_500..3_000, 3_500..4_000]));
}

/// RFC 2018, section 7, cases 2 and 3: bytes 5,000 to 9,000 are sent as segments of 500 bytes.
#[test]
fn sack_blocks_come_newest_first_as_in_rfc_2018() {
    let blocks = |buffer: &Reassembly| buffer.recent_ranges().take(4).collect::<Vec<_>>();
    let mut buffer = Reassembly::from_kept(&5_000);
    for offset in (5_500..9_000).step_by(500) {
        buffer.insert(offset, bytes(500, 0), FREE);
        assert_eq!(blocks(&buffer), [5_500..offset + 500]);
    }
    // The second, fourth, sixth and eighth segments are lost.
    let mut buffer = Reassembly::from_kept(&5_000);
    for offset in [5_000, 6_000, 7_000, 8_000] {
        buffer.insert(offset, bytes(500, 0), FREE);
    }
    assert_eq!(blocks(&buffer), [8_000..8_500, 7_000..7_500, 6_000..6_500]);
    buffer.insert(6_500, bytes(500, 0), FREE);
    assert_eq!(blocks(&buffer), [6_000..7_500, 8_000..8_500]);
    buffer.insert(5_500, bytes(500, 0), FREE);
    assert_eq!((buffer.next, blocks(&buffer)), (7_500, vec![8_000..8_500]));
}

#[test]
fn a_duplicate_moves_its_range_to_the_front_of_the_blocks() {
    let mut buffer = Reassembly::from_kept(&0);
    for range in 1..=6 {
        buffer.insert(range * 100, bytes(10, 0), FREE);
    }
    buffer.insert(505, bytes(2, 0), FREE);
    let order: Vec<u64> = buffer.recent_ranges().map(|range| range.start).collect();
    assert_eq!(order, [500, 600, 400, 300, 100, 200]);
}

#[test]
fn over_the_caps_only_out_of_order_data_is_dropped() {
    let mut buffer = Reassembly::from_kept(&0);
    let limits = Limits { ranges: 2, memory: 4_000 };
    assert!(!buffer.insert(10, bytes(10, 0), limits).dropped_over_cap);
    assert!(!buffer.insert(30, bytes(10, 0), limits).dropped_over_cap);
    let refused = buffer.insert(50, bytes(10, 0), limits);
    assert_eq!(refused, Inserted { dropped_over_cap: true, ..Inserted::default() });
    // Closing a hole adds no range.
    assert_eq!(buffer.insert(20, bytes(10, 0), limits).new_bytes, 10);
    assert_eq!(buffer.ranges().collect::<Vec<_>>(), [10..40]);
    assert!(buffer.insert(50, bytes(4_000, 0), limits).dropped_over_cap);
    assert_eq!(buffer.ranges().collect::<Vec<_>>(), [10..40]);
    assert_eq!(buffer.insert(0, bytes(10_000, 0), limits).new_bytes, 10_000 - 30);
    assert!(buffer.insert(u64::MAX, bytes(2, 0), FREE).dropped_over_cap);
}

#[test]
fn out_of_order_slices_do_not_pin_receive_buffers() {
    let datagrams = bytes(64 << 10, 0);
    let mut buffer = Reassembly::from_kept(&0);
    buffer.insert(1, datagrams.slice(..1_448), FREE);
    assert!(datagrams.is_unique(), "a slice of one segment keeps 64 KiB");
    assert!(buffer.memory() < 1_448 + 200);
    buffer.insert(10_000, datagrams.slice(..COPY_BELOW), FREE);
    assert!(!datagrams.is_unique());
    assert!(buffer.memory() > 64 << 10);
}

#[test]
fn single_bytes_in_order_do_not_pin_receive_buffers() {
    let receive_buffer = bytes(64 << 10, 3);
    let mut buffer = Reassembly::from_kept(&0);
    for offset in 0..10_000 {
        buffer.insert(offset, receive_buffer.slice(..1), FREE);
    }
    assert!(receive_buffer.is_unique());
    assert!(buffer.memory() < 20_000, "{}", buffer.memory());
    let mut peeked = [0; 9_000];
    assert_eq!(buffer.peek_into(&mut peeked), 9_000);
    assert_eq!(peeked, [3; 9_000]);
    assert_eq!(read_all(&mut buffer), vec![3; 10_000]);
}

#[test]
fn a_32_mib_window_with_every_second_segment_missing_is_reassembled() {
    const MSS: usize = 1_448;
    let segments = (32 << 20) / MSS as u64;
    let mut buffer = Reassembly::from_kept(&0);
    for segment in (1..segments).step_by(2) {
        buffer.insert(segment * MSS as u64, bytes(MSS, 1), FREE);
    }
    assert_eq!(buffer.ranges().len() as u64, segments / 2);
    // 16 MiB of data use little more memory than their length.
    assert!(buffer.memory() < 19 << 20, "{}", buffer.memory());
    for segment in (0..segments).step_by(2).collect::<Vec<_>>().into_iter().rev() {
        buffer.insert(segment * MSS as u64, bytes(MSS, 1), FREE);
    }
    assert_eq!(buffer.next, segments * MSS as u64);
    assert_eq!((buffer.out_of_order, buffer.chunk_bytes), (0, 0));
    while buffer.read(usize::MAX).is_some() {}
    assert!(buffer.memory() <= GATHER_BLOCK + READY_MIN * size_of::<StreamPart>());
}

/// Reference model that stores single bytes.
struct Model {
    next: u64,
    held: BTreeMap<u64, u8>,
    delivered: Vec<u8>,
}

impl Model {
    fn insert(&mut self, offset: u64, data: &[u8]) -> (usize, Option<Range<u64>>) {
        let (mut new_bytes, mut duplicates) = (0, Vec::new());
        for (at, &byte) in (offset..).zip(data) {
            if at < self.next || self.held.contains_key(&at) {
                duplicates.push(at);
            } else {
                self.held.insert(at, byte);
                new_bytes += 1;
            }
        }
        let first = duplicates.first().map(|&start| {
            let run = (start..).zip(&duplicates).take_while(|&(expected, &at)| expected == at).count();
            start..start + run as u64
        });
        while let Some(byte) = self.held.remove(&self.next) {
            self.delivered.push(byte);
            self.next += 1;
        }
        (new_bytes, first)
    }

    fn ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for &at in self.held.keys() {
            match ranges.last_mut() {
                Some(last) if last.end == at => last.end += 1,
                _ => ranges.push(at..at + 1),
            }
        }
        ranges
    }
}

fn check(buffer: &Reassembly, model: &Model) {
    let ranges: Vec<Range<u64>> = buffer.ranges().collect();
    assert_eq!(ranges, model.ranges());
    assert_eq!((buffer.next, buffer.out_of_order), (model.next, model.held.len()));
    let mut covered = Vec::new();
    for (&start, chunk) in &buffer.chunks {
        covered.extend((start..).zip(chunk.iter().copied()));
    }
    assert_eq!(covered, model.held.clone().into_iter().collect::<Vec<_>>());
    assert_eq!(buffer.chunk_bytes, buffer.chunks.values().map(|chunk| chunk_cost(chunk.len())).sum::<usize>());
    let mut recent: Vec<Range<u64>> = buffer.recent_ranges().collect();
    assert!(buffer.recent.iter().all(|&at| buffer.range_at(at).is_some()));
    recent.sort_by_key(|range| range.start);
    assert_eq!(recent, ranges);
}

/// Checks that `chunks` is `data` in parts of which none is empty.
fn check_chunks(chunks: &Chunks, data: &[u8]) {
    assert_eq!(chunks.remaining(), data.len());
    let mut slices = [IoSlice::new(&[]); 200];
    let parts = chunks.chunks_vectored(&mut slices);
    assert!(slices[..parts].iter().all(|part| !part.is_empty()));
    assert!(slices[..parts].iter().flat_map(|part| part.iter()).eq(data));
    assert_eq!(chunks.chunk(), &*slices[0]);
    assert_eq!(chunks.chunks_vectored(&mut slices[..1]), parts.min(1));
}

#[derive(Clone, Debug)]
enum Op {
    /// Offset relative to RCV.NXT, length, contents.
    Insert(i64, usize, u8),
    /// Number of segments, bytes of payload and of header of each, contents.
    Train(usize, u16, u16, u8),
    Read(usize),
    ReadInto(usize),
    ReadChunks(usize),
    /// At most this many bytes of what has been read by `ReadChunks`.
    UseChunks(usize, Use),
    Peek(usize),
}

#[derive(Clone, Copy, Debug)]
enum Use {
    Advance,
    Copy,
    Clear,
}

fn op(scale: i64) -> impl Strategy<Value = Op> {
    let length = 0..=(scale / 4) as usize;
    prop_oneof![
        8 => (-scale / 2..scale * 2, length.clone(), any::<u8>())
            .prop_map(|(offset, length, value)| Op::Insert(offset, length, value)),
        3 => (length.clone(), any::<u8>()).prop_map(|(length, value)| Op::Insert(0, length, value)),
        3 => (1_usize..5, 1..=(scale / 4) as u16, 0_u16..60, any::<u8>())
            .prop_map(|(count, payload, header, value)| Op::Train(count, payload, header, value)),
        1 => length.clone().prop_map(Op::Read),
        1 => length.clone().prop_map(Op::ReadInto),
        2 => (0..=scale as usize).prop_map(Op::ReadChunks),
        1 => (length.clone(), prop_oneof![4 => Just(Use::Advance), 4 => Just(Use::Copy), 1 => Just(Use::Clear)])
            .prop_map(|(length, by)| Op::UseChunks(length, by)),
        1 => length.prop_map(Op::Peek),
    ]
}

fn run(first: u64, ops: Vec<Op>, limits: Limits) {
    let mut buffer = Reassembly::from_kept(&first);
    let mut model = Model { next: first, held: BTreeMap::new(), delivered: Vec::new() };
    let mut read = Vec::new();
    let (mut chunks, mut unused) = (Chunks::default(), Vec::new());
    for op in ops {
        match op {
            Op::Insert(relative, length, value) => {
                let offset = model.next.saturating_add_signed(relative);
                let data: Vec<u8> = (0..length).map(|index| value.wrapping_add(index as u8)).collect();
                let (next, waited) = (model.next, !model.held.is_empty());
                let holes = model.ranges().len();
                let inserted = buffer.insert(offset, Bytes::from(data.clone()), limits);
                if inserted.dropped_over_cap {
                    assert!(offset > next && inserted.new_bytes == 0 && !inserted.advanced);
                    assert_ne!(limits, FREE);
                } else {
                    let (new_bytes, duplicate) = model.insert(offset, &data);
                    assert_eq!((inserted.new_bytes, inserted.duplicate.clone()), (new_bytes, duplicate));
                    assert_eq!(inserted.advanced, model.next > next);
                    assert_eq!(inserted.in_order, inserted.advanced && !waited);
                    if model.next == next && offset > next && length > 0 {
                        let newest = buffer.recent_ranges().next();
                        assert!(newest.is_some_and(|range| range.contains(&offset)));
                    }
                }
                assert!(buffer.ranges().len() <= limits.ranges.max(holes));
            }
            Op::Train(count, payload, header, value) => {
                let payloads = count * usize::from(payload);
                let data: Vec<u8> = (0..payloads).map(|index| value.wrapping_add(index as u8)).collect();
                let headers = vec![255; header.into()];
                // The buffer begins with another header, and ends with bytes of something else.
                let segments = data.chunks(payload.into()).flat_map(|payload| [&headers[..], payload]);
                let whole = Bytes::from(segments.chain([&[0; 10][..]]).collect::<Vec<_>>().concat());
                let part = &whole[header.into()..whole.len() - 10];
                let taken = buffer.append_train(&Train { buffer: &whole, part, count, payload, header });
                assert_eq!(taken, model.held.is_empty() && usize::from(payload) >= GATHER_BELOW);
                if taken {
                    model.insert(model.next, &data);
                }
            }
            Op::Read(most) => {
                let front = buffer.front();
                let part = buffer.read(most).unwrap_or_default();
                // All of a payload is shown and read at once.
                assert!(front.is_none_or(|front| part == front[..most.min(front.len())]));
                read.extend(part);
            }
            Op::ReadInto(most) => {
                let mut into = vec![0; most];
                let length = buffer.read_into(&mut into);
                assert_eq!(length, most.min(model.delivered.len() - read.len()));
                read.extend_from_slice(&into[..length]);
            }
            Op::ReadChunks(most) => {
                let length = buffer.read_chunks(&mut chunks, most);
                assert_eq!(length, most.min(model.delivered.len() - read.len()));
                let moved = &model.delivered[read.len()..][..length];
                read.extend_from_slice(moved);
                unused.extend_from_slice(moved);
            }
            Op::UseChunks(most, by) => {
                let length = most.min(unused.len());
                let taken: Vec<u8> = unused.drain(..length).collect();
                assert!(taken.starts_with(&chunks.chunk()[..length.min(chunks.chunk().len())]));
                match by {
                    Use::Advance => chunks.advance(length),
                    Use::Copy => assert_eq!(chunks.copy_to_bytes(length), taken),
                    Use::Clear => {
                        chunks.clear();
                        unused.clear();
                    }
                }
            }
            Op::Peek(most) => {
                let mut into = vec![0; most];
                let length = buffer.peek_into(&mut into);
                let rest = &model.delivered[read.len()..];
                assert_eq!(&into[..length], &rest[..most.min(rest.len())]);
            }
        }
        assert_eq!(buffer.unread, model.delivered.len() - read.len());
        check_chunks(&chunks, &unused);
        assert!(buffer.memory() >= buffer.unread + buffer.out_of_order);
        check(&buffer, &model);
    }
    read.extend(read_all(&mut buffer));
    assert_eq!(read, model.delivered);
}

proptest! {
    #[test]
    fn equals_a_map_of_bytes(first in prop_oneof![Just(1u64), any::<u32>().prop_map(u64::from)],
                             ops in prop::collection::vec(op(40), 1..80)) {
        run(first, ops, FREE);
    }

    #[test]
    fn equals_a_map_of_bytes_with_segments_of_every_size(ops in prop::collection::vec(op(4_000), 1..30)) {
        run(1, ops, FREE);
    }

    #[test]
    fn the_caps_hold(ranges in 0usize..4, memory in 0usize..2_000, ops in prop::collection::vec(op(40), 1..80)) {
        run(1, ops, Limits { ranges, memory });
    }
}

/// Receive buffers of 64 KiB that in-order data keeps are charged, however little of each it is, and however it is read.
#[test]
fn in_order_data_is_charged_with_the_buffers_that_it_keeps() {
    let message = |len: usize| Bytes::from(vec![7; 64 << 10]).slice(..len);
    for (len, each) in [(64 << 10, 1_448), (17 << 10, 1_448), (20 << 10, 600)] {
        let mut buffer = Reassembly::from_kept(&1);
        let mut unread = 0;
        for _ in 0..100 {
            let whole = message(len);
            // One or two segments of each message are new.
            for part in [&whole[..each], &whole[2 * each..3 * each]] {
                let inserted = buffer.insert(buffer.next, whole.slice_ref(part), FREE);
                buffer.pin(&whole, inserted.new_bytes);
                unread += each;
            }
        }
        let held = 100 * (64 << 10);
        assert!((held..held + held / 50).contains(&buffer.memory()), "{} of {held}", buffer.memory());
        assert_eq!(buffer.unread, unread);
        // Half of the buffers are left when half of the data has been read.
        while buffer.unread > unread / 2 {
            assert!(buffer.read(1_000).is_some() && buffer.read_into(&mut [0; 100]) > 0);
        }
        assert!(buffer.memory().abs_diff(held / 2) < held / 20, "{}", buffer.memory());
        while buffer.read(usize::MAX).is_some() {}
        assert_eq!((buffer.pins.len(), buffer.pinned, buffer.pin_cost), (0, 0, 0));
        let mut next = 0;
        assert!(buffer.rest(&mut next));
        assert_eq!(Reassembly::from_kept(&next).memory(), 0);
    }
    // Trains keep their buffer once, short messages and copies nothing more than their length.
    let mut buffer = Reassembly::from_kept(&1);
    let whole = message(40 << 10);
    for train in whole.chunks(10 << 10) {
        assert!(buffer.append_train(&Train {
            buffer: &whole,
            part: &train[20..],
            count: 5,
            payload: 2_028,
            header: 20
        }));
    }
    assert_eq!(buffer.pin_cost, 64 << 10);
    let short = message(2_000);
    buffer.insert(buffer.next, short.clone(), FREE);
    buffer.pin(&short, 2_000);
    buffer.insert(buffer.next, short.slice(..100), FREE);
    buffer.pin(&whole, 100);
    assert_eq!((buffer.pin_cost, buffer.pins.len()), ((64 << 10) + 2_000, 2));
}
