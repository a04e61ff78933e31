use proptest::prelude::*;

use super::*;

/// The byte at a stream offset, so that a misplaced slice shows.
fn pattern(range: Range<u64>) -> Vec<u8> {
    range.map(|offset| (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
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
    let mut buffer = SendBuffer::new(1 << 20);
    for offset in 1..=BLOCK_MIN as u64 {
        assert_eq!(buffer.write(&pattern(offset..offset + 1)), 1);
    }
    let mut slices = Vec::new();
    let all = 1..1 + BLOCK_MIN as u64;
    buffer.slices(all.clone(), |slice| slices.push(slice));
    assert!(slices == [&pattern(all)[..]]);
}

#[test]
fn large_bytes_are_not_copied_and_small_ones_are() {
    let mut buffer = SendBuffer::new(1 << 20);
    let (large, small) = (Bytes::from(pattern(1..8_193)), Bytes::from(pattern(8_193..8_203)));
    let (large_at, small_at) = (large.as_ptr(), small.as_ptr());
    assert!(buffer.write_bytes(large).is_empty());
    assert!(buffer.write_bytes(small).is_empty());
    let mut at = Vec::new();
    buffer.slices(1..8_203, |slice| at.push(slice.as_ptr()));
    assert_eq!(at.len(), 2);
    assert_eq!(at[0], large_at);
    assert_ne!(at[1], small_at);
}

#[test]
fn the_capacity_bounds_what_is_taken() {
    let mut buffer = SendBuffer::new(10_000);
    assert_eq!(buffer.write(&[1; 6_000]), 6_000);
    assert_eq!(buffer.write_bytes(Bytes::from(vec![2; 6_000])).len(), 2_000);
    assert_eq!((buffer.len(), buffer.free()), (10_000, 0));
    assert_eq!(buffer.write(&[3]), 0);
    buffer.set_capacity(5_000);
    buffer.advance(1 + 6_000);
    assert_eq!((buffer.len(), buffer.free(), buffer.capacity()), (4_000, 1_000, 5_000));
}

#[test]
fn acknowledgments_outside_the_data_are_clamped() {
    let mut buffer = SendBuffer::new(100);
    buffer.write(&[7; 50]);
    buffer.advance(30);
    buffer.advance(2);
    assert_eq!(buffer.start(), 30);
    // The FIN takes the sequence number after the data.
    buffer.advance(52);
    assert_eq!((buffer.start(), buffer.end(), buffer.is_empty()), (51, 51, true));
    assert_eq!(buffer.slices(0..u64::MAX, |_| panic!("there is no data")), 0);
}

#[test]
fn a_piece_stays_until_its_last_byte_is_acknowledged() {
    let mut buffer = SendBuffer::new(1 << 20);
    buffer.write_bytes(Bytes::from(pattern(1..4_097)));
    buffer.write_bytes(Bytes::from(pattern(4_097..8_193)));
    for una in [4_096, 4_097, 4_098] {
        buffer.advance(una);
        assert_eq!(collect(&buffer, una..8_193), pattern(una..8_193));
    }
    assert_eq!(buffer.pieces.len(), 1);
}

#[test]
fn blocks_are_reused_and_memory_shrinks_with_the_load() {
    let mut buffer = SendBuffer::new(64 << 20);
    buffer.write(&vec![0; 32 << 20]);
    let loaded = buffer.memory();
    assert!((32 << 20..33 << 20).contains(&loaded), "{loaded}");
    buffer.advance(buffer.end());
    buffer.rest();
    assert_eq!(buffer.memory(), 0);
    // In the steady state, a window sliding along, no block is allocated.
    buffer.write(&vec![0; 4 << 20]);
    for _ in 0..64 {
        buffer.advance(buffer.start() + (1 << 20));
        let before = buffer.memory();
        buffer.write(&vec![0; 1 << 20]);
        assert_eq!(buffer.memory(), before);
    }
}

#[test]
fn kept_data_between_small_writes_does_not_multiply_memory() {
    let mut buffer = SendBuffer::new(64 << 20);
    let large = Bytes::from(vec![0; KEEP_FROM]);
    for _ in 0..1_000 {
        buffer.write(&[0]);
        buffer.write_bytes(large.clone());
    }
    assert!(buffer.memory() < 3 * buffer.len(), "{} for {}", buffer.memory(), buffer.len());
}

#[derive(Clone, Debug)]
enum Op {
    Write(usize),
    WriteBytes(usize),
    Advance(u64),
    /// A range in sixteenths of the data, possibly beyond it.
    Read(u64, u64),
    /// The next so many bytes after the last reading, as a sender does.
    Next(u64),
    SetCapacity(usize),
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
    ]
}

proptest! {
    #[test]
    fn equals_a_plain_vector(ops in prop::collection::vec(op(), 1..100)) {
        let mut buffer = SendBuffer::new(200_000);
        // The model: the data is a function of the offset, so two offsets say everything.
        let (mut start, mut end, mut reading, mut capacity) = (1u64, 1u64, 1u64, 200_000usize);
        for op in ops {
            match op {
                Op::Write(length) | Op::WriteBytes(length) => {
                    let data = pattern(end..end + length as u64);
                    let free = capacity.saturating_sub((end - start) as usize);
                    let taken = match op {
                        Op::Write(_) => buffer.write(&data),
                        _ => length - buffer.write_bytes(Bytes::from(data)).len(),
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
                Op::SetCapacity(bytes) => {
                    buffer.set_capacity(bytes);
                    capacity = bytes;
                }
            }
            prop_assert_eq!((buffer.start(), buffer.end()), (start, end));
            prop_assert_eq!(buffer.len(), (end - start) as usize);
            prop_assert_eq!(buffer.free(), capacity.saturating_sub(buffer.len()));
            let held: usize = buffer.pieces.iter().map(|piece| match &piece.data {
                Data::Copied(block) => block.capacity(),
                Data::Kept(bytes) => bytes.len(),
            }).sum();
            prop_assert_eq!(buffer.piece_bytes, held);
            prop_assert_eq!(buffer.spare_bytes, buffer.spare.iter().map(Vec::capacity).sum::<usize>());
            prop_assert!(buffer.memory() >= buffer.len());
        }
        prop_assert_eq!(collect(&buffer, 0..u64::MAX), pattern(start..end));
    }
}
