//! Transition from each slow-start variant to each congestion-avoidance algorithm: no burst exceeds the pacing
//! quantum, whether the variant ends by itself or at the threshold from an earlier connection.

use std::net::{IpAddr, Ipv4Addr};

use longhaul_cc::Congestion;
use longhaul_cc::registry::Slot;
use longhaul_link::{Limit, LinkConfig};
use longhaul_sim::{Plan, Setup, Sim, full_segments};
use longhaul_tcp::{PathCache, PathMetrics};
use longhaul_tests_papers::bursts;
use longhaul_units::{Bytes, Rate, Span, Time};

const RATE: Rate = Rate::from_bits_per_sec(20_000_000);
const RTT: Span = Span::from_millis(100);
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// Runs `name` for 3 s over a path with a queue of two bandwidth-delay products, and describes the first burst above
/// the pacing quantum after the first flight. Slow start ends at `ssthresh` at the latest.
fn burst(name: &str, ssthresh: Option<Bytes>) -> Option<String> {
    let congestion: Congestion = longhaul_tests_papers::congestion(name);
    let cache = PathCache::default();
    if ssthresh.is_some() {
        let mut known = PathMetrics::default();
        known.ssthresh = ssthresh;
        cache.seed(Time::ZERO, SERVER, &congestion.name(), &known);
    }
    let link = LinkConfig::new(RATE, RTT / 2).queue(Limit::Bytes(RATE.bytes_in(RTT).0 * 2));
    let mut setup = Setup::symmetric(1, link).configure(|config| {
        full_segments(config);
        config.path_cache = Some(cache.clone());
    });
    setup.link_mut(1).queue = Limit::Packets(100_000).into();
    let mut sim = Sim::new(setup.under(&congestion));
    let (client, _) = sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
    let (found, info) = bursts::watch(&mut sim, client, Time::ZERO + RTT.mul_f64(1.5), Time::ZERO + Span::from_secs(3));
    let fault = found.map(|burst| format!("{name}, {ssthresh:?}: {burst:?}"));
    assert!(fault.is_some() || info.bytes_sent > 300_000, "{name}: {} bytes until {}", info.bytes_sent, sim.now());
    // Whatever the reason, slow start must have ended.
    assert!(fault.is_some() || ssthresh.is_none() || info.cwnd >= ssthresh.unwrap() / 2, "{name}: {info:?}");
    fault
}

fn names(slot: Slot) -> impl Iterator<Item = &'static str> {
    longhaul_tests_papers::registry().of_slot(slot).map(|entry| entry.name).filter(|name| *name != "none")
}

#[test]
fn no_slow_start_hands_a_burst_to_any_avoidance() {
    let mut faults = Vec::new();
    for variant in ["suss", "rapid-start", "hystart", "hystart-pp", "search", "limited-slow-start"] {
        for algorithm in names(Slot::Avoidance) {
            let name = format!("slow-start={variant},avoidance={algorithm},recovery=prr");
            for ssthresh in [None, Some(RATE.bytes_in(RTT) / 2)] {
                faults.extend(burst(&name, ssthresh));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
