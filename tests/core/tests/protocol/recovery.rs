//! Loss recovery over simulated links for many round trips, in which errors would accumulate.

use longhaul_link::{Limit, LinkConfig, Loss, Outage, OutageKind};
use longhaul_sim::{Content, Plan, SessionId, Setup, Sim};
use longhaul_tcp::Info;
use longhaul_units::{Rate, Span, Time};

fn link(mbit: u64, rtt_millis: u64, queue: u64) -> LinkConfig {
    let rate = Rate::from_bits_per_sec(mbit * 1_000_000);
    LinkConfig::new(rate, Span::from_micros(rtt_millis * 500)).queue(Limit::Bytes(queue))
}

/// Starts an endless transfer over `there`; the reverse path has only a delay.
fn bulk(seed: u64, there: LinkConfig) -> (Sim, SessionId, SessionId) {
    let back = LinkConfig::delay(there.delay);
    let mut sim = Sim::new(Setup::pair(seed, longhaul_link::topology::Duplex { there, back }));
    let mut plan = Plan::bulk(u64::MAX);
    plan.content = Content::Zeros;
    let mut sink = Plan::sink();
    sink.content = Content::Zeros;
    let (sender, receiver) = sim.open(plan, sink);
    (sim, sender, receiver)
}

fn info(sim: &Sim, sender: SessionId) -> Info {
    sim.host(sender.host).endpoint.connection(sim.session(sender).id).unwrap().info(sim.now())
}

/// An overflowing queue drops a large part of a window. Recovery takes several round trips without spurious
/// retransmissions, and without a timeout, although the RTO does not reflect the increased RTT yet.
#[test]
fn an_overflowing_queue_is_repaired_once() {
    for (mbit, rtt, queue) in [(20, 500, 1_250_000), (40, 600, 500_000), (50, 100, 625_000), (100, 133, 150_000)] {
        let (mut sim, sender, receiver) = bulk(7, link(mbit, rtt, queue));
        sim.run_for(Span::from_secs(30));
        let info = info(&sim, sender);
        let name = format!("{mbit} Mb/s, {rtt} ms");
        assert!((1..10).contains(&info.recoveries), "{name}: {}", info.recoveries);
        assert_eq!((info.spurious_recoveries, info.timeouts), (0, 0), "{name}");
        assert!(info.bytes_retransmitted * 40 < info.bytes_sent, "{name}: {}", info.bytes_retransmitted);
        assert!(sim.session(receiver).read * 8 / 30 > mbit * 700_000, "{name}: {}", sim.session(receiver).read);
    }
}

/// Without reordering, every segment that is marked lost is lost. Recovery episodes follow each other closely, and ACKs
/// of the retransmissions of one episode must not be attributed to the next.
#[test]
fn random_losses_are_not_taken_for_spurious() {
    for seed in 1..5 {
        let (mut sim, sender, _) = bulk(seed, link(10, 50, 62_500).loss(Loss::Uniform(0.02)));
        sim.run_for(Span::from_secs(20));
        let info = info(&sim, sender);
        assert!(info.recoveries > 20, "{}", info.recoveries);
        assert_eq!(info.spurious_recoveries, 0, "seed {seed}");
    }
}

/// A short outage loses much or all of a flight. The losses are recovered, and the rate is restored within two seconds.
#[test]
fn an_outage_is_over_soon_after_its_end() {
    let at = |millis| Time::ZERO + Span::from_millis(millis);
    for millis in (150..=400).step_by(50) {
        let mut there = link(50, 100, 625_000);
        there.outages = vec![Outage { from: at(5_000), until: at(5_000 + millis), kind: OutageKind::Lose }];
        let (mut sim, sender, receiver) = bulk(7, there);
        sim.run_for(Span::from_millis(7_000 + millis));
        let before = sim.session(receiver).read;
        sim.run_for(Span::from_secs(2));
        let rate = (sim.session(receiver).read - before) * 8 / 2;
        assert!(rate > 25_000_000, "after {millis} ms: {rate} bit/s, {:?}", info(&sim, sender));
    }
}

/// The last five segments are lost. The tail loss probe repeats one of them (RFC 8985, section 7), its ACK shows that
/// the others are missing, and they are retransmitted without the retransmission timer. The SACK of the probe is above
/// a gap and echoes an old timestamp, but must not be attributed to the original transmission.
#[test]
fn a_lost_tail_is_repaired_without_the_timer() {
    const SEGMENTS: u64 = 30;
    let there = link(20, 100, 250_000).loss(Loss::List((27..=31).collect()));
    let back = LinkConfig::delay(there.delay);
    let setup = Setup::pair(1, longhaul_link::topology::Duplex { there, back }).configure(longhaul_sim::full_segments);
    let mut sim = Sim::new(setup);
    let mut plan = Plan::bulk(SEGMENTS * 1448).zeros();
    plan.close = longhaul_sim::Close::Never;
    let (sender, receiver) = sim.open(plan, Plan::sink().zeros());
    assert!(sim.run(Span::from_secs(60), |sim| sim.find(receiver).is_some_and(|s| s.read == SEGMENTS * 1448)));
    let info = info(&sim, sender);
    assert_eq!((info.timeouts, info.recoveries, info.tail_probes), (0, 1, 1), "{info:?}");
}
