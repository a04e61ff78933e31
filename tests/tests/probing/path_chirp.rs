//! pathChirp over a link of 80 Mb/s half of which others take.

use longhaul_cc::estimate::active::path_chirp::{PathChirp, PathChirpConfig};
use longhaul_link::source::Source;
use longhaul_link::{LinkConfig, Random};
use longhaul_units::{Rate, Span, Time};

use crate::world::{Clock, Run, World};

const fn mbit(rate: u64) -> Rate {
    Rate::from_bits_per_sec(rate * 1_000_000)
}

fn measure(cross: Source, clock: Clock) -> Run {
    let hops = [200, 80, 200].map(|rate| LinkConfig::new(mbit(rate), Span::from_millis(5)));
    let mut world = World::new(hops, Span::from_millis(15)).cross(1, 1, cross);
    world.clock = clock;
    let second = 1_000_000_000;
    let mut method = PathChirp::new(PathChirpConfig::default()).unwrap();
    world.run(&mut method, Time::from_nanos(second), Time::from_nanos(200 * second))
}

#[track_caller]
fn assert_near_40(run: &Run, within: f64) {
    let value = run.estimate.available.unwrap().value.as_bits_per_sec() as f64 / 1e6;
    assert!(run.done && run.estimate.converged, "{run:?}");
    assert!((value / 40.0 - 1.0).abs() <= within, "{value}");
}

#[test]
fn half_of_it_at_a_constant_rate() {
    assert_near_40(&measure(Source::cbr(Time::ZERO, mbit(40), 500), Clock::default()), 0.2);
}

/// Single packets of others end the last rise now and then and move its start up: it overestimates, by up to a third.
#[test]
fn half_of_it_at_random_times() {
    for seed in 1..=3 {
        let cross = Source::poisson(Time::ZERO, mbit(40), 500, Random::new(seed, 1));
        assert_near_40(&measure(cross, Clock::default()), 0.35);
    }
}

#[test]
fn a_fast_clock_changes_little() {
    let clock = Clock { skew_ppm: 50.0, tick: Span::from_micros(1), ..Clock::default() };
    let cross = Source::poisson(Time::ZERO, mbit(40), 500, Random::new(9, 1));
    assert_near_40(&measure(cross, clock), 0.35);
}
