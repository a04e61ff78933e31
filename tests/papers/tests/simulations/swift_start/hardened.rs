//! Hardened Swift Start on longhaul's transport without modifications.

use std::sync::Arc;

use longhaul_cc::{BuildParams, Congestion};
use longhaul_link::source::Source;
use longhaul_link::topology::{Duplex, Topology};
use longhaul_link::{Limit, LinkConfig, LinkRate, Random, Trace};
use longhaul_sim::{Plan, Setup, Sim};
use longhaul_units::{Rate, Span, Time};

use crate::swift_start::failures::{beside, dummynet};
use crate::swift_start::testbed::{Estimates, MSS, Run};

/// Returns a path with a queue of `bdps` bandwidth-delay products.
pub(crate) fn path(mbit: u64, millis: u64, bdps: f64) -> Duplex {
    let (rate, rtt) = (Rate::from_bits_per_sec(mbit * 1_000_000), Span::from_millis(millis));
    let queue = rate.bytes_in(rtt).mul_f64(bdps).0;
    Duplex::symmetric(LinkConfig::new(rate, rtt / 2).queue(Limit::Bytes(queue)))
}

/// Opens a transfer of `bytes` bytes under `spec` over `links`.
pub(crate) fn open(links: Duplex, spec: &str, bytes: u64) -> Run {
    open_with(Setup::pair(1, links), spec, bytes, true)
}

pub(crate) fn open_with(setup: Setup, spec: &str, bytes: u64, extensions: bool) -> Run {
    let congestion: Congestion = longhaul_tests_papers::congestion(spec);
    assert_eq!(congestion.build(&BuildParams::default()).name(), spec);
    Run::new(setup, bytes, (Span::ZERO, Span::ZERO), Estimates::default(), |config| {
        (config.congestion, config.extensions) = (congestion.clone(), extensions);
    })
}

/// On a new connection with gamma 1, a transfer of 1 MB takes the sum of handshake, flight, serialisation and one-way
/// delay within 10 %, without loss for any queue. CUBIC with an initial window of ten takes longer and has losses.
#[test]
fn a_megabyte_takes_the_expected_time() {
    for (mbit, millis, limit) in [(5, 500, 3.2), (20, 500, 2.0), (20, 100, 0.75)] {
        for bdps in [1.0, 0.5, 0.25] {
            let time = |spec| {
                let mut run = open(path(mbit, millis, bdps), spec, 1_000_000);
                (run.complete(Span::from_secs(100)), run.dropped())
            };
            let ((own, dropped), (cubic, lost)) = (time("swift-start-hardened(gamma=1)"), time("cubic"));
            println!(
                "{mbit} Mb/s, {millis} ms, {bdps} BDP: {own:.2} s, {dropped} dropped; CUBIC {cubic:.2} s, {lost} dropped"
            );
            assert!(own <= limit && dropped == 0 && own < 0.75 * cubic);
        }
    }
}

/// With default settings, segments have 1208 bytes, the flight contains a path MTU probe, ACKs open the window, and the
/// peer's window is 256 KiB. Both variants nevertheless get an estimate and pace.
#[test]
fn it_measures_with_default_settings() {
    for (mbit, millis) in [(5, 500), (20, 500), (20, 100), (100, 50)] {
        for start in ["swift-start(gamma=1)", "swift-start-hardened(gamma=1)"] {
            let congestion: Congestion = longhaul_tests_papers::congestion(start);
            let setup = Setup::pair(1, path(mbit, millis, 1.0));
            let mut sim = Sim::new(setup.configure(|config| config.congestion = congestion.clone()));
            let (client, _) = sim.open(Plan::bulk(1_000_000).zeros(), Plan::sink().zeros());
            sim.run_for(Span::from_millis(millis) * 2 + Span::from_millis(17));
            let id = sim.session(client).id;
            let info = sim.host(0).endpoint.connection(id).unwrap().info(sim.now());
            assert_eq!(info.phase, "swift-start-paced", "{mbit} Mb/s, {millis} ms, {start}");
            // The flight of the paced round trip is the BDP or the peer's window, whichever is smaller.
            let payload = mbit as f64 * 1e6 / 8.0 * f64::from(info.mss) / f64::from(info.mss + 52);
            let offered = info.peer_window.0 as f64 / millis as f64 * 1e3;
            let rate = info.pacing_rate.unwrap().as_bytes_per_sec() as f64 / payload.min(offered);
            println!("{mbit} Mb/s, {millis} ms, {start}: {rate:.3} of {payload:.0} or {offered:.0} bytes a second");
            assert!((rate - 1.0).abs() < 0.05, "{mbit} Mb/s, {millis} ms, {start}: {rate}");
        }
    }
}

/// Changes the reverse link to deliver ACKs in bunches, one bunch per `every` ms.
fn bunches(mut links: Duplex, every: u64) -> Duplex {
    links.back.rate = LinkRate::Trace(Arc::new(Trace::parse(&format!("{every}\n").repeat(200)).unwrap()));
    links
}

/// Returns the slow-start threshold in segments on a path of 5 Mb/s and 500 ms, whose BDP is 208 segments, and the
/// number of packets dropped during 1 MB.
fn threshold(links: Duplex, spec: &str, extensions: bool, before: impl Fn(&mut Run)) -> (Option<u64>, u64) {
    let mut run = open_with(Setup::pair(1, links), spec, 1_000_000, extensions);
    before(&mut run);
    run.until(Span::from_millis(1700));
    let threshold = run.info().ssthresh.map(|ssthresh| ssthresh.0 / MSS);
    run.complete(Span::from_secs(100));
    (threshold, run.dropped())
}

