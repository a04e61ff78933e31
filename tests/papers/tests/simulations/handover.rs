//! Transition from each start-up scheme to each congestion-avoidance algorithm: after the first flight, no burst
//! exceeds the pacing quantum, whatever the window at that time.

use std::net::{IpAddr, Ipv4Addr};

use longhaul_cc::registry::Slot;
use longhaul_cc::{Congestion, SavedPath};
use longhaul_link::{Classes, Discipline, Limit, LinkConfig};
use longhaul_sim::{Plan, Setup, Sim, full_segments};
use longhaul_tcp::{PathCache, PathMetrics};
use longhaul_tests_papers::bursts;
use longhaul_units::{Rate, Span, Time};

const RATE: Rate = Rate::from_bits_per_sec(20_000_000);
const RTT: Span = Span::from_millis(100);
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// Runs `name` for 3 s over a path with cached metrics and a queue of one bandwidth-delay product, and describes the
/// first burst above the pacing quantum after the first flight and before the first loss. Routers approve requests
/// unless `deaf`. Bursts of the recovery algorithm are not considered.
fn burst(name: &str, deaf: bool) -> Option<String> {
    let congestion: Congestion = longhaul_tests_papers::congestion(name);
    let cache = PathCache::default();
    let mut known = PathMetrics::default();
    known.saved = Some(SavedPath::new(RATE.bytes_in(RTT), RATE, RTT));
    cache.seed(Time::ZERO, SERVER, &congestion.name(), &known);
    let link = LinkConfig::new(RATE, RTT / 2).queue(Limit::Bytes(RATE.bytes_in(RTT).0));
    let mut setup = Setup::symmetric(1, link).configure(|config| {
        full_segments(config);
        config.path_cache = Some(cache.clone());
    });
    setup.link_mut(1).queue = Limit::Packets(100_000).into();
    // RC3 is designed for networks with priorities. In any other queue, its burst would leave no room for the first
    // window.
    if name.trim_start_matches("startup=").starts_with("rc3") {
        setup.link_mut(0).queue.discipline = Discipline::Priority(Classes::rc3());
    }
    let mut setup = setup.under(&congestion);
    if deaf {
        (setup.link_mut(0).router, setup.link_mut(0).is_hop) = (None, true);
    }
    let mut sim = Sim::new(setup);
    let (client, _) = sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
    sim.run_for(RTT * 2);
    let early = sim.host(0).endpoint.connection(sim.session(client).id).unwrap().info(sim.now());
    if let Some(network) = early.network {
        // An approved rate has been used by now. After a denial, only the initial window has been sent.
        let (granted, denied) = if deaf { (0, 1) } else { (1, 0) };
        assert_eq!(
            (network.granted, network.denied, early.bytes_sent > 100_000),
            (granted, denied, granted == 1),
            "{name}"
        );
    }
    let now = sim.now();
    let (found, last) = bursts::watch(&mut sim, client, now, Time::ZERO + Span::from_secs(3));
    if let Some(burst) = found {
        return Some(format!("{name}: {burst:?}"));
    }
    // A congestion-avoidance algorithm with its own start-up takes longer, so less data is required.
    let looked_at = if name.starts_with("startup=") { 300_000 } else { 50_000 };
    assert!(last.bytes_sent > looked_at, "{name}: {} bytes until {}", last.bytes_sent, sim.now());
    None
}

fn names(slot: Slot) -> impl Iterator<Item = &'static str> {
    longhaul_tests_papers::registry().of_slot(slot).map(|entry| entry.name).filter(|name| *name != "none")
}

/// Tests `startup` with each congestion-avoidance algorithm: with slow start and PRR, and with the defaults of the
/// algorithm.
fn all_bursts(startup: &str, deaf: bool) -> Vec<String> {
    let both = |algorithm| {
        [
            format!("startup={startup},slow-start=slow-start,avoidance={algorithm},recovery=prr"),
            format!("{startup}+{algorithm}"),
        ]
    };
    names(Slot::Avoidance).flat_map(both).filter_map(|name| burst(&name, deaf)).collect()
}

#[test]
fn no_startup_hands_a_burst_to_any_avoidance() {
    // BBN's variant is excluded, because it always paces six segments per round trip.
    let schemes = names(Slot::Startup).filter(|name| *name != "swift-start-bbn");
    let faults: Vec<_> = schemes.flat_map(|startup| all_bursts(startup, false)).collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// A router without Quick-Start denies the request, so that only the initial window is used (RFC 4782, section 4.4).
#[test]
fn no_denial_hands_a_burst_to_any_avoidance() {
    let faults = all_bursts("quick-start", true);
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
