//! Failures of Swift Start that NASA found (TM-2004-212938), and those that follow from its design.

use longhaul_link::source::Source;
use longhaul_link::statistics::sorted;
use longhaul_link::topology::Duplex;
use longhaul_link::{Limit, LinkConfig, Random};
use longhaul_units::{Rate, Span, Time};
use longhaul_zoo::internal::Pattern;

use crate::swift_start::testbed::{MSS, Run, Start, Testbed};

const MEGABIT: u64 = 1_000_000;
/// Rate of the dummynet bottleneck (table 5), in bit/s. The RTT is 500 ms.
const RATE: u64 = 5 * MEGABIT;
/// Payload capacity in Mb/s.
const CAPACITY: f64 = 5.0 * 1448.0 / 1500.0;
/// Size of an IP packet from iperf in bytes.
const UDP: u32 = 1498;

/// Returns links like dummynet's, with queues of this many packets in both directions.
pub(crate) fn dummynet(slots: u64) -> Duplex {
    let link = LinkConfig::new(Rate::from_bits_per_sec(RATE), Span::from_millis(250)).queue(Limit::Packets(slots));
    Duplex::symmetric(link)
}

fn testbed() -> Testbed {
    Testbed::new(RATE, 500)
}

pub(crate) fn mbit(rate: Rate) -> f64 {
    rate.as_bits_per_sec() as f64 / 1e6
}

/// Adds UDP traffic of `udp` Mb/s in both directions, as a Poisson process if `random`, otherwise with a constant rate
/// and a different phase per run.
pub(crate) fn beside(run: &mut Run, udp: u64, random: bool, number: u64) {
    let rate = Rate::from_bits_per_sec(udp * MEGABIT);
    for (from, to, way) in [(0, 1, 0), (1, 0, 1)] {
        let source = if random {
            Source::poisson(Time::ZERO, rate, UDP, Random::new(number, way))
        } else {
            Source::cbr(Time::ZERO + Span::from_micros(150 * number + 70 * way), rate, UDP)
        };
        run.sim.add_traffic(from, to, source, Time::MAX);
    }
}

/// Returns the sorted rate estimates in Mb/s of 15 runs with gamma 1 and competing UDP traffic. Runs without an
/// estimate are missing.
fn estimates(slots: u64, udp: u64, random: bool) -> Vec<f64> {
    let mut rates = Vec::new();
    for run in 0..15 {
        let mut transfer = testbed().open_over(dummynet(slots), Start::Swift(1), 50_000_000);
        beside(&mut transfer, udp, random, run);
        transfer.until(Span::from_millis(2500));
        rates.extend(transfer.estimate().map(|estimate| mbit(estimate.rate())));
    }
    let rates = sorted(rates);
    println!("{slots} slots, {udp} Mb/s{}: {rates:.1?}", if random { " at random" } else { "" });
    rates
}

/// Figures 8 to 13: with 2 and 4 Mb/s of UDP traffic, which leave 3 and 1 Mb/s, most estimates are 3.3 to 4.6 and 3.8
/// to 4.6 Mb/s, which is near the capacity of 5 Mb/s.
#[test]
fn the_estimate_is_the_capacity_not_what_is_available() {
    for (udp, least) in [(2, 3.3), (4, 3.8)] {
        let rates = estimates(50, udp, false);
        let most = rates.iter().filter(|rate| (least..=4.7).contains(*rate)).count();
        assert!(rates.len() == 15 && most >= 8, "{udp}: {rates:?}");
    }
}

/// Figure 9: if ACKs queue behind other packets on the reverse path, they arrive closer together than the segments,
/// and the estimate far exceeds the capacity. With a spacing of 1 ms, it is 23 Mb/s.
#[test]
fn compressed_acks_make_gross_over_estimates() {
    let rates = estimates(50, 2, true);
    let over = rates.iter().filter(|rate| **rate > 1.5 * CAPACITY).count();
    assert!(over >= 3 && rates.iter().any(|rate| (rate - 23.168).abs() < 0.01), "{rates:?}");
}

/// With a queue of two packets, the last segment of the flight is dropped, so that the receiver acknowledges the third
/// one only when its delayed-ACK timer expires. Whether this is before or after the abort timer, there is no estimate
/// and no pacing.
#[test]
fn the_delayed_ack_timer_means_slow_start() {
    for (ack_delay, ends) in [(100, 1106), (300, 1206)] {
        let bed = Testbed { ack_delay: Span::from_millis(ack_delay), ..testbed() };
        let mut run = bed.open_over(dummynet(2), Start::Swift(1), 1_000_000);
        run.until(Span::from_millis(ends - 2));
        assert_eq!((run.dropped(), run.info().phase), (1, "swift-start-probe"), "{ack_delay}");
        run.until(Span::from_millis(ends + 2));
        assert_eq!((run.estimate(), run.info().phase), (None, "slow-start"), "{ack_delay}");
        assert!(run.info().cwnd.0 <= 6 * MSS);
        run.complete(Span::from_secs(60));
    }
    // The same occurs at random with UDP traffic and a queue of five packets, as in the paper.
    let (few, many) = (estimates(5, 4, true).len(), estimates(50, 4, true).len());
    assert!(few < 15 && many == 15, "{few} and {many} of 15");
}

