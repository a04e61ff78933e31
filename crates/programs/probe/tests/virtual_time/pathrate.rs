//! Pathrate: capacity of idle and of loaded paths, and the cost of measuring it.

use longhaul_link::source::Source;
use longhaul_link::{LinkConfig, Loss, Random};
use longhaul_probe::MethodKind;
use longhaul_probe::sim::{ProbedPath, Probing};
use longhaul_units::{Rate, Span, Time};

use crate::seeds;

const HOUR: Time = Time::from_nanos(3_600_000_000_000);
const START: Time = Time::from_nanos(1_000_000_000);

fn mbit(rate: u64) -> Rate {
    Rate::from_bits_per_sec(rate * 1_000_000)
}

/// An 80 Mb/s link between one of 100 Mb/s and one of 1 Gb/s, round trip 133 ms.
fn path() -> ProbedPath {
    let hop = |rate: u64, millis: u64| LinkConfig::new(mbit(rate), Span::from_millis(millis));
    ProbedPath::new([hop(100, 10), hop(80, 46), hop(1000, 10)], Span::from_millis(67)).unwrap()
}

/// The same path with Poisson traffic of this mean rate and packet size on the narrow link.
fn busy(load: Rate, size: u32, seed: u64) -> ProbedPath {
    path().cross(1, 1, Source::poisson(Time::ZERO, load, size, Random::new(seed, 7)))
}

fn measure(world: &mut ProbedPath) -> Probing {
    let mut pathrate = MethodKind::Pathrate.create();
    world.run(&mut *pathrate, START, HOUR)
}

/// Low end, value and high end of the capacity in Mb/s.
fn found(run: &Probing) -> [f64; 3] {
    let range = run.estimate.capacity.unwrap();
    [range.low, range.value, range.high].map(|rate| rate.as_bits_per_sec() as f64 / 1e6)
}

/// 90 trains with 10 packets of 550 bytes and 716 packets of 1500 bytes within 15 s.
#[test]
fn an_idle_path_is_measured_at_once() {
    let run = measure(&mut path());
    let [low, value, high] = found(&run);
    assert!((76.0..84.0).contains(&value), "{value} Mb/s");
    assert!(low < 80.0 && 80.0 < high);
    assert!(run.done && run.estimate.converged && run.estimate.confidence > 0.99);
    assert_eq!((run.trains, run.packets, run.bytes), (90, 726, 1_079_500));
    assert!(run.took < Span::from_secs(16), "{:?}", run.took);
}

/// Trains of 10 packets are slower than the link by a third, and their coefficient of variation exceeds 0.05: 1000
/// pairs and 500 trains of 48 packets follow.
#[test]
fn half_a_link_of_cross_traffic_does_not_hide_its_capacity() {
    for (seed, size) in (1..=seeds(1, 4)).flat_map(|seed| [(seed, 576), (seed, 1500)]) {
        let run = measure(&mut busy(mbit(40), size, seed));
        let [low, value, high] = found(&run);
        assert!((72.0..88.0).contains(&value), "seed {seed}, {size} B: {value} Mb/s");
        assert!(low < 80.0 && 80.0 < high && high - low < 8.0, "seed {seed}, {size} B: {low} to {high} Mb/s");
        assert!(run.done && run.estimate.converged, "seed {seed}, {size} B");
        assert_eq!((run.trains, run.packets), (1590, 26_726));
        let phases = run.bytes - 1_079_500;
        assert!(phases.abs_diff(36_000_000 + 2_050_000) < 10_000, "{phases} bytes after the preliminary trains");
        assert!(run.took < Span::from_secs(270), "{:?}", run.took);
    }
}

/// All trains together take at most a tenth of the rate, which determines the duration on a short path.
#[test]
fn a_short_path_is_loaded_by_a_tenth() {
    let hop = |rate: u64| LinkConfig::new(mbit(rate), Span::from_micros(100));
    let cross = Source::poisson(Time::ZERO, mbit(4), 1500, Random::new(1, 7));
    let run = measure(&mut ProbedPath::new([hop(10), hop(8)], Span::from_micros(200)).unwrap().cross(1, 1, cross));
    let [_, value, _] = found(&run);
    assert!((7.2..8.8).contains(&value), "{value} Mb/s");
    let load = run.bytes as f64 * 8e-6 / run.took.as_secs_f64();
    assert!(load <= 0.8, "{load} Mb/s");
}

#[test]
fn a_dead_path_ends_the_session_without_an_estimate() {
    let dead = LinkConfig::new(mbit(80), Span::from_millis(66)).loss(Loss::Uniform(1.0));
    let run = measure(&mut ProbedPath::new([dead], Span::from_millis(67)).unwrap());
    assert!(run.done && !run.estimate.converged);
    assert_eq!((run.estimate.capacity, run.trains), (None, 10));
}
