//! Timer wheel with 1,000, 100,000 and 1,000,000 timers.
#![allow(missing_docs, reason = "criterion's macros make public items")]

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use longhaul_cc::TimerWheel;
use longhaul_units::{Span, Time};

const SIZES: [u32; 3] = [1_000, 100_000, 1_000_000];

/// Reproducible, uniformly distributed times below 1 s (linear congruential generator with the constants of Knuth's
/// MMIX).
struct Spans(u64);

impl Spans {
    fn next(&mut self) -> Span {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Span::from_nanos((self.0 >> 33) % 1_000_000_000)
    }
}

fn full(timers: u32) -> TimerWheel {
    let (mut wheel, mut spans) = (TimerWheel::new(Time::ZERO), Spans(1));
    for id in 0..timers {
        wheel.set(id, Time::ZERO + spans.next());
    }
    wheel
}

fn insert(c: &mut Criterion) {
    let mut group = c.benchmark_group("wheel/insert all");
    group.sample_size(10);
    for timers in SIZES {
        group.throughput(Throughput::Elements(u64::from(timers)));
        group.bench_function(BenchmarkId::from_parameter(timers), |b| {
            // The wheel has seen all ids before, so that it allocates no memory.
            let mut empty = full(timers);
            while empty.pop_expired(Time::MAX).is_some() {}
            b.iter_batched_ref(
                || (empty.clone(), Spans(2)),
                |(wheel, spans)| {
                    (0..timers).for_each(|id| wheel.set(id, Time::ZERO + Span::from_secs(1) + spans.next()))
                },
                BatchSize::LargeInput,
            );
        });
    }
}

/// Measures `act` with all timers of a wheel.
fn with_all(c: &mut Criterion, name: &str, mut act: impl FnMut(&mut TimerWheel, u32)) {
    let mut group = c.benchmark_group(name);
    group.sample_size(10);
    for timers in SIZES {
        group.throughput(Throughput::Elements(u64::from(timers)));
        let wheel = full(timers);
        group.bench_function(BenchmarkId::from_parameter(timers), |b| {
            b.iter_batched_ref(|| wheel.clone(), |wheel| act(wheel, timers), BatchSize::LargeInput);
        });
    }
}

fn cancel(c: &mut Criterion) {
    with_all(c, "wheel/cancel all", |wheel, timers| (0..timers).for_each(|id| wheel.cancel(id)));
}

fn expire(c: &mut Criterion) {
    with_all(c, "wheel/expire all", |wheel, _| {
        while let Some(at) = wheel.next() {
            black_box(wheel.pop_expired(at));
        }
    });
}

/// Measures expiry of the earliest timer, which is then set again, as at every event of a simulation.
fn turn(c: &mut Criterion) {
    let mut group = c.benchmark_group("wheel/pop and set");
    for timers in SIZES {
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::from_parameter(timers), |b| {
            let (mut wheel, mut spans) = (full(timers), Spans(3));
            b.iter(|| {
                if let Some(now) = wheel.next()
                    && let Some(id) = wheel.pop_expired(now)
                {
                    wheel.set(id, now + spans.next());
                }
            });
        });
    }
}

/// Measures postponing a timeout of one connection after another, as at every packet, and querying the next deadline.
fn rearm(c: &mut Criterion) {
    let mut group = c.benchmark_group("wheel/re-arm and next");
    for timers in [1, 1_000, 100_000, 1_000_000] {
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::from_parameter(timers), |b| {
            let (mut wheel, mut now, mut id) = (TimerWheel::new(Time::ZERO), Time::ZERO, 0);
            b.iter(|| {
                now += Span::from_nanos(1_200);
                id = if id + 1 < timers { id + 1 } else { 0 };
                wheel.set(id, now + Span::from_millis(200));
                wheel.next()
            });
        });
    }
}

criterion_group!(benches, insert, cancel, expire, turn, rearm);
criterion_main!(benches);
