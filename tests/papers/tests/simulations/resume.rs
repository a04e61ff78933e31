//! Start-up schemes with saved path metrics: Careful Resume (RFC 9959) and TCP Fast Start over simulated links, with
//! correct and with wrong metrics.

use std::net::{IpAddr, Ipv4Addr};

use longhaul_cc::{Congestion, SavedPath};
use longhaul_link::{Limit, LinkConfig};
use longhaul_sim::{Plan, Setup, Sim, full_segments};
use longhaul_tcp::{LoadReason, PathCache, PathCacheConfig, PathMetrics, SavedPathInfo};
use longhaul_units::{Bytes, Rate, Span, Time};

const MB: u64 = 1_000_000;
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

    /// Returns the lower bound of the transfer time in seconds: handshake, one-way delay, and serialisation of the
    /// bytes.
    fn limit(self, bytes: u64) -> f64 {
        self.rtt.as_secs_f64() * 1.5 + bytes as f64 * (1500.0 / 1448.0) / self.rate().as_bytes_per_sec() as f64
    }

    fn sim(self, congestion: &str, cache: Option<&PathCache>) -> Sim {
        Sim::new(self.setup(congestion, cache))
    }

    fn setup(self, congestion: &str, cache: Option<&PathCache>) -> Setup {
        let link = LinkConfig::new(self.rate(), self.rtt / 2);
        let queue = Limit::Bytes(self.bdp().mul_f64(self.queue).0);
        let mut setup = Setup::symmetric(1, link.queue(queue)).configure(|config| {
            full_segments(config);
            config.congestion = longhaul_tests_papers::congestion(congestion);
            config.path_cache = cache.cloned();
        });
        setup.link_mut(1).queue = Limit::Packets(100_000).into();
        setup
    }
}

/// Seconds from the SYN to the last byte, retransmitted segments, and the number of saved metrics by outcome: used, too
/// old, of another path, damaged.
#[derive(Clone, Copy, Debug)]
struct Done {
    seconds: f64,
    again: u64,
    saved: Option<[u64; 4]>,
}

const USED: Option<[u64; 4]> = Some([1, 0, 0, 0]);
const TOO_OLD: Option<[u64; 4]> = Some([0, 1, 0, 0]);
const OTHER_PATH: Option<[u64; 4]> = Some([0, 0, 1, 0]);
const DAMAGED: Option<[u64; 4]> = Some([0, 0, 0, 1]);
/// Outcome without saved metrics, or before the decision whether to use them.
const NOTHING: Option<[u64; 4]> = Some([0; 4]);

fn transfer(sim: &mut Sim, bytes: u64) -> Done {
    let begun = sim.now();
    let (client, server) = sim.open(Plan::bulk(bytes).zeros(), Plan::sink().zeros());
    let done = |sim: &Sim| sim.find(server).is_some_and(|session| session.read >= bytes);
    assert!(sim.run(Span::from_secs(300), done), "not done");
    let seconds = (sim.now() - begun).as_secs_f64();
    let info = sim.host(0).endpoint.connection(sim.session(client).id).map(|c| c.info(sim.now()));
    assert!(sim.run(Span::from_secs(300), Sim::all_done));
    let again = info.as_ref().map_or(0, |info| info.segments_retransmitted);
    let saved = info.and_then(|info| info.saved_path);
    let saved =
        saved.map(|SavedPathInfo { used, too_old, other_path, damaged, .. }| [used, too_old, other_path, damaged]);
    Done { seconds, again, saved }
}

/// Fills the path by a first transfer, and returns the outcome of a second one.
fn warm(path: Path, congestion: &str, bytes: u64) -> Done {
    let cache = PathCache::default();
    let mut sim = path.sim(congestion, Some(&cache));
    transfer(&mut sim, 20 * MB);
    transfer(&mut sim, bytes)
}

const PATHS: [Path; 3] = [Path::new(5, 500), Path::new(20, 500), Path::new(20, 100)];

/// On the links used for other start-up schemes, 1 MB takes at most 3.3, 2.1 and 0.78 s with Careful Resume, and at
/// most 2.6, 1.35 and 0.62 s with Fast Start. Neither loses more than CUBIC with an initial window of ten.
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

