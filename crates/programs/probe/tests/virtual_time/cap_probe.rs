//! CapProbe over a path with a narrow link of 80 Mb/s and a round trip of 133 ms.

use longhaul_link::source::Source;
use longhaul_link::{Limit, LinkConfig, Loss, Random};
use longhaul_probe::MethodKind;
use longhaul_probe::sim::{ProbedPath, Probing};
use longhaul_units::{Rate, Span, Time};

use crate::seeds;

const NARROW: f64 = 80.0;

fn mbit(mbit: f64) -> Rate {
    Rate::from_bits_per_sec((mbit * 1e6) as u64)
}

/// A fast link, the narrow link, and one with three times the rate of the narrow link.
fn path() -> ProbedPath {
    let hop = |rate, delay| LinkConfig::new(mbit(rate), Span::from_millis(delay));
    ProbedPath::new([hop(1000.0, 1), hop(NARROW, 60), hop(3.0 * NARROW, 5)], Span::from_millis(66)).unwrap()
}

fn poisson(load: f64, rate: f64, size: u32, seed: u64) -> Source {
    Source::poisson(Time::ZERO, mbit(load * rate), size, Random::new(seed, 9))
}

/// Measures from 5 s on for at most 10 min.
fn measure(name: &str, world: &mut ProbedPath) -> Probing {
    let mut method = MethodKind::CapProbe.create();
    let run = world.run(&mut *method, Time::from_nanos(5_000_000_000), Time::from_nanos(605_000_000_000));
    println!(
        "{name}: {:.2} Mb/s, converged {:?} after {:.1} s, {} trains, confidence {:.2}",
        run.estimate.capacity.map_or(0.0, |range| range.value.as_bits_per_sec() as f64 / 1e6),
        run.estimate.converged,
        run.took.as_secs_f64(),
        run.trains,
        run.estimate.confidence,
    );
    run
}

/// Relative error of the capacity.
fn error(run: &Probing) -> f64 {
    let range = run.estimate.capacity.unwrap();
    assert!(range.low <= range.value && range.value <= range.high, "{range:?}");
    range.value.as_bits_per_sec() as f64 / (NARROW * 1e6) - 1.0
}

fn finds(run: &Probing, within: f64) {
    assert!(run.done && run.estimate.converged, "{run:?}");
    assert!(error(run).abs() <= within, "{:.3}", error(run));
    assert!(run.estimate.confidence > 0.8, "{run:?}");
}

/// Two runs of 40 pairs, 50 ms apart, and a round trip per run: slightly more than 4 s.
#[test]
fn an_idle_path_is_measured_at_once() {
    let run = measure("idle", &mut path());
    finds(&run, 0.01);
    assert!(run.estimate.confidence > 0.9, "{run:?}");
    assert!((80..100).contains(&run.trains) && run.took < Span::from_secs(6), "{run:?}");
    assert_eq!(run.converged_after, Some(run.took));
}

#[test]
fn half_the_narrow_link_may_be_busy() {
    for seed in 0..seeds(2, 6) {
        for size in [100, 500, 1500] {
            let mut world = path().cross(1, 1, poisson(0.5, NARROW, size, seed));
            let name = format!("narrow link half busy with packets of {size}, seed {seed}");
            finds(&measure(&name, &mut world), 0.10);
        }
    }
}

/// Behind the narrow link, queueing of the first packet compresses the pair, so that rates are too high.
#[test]
fn half_a_later_link_may_be_busy() {
    for seed in 0..seeds(2, 6) {
        for size in [100, 500, 1500] {
            let mut world = path().cross(2, 2, poisson(0.5, 3.0 * NARROW, size, seed));
            let name = format!("later link half busy with packets of {size}, seed {seed}");
            finds(&measure(&name, &mut world), 0.10);
        }
    }
}

/// A queue that never empties, behind a link that is hardly faster: every pair waits, and cross traffic arrives between
/// its packets. Even if both sizes agree on half the capacity, few pairs have a delay close to the smallest one, and
/// the confidence is low.
#[test]
fn a_saturated_link_is_not_taken_for_measured() {
    for (load, size) in [(1.0, 500), (1.05, 1500), (1.05, 500), (1.0, 1500), (1.0, 100), (1.05, 100)]
        .into_iter()
        .take(seeds(2, 6) as usize)
    {
        let mut world = saturated(85.0, poisson(load, NARROW, size, 0));
        let name = format!("saturated, load {load}, packets of {size}");
        let run = measure(&name, &mut world);
        assert!(run.done && run.estimate.confidence < 0.3, "{run:?}");
    }
}

fn saturated(access: f64, cross: Source) -> ProbedPath {
    let narrow = LinkConfig::new(mbit(NARROW), Span::from_millis(60)).queue(Limit::Bytes(150_000));
    let access = LinkConfig::new(mbit(access), Span::from_millis(1));
    ProbedPath::new([access, narrow], Span::from_millis(66)).unwrap().cross(1, 1, cross)
}

/// A clock with ticks of 100 us reads dispersions of 0, 100 or 200 us: longer trains compensate for that.
#[test]
fn coarse_receiver_clocks_make_trains_longer() {
    for tick in [1, 10, 100] {
        for (load, seed) in [(0.0, 0), (0.3, 0), (0.3, 1), (0.3, 2)] {
            let mut world = path();
            if load > 0.0 {
                world = world.cross(1, 1, poisson(load, NARROW, 500, seed));
            }
            world.clock.tick = Span::from_micros(tick);
            let name = format!("a tick of {tick} us, load {load}, seed {seed}");
            finds(&measure(&name, &mut world), if load > 0.0 { 0.10 } else { 0.05 });
        }
    }
}

#[test]
fn clock_drift_is_removed() {
    for skew_ppm in [50.0, -50.0] {
        for load in [0.0, 0.5] {
            let mut world = path();
            if load > 0.0 {
                world = world.cross(1, 1, poisson(load, NARROW, 500, 3));
            }
            world.clock.skew_ppm = skew_ppm;
            finds(&measure(&format!("{skew_ppm} ppm, load {load}"), &mut world), 0.10);
        }
    }
}

/// Without any answer, the session ends after ten trains.
#[test]
fn a_dead_path_ends_the_session() {
    let hop = LinkConfig::new(mbit(NARROW), Span::from_millis(60)).loss(Loss::Uniform(1.0));
    let run = measure("dead", &mut ProbedPath::new([hop], Span::from_millis(66)).unwrap());
    assert!(run.done && !run.estimate.converged, "{run:?}");
    assert_eq!((run.estimate.capacity, run.estimate.confidence), (None, 0.0));
    assert!(run.took < Span::from_secs(10), "{run:?}");
}

/// One packet in ten is lost: incomplete pairs do not count.
#[test]
fn losses_only_prolong_the_session() {
    let hop = LinkConfig::new(mbit(NARROW), Span::from_millis(60)).loss(Loss::Uniform(0.1));
    finds(&measure("loss", &mut ProbedPath::new([hop], Span::from_millis(66)).unwrap()), 0.05);
}

/// A receiver that merges packets within 300 us hides every pair, but not the ends of a long train.
#[test]
fn a_receiver_that_merges_packets_causes_no_wrong_result() {
    let mut world = path();
    world.merges = Span::from_micros(300);
    let run = measure("merged", &mut world);
    assert!(run.done, "{run:?}");
    assert!(!run.estimate.converged || error(&run).abs() < 0.05, "{run:?}");
}
