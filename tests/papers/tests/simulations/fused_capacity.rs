//! Bandwidth estimation (BE) fused with TCPProbe in transfers over simulated links: estimates of the narrow link's
//! capacity after each ACK by BE, by packet pairs, and by both.

use std::sync::{Arc, Mutex};

use longhaul_cc::internal::TcpProbe;
use longhaul_cc::{Congestion, Demands, observed};
use longhaul_link::source::Source;
use longhaul_link::topology::{Duplex, dumbbell};
use longhaul_link::{Limit, LinkConfig, Loss, Random, Step};
use longhaul_sim::{Plan, Setup, Sim};
use longhaul_tests_papers::long;
use longhaul_units::{Rate, Span, Time};
use longhaul_zoo::internal::FusedCapacity;

/// The narrow link of Gerla et al., PFLDnet 2006.
const CAPACITY: Rate = Rate::from_bits_per_sec(80_000_000);
const RTT: Span = Span::from_millis(133);

/// Estimates after an ACK, in Mb/s of IP packets.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Seconds since the start.
    at: f64,
    be: f64,
    fused: f64,
    fused_converged: bool,
    /// Estimate by packet pairs; 0 before the first pair.
    pairs: f64,
    pairs_converged: bool,
}

/// Log of estimates that a test can read.
type Log = Arc<Mutex<Vec<Known>>>;

/// Returns `algorithm` with an observer that logs the estimates after each ACK.
fn watch(algorithm: &str, log: &Log) -> Congestion {
    let (log, filters) = (Arc::clone(log), Mutex::new((FusedCapacity::default(), TcpProbe::default())));
    let mut wants = Demands::default();
    (wants.pairs, wants.arrival_times) = (true, true);
    observed(longhaul_tests_papers::congestion(algorithm), wants, move |event, path, _| {
        let (fused, probe) = &mut *filters.lock().unwrap();
        fused.observe(event, path);
        if let Some(pair) = &event.pair {
            probe.on_pair(pair, event.now);
        }
        let mbit = |rate: Option<Rate>| rate.map_or(0.0, |rate| rate.as_bits_per_sec() as f64 * 1e-6);
        log.lock().unwrap().push(Known {
            at: event.now.since(Time::ZERO).as_secs_f64(),
            be: fused.be() * 8e-6 * 1500.0 / path.mss.as_f64(),
            fused: mbit(fused.capacity()),
            fused_converged: fused.converged(),
            pairs: mbit(probe.capacity()),
            pairs_converged: probe.converged(),
        });
    })
}

/// Returns the narrow link of Gerla et al. with a queue of 150 kB.
fn narrow() -> LinkConfig {
    LinkConfig::new(CAPACITY, RTT / 2).queue(Limit::Bytes(150_000))
}

/// Returns the estimates of a transfer with `algorithm` after each ACK, while Poisson cross traffic takes a fraction of
/// the narrow link.
fn run(narrow: LinkConfig, algorithm: &str, load: f64, seed: u64, seconds: u64) -> Vec<Known> {
    let log = Log::default();
    transfer(narrow, watch(algorithm, &log), load, seed, seconds);
    let log = log.lock().unwrap().clone();
    assert!(log.len() > 1000 && log.iter().any(|known| known.pairs > 0.0), "{}", log.len());
    log
}

