//! What one-way delays buy those who yield to delay, over whole links in virtual time.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::sync::Arc;

use longhaul_link::topology::{Duplex, dumbbell};
use longhaul_link::{Limit, LinkConfig};
use longhaul_sim::{Plan, Setup, Sim, full_segments};
use longhaul_tcp::Config;
use longhaul_units::{Rate, Span, Time};

const MBIT: u64 = 1_000_000;

fn config(congestion: &str) -> Arc<Config> {
    let mut config = Config::default();
    full_segments(&mut config);
    config.congestion = congestion.parse().unwrap();
    Arc::new(config)
}

/// 20 Mb/s, 40 ms there and back, and queues of four bandwidth-delay products, which hold 160 ms.
fn link() -> LinkConfig {
    LinkConfig::new(Rate::from_bits_per_sec(20 * MBIT), Span::from_millis(20)).queue(Limit::Bytes(400_000))
}

/// Whom an endless transfer meets, and how.
#[derive(Clone, Copy, Default)]
struct Meets {
    /// Another by CUBIC on the way there, one on the way back, or both.
    there: bool,
    back: bool,
    /// How long after second 5 they begin.
    later: Span,
    /// By how much the receiver's clock is ahead.
    ahead: Span,
}

/// Mb/s of payload that an endless transfer by `congestion` takes from second 20 to second 80.
fn goodput(congestion: &str, meets: Meets) -> f64 {
    let access = || (0..3).map(|_| Duplex::delay(Span::ZERO));
    let net = dumbbell(Duplex { there: link(), back: link() }, access(), access());
    let mut setup = Setup::new(3, net.topology);
    for node in net.left.iter().chain(&net.right) {
        setup.hosts[*node as usize].config = config("cubic");
    }
    setup.hosts[net.left[0] as usize].config = config(congestion);
    setup.hosts[net.right[0] as usize].clock_ahead = meets.ahead;
    let mut sim = Sim::new(setup);
    let endless = || (Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
    let (plan, sink) = endless();
    let (_, receiver) = sim.open_between(net.left[0] as usize, net.right[0] as usize, plan, sink);
    let mut cross = |begins: bool, from: u32, to: u32| {
        let (plan, sink) = endless();
        let at = Time::ZERO + Span::from_secs(5) + meets.later;
        begins.then(|| sim.open_at(at, from as usize, to as usize, plan, sink));
    };
    cross(meets.there, net.left[1], net.right[1]);
    cross(meets.back, net.right[2], net.left[2]);
    sim.run_for(Span::from_secs(20));
    let before = sim.session(receiver).read;
    sim.run_for(Span::from_secs(60));
    (sim.session(receiver).read - before) as f64 * 8e-6 / 60.0
}

const BY: [(&str, &str); 3] = [
    ("round trips", "ledbat-plus-plus"),
    ("one way", "ledbat-start(delay=one-way)+ledbat-plus-plus(delay=one-way)"),
    ("auto", "ledbat-start(delay=auto)+ledbat-plus-plus(delay=auto)"),
];

/// When those on the way back begin: where their losses fall among the slowdowns moves what is left by some Mb/s.
const LATER: [u64; 6] = [0, 200, 350, 500, 730, 900];

/// A full queue on the way back is no reason to yield on the way there: by round trips it is taken for one. What fills the
/// queue on the way there is, by either. How far apart the clocks are is no matter.
#[test]
fn ledbat_yields_to_the_way_there_only_where_it_sees_one_way() {
    for (name, congestion) in BY {
        let back = |later, ahead| Meets { back: true, later: Span::from_millis(later), ahead, ..Meets::default() };
        let alone = goodput(congestion, Meets::default());
        let there = goodput(congestion, Meets { there: true, ..Meets::default() });
        let backs = LATER.map(|later| goodput(congestion, back(later, Span::ZERO)));
        let ahead = goodput(congestion, back(LATER[0], Span::from_secs(5 * 3600)));
        let mean = backs.iter().sum::<f64>() / LATER.len() as f64;
        println!("{name}: alone {alone:.2}, CUBIC on the way there {there:.2}, back {backs:.2?}, mean {mean:.2} Mb/s");
        assert!(alone > 17.0 && there < 0.5, "{name}: alone {alone}, beside CUBIC {there}");
        let yields = congestion == "ledbat-plus-plus";
        assert!(if yields { mean < 0.5 } else { mean > 12.0 }, "{name}, CUBIC on the way back: {mean}");
        assert!((ahead - backs[0]).abs() < 0.02 * alone, "{name}, a clock ahead: {ahead}, in step {}", backs[0]);
    }
}
