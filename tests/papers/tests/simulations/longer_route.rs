//! `copa-cubic` over paths whose round-trip time changes, as at the handovers of a low orbit.

use longhaul_cc::Congestion;
use longhaul_link::topology::Duplex;
use longhaul_link::{LinkConfig, Outage, OutageKind, Step};
use longhaul_sim::{Plan, Setup, Sim, full_segments};
use longhaul_tests_papers::long;
use longhaul_units::{Span, Time};

use crate::delay_based::{link, payload, run_over};

/// Time between two steps in seconds, and number of steps.
const STEPS: (u64, u64) = (15, 4);
/// Time without service at each step.
const SILENCE: Span = Span::from_millis(120);

/// Returns the times of the steps. The seed shifts them against the phases of the window.
fn steps(seed: u64) -> Vec<Time> {
    let first = Span::from_secs(STEPS.0) + Span::from_millis(170) * seed;
    (0..STEPS.1).map(|nth| Time::ZERO + first + Span::from_secs(STEPS.0) * nth).collect()
}

/// A path of `mbit` Mb/s with a queue of `quarters` quarters of 60 ms. At the steps, its RTT becomes 60 and 30 ms in turn.
fn path(mbit: u64, quarters: u64, steps: &[Time], kind: OutageKind) -> Duplex {
    let mut there = link(mbit, 30, mbit * 60 * 125 * quarters / 4);
    let mut back = LinkConfig::delay(there.delay);
    for direction in [&mut there, &mut back] {
        direction.outages = steps.iter().map(|at| Outage { from: *at, until: *at + SILENCE, kind }).collect();
        let delays = [30, 15].into_iter().cycle().map(|millis| Some(Span::from_millis(millis)));
        direction.steps = steps.iter().zip(delays).map(|(at, delay)| Step { at: *at, rate: None, delay }).collect();
    }
    Duplex { there, back }
}

/// Runs an endless transfer, and returns the goodput in Mb/s of each second that begins at least 3 s after the last step.
fn goodputs(seed: u64, duplex: Duplex, steps: &[Time]) -> Vec<f64> {
    let congestion: Congestion = longhaul_tests_papers::congestion("copa-cubic");
    let mut sim = Sim::new(Setup::pair(seed, duplex).configure(full_segments).under(&congestion));
    let (_, receiver) = sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
    let mut goodputs = Vec::new();
    for at in steps {
        sim.run_for((*at - sim.now()) + Span::from_secs(3));
        for _ in 3..STEPS.0 {
            let before = sim.session(receiver).read;
            sim.run_for(Span::from_secs(1));
            goodputs.push((sim.session(receiver).read - before) as f64 * 8e-6);
        }
    }
    goodputs
}

/// From 3 s after each step on, each second has 0.9 of 30 to 150 Mb/s, whether packets are held or lost in the silence. If
/// the delay of the longer route counted as a queue, a tenth would be left.
#[test]
fn the_rate_returns_within_three_seconds() {
    for seed in 0..if long() { 10 } else { 3 } {
        let (mbit, steps) = (30 + seed * 40 / 3, steps(seed));
        for (quarters, kind) in [1, 4].into_iter().flat_map(|q| [(q, OutageKind::Hold), (q, OutageKind::Lose)]) {
            let goodputs = goodputs(seed, path(mbit, quarters, &steps, kind), &steps);
            let goodput = goodputs.into_iter().fold(f64::INFINITY, f64::min);
            assert!(goodput > 0.9 * payload(mbit), "{seed}, {mbit} Mb/s, {quarters}/4, {kind:?}: {goodput} Mb/s");
        }
    }
}

/// Jitter of 0.2 ms, as on hosts with other work, hides the capacity of 135 Mb/s. The flow knows which rate it had before.
#[test]
fn the_rate_returns_where_jitter_hides_the_capacity() {
    let steps = steps(0);
    let mut path = path(135, 4, &steps, OutageKind::Hold);
    (path.there.jitter, path.back.jitter) = (Span::from_micros(200), Span::from_micros(200));
    let goodputs = goodputs(0, path, &steps);
    for later in goodputs.chunks(STEPS.0 as usize - 3) {
        let mean = later.iter().sum::<f64>() / later.len() as f64;
        assert!(mean > 0.9 * payload(135), "{later:?}");
    }
}

/// Two flows of the same kind fill the path and share it, too, and their queue remains short.
#[test]
fn flows_of_the_same_kind_share_a_longer_route() {
    let path = path(60, 4, &steps(0), OutageKind::Hold);
    let outcome = run_over(path, &[("copa-cubic", 0), ("copa-cubic", 1)], 18, 30);
    let (sum, delay) = (outcome.goodput.iter().sum::<f64>(), outcome.delay_ms(0.5));
    assert!(sum > 0.9 * payload(60) && delay < 30.0, "{sum} Mb/s, {delay} ms");
    assert!((0.25..0.75).contains(&outcome.share(0)), "{}", outcome.share(0));
}

/// Beside a CUBIC flow that began before, the mean share over three times of the steps is fair. If competitive mode ended
/// with the rule, it would be half of that.
#[test]
fn beside_cubic_the_share_of_a_longer_route_is_fair() {
    let flows = [("cubic", 0), ("copa-cubic", 1)];
    let share = |seed| run_over(path(60, 4, &steps(seed), OutageKind::Hold), &flows, 18, 75).share(1);
    let shares: Vec<f64> = (0..3).map(share).collect();
    assert!(shares.iter().sum::<f64>() / 3.0 > 0.33, "{shares:?}");
}
