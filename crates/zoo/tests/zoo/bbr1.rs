//! BBR version 1 over a simulated bottleneck.

use longhaul_cc::{Path, PathEvent, Timeout};
use longhaul_units::{Bytes, Span};

use super::bottleneck::{MSS, World, near};

/// A bottleneck of 10 MB/s (80 Mb/s) and 50 ms, with 500 segments in flight and a queue of `queues` times as many.
fn world(queues: f64) -> World {
    super::registry();
    World::new("bbr1", 10e6, Span::from_millis(50), Bytes::from_f64(queues * 500_000.0))
}

#[test]
fn it_starts_at_2_over_ln_2_windows_a_round_trip() {
    let world = world(4.0);
    assert!(near(world.pace(), 2.885 * 10.0 * 1000.0 / 0.05, 1e-3), "{}", world.pace());
}

#[test]
fn startup_ends_after_three_rounds_without_growth_and_drain_with_the_queue() {
    let mut world = world(4.0);
    world.run_to(2.0);
    let phases: Vec<_> = world.steps.iter().map(|step| step.phase).collect();
    assert_eq!(phases, ["startup", "drain", "probe-bw"]);
    let (drain, probe) = (world.steps[1], world.steps[2]);
    assert!((0.4..1.0).contains(&drain.at), "{}", drain.at);
    let pace = drain.control.pace.expect("a pace").rate.as_bytes_per_sec() as f64;
    assert!(near(pace, 0.99 * 10e6 / 2.885, 0.02), "{pace}");
    // The bandwidth-delay product and three quanta of 10 kB.
    assert!(probe.in_flight.as_f64() <= 540_000.0, "{}", probe.in_flight);
    assert!(near(world.bandwidth(), 10e6, 0.02), "{}", world.bandwidth());
}

/// Gains of 5/4, 3/4, then six times 1, each for about a round trip.
#[test]
fn the_gain_cycle_has_eight_phases() {
    let mut world = world(4.0);
    world.run_to(2.0);
    let mut changes: Vec<(f64, f64)> = Vec::new();
    while world.seconds() < 8.0 {
        let next = world.seconds() + 0.001;
        world.run_to(next);
        let gain = (world.pace() / (0.99 * world.bandwidth()) * 20.0).round() / 20.0;
        if changes.last().is_none_or(|(_, last)| *last != gain) {
            changes.push((world.seconds(), gain));
        }
    }
    let changes = &changes[1..changes.len() - 1];
    assert!(changes.len() > 30, "{changes:?}");
    for three in changes.windows(3).filter(|three| three[0].1 == 1.25) {
        assert_eq!((three[1].1, three[2].1), (0.75, 1.0), "{changes:?}");
        assert!((0.05..0.12).contains(&(three[1].0 - three[0].0)), "{changes:?}");
        assert!(three[2].0 - three[1].0 < 0.07, "{changes:?}");
    }
    for pair in changes.windows(2).filter(|pair| pair[0].1 == 1.0) {
        assert_eq!(pair[1].1, 1.25);
        assert!((0.29..0.40).contains(&(pair[1].0 - pair[0].0)), "{changes:?}");
    }
}

#[test]
fn probe_rtt_comes_every_ten_seconds_holds_four_segments_and_lasts_200_ms() {
    let mut world = world(4.0);
    world.run_to(45.0);
    let begins: Vec<_> = world.steps.iter().filter(|step| step.phase == "probe-rtt").map(|step| step.at).collect();
    assert!(begins.len() >= 3, "{begins:?}");
    for pair in begins.windows(2) {
        assert!((10.0..10.8).contains(&(pair[1] - pair[0])), "{begins:?}");
    }
    for pair in world.steps.windows(2).filter(|pair| pair[0].phase == "probe-rtt") {
        let stay = pair[1].at - pair[0].at;
        assert!((0.2..0.4).contains(&stay), "{stay}");
        assert_eq!(pair[0].control.cwnd, MSS * 4);
        assert!(pair[1].control.cwnd > MSS * 900, "{:?}", pair[1].control.cwnd);
    }
}

/// One of 100 segments is lost: NewReno's window would be 1.22 / sqrt(0.01) = 12 segments of the 500.
#[test]
fn random_losses_do_not_slow_it_down() {
    let mut world = world(1.0);
    world.drop = |number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 < (1 << 32) / 100;
    world.run_to(30.0);
    let goodput = world.delivered.as_f64() / 30.0;
    assert!(goodput > 0.85 * 10e6, "{goodput}");
}

/// From the 20,000th packet on, about 2.2 s after the start, a third of all packets is lost. Two intervals of four
/// rounds indicate a policer; then there are no probes for 48 rounds, 2.4 s.
#[test]
fn a_policer_is_recognised_and_its_rate_kept() {
    let mut world = world(2.0);
    world.drop = |number| number > 20_000 && number % 3 == 0;
    world.run_to(3.2);
    for step in 0..100 {
        world.run_to(3.2 + 0.01 * f64::from(step));
        let pace = world.pace();
        assert!(near(pace, 0.99 * world.bandwidth(), 0.01), "at {} s: {pace}", world.seconds());
    }
    assert!(world.bandwidth() < 8.5e6, "{}", world.bandwidth());
    let probes = |world: &World| world.pace() > 1.2 * world.bandwidth();
    assert!(world.run_until(7.0, probes), "the rate is never probed again");
}

#[test]
fn a_timeout_leaves_one_segment_and_the_window_returns() {
    let mut world = world(2.0);
    world.run_to(3.0);
    let before = world.control().cwnd;
    let path: Path = world.path;
    world.controller.on_timeout(&Timeout::new(world.now, 1, world.in_flight), &path);
    assert_eq!(world.control().cwnd, MSS);
    let spurious = PathEvent::Spurious { now: world.now, timeout: true, in_flight: world.in_flight };
    world.controller.on_event(&spurious, &path);
    assert_eq!(world.control().cwnd, before);
}