/// If the path has lost nine tenths of its rate, the cost of outdated metrics is bounded.
#[test]
fn a_stale_memory_costs_little() {
    for path in [Path::new(2, 500), Path::new(2, 100)] {
        let cold = transfer(&mut path.sim("cubic", None), MB);
        for start in ["careful-resume", "cached-start"] {
            let name = format!("{start}+cubic");
            let cache = PathCache::default();
            let mut known = PathMetrics::default();
            known.saved = Some(SavedPath::new(path.bdp() * 10, path.rate().mul_f64(10.0), path.rtt));
            let congestion: Congestion = longhaul_tests_papers::congestion(&name);
            cache.seed(Time::ZERO, SERVER, &congestion.name(), &known);
            let done = transfer(&mut path.sim(&name, Some(&cache)), MB);
            println!("{path:?} {start}: {done:?}, cold {cold:?}");
            assert!(done.seconds < 1.5 * cold.seconds, "{path:?} {start}: {done:?} {cold:?}");
        }
    }
}

const STARTS: [&str; 2] = ["careful-resume+cubic", "cached-start+cubic"];
const PATH: Path = Path::new(20, 100);

/// Returns the metrics that a connection saves after it has filled the path.
fn found(path: Path) -> SavedPath {
    SavedPath::new(path.bdp(), path.rate(), path.rtt)
}

/// Returns a cache with a maximum age of 100 s that contains these metrics of the server.
fn knowing(start: &str, saved: SavedPath) -> PathCache {
    let mut config = PathCacheConfig::default();
    config.max_age = Span::from_secs(100);
    let cache = PathCache::new(config);
    let mut known = PathMetrics::default();
    known.saved = Some(saved);
    let congestion: Congestion = longhaul_tests_papers::congestion(start);
    cache.seed(Time::ZERO, SERVER, &congestion.name(), &known);
    cache
}

/// The connection counts whether it used saved metrics, or the reason why not. If it does not use them, it behaves as
/// without a cache.
#[test]
fn outcomes_of_saved_metrics_are_counted() {
    let right = found(PATH);
    let with_rtt = |rtt| SavedPath::new(right.window, right.rate, rtt);
    let with_window = |window| SavedPath::new(window, right.rate, right.rtt);
    for start in STARTS {
        let cold = transfer(&mut PATH.sim(start, None), MB);
        assert_eq!(cold.saved, None, "{start}: no memory");
        assert_eq!(transfer(&mut PATH.sim("cubic", Some(&knowing("cubic", right))), MB).saved, None, "no use for it");
        assert_eq!(transfer(&mut PATH.sim(start, Some(&PathCache::default())), MB).saved, NOTHING, "{start}");
        for (what, saved, pause, expected) in [
            ("right", right, 0, USED),
            ("a hundred seconds old", right, 100, USED),
            ("too old", right, 101, TOO_OLD),
            ("of a path twice as long", with_rtt(PATH.rtt * 2 + Span::from_millis(2)), 0, OTHER_PATH),
            ("of one a tenth as long", with_rtt(PATH.rtt / 10 - Span::from_millis(1)), 0, OTHER_PATH),
            ("no window", with_window(Bytes::ZERO), 0, DAMAGED),
            ("any window", with_window(Bytes::MAX), 0, DAMAGED),
            ("no rate", SavedPath::new(right.window, Rate::ZERO, right.rtt), 0, DAMAGED),
            ("no round trip", with_rtt(Span::ZERO), 0, DAMAGED),
        ] {
            let mut sim = PATH.sim(start, Some(&knowing(start, saved)));
            sim.run_for(Span::from_secs(pause));
            let done = transfer(&mut sim, MB);
            println!("{start}, {what}: {done:?}, cold {:.3}", cold.seconds);
            assert_eq!(done.saved, expected, "{start}, {what}");
            let ratio = done.seconds / cold.seconds;
            // Before the decision, Careful Resume spreads its first ten segments over an eighth of the RTT.
            let as_cold = (ratio - 1.0).abs() < 0.02;
            assert!(if expected == USED { ratio < 0.8 } else { as_cold }, "{start}, {what}: {ratio} of {cold:?}");
            // The connection saves its own metrics, which the next connection uses.
            assert_eq!(transfer(&mut sim, MB).saved, USED, "{start}, after {what}");
        }
    }
}

/// Refused metrics are removed, even if the connection is too short to measure its own.
#[test]
fn refused_metrics_are_deleted() {
    for start in STARTS {
        let mut elsewhere = found(PATH);
        elsewhere.rtt = PATH.rtt * 20;
        let mut sim = PATH.sim(start, Some(&knowing(start, elsewhere)));
        let seen = [(); 3].map(|()| transfer(&mut sim, 55_000).saved);
        assert_eq!(seen, [OTHER_PATH, NOTHING, NOTHING], "{start}");
    }
}

