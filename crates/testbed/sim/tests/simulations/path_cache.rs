//! Benefit of cached metrics (RFC 9040) for a later connection, at a bottleneck whose queue overflows.

use longhaul_link::{Limit, LinkConfig};
use longhaul_sim::{Plan, Setup, Sim, full_segments};
use longhaul_tcp::{Info, PathCache};
use longhaul_units::{Bytes, Rate, Span};

/// A drop-tail bottleneck with a queue of one bandwidth-delay product.
#[derive(Clone, Copy)]
struct Bottleneck {
    rate: Rate,
    rtt: Span,
    /// Duration of the first connection, which must be hundreds of round trips.
    lesson: Span,
}

/// CalTech path of paper 001 ("1 Gb/s, 4 ms"), and a transatlantic path.
const NEAR: Bottleneck =
    Bottleneck { rate: Rate::from_bits_per_sec(1_000_000_000), rtt: Span::from_millis(4), lesson: Span::from_secs(3) };
const FAR: Bottleneck =
    Bottleneck { rate: Rate::from_bits_per_sec(155_000_000), rtt: Span::from_millis(65), lesson: Span::from_secs(15) };

impl Bottleneck {
    fn bdp(self) -> Bytes {
        self.rate.bytes_in(self.rtt)
    }

    fn setup(self, congestion: &str, cached: bool) -> Setup {
        let link = LinkConfig::new(self.rate, self.rtt / 2);
        let mut setup = Setup::symmetric(1, link.queue(Limit::Bytes(self.bdp().0))).configure(|config| {
            full_segments(config);
            longhaul_zoo::register().expect("the names are free");
            config.congestion = congestion.parse().expect("a registered name");
            config.path_cache = cached.then(PathCache::default);
        });
        setup.link_mut(1).queue = Limit::Packets(100_000).into();
        setup
    }
}

/// Measurements of a second connection in its first rounds.
#[derive(Debug)]
struct Second {
    /// State after opening.
    first: Info,
    drops: u64,
    retransmitted: u64,
    /// Fraction of the link's capacity that arrived.
    share: f64,
    peak: Bytes,
    phase: &'static str,
}

/// Runs a connection and, after its end, a second one for `rounds` round trips. `cached` tells whether the host caches
/// metrics.
fn second(path: Bottleneck, congestion: &str, cached: bool, rounds: u64) -> Second {
    let mut sim = Sim::new(path.setup(congestion, cached));
    let (client, _) = sim.open(Plan::timed(path.lesson).zeros(), Plan::sink().zeros());
    assert!(sim.run(path.lesson + Span::from_secs(10), Sim::all_done) && sim.session(client).ended_well());
    let dropped = |sim: &Sim| sim.link(0).stats().all().dropped_total();
    let before = dropped(&sim);
    assert!(before > 0, "the first connection found the queue's end");
    let (client, server) = sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
    let info = |sim: &Sim| {
        let host = sim.host(client.host);
        host.endpoint.connection(sim.session(client).id).expect("it goes on").info(host.clock(sim.now()))
    };
    sim.run_for(path.rtt + path.rtt / 2);
    let first = info(&sim);
    let mut peak = Bytes::ZERO;
    for _ in 1..rounds {
        sim.run_for(path.rtt);
        peak = peak.max(info(&sim).cwnd);
    }
    let now = info(&sim);
    let possible = path.bdp().as_f64() * rounds as f64;
    Second {
        first,
        drops: dropped(&sim) - before,
        retransmitted: now.segments_retransmitted,
        share: sim.session(server).read as f64 / possible,
        peak,
        phase: now.phase,
    }
}

/// Slow start without a threshold ends when the queue overflows, with hundreds of losses at once (fewer with Limited
/// Slow-Start). With the metrics of the first connection there are no losses: the window keeps its previous size, below
/// the capacity of path and queue.
#[test]
fn the_second_slow_start_ends_without_losses() {
    for (path, congestion, rounds, overshoot) in [
        (NEAR, "new-reno", 50, 300),
        (NEAR, "slow-start+hstcp", 50, 300),
        (NEAR, "hstcp", 50, 30),
        (FAR, "new-reno", 50, 800),
        (FAR, "slow-start+hstcp", 50, 800),
        (FAR, "hstcp", 50, 30),
    ] {
        let (afresh, told) = (second(path, congestion, false, rounds), second(path, congestion, true, rounds));
        let name = format!("{congestion}, {}: {afresh:?}\n{told:?}", path.rtt);
        assert_eq!(afresh.first.ssthresh, None, "{name}");
        assert!(afresh.drops >= overshoot && afresh.retransmitted >= overshoot, "{name}");
        let ssthresh = told.first.ssthresh.expect("what the first connection left");
        assert!(ssthresh > path.bdp() / 2 && ssthresh < path.bdp() * 2, "{name}");
        assert_eq!((told.drops, told.retransmitted, told.phase), (0, 0, "congestion-avoidance"), "{name}");
        assert!(told.peak >= ssthresh && told.peak < path.bdp() * 2, "{name}");
        assert_eq!(told.first.cwnd, afresh.first.cwnd, "the initial window is what it is: {name}");
    }
}

/// Paper 001, on its path of 4 ms: NewReno and HSTCP that start with a cached ssthresh reach the maximum rate almost at
/// once. After 50 ms, both use the whole link and continue to do so.
#[test]
fn on_a_short_path_the_maximum_is_reached_almost_at_once() {
    for congestion in ["new-reno", "slow-start+hstcp"] {
        let told = |rounds| second(NEAR, congestion, true, rounds).share * rounds as f64;
        let (soon, later) = (told(13), told(63));
        let share = (later - soon) / 50.0;
        // 1448 of the 1500 bytes of each IP packet are payload.
        assert!(share > 0.99 * 1448.0 / 1500.0, "{congestion}: {share} of the link from 52 ms to 252 ms");
    }
}

/// A cache belongs to one host: hosts with the same settings and later runs do not share it.
#[test]
fn caches_are_per_host_and_per_run() {
    let setup = FAR.setup("new-reno", true);
    let run = |setup: &Setup| {
        let mut sim = Sim::new(setup.clone());
        sim.open(Plan::timed(Span::from_secs(8)).zeros(), Plan::sink().zeros());
        assert!(sim.run(Span::from_secs(20), Sim::all_done));
        let (client, _) = sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
        sim.run_for(Span::from_secs(2));
        let host = sim.host(0);
        let caches = [0, 1].map(|node| {
            let host = sim.host(node);
            host.endpoint.connection(sim.session(client).id).map(|c| c.status().config().path_cache.clone())
        });
        let known = caches.map(|cache| {
            let cache = cache.flatten().expect("both have one");
            cache.find(host.clock(sim.now()), sim.host(1).address.ip(), "new-reno").is_some()
        });
        (sim.trace(), known)
    };
    let (first, known) = run(&setup);
    assert_eq!(known, [true, false]);
    assert_eq!(run(&setup).0, first);
    let cache = setup.hosts[0].config.path_cache.as_ref().expect("set");
    assert!(cache.is_empty());
}
