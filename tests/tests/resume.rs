//! Starts that remember: Careful Resume (RFC 9959) and TCP Fast Start over whole links in virtual time, where the memory is right and
//! where it is not.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::net::{IpAddr, Ipv4Addr};

use longhaul_cc::{Congestion, SavedPath};
use longhaul_link::{Limit, LinkConfig};
use longhaul_sim::{Plan, Setup, Sim, unlimited};
use longhaul_tcp::{PathCache, PathMetrics};
use longhaul_units::{Bytes, Rate, Span, Time};

const MB: u64 = 1_000_000;
/// The second host's address.
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// A link with a queue of `queue` bandwidth-delay products.
#[derive(Clone, Copy, Debug)]
struct Path {
    mbps: u64,
    rtt: Span,
    queue: f64,
}

impl Path {
    const fn new(mbps: u64, rtt_ms: u64) -> Self {
        Self { mbps, rtt: Span::from_millis(rtt_ms), queue: 1.0 }
    }

    fn rate(self) -> Rate {
        Rate::from_bits_per_sec(self.mbps * 1_000_000)
    }

    fn bdp(self) -> Bytes {
        self.rate().bytes_in(self.rtt)
    }

    /// Handshake, one way, and the time that the bytes take.
    fn limit(self, bytes: u64) -> f64 {
        self.rtt.as_secs_f64() * 1.5 + bytes as f64 * (1500.0 / 1448.0) / self.rate().as_bytes_per_sec() as f64
    }

    fn sim(self, congestion: &str, cache: Option<&PathCache>) -> Sim {
        let link = LinkConfig::new(self.rate(), self.rtt / 2);
        let queue = Limit::Bytes(self.bdp().mul_f64(self.queue).0);
        let mut setup = Setup::symmetric(1, link.queue(queue)).configure(|config| {
            unlimited(config);
            config.congestion = congestion.parse().unwrap();
            config.path_cache = cache.cloned();
        });
        setup.link_mut(1).queue = Limit::Packets(100_000).into();
        Sim::new(setup)
    }
}

/// Seconds from the SYN to the last byte, and segments sent again.
#[derive(Clone, Copy, Debug)]
struct Done {
    seconds: f64,
    again: u64,
}

/// One transfer of so many bytes, in `sim` as it is.
fn transfer(sim: &mut Sim, bytes: u64) -> Done {
    let begun = sim.now();
    let (client, server) = sim.open(Plan::bulk(bytes).zeros(), Plan::sink().zeros());
    let done = |sim: &Sim| sim.find(server).is_some_and(|session| session.read >= bytes);
    assert!(sim.run(Span::from_secs(300), done), "not done");
    let seconds = (sim.now() - begun).as_secs_f64();
    let info = sim.host(0).endpoint.connection(sim.session(client).id).map(|c| c.info(sim.now()));
    assert!(sim.run(Span::from_secs(300), Sim::all_done));
    Done { seconds, again: info.map_or(0, |info| info.segments_retransmitted) }
}

/// The second of two: the first filled the path for a while.
fn warm(path: Path, congestion: &str, bytes: u64) -> Done {
    let cache = PathCache::default();
    let mut sim = path.sim(congestion, Some(&cache));
    transfer(&mut sim, 20 * MB);
    transfer(&mut sim, bytes)
}

const PATHS: [Path; 3] = [Path::new(5, 500), Path::new(20, 500), Path::new(20, 100)];

/// 1 MB on the links that others were measured on: Careful Resume within 3.3, 2.1 and 0.78 s, Fast Start within 2.6, 1.35 and 0.62 s,
/// neither with more loss than CUBIC from ten segments.
#[test]
fn a_megabyte_on_a_path_that_is_known() {
    let wanted = [[3.3, 2.6], [2.1, 1.35], [0.78, 0.62]];
    for (path, wanted) in PATHS.into_iter().zip(wanted) {
        let cold = transfer(&mut path.sim("cubic", None), MB);
        for (start, wanted) in ["careful-resume", "cached-start"].into_iter().zip(wanted) {
            let done = warm(path, &format!("{start}+cubic"), MB);
            println!("{path:?} {start}: {done:?}, cold {cold:?}, limit {:.2}", path.limit(MB));
            assert!(done.seconds <= wanted, "{path:?} {start}: {done:?} of {wanted}");
            assert!(done.again <= cold.again, "{path:?} {start}: {done:?} {cold:?}");
        }
    }
}

/// The path has lost nine tenths of its rate since: what a stale memory costs is bounded.
#[test]
fn a_stale_memory_costs_little() {
    for path in [Path::new(2, 500), Path::new(2, 100)] {
        let cold = transfer(&mut path.sim("cubic", None), MB);
        for start in ["careful-resume", "cached-start"] {
            let name = format!("{start}+cubic");
            let cache = PathCache::default();
            let mut known = PathMetrics::default();
            known.saved = Some(SavedPath { window: path.bdp() * 10, rate: path.rate().mul_f64(10.0), rtt: path.rtt });
            let law: Congestion = name.parse().unwrap();
            cache.seed(Time::ZERO, SERVER, &law.name(), &known);
            let done = transfer(&mut path.sim(&name, Some(&cache)), MB);
            println!("{path:?} {start}: {done:?}, cold {cold:?}");
            assert!(done.seconds < 1.5 * cold.seconds, "{path:?} {start}: {done:?} {cold:?}");
        }
    }
}
