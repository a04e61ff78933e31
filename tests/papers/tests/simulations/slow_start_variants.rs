//! Slow-start variants that adapt their increase to measurements, over simulated links: SUSS, SEARCH, Rapid Start and
//! HyStart compared with slow start.

use longhaul_link::topology::Duplex;
use longhaul_link::{Limit, LinkConfig};
use longhaul_sim::{Plan, SessionId, Setup, Sim, full_segments};
use longhaul_tcp::Info;
use longhaul_units::{Rate, Span};

const MEGABYTE: u64 = 1_000_000;

/// A path of `mbit` Mb/s and `rtt` ms, with a queue of `bdps` bandwidth-delay products.
#[derive(Clone, Copy)]
struct Link {
    mbit: u64,
    rtt: u64,
    bdps: u64,
}

impl Link {
    const fn bdp(self) -> u64 {
        self.mbit * self.rtt * 125
    }

    fn open(self, congestion: &str, bytes: u64) -> (Sim, SessionId, SessionId) {
        let there = LinkConfig::new(Rate::from_bits_per_sec(self.mbit * 1_000_000), Span::from_micros(self.rtt * 500))
            .queue(Limit::Bytes(self.bdps * self.bdp()));
        let back = LinkConfig::delay(there.delay);
        let setup = Setup::pair(7, Duplex { there, back }).configure(|config| {
            full_segments(config);
            config.congestion = longhaul_tests_papers::congestion(congestion);
        });
        let mut sim = Sim::new(setup);
        let (sender, receiver) = sim.open(Plan::bulk(bytes).zeros(), Plan::sink().zeros());
        (sim, sender, receiver)
    }

    /// Returns the seconds from the SYN until 1 MB has been read, and the number of bytes lost.
    fn megabyte(self, congestion: &str) -> (f64, u64) {
        let (mut sim, sender, receiver) = self.open(congestion, MEGABYTE);
        let done =
            sim.run(Span::from_secs(60), |sim| sim.find(receiver).is_some_and(|session| session.read >= MEGABYTE));
        assert!(done, "{congestion}: no megabyte in a minute");
        (sim.now().since(sim.session(sender).opened_at).as_secs_f64(), info(&sim, sender).bytes_lost)
    }
}

fn info(sim: &Sim, id: SessionId) -> Info {
    let session = sim.session(id);
    sim.host(0).endpoint.connection(session.id).unwrap().info(sim.now())
}

/// Returns the sender's state at the end of its start-up phases, and the number of bytes lost until 1 s later, when
/// overflows have been detected.
fn at_the_end(link: Link, congestion: &str, starts: &[&str]) -> (Info, u64) {
    let (mut sim, sender, _) = link.open(congestion, u64::MAX);
    sim.run_for(Span::from_millis(link.rtt * 2));
    let done = sim.run(Span::from_secs(60), |sim| !starts.contains(&info(sim, sender).phase));
    assert!(done, "{congestion} starts for a minute");
    let end = info(&sim, sender);
    sim.run_for(Span::from_secs(1));
    (end, info(&sim, sender).bytes_lost)
}

/// SIGCOMM 2024, abstract: flows below 5 MB over more than 50 ms take 20 % less time. SUSS saves two of the round
/// trips of slow start.
#[test]
fn suss_is_sooner_by_a_fifth_over_long_round_trips() {
    for (mbit, rtt) in [(100, 100), (50, 200), (100, 200), (50, 300)] {
        let link = Link { mbit, rtt, bdps: 1 };
        let (plain, _) = link.megabyte("slow-start+cubic");
        let (suss, lost) = link.megabyte("suss+cubic");
        assert!(suss <= 0.8 * plain, "{mbit} Mb/s, {rtt} ms: {suss} s beside {plain} s");
        assert_eq!(lost, 0, "{mbit} Mb/s, {rtt} ms");
    }
}

/// Rapid Start triples the window per round trip: 10, 30, 90, 270 and 810 segments, whereas slow start takes 10, 20,
/// 40, 80, 160, 320 and 640 segments for 1 MB. With an initial window of 20, which the draft allows, it takes one round
/// trip less.
#[test]
fn rapid_start_is_sooner_by_two_rounds_or_three() {
    for (mbit, rtt) in [(100, 100), (50, 200), (100, 200), (50, 300)] {
        let link = Link { mbit, rtt, bdps: 1 };
        let (plain, _) = link.megabyte("slow-start+cubic");
        let (three, lost) = link.megabyte("rapid-start+cubic+rapid-start-recovery");
        let (twenty, lost_of_twenty) = link.megabyte("rapid-start(iw=20)+cubic+rapid-start-recovery");
        assert!(three <= 0.8 * plain, "{mbit} Mb/s, {rtt} ms: {three} s beside {plain} s");
        assert!(twenty + 0.4e-3 * rtt as f64 <= three, "{mbit} Mb/s, {rtt} ms: {twenty} s beside {three} s");
        assert_eq!((lost, lost_of_twenty), (0, 0), "{mbit} Mb/s, {rtt} ms");
    }
}

