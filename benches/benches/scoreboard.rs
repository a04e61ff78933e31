//! Scoreboard with up to 500,000 segments in flight and 10 % holes.
//!
//! Every tenth segment is lost once. If the cost per segment is the same with 5,000 and with 500,000 segments, apart from
//! effects of caches and memory, operations take amortised O(1) time.
//!
//! * `turn`: the lower half of the window is SACKed except for the holes, which have been retransmitted; the upper half is
//!   in flight. One iteration covers ten segments: the lowest ten are acknowledged; five ACKs with three SACK blocks each
//!   report nine of the next ten in the upper half; the tenth is marked lost and retransmitted; ten new segments are sent.
//!   `time` is that of ten segments, and `thrpt` counts segments.
//! * `repair`: nine of ten segments of a full window are SACKed; every hole is found, marked lost and retransmitted,
//!   and all segments are acknowledged. `time` is that of the whole window, and `thrpt` counts its segments.
//! * `rescue`: all segments of a full window are SACKed except for the lowest one, which has been retransmitted. One
//!   iteration searches for a segment not yet marked lost, and for the highest one that is not SACKed (RFC 6675, section 4,
//!   NextSeg, rules 3 and 4). Each step covers 4,096 bits.
#![allow(missing_docs, reason = "criterion's macros make public items")]

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use longhaul_tcp::bench::Window;
use longhaul_units::{Span, Time};

const SIZES: [u64; 3] = [5_000, 50_000, 500_000];
/// Number of segments per group. The first segment of each group is a hole.
const GROUP: u64 = 10;

/// SACKs the other nine segments of a group like a receiver that acknowledges every second segment: the block that has
/// grown is first, followed by those of the two preceding groups (RFC 2018, section 4).
fn sack_group(window: &mut Window, hole: u64) {
    for end in [hole + 2, hole + 4, hole + 6, hole + 8, hole + GROUP] {
        black_box(window.sack(hole + 1, end));
        for before in [hole.saturating_sub(GROUP), hole.saturating_sub(2 * GROUP)] {
            black_box(window.sack(before + 1, before + GROUP));
        }
    }
}

/// Creates a window whose lower half is SACKed except for the holes, which have been retransmitted.
fn under_way(segments: u64) -> Window {
    let mut window = Window::new(segments);
    for hole in (0..segments / 2).step_by(GROUP as usize) {
        sack_group(&mut window, hole);
        window.lose_older_than(hole + GROUP - 1);
        window.retransmit(Time::ZERO);
    }
    window
}

fn turn(c: &mut Criterion) {
    let mut group = c.benchmark_group("scoreboard/turn");
    group.throughput(Throughput::Elements(GROUP));
    for segments in SIZES {
        group.bench_function(BenchmarkId::from_parameter(segments), |b| {
            let (mut window, mut now) = (under_way(segments), Time::ZERO);
            b.iter(|| {
                now += Span::from_micros(10);
                let una = window.next() - segments;
                let hole = una + segments / 2;
                assert!(window.acknowledge(una + GROUP) > 0);
                sack_group(&mut window, hole);
                assert_eq!(window.lose_older_than(hole + GROUP - 1), 1);
                assert!(window.retransmit(now));
                window.send(now, GROUP);
            });
            assert_eq!(window.len() as u64, segments);
        });
    }
}

fn repair(c: &mut Criterion) {
    let mut group = c.benchmark_group("scoreboard/repair");
    group.sample_size(10);
    for segments in SIZES {
        group.throughput(Throughput::Elements(segments));
        let mut sacked = Window::new(segments);
        (0..segments).step_by(GROUP as usize).for_each(|hole| sack_group(&mut sacked, hole));
        group.bench_function(BenchmarkId::from_parameter(segments), |b| {
            b.iter_batched_ref(
                || sacked.clone(),
                |window| {
                    assert_eq!(window.lose_older_than(segments - 1), segments / GROUP);
                    while window.retransmit(Time::ZERO) {}
                    black_box(window.acknowledge(segments));
                    assert!(window.is_empty());
                },
                BatchSize::LargeInput,
            );
        });
    }
}

fn rescue(c: &mut Criterion) {
    let mut group = c.benchmark_group("scoreboard/rescue");
    for segments in SIZES {
        let mut window = Window::new(segments);
        assert!(window.sack(1, segments) > 0);
        window.lose_older_than(segments - 1);
        window.retransmit(Time::ZERO);
        group.bench_function(BenchmarkId::from_parameter(segments), |b| {
            b.iter(|| assert_eq!(black_box(&window).rescue(1), (None, Some(0))));
        });
    }
}

criterion_group!(benches, turn, repair, rescue);
criterion_main!(benches);
