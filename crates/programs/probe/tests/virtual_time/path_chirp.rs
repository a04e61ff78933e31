//! pathChirp over a link of 80 Mb/s with cross traffic.

use longhaul_link::source::Source;
use longhaul_link::{Limit, LinkConfig, Loss, Random};
use longhaul_probe::MethodKind;
use longhaul_probe::sim::{ProbedPath, Probing, ReceiverClock};
use longhaul_units::{Rate, Span, Time};

use crate::noise::{Noise, Noisy};
use crate::seeds;

const fn mbit(rate: u64) -> Rate {
    Rate::from_bits_per_sec(rate * 1_000_000)
}

/// Result over the link with this cross traffic.
fn measure(cross: Source, clock: ReceiverClock) -> Probing {
    let hops = [200, 80, 200].map(|rate| LinkConfig::new(mbit(rate), Span::from_millis(5)));
    let mut world = ProbedPath::new(hops, Span::from_millis(15)).unwrap().cross(1, 1, cross);
    world.clock = clock;
    let second = 1_000_000_000;
    let mut method = MethodKind::PathChirp.create();
    world.run(&mut *method, Time::from_nanos(second), Time::from_nanos(200 * second))
}

#[track_caller]
fn assert_near(run: &Probing, free: u64, within: f64) {
    let value = run.estimate.available.unwrap().value.as_bits_per_sec() as f64 / 1e6;
    assert!(run.done && run.estimate.converged, "{run:?}");
    assert!((value / free as f64 - 1.0).abs() <= within, "{value} for {free}");
}

#[test]
fn half_of_the_link_taken_at_a_constant_rate() {
    assert_near(&measure(Source::cbr(Time::ZERO, mbit(40), 500), ReceiverClock::default()), 40, 0.2);
}

fn poisson(rate: u64, seed: u64) -> Source {
    Source::poisson(Time::ZERO, mbit(rate), 500, Random::new(seed, 1))
}

/// Single packets of cross traffic start and end rises; the error is at most 20 %.
#[test]
fn part_of_the_link_taken_at_random_times() {
    for taken in [20, 40, 60] {
        for seed in 1..=seeds(3, 8) {
            let run = measure(poisson(taken, seed), ReceiverClock::default());
            assert_near(&run, 80 - taken, 0.2);
        }
    }
}

#[test]
fn a_fast_clock_changes_little() {
    let mut clock = ReceiverClock::default();
    (clock.skew_ppm, clock.tick) = (50.0, Span::from_micros(1));
    for seed in 9..=12 {
        assert_near(&measure(poisson(40, seed), clock), 40, 0.2);
    }
}

/// An idle link of 20 Mb/s with 1 % loss and up to 50 us of jitter.
#[test]
fn losses_and_jitter_are_no_traffic() {
    for (jitter, within) in [(0, 0.2), (50, 0.25)] {
        for seed in 1..=12 {
            let narrow = LinkConfig::new(mbit(20), Span::from_millis(20)).queue(Limit::Bytes(60_000));
            let mut last = LinkConfig::new(mbit(1000), Span::ZERO);
            last.jitter = Span::from_micros(jitter);
            let hops = [narrow.loss(Loss::Uniform(0.01)), last];
            let mut world = ProbedPath::seeded(hops, Span::from_millis(20), seed).unwrap();
            let mut method = MethodKind::PathChirp.create();
            let run = world.run(&mut *method, Time::ZERO, Time::from_nanos(200_000_000_000));
            assert_near(&run, 20, within);
            assert!(run.took < Span::from_secs(20), "{:?}", run.took);
        }
    }
}

/// Hosts that are late by tens of microseconds or coalesce interrupts: the range includes the rate of an idle link of
/// 20 Mb/s with 1 % loss, and the value is within 25 %.
#[test]
fn hosts_that_are_late_are_no_traffic() {
    let micros = Span::from_micros;
    let late = [(0, 60), (20, 60), (0, 200)].map(|(least, most)| Noise::Late(micros(least), micros(most)));
    for noise in late.into_iter().chain([50, 100, 200].map(|tick| Noise::Coalesced(micros(tick)))) {
        for seed in 1..=6 {
            let narrow = LinkConfig::new(mbit(20), Span::from_millis(20)).queue(Limit::Bytes(60_000));
            let hops = [narrow.loss(Loss::Uniform(0.01))];
            let mut world = ProbedPath::seeded(hops, Span::from_millis(20), seed).unwrap();
            let mut method = Noisy::new(MethodKind::PathChirp.create(), noise, seed);
            let run = world.run(&mut method, Time::ZERO, Time::from_nanos(200_000_000_000));
            assert_near(&run, 20, 0.25);
            let range = run.estimate.available.unwrap();
            assert!(range.low <= mbit(20) && range.high >= mbit(20), "{noise:?}, seed {seed}: {range:?}");
            assert!(run.estimate.confidence < 0.8, "{noise:?}, seed {seed}: {run:?}");
        }
    }
}
