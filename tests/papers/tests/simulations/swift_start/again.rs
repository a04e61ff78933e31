//! Hardened Swift Start with gamma 1 after its start-up phase: slow start resumes if and only if the available capacity
//! of the path increases.

use std::sync::Arc;

use longhaul_link::source::Source;
use longhaul_link::topology::{Duplex, Topology};
use longhaul_link::{Limit, LinkConfig, LinkRate, Random, Trace};
use longhaul_sim::Setup;
use longhaul_tests_papers::long;
use longhaul_units::{Rate, Span, Time};

use crate::swift_start::failures::{beside, dummynet};
use crate::swift_start::hardened::{open, open_with, path};
use crate::swift_start::testbed::{MSS, Run};

const RTT: Span = Span::from_millis(500);
const RATE: Rate = Rate::from_bits_per_sec(20_000_000);
/// BDP of 20 Mb/s and 500 ms in segments.
const HOLDS: u64 = 833;

/// Starts a transfer over two links of 20 Mb/s in a row, the second with a queue of `bdps` bandwidth-delay products.
/// Until `end`, cross traffic uses `mbit` Mb/s of the second link, at a constant rate or as a Poisson process. Its
/// packets arrive between the segments of the flight and increase their spacing.
fn shared(spec: &str, bdps: f64, (mbit, random): (u64, Option<u64>), end: Time) -> Run {
    let mut topology = Topology::new();
    let (from, to, router, noise) = (topology.host(), topology.host(), topology.router(), topology.host());
    let queue = Limit::Bytes(RATE.bytes_in(RTT).mul_f64(bdps).0);
    let (link, back) = (LinkConfig::new(RATE, RTT / 4), LinkConfig::delay(RTT / 4));
    topology.duplex(router, to, Duplex { there: link.clone().queue(queue), back: back.clone() });
    topology.duplex(from, router, Duplex { there: link.queue(Limit::Packets(100_000)), back });
    topology.duplex(noise, router, Duplex::delay(Span::ZERO));
    let mut run = open_with(Setup::new(1, topology), spec, 1 << 40, true);
    let rate = Rate::from_bits_per_sec(mbit * 1_000_000);
    let source = match random {
        Some(number) => Source::poisson(Time::ZERO, rate, 1498, Random::new(number, 3)),
        None => Source::cbr(Time::ZERO, rate, 1498),
    };
    run.sim.add_traffic(noise as usize, to as usize, source, end);
    run
}

/// State of a transfer.
#[derive(Debug)]
struct Found {
    /// Window in segments at the start of the observation. `most` is its maximum since.
    before: u64,
    most: u64,
    /// Time at which the window reached nine tenths of the BDP, in tenths of a second.
    filled: Option<u64>,
    /// Hundredths of a second in congestion avoidance without losses. `again` counts the transitions from there to slow
    /// start.
    avoidance: u64,
    again: u64,
    lost: u64,
}

/// Observes a run for 20 seconds, beginning `from` seconds after its start.
fn follow(mut run: Run, from: u64) -> Found {
    run.until(Span::from_secs(from));
    let before = run.info().cwnd.0 / MSS;
    let mut found = Found { before, most: before, filled: None, avoidance: 0, again: 0, lost: 0 };
    let mut was_avoidance = false;
    for hundredths in from * 100..(from + 20) * 100 {
        run.until(Span::from_millis(hundredths * 10));
        let info = run.info();
        found.most = found.most.max(info.cwnd.0 / MSS);
        if found.most >= HOLDS * 9 / 10 {
            found.filled.get_or_insert(hundredths / 10);
        }
        let is_avoidance = info.phase == "congestion-avoidance" && info.recoveries == 0 && info.timeouts == 0;
        found.avoidance += u64::from(is_avoidance);
        found.again += u64::from(was_avoidance && info.phase == "slow-start");
        was_avoidance = is_avoidance;
    }
    found.lost = run.dropped();
    found
}

/// Returns the start-up scheme combined with `avoidance`, with and without `follow`.
fn pair(avoidance: &str) -> [String; 2] {
    ["gamma=1", "gamma=1,follow=off"].map(|options| format!("swift-start-hardened({options}){avoidance}"))
}

/// Cross traffic ends five seconds after the start. Two seconds later, the window fills the path, which takes
/// congestion avoidance alone more than twice as long. Slow start ends at this window, and nothing is lost in a queue
/// of one BDP.
#[test]
fn slow_start_goes_on_when_others_leave() {
    // Limited Slow-Start takes 1 s per 100 segments.
    for (algorithm, by) in [("+new-reno", 70), ("", 70), ("+hstcp", 100)] {
        let [with, without] = pair(algorithm).map(|spec| {
            let end = Time::ZERO + Span::from_secs(5);
            let found = follow(shared(&spec, 1.0, (15, None), end), 5);
            println!("{spec}: {found:?}");
            found
        });
        assert!((400..500).contains(&with.before) && (400..500).contains(&without.before));
        assert!(
            with.filled.is_some_and(|filled| filled <= by) && with.again == 1 && with.lost == 0,
            "{algorithm}: {with:?}"
        );
        assert!(without.filled.is_none_or(|filled| filled > 90) && without.again == 0, "{algorithm}: {without:?}");
    }
}

/// On a path whose capacity does not change, idle or shared, narrow or wide, smooth or bursty, slow start does not
/// resume, and no additional packets are lost.
#[test]
fn slow_start_does_not_go_on_where_a_path_stays() {
    let numbers = if long() { 6 } else { 2 };
    for algorithm in ["+new-reno", ""] {
        let [spec, _] = pair(algorithm);
        let mut runs = Vec::new();
        for bdps in [0.5, 1.0, 2.0] {
            for (mbit, millis) in [(5, 100), (5, 500), (20, 500), (100, 50)] {
                runs.push((format!("{mbit} Mb/s, {millis} ms"), open(path(mbit, millis, bdps), &spec, 1 << 40)));
            }
            for mbit in [5, 10, 15] {
                let constant = shared(&spec, bdps, (mbit, None), Time::MAX);
                runs.push((format!("beside {mbit} Mb/s, {bdps}"), constant));
                for number in 0..numbers {
                    let random = shared(&spec, bdps, (mbit, Some(number)), Time::MAX);
                    runs.push((format!("beside {mbit} Mb/s at random, {bdps}, {number}"), random));
                }
            }
        }
        for number in 0..numbers {
            let mut run = open(dummynet(200), &spec, 1 << 40);
            beside(&mut run, 2, true, number);
            runs.push((format!("UDP both ways, {number}"), run));
        }
        // Bursts of ten packets every 6 ms, spaced by 0.2 ms: 20 Mb/s on average.
        let mut bursts = path(20, 500, 1.0);
        let times: String = (0..100).flat_map(|k| (0..10).map(move |n| format!("{}\n", k * 6 + n / 5 + 1))).collect();
        bursts.there.rate = LinkRate::Trace(Arc::new(Trace::parse(&times).unwrap()));
        runs.push(("bursts".to_owned(), open(bursts, &spec, 1 << 40)));
        let found: Vec<_> = runs.into_iter().map(|(name, run)| (name, follow(run, 1))).collect();
        let judged = found.iter().filter(|(_, found)| found.avoidance > 200).count();
        println!("{algorithm}: {judged} of {}: {found:?}", found.len());
        assert!(judged > 3 * found.len() / 5, "{judged}");
        let again: Vec<_> = found.iter().filter(|(_, found)| found.again > 0).collect();
        assert!(again.is_empty(), "{algorithm}: {again:#?}");
    }
}
