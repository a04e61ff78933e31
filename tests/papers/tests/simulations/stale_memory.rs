//! Start-up schemes with outdated or wrong path metrics: the losses and retransmissions of a jump are bounded.

use std::net::{IpAddr, Ipv4Addr};

use longhaul_cc::{Congestion, SavedPath};
use longhaul_link::{Limit, LinkConfig};
use longhaul_sim::{Plan, Setup, Sim, full_segments};
use longhaul_tcp::{PathCache, PathMetrics};
use longhaul_units::{Rate, Span, Time};

const BYTES: u64 = 1_000_000;
const MSS: u64 = 1448;
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const RATE: Rate = Rate::from_bits_per_sec(2_000_000);

/// Statistics of a transfer of 1 MB.
#[derive(Clone, Copy, Debug)]
struct Done {
    seconds: f64,
    /// Number of segments marked lost. `repeated` counts retransmissions.
    lost: u64,
    again: u64,
    timeouts: u64,
}

/// Transfers 1 MB over 2 Mb/s with a queue of one bandwidth-delay product, with these saved path metrics.
fn transfer(congestion: &str, rtt: Span, saved: Option<SavedPath>) -> Done {
    let cache = PathCache::default();
    let mut known = PathMetrics::default();
    known.saved = saved;
    let congestion: Congestion = longhaul_tests_papers::congestion(congestion);
    cache.seed(Time::ZERO, SERVER, &congestion.name(), &known);
    let link = LinkConfig::new(RATE, rtt / 2).queue(Limit::Bytes(RATE.bytes_in(rtt).0));
    let mut setup = Setup::symmetric(1, link).configure(|config| {
        full_segments(config);
        config.congestion = congestion.clone();
        config.path_cache = Some(cache.clone());
    });
    setup.link_mut(1).queue = Limit::Packets(100_000).into();
    let mut sim = Sim::new(setup);
    let (client, server) = sim.open(Plan::bulk(BYTES).zeros(), Plan::sink().zeros());
    let done = |sim: &Sim| sim.find(server).is_some_and(|session| session.read >= BYTES);
    assert!(sim.run(Span::from_secs(300), done), "not done");
    let info = sim.host(0).endpoint.connection(sim.session(client).id).unwrap().info(sim.now());
    Done {
        seconds: (sim.now() - Time::ZERO).as_secs_f64(),
        lost: info.bytes_lost / MSS,
        again: info.segments_retransmitted,
        timeouts: info.timeouts,
    }
}

/// The path has lost nine tenths of its rate, or the saved metrics are a thousand times too high. The transfer takes at
/// most 1.5 times as long as without them. The path can carry two bandwidth-delay products of a jump: one in the round
/// trip over which the jump is spread, and one in its queue. The rest of the jump is lost, within a tenth, in addition
/// to the losses of slow start without saved metrics. Each lost segment is retransmitted once.
#[test]
fn a_stale_memory_costs_a_jump_and_no_more() {
    for rtt in [500, 100].map(Span::from_millis) {
        let bdp = RATE.bytes_in(rtt);
        let cold = transfer("cubic", rtt, None);
        for (start, part) in [("careful-resume", 0.5), ("cached-start", 1.0)] {
            for times in [10, 1000] {
                let saved = SavedPath::new(bdp * times, RATE.mul_f64(times as f64), rtt);
                let done = transfer(&format!("{start}+cubic"), rtt, Some(saved));
                let jump = (saved.window.as_f64() * part).min(BYTES as f64);
                let most = (jump - 2.0 * bdp.as_f64()) / MSS as f64;
                println!("{rtt} {start} x {times}: {done:?}, {most:.0} lost of a jump, cold {cold:?}");
                assert!(done.seconds < 1.5 * cold.seconds, "{rtt} {start} x {times}: {done:?}, cold {cold:?}");
                let bound = 1.1 * most.max(0.0) + cold.lost as f64;
                assert!((done.lost as f64) <= bound, "{rtt} {start} x {times}: {done:?} of {bound}");
                assert!(done.again <= done.lost + 2, "{rtt} {start} x {times}: {done:?}");
                assert!(done.again * MSS < BYTES, "{rtt} {start} x {times}: {done:?}");
                assert!(done.timeouts <= 1, "{rtt} {start} x {times}: {done:?}");
            }
        }
    }
}