/// Connections that are too short to measure metrics leave the saved metrics and their age unchanged.
#[test]
fn short_connections_do_not_keep_a_memory_young() {
    for start in STARTS {
        let mut sim = PATH.sim(start, Some(&knowing(start, found(PATH))));
        let mut old = Vec::new();
        for at in [0, 30, 60, 90, 120, 150] {
            sim.run_for(Time::ZERO + Span::from_secs(at) - sim.now());
            old.push(transfer(&mut sim, 10_000).saved == TOO_OLD);
        }
        assert_eq!(old, [false, false, false, false, true, false], "{start}: once, and then it is gone");
        let mut sim = PATH.sim(start, Some(&knowing(start, found(PATH))));
        let seen = [10_000, MB].map(|bytes| transfer(&mut sim, bytes).saved);
        assert_eq!(seen[1], USED, "{start}: it is there for who has a use for it");
    }
}

/// A damaged entry is not used. Absurd but well-formed numbers affect at most the start-up phase.
#[test]
fn a_damaged_memory_file_is_refused() {
    for start in STARTS {
        let name = longhaul_tests_papers::congestion(start).name();
        let cold = transfer(&mut PATH.sim(start, None), MB);
        let max = u64::MAX;
        for (entry, refusal) in [
            ("- - 0,250000,2500000,100000".to_owned(), None),
            ("- - 0,250000,2500000".to_owned(), Some(LoadReason::Numbers)),
            (format!("- - 0,{max},2500000,100000"), Some(LoadReason::Impossible)),
            ("- - 0,0,2500000,100000".to_owned(), Some(LoadReason::Impossible)),
            ("- - 0,250000,0,100000".to_owned(), Some(LoadReason::Impossible)),
            ("- - 0,250000,2500000,0".to_owned(), Some(LoadReason::Impossible)),
            // The load limits age, RTT, rate and threshold to their bounds.
            (format!("- - {max},250000,2500000,100000"), None),
            (format!("- - 0,250000,2500000,{max}"), None),
            (format!("- - 0,250000,{max},100000"), None),
            (format!("0,{max} 0,{max},{max} -"), None),
            ("- 0,0,0 -".to_owned(), None),
        ] {
            let cache = PathCache::default();
            let text = format!("longhaul paths 1\n{SERVER} {name} {entry}\n");
            let loaded = cache.load(Time::ZERO, Span::ZERO, &text);
            assert_eq!(
                loaded.err().map(|error| (error.line, error.reason)),
                refusal.map(|reason| (2, reason)),
                "{text}"
            );
            let done = transfer(&mut PATH.sim(start, Some(&cache)), MB);
            println!("{start}, {entry}: {done:?}");
            assert!(done.seconds < 1.02 * cold.seconds, "{start}, {entry}: {done:?} {cold:?}");
            assert!(refusal.is_none() || done.saved == NOTHING, "{start}, {entry}: {done:?}");
        }
    }
}

/// With the largest metrics that are accepted, no more data is in flight than the peer's window allows.
#[test]
fn a_boastful_memory_is_bounded_by_the_peers_window() {
    for start in STARTS {
        let boast = SavedPath::new(SavedPath::MAX_WINDOW, Rate::MAX, PATH.rtt);
        let mut sim = Sim::new(PATH.setup(start, Some(&knowing(start, boast))).configure(|config| {
            (config.recv_buffer, config.recv_buffer_max) = (200_000, 200_000);
        }));
        let (client, _) = sim.open(Plan::bulk(2 * MB).zeros(), Plan::sink().zeros());
        let mut most = 0;
        for _ in 0..100 {
            sim.run_for(Span::from_millis(5));
            let info = sim.host(0).endpoint.connection(sim.session(client).id).unwrap().info(sim.now());
            most = most.max(info.in_flight.0);
            assert!(info.in_flight.0 <= 200_000, "{start}: {info:?}");
        }
        let info = sim.host(0).endpoint.connection(sim.session(client).id).unwrap().info(sim.now());
        assert_eq!(info.saved_path.map(|saved| saved.used), Some(1), "{start}");
        assert!(most > 100_000, "{start}: {most}");
    }
}