/// On a path whose RTT is too short, or whose rate is too low for four times the window, SUSS equals slow start.
#[test]
fn suss_is_slow_start_where_it_has_no_room() {
    for (mbit, rtt) in [(100, 8), (3, 100)] {
        let link = Link { mbit, rtt, bdps: 4 };
        let (plain, _) = link.megabyte("hystart+cubic");
        let (suss, _) = link.megabyte("suss+cubic");
        assert!((suss / plain - 1.0).abs() < 0.05, "{mbit} Mb/s, {rtt} ms: {suss} s beside {plain} s");
    }
}

const SLOW: Link = Link { mbit: 20, rtt: 100, bdps: 8 };

/// SEARCH leaves slow start above the capacity of the path and before the queue overflows: at five to six times the
/// capacity, because it looks back over 3.5 round trips. Slow start has losses on this path.
#[test]
fn search_ends_above_the_capacity_and_before_a_loss() {
    for exit in ["plain", "drain", "roll-back"] {
        for rule in ["sent", "delivered"] {
            let name = format!("search(rule={rule},exit={exit})+cubic");
            let (end, lost) = at_the_end(SLOW, &name, &["slow-start"]);
            assert_eq!(lost, 0, "{name}");
            let above = if exit == "roll-back" { 1 } else { 2 };
            assert!(end.cwnd.0 > above * SLOW.bdp(), "{name}: {} below the capacity", end.cwnd);
            let phase = if exit == "drain" { "drain" } else { "congestion-avoidance" };
            assert_eq!(end.phase, phase, "{name}");
        }
    }
    let (plain, lost) = at_the_end(SLOW, "slow-start+cubic", &["slow-start"]);
    assert!(lost > 0 && plain.phase == "recovery");
}

/// With its draining option, SEARCH reduces the window to the capacity of the path, without loss and with an empty
/// queue.
#[test]
fn a_search_that_drains_leaves_the_capacity() {
    let (end, lost) = at_the_end(SLOW, "search+cubic", &["slow-start", "drain"]);
    let share = end.cwnd.0 as f64 / SLOW.bdp() as f64;
    assert_eq!(lost, 0);
    assert!((0.9..1.2).contains(&share), "{share} of the capacity");
}

/// HyStart ends in the round whose first ACKs indicate a queue. That is one round after the queue begins, and the
/// window doubles in between. If the queue is large enough for this, nothing is lost.
#[test]
fn hystart_ends_a_round_after_the_queue_begins() {
    let link = Link { bdps: 3, ..SLOW };
    let (end, lost) = at_the_end(link, "hystart+cubic", &["slow-start"]);
    assert_eq!((lost, end.phase), (0, "congestion-avoidance"));
    assert!(end.cwnd.0 > link.bdp() && end.cwnd.0 < 4 * link.bdp(), "{}", end.cwnd);
    assert_eq!(end.ssthresh.map(|ssthresh| ssthresh.0 / 1448), Some(end.cwnd.0 / 1448));
}

/// The recovery of Rapid Start removes its overshoot: the subsequent window fits the path, and no further loss occurs
/// immediately.
#[test]
fn rapid_starts_recovery_lands_below_what_fits() {
    let link = Link { bdps: 1, ..SLOW };
    let (mut sim, sender, _) = link.open("rapid-start+cubic+rapid-start-recovery", u64::MAX);
    let lost = sim.run(Span::from_secs(60), |sim| info(sim, sender).recoveries > 0);
    assert!(lost, "nothing was lost");
    let over = sim.run(Span::from_secs(60), |sim| info(sim, sender).phase == "congestion-avoidance");
    assert!(over, "never repaired");
    // Path and queue hold two bandwidth-delay products, and recovery should leave 0.7 of that.
    let share = info(&sim, sender).cwnd.as_f64() / (2 * link.bdp()) as f64;
    assert!((0.45..0.75).contains(&share), "{share}");
    assert_eq!(info(&sim, sender).timeouts, 0);
    sim.run_for(Span::from_millis(5 * link.rtt));
    assert_eq!(info(&sim, sender).recoveries, 1);
}
