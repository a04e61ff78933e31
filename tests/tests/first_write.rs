//! Applications write a few bytes first, and much a moment later: a header, then a file. No start takes the first write for all that
//! there is.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::net::{IpAddr, Ipv4Addr};

use longhaul_cc::registry::{Slot, built_in};
use longhaul_cc::{Congestion, SavedPath};
use longhaul_link::source::{Adu, ConnectionVector, Exchange, Side};
use longhaul_link::{Limit, LinkConfig};
use longhaul_sim::{Setup, Sim, full_segments};
use longhaul_tcp::{PathCache, PathMetrics};
use longhaul_units::{Rate, Span, Time};

const RATE: Rate = Rate::from_bits_per_sec(20_000_000);
const RTT: Span = Span::from_millis(200);
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
/// A program writes once the connection is there.
const CONNECTED: Span = Span::from_millis(250);
const HEADER: u64 = 16;
const FILE: u64 = 1_000_000;

/// What is written, each so long after the one before.
fn writes(writes: &[(u64, Span)]) -> ConnectionVector {
    let adu = |&(bytes, after_send)| Adu { from: Side::Initiator, after_send, after_receive: Span::ZERO, bytes };
    ConnectionVector {
        start: Time::ZERO,
        ids: Vec::new(),
        windows: None,
        rtt: None,
        loss: None,
        mss: None,
        exchange: Exchange::Sequential(writes.iter().map(adu).collect()),
    }
}

/// When all has arrived, over a path with a queue of one bandwidth-delay product that the connection knows.
fn arrives(name: &str, vector: &ConnectionVector) -> Span {
    let congestion: Congestion = name.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
    let cache = PathCache::default();
    let mut known = PathMetrics::default();
    known.saved = Some(SavedPath { window: RATE.bytes_in(RTT), rate: RATE, rtt: RTT });
    cache.seed(Time::ZERO, SERVER, &congestion.name(), &known);
    let link = LinkConfig::new(RATE, RTT / 2).queue(Limit::Bytes(RATE.bytes_in(RTT).0));
    let setup = Setup::symmetric(1, link).configure(|config| {
        full_segments(config);
        config.path_cache = Some(cache.clone());
    });
    let mut sim = Sim::new(setup.under(&congestion));
    let (_, receiver) = sim.replay(0, 1, vector);
    let bytes = vector.bytes_from(Side::Initiator);
    while sim.find(receiver).is_none_or(|session| session.read < bytes) {
        sim.run_for(Span::from_millis(5));
        assert!(sim.now() < Time::ZERO + Span::from_secs(60), "{name}");
    }
    sim.now() - Time::ZERO
}

/// As published it takes what the application's pause made of the first segments for the path's doing, which its hardened form does not: the distance of ACKs.
const DECEIVED: [&str; 2] = ["swift-start", "swift-start-bbn"];

/// Every start, before a law that has none of its own.
fn starts() -> Vec<String> {
    let is_meant = |name: &&str| *name != "none" && !DECEIVED.contains(name);
    let of = |slot| built_in().of_slot(slot).map(|entry| entry.name).filter(is_meant);
    let launches = of(Slot::Launch).map(|name| format!("launch={name},growth=slow-start,steady=cubic,recovery=prr"));
    let growths = of(Slot::Growth).map(|name| format!("growth={name},steady=cubic,recovery=prr"));
    launches.chain(growths).collect()
}

/// It costs two round trips at most: one where the header has a window of its own, one where growth goes by the first ACKs.
#[test]
fn a_few_bytes_first_cost_two_round_trips_at_most() {
    let at_once = writes(&[(HEADER + FILE, CONNECTED)]);
    let mut faults = Vec::new();
    for name in starts() {
        let usual = arrives(&name, &at_once);
        for pause in [Span::from_micros(100), Span::from_millis(20)] {
            let split = arrives(&name, &writes(&[(HEADER, CONNECTED), (FILE, pause)]));
            if split > usual + pause + RTT * 2 {
                faults.push(format!("{name}: {usual} at once, {split} by a file {pause} after a header"));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
