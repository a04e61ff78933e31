//! Benefit of one-way delays for algorithms that yield to delay, over simulated links.

use std::sync::Arc;

use longhaul_link::statistics::mean;
use longhaul_link::topology::{Duplex, dumbbell};
use longhaul_link::{Limit, LinkConfig};
use longhaul_sim::{Plan, Setup, Sim, full_segments};
use longhaul_tcp::Config;
use longhaul_units::{Rate, Span, Time};

const MBIT: u64 = 1_000_000;

fn config(congestion: &str) -> Arc<Config> {
    let mut config = Config::default();
    full_segments(&mut config);
    config.congestion = longhaul_tests_papers::congestion(congestion);
    Arc::new(config)
}

/// Returns a link of 20 Mb/s and an RTT of 40 ms with a queue of four bandwidth-delay products, which delays packets by
/// up to 160 ms.
fn link() -> LinkConfig {
    LinkConfig::new(Rate::from_bits_per_sec(20 * MBIT), Span::from_millis(20)).queue(Limit::Bytes(400_000))
}

/// Competing flows and clock offset of a transfer.
#[derive(Clone, Copy, Default)]
struct Meets {
    /// Whether CUBIC flows compete in the forward direction. `back` is the same for the reverse direction.
    there: bool,
    back: bool,
    /// Start time of the competing flows, in addition to 5 s.
    later: Span,
    /// Offset of the receiver's clock.
    ahead: Span,
}

/// Returns the goodput in Mb/s of an endless transfer with `congestion` from 20 s to 80 s.
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

/// Start times of the reverse flows in ms. The goodput varies by some Mb/s with the times of their losses relative to
/// the slowdowns.
const LATER: [u64; 6] = [0, 200, 350, 500, 730, 900];

/// A full queue in the reverse direction is no reason to yield in the forward direction. One-way delays show in which
/// direction the queue is, which RTTs do not. With both, the flow yields if the forward queue is full. The clock offset
/// does not matter.
#[test]
fn ledbat_yields_to_the_way_there_only_where_it_sees_one_way() {
    for (name, congestion) in BY {
        let back = |later, ahead| Meets { back: true, later: Span::from_millis(later), ahead, ..Meets::default() };
        let alone = goodput(congestion, Meets::default());
        let there = goodput(congestion, Meets { there: true, ..Meets::default() });
        let backs = LATER.map(|later| goodput(congestion, back(later, Span::ZERO)));
        let ahead = goodput(congestion, back(LATER[0], Span::from_secs(5 * 3600)));
        let mean = mean(&backs).unwrap();
        println!("{name}: alone {alone:.2}, CUBIC on the way there {there:.2}, back {backs:.2?}, mean {mean:.2} Mb/s");
        assert!(alone > 17.0 && there < 0.5, "{name}: alone {alone}, beside CUBIC {there}");
        let yields = congestion == "ledbat-plus-plus";
        assert!(if yields { mean < 0.5 } else { mean > 12.0 }, "{name}, CUBIC on the way back: {mean}");
        assert!((ahead - backs[0]).abs() < 0.02 * alone, "{name}, a clock ahead: {ahead}, in step {}", backs[0]);
    }
}
