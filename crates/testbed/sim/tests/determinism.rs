//! Determinism: a seed gives the same trace on every machine and in every build. Continuous integration runs these
//! tests in a debug and in a release build, with the same constants.

use longhaul_link::source::{Durations, Source};
use longhaul_link::topology::{Duplex, dumbbell};
use longhaul_link::{Corruption, GilbertElliott, Limit, LinkConfig, Loss, Random, Reordering};
use longhaul_sim::{Plan, Setup, Sim};
use longhaul_units::{Rate, Span, Time};

/// Runs five pairs of hosts with all random impairments at once, and returns the trace hash.
fn run(seed: u64, with_tcp: bool) -> u64 {
    let mut link = LinkConfig::new(Rate::from_bits_per_sec(10_000_000), Span::from_millis(20))
        .queue(Limit::Packets(30))
        .loss(Loss::GilbertElliott(GilbertElliott::simple(0.002, 0.3)));
    link.jitter = Span::from_millis(2);
    link.duplication = 0.01;
    link.corruption = Corruption { share: 0.01, unseen: 0.1 };
    link.reordering = Some(Reordering::Places { share: 0.01, places: 3, patience: Span::from_millis(20) });
    let access = || (1..=5).map(|n| Duplex::delay(Span::from_millis(n)));
    let net = dumbbell(Duplex::symmetric(link), access(), access());
    let pairs: Vec<_> = net.left.iter().zip(&net.right).map(|(l, r)| (*l as usize, *r as usize)).collect();
    let mut sim = Sim::new(Setup::new(seed, net.topology));
    let (rate, end) = (Rate::from_bits_per_sec(1_000_000), Time::ZERO + Span::from_secs(8));
    let (on, off) = (Span::from_millis(300), Span::from_millis(500));
    for (stream, (left, right)) in (1_000..).zip(&pairs) {
        let random = Random::new(seed, stream);
        let source = Source::on_off(Time::ZERO, rate, 700, (on, off), Durations::Pareto(1.5), random);
        sim.add_traffic(*left, *right, source, end);
        if with_tcp {
            sim.open_at(Time::ZERO + on * (stream % 7), *left, *right, Plan::bulk(300_000), Plan::bulk(20_000));
        }
    }
    sim.run_for(Span::from_secs(10));
    sim.trace()
}

#[test]
fn one_seed_gives_one_trace_and_another_seed_another() {
    assert_eq!(run(1, true), run(1, true));
    assert_ne!(run(1, true), run(2, true));
}

/// The constant holds for debug and release builds, and changes only with the link model.
#[test]
fn the_network_gives_the_trace_it_always_gave() {
    assert_eq!(run(1, false), NETWORK, "{:#x}", run(1, false));
}

const NETWORK: u64 = 0x8856_a3e1_5eec_713b;

/// With connections, the constant also changes with the behaviour of the TCP engine. After an intended change, compare
/// debug and release builds, and insert the new value.
#[test]
fn connections_give_the_trace_they_always_gave() {
    assert_eq!(run(1, true), CONNECTIONS, "{:#x}", run(1, true));
}

const CONNECTIONS: u64 = 0xd737_cd6a_5396_08a0;
