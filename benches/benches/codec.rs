//! Codec: parses a header and emits it again.
//!
//! Each iteration parses a datagram, reads its whole header, and emits the header into another buffer. The payload is
//! neither copied nor read.
//!
//! * `data`: 1448 bytes of data after a header with timestamps, as in nearly every datagram;
//! * `syn`: MSS, window scale, SACK-permitted, timestamps, and the permissions of longhaul's experimental options;
//! * `ack with 3 SACK blocks`: a pure ACK with timestamps during recovery.
#![allow(missing_docs, reason = "criterion's macros make public items")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use longhaul_wire::{CheshireCodec, Codec, Flags, Header, SackBlock, Timestamps};

const MSS: usize = 1448;

fn with_timestamps(flags: Flags) -> Header {
    let mut header = Header { flags, window: 4096, seq: 0x1234_5678, ack: 0x9abc_def0, ..Header::default() };
    header.options.timestamps = Some(Timestamps { value: 1_000_000, echo: 999_000 });
    header
}

fn syn() -> Header {
    let mut header = with_timestamps(Flags::SYN);
    header.options.mss = Some(1460);
    header.options.window_scale = Some(14);
    header.options.sack_permitted = true;
    header.options.microsecond_timestamps = true;
    header.options.arrival_permitted = true;
    header.options.probe_permitted = true;
    header
}

fn ack_with_sack() -> Header {
    let mut header = with_timestamps(Flags::ACK);
    for block in 1..=3 {
        let left = header.ack.wrapping_add(block * 20_000);
        header.options.sack.push(SackBlock { left, right: left.wrapping_add(10_000) });
    }
    header
}

/// Returns a datagram with this header and `payload` bytes of data.
fn datagram(header: &Header, payload: usize) -> Vec<u8> {
    let mut bytes = vec![0; CheshireCodec::header_len(&header.options) + payload];
    let len = CheshireCodec::emit(header, &mut bytes).expect("the header fits");
    let (again, offset) = CheshireCodec::parse(&bytes).expect("what was emitted parses");
    assert_eq!((&again, offset), (header, len));
    bytes
}

fn round_trip(c: &mut Criterion) {
    let mut group = c.benchmark_group("codec/round trip");
    group.throughput(Throughput::Elements(1));
    let cases =
        [("data", with_timestamps(Flags::ACK), MSS), ("syn", syn(), 0), ("ack with 3 SACK blocks", ack_with_sack(), 0)];
    for (name, header, payload) in cases {
        let (bytes, mut out) = (datagram(&header, payload), [0; 64]);
        group.bench_function(name, |b| {
            b.iter(|| {
                let parsed = CheshireCodec::parse(black_box(&bytes));
                parsed.map(|(header, _)| CheshireCodec::emit(black_box(&header), black_box(&mut out)))
            });
        });
    }
}

criterion_group!(benches, round_trip);
criterion_main!(benches);