/// "Multiple-flow observations": UDP traffic has filled a deep queue. The RTT includes the queueing delay, but `delta`
/// does not, so that the estimate grows with the RTT. If the RTT exceeds the first timeout, there is no estimate.
#[test]
fn a_deep_queue_makes_more_of_the_path() {
    for (udp, estimates) in [(12, true), (18, false)] {
        let mut run = testbed().open(Start::Swift(1), 50_000_000);
        let rate = Rate::from_bits_per_sec(udp * MEGABIT);
        run.sim.add_traffic(0, 1, Source::cbr(run.begun, rate, UDP), run.begun + Span::from_millis(500));
        run.until(Span::from_millis(2500));
        println!("{udp} Mb/s: {:?}", run.estimate());
        let found = run.estimate().map(|estimate| (estimate.rtt.as_millis(), estimate.delta.as_millis()));
        assert_eq!(found.is_some_and(|(rtt, delta)| rtt > 1000 && delta == 5), estimates, "{udp} Mb/s: {found:?}");
        assert_eq!(run.info().timeouts > 0, !estimates);
        let calculated = RATE * 500 / 8000;
        assert!(run.estimate().is_none_or(|estimate| estimate.window(1).0 > 2 * calculated));
    }
}

/// Returns the seconds until the first drop in a long transfer, and the window at that time in segments.
fn first_drop(slots: u64, start: Start) -> (f64, u64) {
    let mut run = testbed().open_over(dummynet(slots), start, 50_000_000);
    assert!(run.sim.run(Span::from_secs(60), |sim| sim.link(0).stats().all().dropped_total() > 0));
    let found = ((run.sim.now() - run.begun).as_secs_f64(), run.info().cwnd.0 / MSS);
    println!("{slots} slots, {start:?}: first drop at {:.2} s, window {}", found.0, found.1);
    found
}

/// "Dropped packets occurred earlier during the Swift Start transfers than they did in the regular TCP tests". The
/// difference is seconds if the queue is large enough for the bursts of slow start.
#[test]
fn a_long_transfer_drops_earlier_than_with_slow_start() {
    for slots in [20, 50] {
        let (tcp, _) = first_drop(slots, Start::Tcp);
        for gamma in [1, 4, 8] {
            let (swift, _) = first_drop(slots, Start::Swift(gamma));
            assert!(swift < tcp - 0.25, "{slots} slots, gamma {gamma}: {swift} and {tcp}");
        }
    }
}

/// "Because of the bursts in slow start, the TCP tests dropped packets earlier". With pacing only, the window at the
/// first drop is larger.
#[test]
fn pacing_only_drops_later_at_a_larger_window() {
    for slots in [5, 20, 50] {
        let (tcp, burst) = first_drop(slots, Start::Tcp);
        for pattern in [Pattern::TwoOneTwoOne, Pattern::Even] {
            let (paced, window) = first_drop(slots, Start::Pacing(pattern));
            assert!(paced > tcp && window > burst, "{slots} slots, {pattern:?}");
        }
    }
}

/// Figure 5: "the throughput of Swift Start does not indicate a significant advantage over TCP when the file size is defined large
/// enough such that the router queue overflows".
#[test]
fn a_large_file_gains_little_once_the_queue_overflows() {
    for (rate, delay, bytes) in [(20, 100, 50), (5, 500, 50), (5, 100, 50)] {
        let bed = Testbed::new(rate * MEGABIT, delay);
        let time = |start| {
            let mut links = bed.links();
            links.there = links.there.queue(Limit::Packets(1000));
            let mut run = bed.open_over(links, start, bytes * 1_000_000);
            let time = run.complete(Span::from_secs(1000));
            assert!(run.dropped() > 0);
            time
        };
        let [tcp, swift @ ..] = [Start::Tcp, Start::Swift(1), Start::Swift(4), Start::Swift(8)].map(time);
        println!("{rate} Mb/s, {delay} ms, {bytes} MB: TCP {tcp:.0} s, Swift Start {swift:.0?}");
        assert!(swift.iter().all(|swift| (swift / tcp - 1.0).abs() < 0.06), "{tcp}: {swift:?}");
    }
}