/// The receiver's ACKs arrive in bunches. With arrival times, the estimate is correct. With ACK spacing, which is all
/// that the paper's variant uses, it is wrong, and bounded only by the RTTs.
#[test]
fn compressed_and_delayed_acks_do_not_mislead_it() {
    let spec = "swift-start-hardened(gamma=1)";
    for every in [1, 3, 7, 20] {
        let links = || bunches(path(5, 500, 0.5), every);
        let (own, dropped) = threshold(links(), spec, true, |_| {});
        println!("every {every} ms: {own:?}, {dropped} dropped");
        assert!(own.is_some_and(|own| (206..=212).contains(&own)) && dropped == 0, "every {every} ms");
    }
    let (paper, _) = threshold(bunches(path(5, 500, 0.5), 3), spec, false, |_| {});
    println!("by ACKs {paper:?}");
    assert!(paper.is_none_or(|paper| !(190..=230).contains(&paper)), "{paper:?}");
}

/// Returns the sorted thresholds in segments of 15 runs with Poisson UDP traffic of this many Mb/s in both
/// directions.
fn thresholds(spec: &str, udp: u64) -> Vec<u64> {
    let run = |number| {
        let mut run = open(dummynet(50), spec, 50_000_000);
        beside(&mut run, udp, true, number);
        run.until(Span::from_millis(1650));
        run.info().ssthresh.filter(|_| run.dropped() == 0).map(|ssthresh| ssthresh.0 / MSS)
    };
    let mut thresholds: Vec<_> = (0..15).filter_map(run).collect();
    thresholds.sort_unstable();
    println!("{udp} Mb/s, {spec}: {thresholds:?}");
    thresholds
}

/// With Poisson UDP traffic in both directions, the paper's estimates are up to 23 Mb/s. The hardened variant's
/// thresholds do not exceed the BDP plus half of the queue.
#[test]
fn it_never_estimates_more_than_the_path() {
    for udp in [2, 4] {
        let found = thresholds("swift-start-hardened(follow=off)", udp);
        assert!(found.len() >= 10 && found.iter().all(|segments| *segments <= 208 + 25), "{found:?}");
    }
}

/// The narrow link of 5 Mb/s is followed by a link of 10 Mb/s with 6 Mb/s of Poisson UDP traffic, which changes the
/// spacing of segments. Nine gaps give a better estimate than three.
#[test]
fn ten_segments_tell_more_than_four() {
    let error = |spec: &str| {
        let run = |number| {
            let mut topology = Topology::new();
            let (from, to, router, noise) = (topology.host(), topology.host(), topology.router(), topology.host());
            let half = Span::from_millis(125);
            let link =
                |mbit: u64| LinkConfig::new(Rate::from_bits_per_sec(mbit * 1_000_000), half).queue(Limit::Packets(100));
            topology.duplex(from, router, Duplex { there: link(5), back: LinkConfig::delay(half) });
            topology.duplex(router, to, Duplex { there: link(10), back: LinkConfig::delay(half) });
            topology.duplex(noise, router, Duplex::delay(Span::ZERO));
            let mut run = open_with(Setup::new(1, topology), spec, 50_000_000, true);
            let random = Random::new(number, 7);
            let source = Source::poisson(Time::ZERO, Rate::from_bits_per_sec(6_000_000), 1498, random);
            run.sim.add_traffic(noise as usize, to as usize, source, Time::MAX);
            run.until(Span::from_millis(1700));
            run.info().ssthresh.map_or(208.0, |ssthresh| (ssthresh.0 as f64 / MSS as f64 / 208.0 - 1.0).abs())
        };
        (0..40).map(run).sum::<f64>() / 40.0
    };
    let (ten, four) = (error("swift-start-hardened(follow=off)"), error("swift-start-hardened(iw=4,follow=off)"));
    println!("mean error with ten {ten:.3}, with four {four:.3}");
    assert!(ten < 0.8 * four, "{ten} {four}");
}

/// The threshold equals the BDP, so that slow start does not overshoot: with a queue of 0.25 BDP, the start-up phase
/// loses nothing, whereas the paper's variant loses a window of data.
#[test]
fn the_third_round_does_not_double_past_the_pipe() {
    let lost = |spec| {
        let mut run = open(path(20, 500, 0.25), spec, 50_000_000);
        run.until(Span::from_secs(5));
        (run.dropped(), run.segments_by(Span::from_secs(5)))
    };
    let (own, paper) = (lost("swift-start-hardened+new-reno"), lost("swift-start+new-reno"));
    println!("{own:?} {paper:?}");
    assert!(own.0 == 0 && paper.0 > 300 && own.1 > 5000, "{own:?} {paper:?}");
}

/// The path has 8 Mb/s during the flight, and 20 Mb/s from the paced round on. As long as the window is below the
/// threshold, the threshold follows the capacity, so that the path is filled sooner.
#[test]
fn it_goes_on_estimating() {
    let later = |spec: &str| {
        let mut run = open(path(8, 500, 2.0), spec, 50_000_000);
        run.until(Span::from_millis(1100));
        run.sim.reconfigure(0, path(20, 500, 1.0).there).unwrap();
        run.until(Span::from_millis(4000));
        (run.info().ssthresh.map_or(0, |ssthresh| ssthresh.0 / MSS), run.segments_by(Span::from_secs(4)))
    };
    let (with, without) = (later("swift-start-hardened+new-reno"), later("swift-start-hardened(follow=off)+new-reno"));
    println!("{with:?} {without:?}");
    assert!((800..=860).contains(&with.0) && without.0 < 350, "{with:?} {without:?}");
    assert!(with.1 > without.1 * 5 / 4, "{with:?} {without:?}");
}
