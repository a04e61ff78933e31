use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::batch::SegmentRef;

/// Returns pseudo-random bytes that depend on the stream offset, so that misplaced slices are detected.
fn pattern(range: Range<u64>) -> Vec<u8> {
    range.map(|offset| (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

const LAYOUT: Layout = Layout { header: 24, payload: 1448 };

/// Writes data as if the sender had sent only full-sized segments from the start.
fn write(buffer: &mut SendBuffer, data: &[u8]) -> usize {
    let next = 1 + (buffer.end - 1) / u64::from(LAYOUT.payload) * u64::from(LAYOUT.payload);
    buffer.write(data, LAYOUT, next)
}

/// Writes one chunk, and returns what is left.
fn write_bytes(buffer: &mut SendBuffer, mut data: Bytes) -> Bytes {
    let next = buffer.end;
    buffer.write_chunk(&mut data, usize::MAX, LAYOUT, next);
    data
}

/// Returns segments with these payload lengths from `start` on: their headers, their records, and the expected
/// datagrams.
fn segments(buffer: &SendBuffer, start: u64, payloads: &[u16], header_len: u8) -> (Vec<u8>, Vec<SegmentRef>, Vec<u8>) {
    let (mut headers, mut segments, mut datagrams) = (Vec::new(), Vec::new(), Vec::new());
    let mut at = start;
    for (number, &payload_len) in payloads.iter().enumerate() {
        let header = vec![0xa0 + number as u8; header_len.into()];
        let segment = SegmentRef { header_len, payload_len, payload_start: at };
        headers.extend_from_slice(&header);
        datagrams.extend_from_slice(&header);
        buffer.slices(segment.payload(), |slice| datagrams.extend_from_slice(slice));
        segments.push(segment);
        at += u64::from(payload_len);
    }
    (headers, segments, datagrams)
}

#[test]
fn a_batch_of_segments_of_the_expected_length_is_one_slice() {
    let mut buffer = SendBuffer::from_kept(&(1 << 20, 1));
    // A part of the first segment is in the buffer before, therefore it is gathered. The others lie in cells.
    buffer.write(&pattern(1..101), LAYOUT, 1);
    buffer.write(&pattern(101..60_001), LAYOUT, 1);
    for (start, payloads, slices) in [
        (1, vec![1448; 1], 3),
        (1449, vec![1448; 40], 1),
        (1449, [vec![1448; 20], vec![500]].concat(), 1),
        (1449, vec![1448, 500, 1448], 4),
        (1449 + 700, vec![1448; 2], 6),
    ] {
        let (headers, segments, datagrams) = segments(&buffer, start, &payloads, 24);
        let mut out: Vec<&[u8]> = Vec::new();
        assert_eq!(buffer.frames(&headers, &segments, &mut out), datagrams.len());
        assert_eq!(out.concat(), datagrams);
        assert_eq!(out.len(), slices, "{payloads:?}");
    }
    // The headers are longer than expected, as with SACK blocks.
    let (headers, segments, datagrams) = segments(&buffer, 1449, &[1448; 3], 36);
    let mut out: Vec<&[u8]> = Vec::new();
    buffer.frames(&headers, &segments, &mut out);
    assert_eq!((out.concat(), out.len()), (datagrams, 6));
}

#[test]
fn data_acknowledged_in_the_meantime_is_left_out() {
    let mut buffer = SendBuffer::from_kept(&(1 << 20, 1));
    write(&mut buffer, &pattern(1..50_001));
    let (headers, segments, datagrams) = segments(&buffer, 1, &[1448; 10], 24);
    buffer.advance(1449);
    let mut out: Vec<&[u8]> = Vec::new();
    assert_eq!(buffer.frames(&headers, &segments, &mut out), datagrams.len() - 1448);
}

fn collect(buffer: &SendBuffer, range: Range<u64>) -> Vec<u8> {
    let mut slices: Vec<&[u8]> = Vec::new();
    let covered = buffer.gather(range, &mut slices);
    let bytes = slices.concat();
    assert_eq!(covered, bytes.len());
    assert!(slices.iter().all(|slice| !slice.is_empty()));
    bytes
}

#[test]
fn small_writes_gather_in_one_slice() {
    let mut buffer = SendBuffer::from_kept(&(1 << 20, 1));
    for offset in 1..=BLOCK_MIN as u64 {
        assert_eq!(write(&mut buffer, &pattern(offset..offset + 1)), 1);
    }
    let mut slices = Vec::new();
    let all = 1..1 + BLOCK_MIN as u64;
    buffer.slices(all.clone(), |slice| slices.push(slice));
    assert!(slices == [&pattern(all)[..]]);
}

#[test]
fn large_bytes_are_not_copied_and_small_ones_are() {
    let mut buffer = SendBuffer::from_kept(&(1 << 20, 1));
    let (large, small) = (Bytes::from(pattern(1..8_193)), Bytes::from(pattern(8_193..8_203)));
    let (large_at, small_at) = (large.as_ptr(), small.as_ptr());
    assert!(write_bytes(&mut buffer, large).is_empty());
    assert!(write_bytes(&mut buffer, small).is_empty());
    let mut at = Vec::new();
    buffer.slices(1..8_203, |slice| at.push(slice.as_ptr()));
    assert_eq!(at.len(), 2);
    assert_eq!(at[0], large_at);
    assert_ne!(at[1], small_at);
}

#[test]
fn the_capacity_limits_the_data_accepted() {
    let mut buffer = SendBuffer::from_kept(&(10_000, 1));
    assert_eq!(write(&mut buffer, &[1; 6_000]), 6_000);
    assert_eq!(write_bytes(&mut buffer, Bytes::from(vec![2; 6_000])).len(), 2_000);
    assert_eq!((buffer.len(), buffer.free()), (10_000, 0));
    assert_eq!(write(&mut buffer, &[3]), 0);
    buffer.capacity = 5_000;
    buffer.advance(1 + 6_000);
    assert_eq!((buffer.len(), buffer.free(), buffer.capacity), (4_000, 1_000, 5_000));
}

#[test]
fn acknowledgments_outside_the_data_are_clamped() {
    let mut buffer = SendBuffer::from_kept(&(100, 1));
    write(&mut buffer, &[7; 50]);
    buffer.advance(30);
    buffer.advance(2);
    assert_eq!(buffer.start, 30);
    // The FIN takes the sequence number after the data.
    buffer.advance(52);
    assert_eq!((buffer.start, buffer.end, buffer.is_empty()), (51, 51, true));
    assert_eq!(buffer.slices(0..u64::MAX, |_| panic!("there is no data")), 0);
}

#[test]
fn a_piece_stays_until_its_last_byte_is_acknowledged() {
    let mut buffer = SendBuffer::from_kept(&(1 << 20, 1));
    write_bytes(&mut buffer, Bytes::from(pattern(1..4_097)));
    write_bytes(&mut buffer, Bytes::from(pattern(4_097..8_193)));
    for una in [4_096, 4_097, 4_098] {
        buffer.advance(una);
        assert_eq!(collect(&buffer, una..8_193), pattern(una..8_193));
    }
    assert_eq!(buffer.pieces.len(), 1);
}

/// A batch of retransmissions has holes, and headers of several lengths.
#[test]
fn a_batch_need_not_be_of_consecutive_segments_of_one_kind() {
    for kept in [false, true] {
        let mut buffer = SendBuffer::from_kept(&(1 << 20, 1));
        match kept {
            true => assert!(write_bytes(&mut buffer, Bytes::from(pattern(1..30_001))).is_empty()),
            false => assert_eq!(write(&mut buffer, &pattern(1..30_001)), 30_000),
        }
        for (gap, header_len) in [(0, 24), (1448, 24), (0, 36), (1448, 36)] {
            let mut all = segments(&buffer, 1449, &[1448; 3], 24);
            let more = segments(&buffer, 1449 + 3 * 1448 + gap, &[1448, 1448, 0], header_len);
            all.0.extend(more.0);
            all.1.extend(more.1);
            all.2.extend(more.2);
            let (headers, segments, datagrams) = all;
            let mut out: Vec<&[u8]> = Vec::new();
            assert_eq!(buffer.frames(&headers, &segments, &mut out), datagrams.len(), "{kept} {gap} {header_len}");
            assert_eq!(out.concat(), datagrams, "{kept} {gap} {header_len}");
        }
    }
}

#[test]
fn blocks_are_reused_and_memory_shrinks_with_the_load() {
    let mut buffer = SendBuffer::from_kept(&(64 << 20, 1));
    write(&mut buffer, &vec![0; 32 << 20]);
    let loaded = buffer.memory();
    assert!((32 << 20..33 << 20).contains(&loaded), "{loaded}");
    buffer.advance(buffer.end);
    let mut kept = (0, 0);
    assert!(buffer.rest(&mut kept));
    let mut buffer = SendBuffer::from_kept(&kept);
    assert_eq!(buffer.memory(), 0);
    // In the steady state, while the window slides, no block is allocated.
    write(&mut buffer, &vec![0; 4 << 20]);
    for round in 0..64 {
        buffer.advance(buffer.start + (1 << 20));
        let before = buffer.memory();
        write(&mut buffer, &vec![0; 1 << 20]);
        // The number of blocks depends on where the data begins within its first block.
        assert!(buffer.memory() == before || round < 16);
    }
}

#[test]
fn kept_data_between_small_writes_does_not_multiply_memory() {
    let mut buffer = SendBuffer::from_kept(&(64 << 20, 1));
    let large = Bytes::from(vec![0; KEEP_FROM]);
    for _ in 0..1_000 {
        write(&mut buffer, &[0]);
        write_bytes(&mut buffer, large.clone());
    }
    assert!(buffer.memory() < 3 * buffer.len(), "{} for {}", buffer.memory(), buffer.len());
}

#[derive(Clone, Debug)]
enum Op {
    Write(usize),
    WriteBytes(usize),
    Advance(u64),
    /// Range in sixteenths of the data, possibly beyond its end.
    Read(u64, u64),
    /// This number of bytes after the last read, as a sender does.
    Next(u64),
    SetCapacity(usize),
    /// Segments with the expected payload length, the last one with another, framed from the end of the last read on.
    Frame(usize, u16),
    SetLayout(u16),
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![1usize..64, 1usize..5_000, 1usize..100_000, Just(0), Just(KEEP_FROM), Just(BLOCK_MIN)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => length().prop_map(Op::Write),
        3 => length().prop_map(Op::WriteBytes),
        3 => length().prop_map(|length| Op::Advance(length as u64)),
        2 => (0u64..20, 0u64..20).prop_map(|(from, to)| Op::Read(from, to)),
        4 => (1u64..3_000).prop_map(Op::Next),
        1 => (0usize..300_000).prop_map(Op::SetCapacity),
        4 => (0usize..20, 1u16..2_000).prop_map(|(count, last)| Op::Frame(count, last)),
        1 => prop_oneof![Just(1448u16), 1u16..70, 1_000..30_000u16].prop_map(Op::SetLayout),
    ]
}

proptest! {
    #[test]
    fn equals_a_plain_vector(ops in prop::collection::vec(op(), 1..100)) {
        let mut buffer = SendBuffer::from_kept(&(200_000, 1));
        // The data is a function of the offset, so the model consists of two offsets.
        let (mut start, mut end, mut reading, mut capacity) = (1u64, 1u64, 1u64, 200_000usize);
        let mut layout = LAYOUT;
        for op in ops {
            match op {
                Op::Write(length) | Op::WriteBytes(length) => {
                    let data = pattern(end..end + length as u64);
                    let free = capacity.saturating_sub((end - start) as usize);
                    let taken = match op {
                        Op::Write(_) => buffer.write(&data, layout, reading.clamp(start, end)),
                        _ => buffer.write_chunk(&mut &data[..], usize::MAX, layout, reading.clamp(start, end)).0,
                    };
                    prop_assert_eq!(taken, length.min(free));
                    end += taken as u64;
                }
                Op::Advance(length) => {
                    buffer.advance(start + length);
                    start = (start + length).min(end);
                }
                Op::Read(from, to) => {
                    let at = |sixteenths| start + (end - start) * sixteenths / 16;
                    let (from, to) = (at(from), at(to));
                    let expected = pattern(from..to.min(end));
                    prop_assert_eq!(collect(&buffer, from..to), expected);
                }
                Op::Next(length) => {
                    reading = reading.clamp(start, end);
                    let to = (reading + length).min(end);
                    prop_assert_eq!(collect(&buffer, reading..to), pattern(reading..to));
                    reading = to;
                }
                Op::SetLayout(payload) => layout.payload = payload,
                Op::Frame(count, last) => {
                    reading = reading.clamp(start, end);
                    let mut payloads = vec![layout.payload; count];
                    payloads.push(last.min(layout.payload));
                    let (headers, segments, datagrams) = segments(&buffer, reading, &payloads, 24);
                    let mut out: Vec<&[u8]> = Vec::new();
                    let framed = buffer.frames(&headers, &segments, &mut out);
                    prop_assert_eq!(&out.concat(), &datagrams);
                    prop_assert_eq!(framed, datagrams.len());
                    reading += payloads.iter().map(|p| u64::from(*p)).sum::<u64>();
                    reading = reading.clamp(start, end);
                }
                Op::SetCapacity(bytes) => {
                    buffer.capacity = bytes;
                    capacity = bytes;
                }
            }
            prop_assert_eq!((buffer.start, buffer.end), (start, end));
            prop_assert_eq!(buffer.len(), (end - start) as usize);
            prop_assert_eq!(buffer.free(), capacity.saturating_sub(buffer.len()));
            let held: usize = buffer.pieces.iter().map(Piece::cost).sum();
            prop_assert_eq!(buffer.piece_bytes, held);
            prop_assert_eq!(buffer.spare_bytes, buffer.spare.iter().map(Vec::capacity).sum::<usize>());
            prop_assert!(buffer.memory() >= buffer.len());
        }
        prop_assert_eq!(collect(&buffer, 0..u64::MAX), pattern(start..end));
    }
}
