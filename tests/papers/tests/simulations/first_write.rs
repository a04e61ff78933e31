//! Effect of a small first write. Applications often write a few bytes first, such as a header, and a file shortly
//! after. No start-up scheme may take the first write for all data.

use std::net::{IpAddr, Ipv4Addr};

use longhaul_cc::registry::Slot;
use longhaul_cc::{Congestion, SavedPath};
use longhaul_link::source::{Adu, ConnectionVector, Side};
use longhaul_link::{Limit, LinkConfig};
use longhaul_sim::{Setup, Sim, full_segments};
use longhaul_tcp::{PathCache, PathMetrics};
use longhaul_units::{Rate, Span, Time};

const RATE: Rate = Rate::from_bits_per_sec(20_000_000);
const RTT: Span = Span::from_millis(200);
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
/// Time of the first write, after the handshake.
const CONNECTED: Span = Span::from_millis(250);
const HEADER: u64 = 16;
const FILE: u64 = 1_000_000;

/// Returns a connection whose client makes these writes, each with its delay after the preceding one.
pub(crate) fn writes(writes: &[(u64, Span)]) -> ConnectionVector {
    let adu = |&(bytes, after_send)| Adu { after_send, ..Adu::new(Side::Initiator, bytes) };
    ConnectionVector { start: Time::ZERO, adus: writes.iter().map(adu).collect() }
}

/// Returns the time until all data has arrived over a path with cached metrics and a queue of one bandwidth-delay
/// product.
pub(crate) fn arrives(name: &str, vector: &ConnectionVector) -> Span {
    let congestion: Congestion = longhaul_tests_papers::congestion(name);
    let cache = PathCache::default();
    let mut known = PathMetrics::default();
    known.saved = Some(SavedPath::new(RATE.bytes_in(RTT), RATE, RTT));
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
        assert!(sim.now() < Time::ZERO + Span::from_secs(100), "{name}");
    }
    sim.now() - Time::ZERO
}

/// Schemes that mistake the pause of the application for the spacing of ACKs on the path. Both are published variants;
/// the hardened variant does not.
const DECEIVED: [&str; 2] = ["swift-start", "swift-start-bbn"];

/// All start-up schemes and slow-start variants, combined with a congestion-avoidance algorithm without its own
/// start-up.
fn starts() -> Vec<String> {
    let is_meant = |name: &&str| *name != "none" && !DECEIVED.contains(name);
    let of = |slot| longhaul_tests_papers::registry().of_slot(slot).map(|entry| entry.name).filter(is_meant);
    let schemes =
        of(Slot::Startup).map(|name| format!("startup={name},slow-start=slow-start,avoidance=cubic,recovery=prr"));
    let variants = of(Slot::SlowStart).map(|name| format!("slow-start={name},avoidance=cubic,recovery=prr"));
    schemes.chain(variants).collect()
}

/// The pause costs at most two round trips: one if the header is sent in a window of its own, and one if slow start
/// depends on the first ACKs.
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
