//! The scoreboard with up to 500,000 segments in flight and 10 % holes.
//!
//! Every tenth segment is lost once. If the cost of a segment is the same at 5,000 and at 500,000 segments, up to what
//! caches and memory do, operations are O(1) amortised.
//!
//! * `turn`: a window under way. Its lower half is SACKed but for the holes, which were retransmitted; its upper half
//!   is in flight. One iteration is the life of ten segments: the lowest ten are acknowledged; five ACKs with three SACK
//!   blocks each tell that nine of the next ten in the upper half have arrived; the tenth is held lost and
//!   retransmitted; ten new ones leave. `time` is that of ten segments, `thrpt` counts segments.
//! * `repair`: of a full window nine in ten segments are SACKed; every hole is found, held lost and retransmitted, and
//!   an ACK of everything comes. `time` is that of the window, `thrpt` counts its segments.
//! * `rescue`: all of a full window but the lowest segment, which was retransmitted, is SACKed. One iteration looks for
//!   a segment in doubt and for the highest that is not SACKed (RFC 6675, section 4, NextSeg, rules 3 and 4). Bits are
//!   passed over 4,096 at a step.
#![allow(missing_docs, reason = "criterion's macros make public items")]

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use longhaul_tcp::bench::Window;
use longhaul_units::{Span, Time};

const SIZES: [u64; 3] = [5_000, 50_000, 500_000];
/// One segment in so many is a hole: the first of each group.
const GROUP: u64 = 10;

/// SACKs a group's other nine as a receiver does that acknowledges every second segment: the block that grew comes
/// first, those of the two groups before are repeated (RFC 2018, section 4).
fn sack_group(window: &mut Window, hole: u64) {
    for end in [hole + 2, hole + 4, hole + 6, hole + 8, hole + GROUP] {
        black_box(window.sack(hole + 1, end));
        for before in [hole.saturating_sub(GROUP), hole.saturating_sub(2 * GROUP)] {
            black_box(window.sack(before + 1, before + GROUP));
        }
    }
}

/// A window whose lower half is SACKed but for the holes, which are retransmitted.
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
