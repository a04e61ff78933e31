//! The hand-over from each start to each law: whatever a start had opened, nothing above the pacing quantum leaves at once after the
//! first flight.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use longhaul_cc::registry::{Slot, built_in};
use longhaul_cc::{Congestion, SavedPath};
use longhaul_link::{Limit, LinkConfig};
use longhaul_sim::{Packet, Plan, Setup, Sighting, Sim, Tap, unlimited};
use longhaul_tcp::{Info, PathCache, PathMetrics};
use longhaul_units::{Rate, Span, Time};

const RATE: Rate = Rate::from_bits_per_sec(20_000_000);
const RTT: Span = Span::from_millis(100);
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
/// What the pacer lets go at once: 250 us of its rate, but two segments at least.
fn quantum(info: &Info) -> u32 {
    let bytes = info.pacing_rate.map_or(0, |rate| rate.bytes_in(Span::from_micros(250)).0);
    (bytes.div_ceil(u64::from(info.mss)) as u32).max(2)
}

/// The most segments of data that left in one instant.
#[derive(Default)]
struct Bursts {
    at: Time,
    now: u32,
    most: u32,
}

impl Tap for Bursts {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        // What leaves at low priority beside the window has a pace of its own.
        if sighting == Sighting::Sent(0) && packet.payload_len() > 100 && packet.dscp == 0 {
            self.now = if now == self.at { self.now + 1 } else { 1 };
            self.at = now;
            self.most = self.most.max(self.now);
        }
    }
}

/// Where `name` sends more at once than the quantum, after its first flight until something is lost, in three seconds over a path with a
/// queue of one bandwidth-delay product that it knows. Routers that it asks approve, but not if they are `deaf`. What repair sends at once is
/// recovery's affair.
fn burst(name: &str, deaf: bool) -> Option<String> {
    let congestion: Congestion = name.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
    let cache = PathCache::default();
    let mut known = PathMetrics::default();
    known.saved = Some(SavedPath { window: RATE.bytes_in(RTT), rate: RATE, rtt: RTT });
    cache.seed(Time::ZERO, SERVER, &congestion.name(), &known);
    let link = LinkConfig::new(RATE, RTT / 2).queue(Limit::Bytes(RATE.bytes_in(RTT).0));
    let mut setup = Setup::symmetric(1, link).configure(|config| {
        unlimited(config);
        config.path_cache = Some(cache.clone());
    });
    setup.link_mut(1).queue = Limit::Packets(100_000).into();
    let mut setup = setup.under(&congestion);
    if deaf {
        (setup.link_mut(0).router, setup.link_mut(0).is_hop) = (None, true);
    }
    let mut sim = Sim::new(setup);
    let bursts = Rc::new(RefCell::new(Bursts::default()));
    sim.add_tap(Rc::clone(&bursts));
    let (client, _) = sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
    let info = |sim: &Sim| sim.host(0).endpoint.connection(sim.session(client).id).unwrap().info(sim.now());
    sim.run_for(RTT * 2);
    let mut before = info(&sim);
    if let Some(network) = before.network {
        // What was granted has been sent by now; else it is the initial window.
        let (granted, denied) = if deaf { (0, 1) } else { (1, 0) };
        assert_eq!(
            (network.granted, network.denied, before.bytes_sent > 100_000),
            (granted, denied, granted == 1),
            "{name}"
        );
    }
    while sim.now() < Time::ZERO + Span::from_secs(3) {
        bursts.take();
        sim.run_for(Span::from_millis(1));
        let after = info(&sim);
        if after.recoveries > 0 {
            break;
        }
        let allowed = quantum(&before).max(quantum(&after));
        let most = bursts.borrow().most;
        if most > allowed {
            return Some(format!("{name}: {most} at once before {}, {allowed} allowed, {}", sim.now(), after.phase));
        }
        before = after;
    }
    // Some laws have starts of their own that take longer.
    let looked_at = if name.starts_with("launch=") { 300_000 } else { 50_000 };
    assert!(before.bytes_sent > looked_at, "{name}: {} bytes until {}", before.bytes_sent, sim.now());
    None
}

fn names(slot: Slot) -> impl Iterator<Item = &'static str> {
    built_in().of_slot(slot).map(|entry| entry.name).filter(|name| *name != "none")
}

/// From `launch` to each law: with slow start and PRR, and with what the law has by itself.
fn bursts(launch: &str, deaf: bool) -> Vec<String> {
    let both =
        |law| [format!("launch={launch},growth=slow-start,steady={law},recovery=prr"), format!("{launch}+{law}")];
    names(Slot::Steady).flat_map(both).filter_map(|name| burst(&name, deaf)).collect()
}

#[test]
fn no_start_hands_a_burst_to_any_law() {
    // BBN's paces to the end, six segments a round trip.
    let launches = names(Slot::Launch).filter(|name| *name != "swift-start-bbn");
    let faults: Vec<_> = launches.flat_map(|launch| bursts(launch, false)).collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// A router that has never heard of Quick-Start denies: the initial window.
#[test]
fn no_denial_hands_a_burst_to_any_law() {
    let faults = bursts("quick-start", true);
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
