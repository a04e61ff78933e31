//! The hardened start at gamma 1 after its start: growth goes on where the path has come to hold more, and nowhere else.

use std::sync::Arc;

use longhaul_link::source::Source;
use longhaul_link::topology::{Duplex, Topology};
use longhaul_link::{Limit, LinkConfig, LinkRate, Random, Trace};
use longhaul_sim::Setup;
use longhaul_units::{Rate, Span, Time};

use crate::failures::{beside, dummynet};
use crate::hardened::{open, open_with, path};
use crate::testbed::{MSS, Run};

const RTT: Span = Span::from_millis(500);
const RATE: Rate = Rate::from_bits_per_sec(20_000_000);
/// Segments that 20 Mb/s hold in 500 ms.
const HOLDS: u64 = 833;

/// Two links of 20 Mb/s one behind the other, the second with a queue of so many bandwidth-delay products. Until `end` others have so many
/// Mb/s of that, at a constant rate or at random: they come between the segments of the flight, which are further apart behind it than
/// before.
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

/// What became of a transfer by a time.
#[derive(Debug)]
struct Found {
    /// The window at the beginning of what is looked at, and the most since, in segments.
    before: u64,
    most: u64,
    /// When it was nine tenths of what the path holds, in tenths of a second.
    filled: Option<u64>,
    /// Hundredths of a second for which the law had the window and nothing was lost, and how often growth took over from it then.
    law: u64,
    again: u64,
    /// Packets dropped.
    lost: u64,
}

/// From the second `from` on, for 20 seconds.
fn follow(mut run: Run, from: u64) -> Found {
    run.until(Span::from_secs(from));
    let before = run.info().cwnd.0 / MSS;
    let mut found = Found { before, most: before, filled: None, law: 0, again: 0, lost: 0 };
    let mut in_law = false;
    for hundredths in from * 100..(from + 20) * 100 {
        run.until(Span::from_millis(hundredths * 10));
        let info = run.info();
        found.most = found.most.max(info.cwnd.0 / MSS);
        if found.most >= HOLDS * 9 / 10 {
            found.filled.get_or_insert(hundredths / 10);
        }
        let law = info.phase == "congestion-avoidance" && info.recoveries == 0 && info.timeouts == 0;
        found.law += u64::from(law);
        found.again += u64::from(in_law && info.phase == "slow-start");
        in_law = law;
    }
    found.lost = run.dropped();
    found
}

/// The start with a law, following and not.
fn pair(law: &str) -> [String; 2] {
    ["gamma=1", "gamma=1,follow=off"].map(|options| format!("swift-start-hardened({options}){law}"))
}

/// Others leave the path five seconds after the start: the window holds the pipe within two seconds of that, where the law alone needs more
/// than twice as long. Slow start leads there and no further, and nothing is lost in a queue that holds the round trip.
#[test]
fn growth_goes_on_when_others_leave() {
    // Limited Slow-Start takes a second for 100 segments.
    for (law, by) in [("+new-reno", 70), ("", 70), ("+hstcp", 100)] {
        let [with, without] = pair(law).map(|spec| {
            let end = Time::ZERO + Span::from_secs(5);
            let found = follow(shared(&spec, 1.0, (15, None), end), 5);
            println!("{spec}: {found:?}");
            found
        });
        assert!((400..500).contains(&with.before) && (400..500).contains(&without.before));
        assert!(with.filled.is_some_and(|filled| filled <= by) && with.again == 1 && with.lost == 0, "{law}: {with:?}");
        assert!(without.filled.is_none_or(|filled| filled > 90) && without.again == 0, "{law}: {without:?}");
    }
}

/// On a path that stays as it is, empty or shared, narrow or wide, smooth or not, growth does not go on, and so nothing more is lost.
#[test]
fn growth_does_not_go_on_where_a_path_stays() {
    for law in ["+new-reno", ""] {
        let [spec, _] = pair(law);
        let mut runs = Vec::new();
        for bdps in [0.5, 1.0, 2.0] {
            for (mbit, millis) in [(5, 100), (5, 500), (20, 500), (100, 50)] {
                runs.push((format!("{mbit} Mb/s, {millis} ms"), open(path(mbit, millis, bdps), &spec, 1 << 40)));
            }
            for mbit in [5, 10, 15] {
                let constant = shared(&spec, bdps, (mbit, None), Time::MAX);
                runs.push((format!("beside {mbit} Mb/s, {bdps}"), constant));
                for number in 0..6 {
                    let random = shared(&spec, bdps, (mbit, Some(number)), Time::MAX);
                    runs.push((format!("beside {mbit} Mb/s at random, {bdps}, {number}"), random));
                }
            }
        }
        for number in 0..6 {
            let mut run = open(dummynet(200), &spec, 1 << 40);
            beside(&mut run, 2, true, number);
            runs.push((format!("UDP both ways, {number}"), run));
        }
        // Ten packets each 6 ms, which are a fifth of a millisecond apart: 20 Mb/s.
        let mut bursts = path(20, 500, 1.0);
        let times: String = (0..100).flat_map(|k| (0..10).map(move |n| format!("{}\n", k * 6 + n / 5 + 1))).collect();
        bursts.there.rate = LinkRate::Trace(Arc::new(Trace::parse(&times).unwrap()));
        runs.push(("bursts".to_owned(), open(bursts, &spec, 1 << 40)));
        let found: Vec<_> = runs.into_iter().map(|(name, run)| (name, follow(run, 1))).collect();
        let judged = found.iter().filter(|(_, found)| found.law > 200).count();
        println!("{law}: {judged} of {}: {found:?}", found.len());
        assert!(judged > 50, "{judged}");
        let again: Vec<_> = found.iter().filter(|(_, found)| found.again > 0).collect();
        assert!(again.is_empty(), "{law}: {again:#?}");
    }
}