/// Runs a transfer, and returns the goodput in Mb/s and the number of pairs measured.
fn transfer(narrow: LinkConfig, algorithm: Congestion, load: f64, seed: u64, seconds: u64) -> (f64, u64) {
    let back = LinkConfig::delay(RTT / 2);
    let fast = || LinkConfig::new(Rate::from_bits_per_sec(1_000_000_000), Span::from_micros(10));
    let access = || (0..2).map(|_| Duplex::symmetric(fast()));
    let net = dumbbell(Duplex { there: narrow, back }, access(), access());
    let setup = Setup::new(seed, net.topology).configure(|config| {
        (config.base_plpmtu, config.max_plpmtu) = (1472, 1472);
        (config.recv_buffer, config.recv_buffer_max, config.send_buffer) = (16 << 20, 16 << 20, 16 << 20);
        config.congestion = algorithm.clone();
    });
    let mut sim = Sim::new(setup);
    let host = |of: &[u32], which: usize| of[which] as usize;
    if load > 0.0 {
        let others = Source::poisson(Time::ZERO, CAPACITY.mul_f64(load), 500, Random::new(seed, 99));
        sim.add_traffic(host(&net.left, 1), host(&net.right, 1), others, Time::MAX);
    }
    let (plan, sink) = (Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
    let (sender, receiver) = sim.open_between(host(&net.left, 0), host(&net.right, 0), plan, sink);
    sim.run_for(Span::from_secs(seconds));
    let id = sim.session(sender).id;
    let info = sim.host(host(&net.left, 0)).endpoint.connection(id).unwrap().info(sim.now());
    let pairs = info.pairs.map_or(0, |pairs| pairs.measured);
    (sim.session(receiver).read as f64 * 8e-6 / seconds as f64, pairs)
}

fn off(mbit: f64) -> f64 {
    (mbit / 80.0 - 1.0).abs()
}

/// Returns the time in seconds at which `is` holds for the first time.
fn first(log: &[Known], is: impl Fn(&Known) -> bool) -> f64 {
    log.iter().find(|known| is(known)).map_or(f64::INFINITY, |known| known.at)
}

/// Returns the maximum of the values `of` after `since` seconds.
fn worst(log: &[Known], since: f64, of: impl Fn(&Known) -> f64) -> f64 {
    log.iter().filter(|known| known.at >= since).map(of).fold(0.0, f64::max)
}

/// For a flow without competition, the fused estimate is within 5 % from the first pair on, and converges in less than
/// a quarter of TCPProbe's time. BE repeatedly deviates by more than a fifth.
#[test]
fn alone_it_is_right_at_once_and_soon_sure() {
    for algorithm in ["cubic", "new-reno", "vegas", "westwood-bbe", "bbr"] {
        let log = run(narrow(), algorithm, 0.0, 1, 30);
        let pair = first(&log, |known| known.pairs > 0.0);
        let (fused, pairs) = (first(&log, |known| known.fused_converged), first(&log, |known| known.pairs_converged));
        let be = worst(&log, fused, |known| off(known.be));
        println!("{algorithm}: first pair {pair:.2} s, sure {fused:.2} s, TCPProbe {pairs:.2} s, BE off by {be:.2}");
        let wrong =
            log.iter().filter(|known| known.at >= pair).max_by(|a, b| off(a.fused).total_cmp(&off(b.fused))).unwrap();
        assert!(off(wrong.fused) <= 0.05, "{algorithm}: {wrong:?}");
        assert!(fused <= 1.5 && fused < 0.25 * pairs && be > 0.2, "{algorithm}: {fused} {pairs} {be}");
    }
}

/// With cross traffic on half of the link, the fused estimate is within 10 % from its convergence on, whereas BE
/// follows the flow's share of the link.
#[test]
fn beside_others_it_is_the_link_and_not_the_share() {
    for (algorithm, seed) in [("cubic", 1), ("new-reno", 2), ("vegas", 3), ("westwood-bbe", 4), ("bbr", 1)] {
        let log = run(narrow(), algorithm, 0.5, seed, 30);
        let (fused, pairs) = (first(&log, |known| known.fused_converged), first(&log, |known| known.pairs_converged));
        let off_by = worst(&log, fused, |known| off(known.fused));
        println!("{algorithm}: sure {fused:.2} s, TCPProbe {pairs:.2} s, off by {off_by:.3}");
        assert!(fused <= 8.0 && off_by <= 0.1, "{algorithm}: {fused} {off_by}");
        assert!(worst(&log, 10.0, |known| known.be) < 50.0, "{algorithm}");
    }
}

/// After 20 s, the rate of the link is halved or doubled. Both estimates follow a doubling within 1 s. The fused
/// estimate follows a halving within 3 s, TCPProbe not within 40 s.
#[test]
fn a_change_of_the_link_is_followed() {
    for algorithm in ["cubic", "westwood-bbe"] {
        for to in [40, 160] {
            let mut link = narrow();
            let rate = Some(Rate::from_bits_per_sec(to * 1_000_000));
            link.steps = vec![Step { at: Time::ZERO + Span::from_secs(20), rate, delay: None }];
            let log = run(link, algorithm, 0.0, 1, 60);
            let there = |mbit: f64| (mbit / to as f64 - 1.0).abs() <= 0.05;
            let fused = first(&log, |known| known.at > 20.0 && there(known.fused)) - 20.0;
            let pairs = first(&log, |known| known.at > 20.0 && there(known.pairs)) - 20.0;
            println!("{algorithm} to {to}: {fused:.2} s, TCPProbe {pairs:.2} s");
            assert!(fused <= if to > 80 { 1.0 } else { 3.0 }, "{algorithm} to {to}: {fused}");
            assert_eq!(pairs <= 40.0, to > 80, "{algorithm} to {to}: {pairs}");
            assert!(log.iter().filter(|known| known.at > 25.0).all(|known| there(known.fused)), "{algorithm} to {to}");
        }
    }
}

/// If TCPW-BBE takes the capacity from packet pairs, it requests pairs, and its goodput does not decrease: neither
/// without competition but with random losses, nor with cross traffic.
#[test]
fn bbe_takes_its_capacity_from_where_it_is_told() {
    let cases = [(0.5, 5e-5), (0.0, 1e-3), (0.0, 5e-5)];
    for (load, loss) in cases.into_iter().take(if long() { cases.len() } else { 1 }) {
        let of = |source: &str| {
            let algorithm = format!("westwood-bbe(capacity={source})");
            // RTTs differ, because the initial burst overflows the queue on some paths and not on others.
            let seeds = if long() { 8 } else { 4 };
            let runs = (1..=seeds).map(|seed| {
                let mut link = narrow().loss(Loss::Uniform(loss));
                link.delay += Span::from_millis(seed * 3);
                transfer(link, longhaul_tests_papers::congestion(&algorithm), load, seed, 60)
            });
            runs.fold((0.0, 0), |sum, run| (sum.0 + run.0 / seeds as f64, sum.1 + run.1))
        };
        let (be, pairs, fused) = (of("be"), of("pairs"), of("fused"));
        println!("load {load}, loss {loss}: {be:.2?} {pairs:.2?} {fused:.2?}");
        assert!(be.1 == 0 && pairs.1 > 400 && fused.1 > 400, "{be:?} {pairs:?} {fused:?}");
        assert!(pairs.0 >= 0.95 * be.0 && fused.0 >= 0.95 * be.0, "{be:?} {pairs:?} {fused:?}");
    }
}
