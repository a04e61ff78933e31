//! Flipped pairs are the sender's doing, and no reordering of the path's: what loss detection does beside them is what it
//! does without, over whole links in virtual time.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use longhaul_link::topology::Duplex;
use longhaul_link::{Limit, LinkConfig, Outage, OutageKind};
use longhaul_sim::{Close, Packet, Plan, SessionId, Setup, Sighting, Sim, Tap};
use longhaul_tcp::{Config, Info};
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::{CheshireCodec, Codec};

/// The data segments that the sender sent, in their order: when, sequence number, length.
#[derive(Debug, Default)]
struct Segments(Vec<(Time, u32, usize)>);

impl Tap for Segments {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        let Ok((header, offset)) = CheshireCodec::parse(&packet.payload) else { return };
        let len = packet.payload_len() - offset;
        if sighting == Sighting::Sent(0) && len > 0 {
            self.0.push((now, header.seq, len));
        }
    }
}

impl Segments {
    /// How many segments left right behind the one that follows them in the stream.
    fn flipped(&self) -> usize {
        self.0.windows(2).filter(|two| two[1].1.wrapping_add(two[1].2 as u32) == two[0].1).count()
    }

    /// When the first segment that was sent twice since `from` was, both times.
    fn repeated(&self, from: Time) -> Option<(Time, Time)> {
        let mut first = HashMap::new();
        self.0.iter().filter(|(at, _, _)| *at >= from).find_map(|(at, seq, _)| {
            let before = *first.entry(*seq).or_insert(*at);
            (before < *at).then_some((before, *at))
        })
    }
}

/// 20 Mb/s, 40 ms there and back.
fn links() -> Duplex {
    let there = LinkConfig::new(Rate::from_bits_per_sec(20_000_000), Span::from_millis(20));
    Duplex { there: there.queue(Limit::Bytes(400_000)), back: LinkConfig::delay(Span::from_millis(20)) }
}

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn outage(from: Time, span: Span, kind: OutageKind) -> Outage {
    Outage { from, until: from + span, kind }
}

/// A sender that may send pairs, and a receiver.
struct World {
    sim: Sim,
    sender: SessionId,
    segments: Rc<RefCell<Segments>>,
}

impl World {
    fn new(links: Duplex, congestion: &str, pairs: bool, plan: Plan) -> Self {
        let setup = Setup::pair(1, links).configure(|config: &mut Config| {
            (config.base_plpmtu, config.max_plpmtu) = (1472, 1472);
            config.probe_pairs = pairs;
            config.congestion = congestion.parse().unwrap();
        });
        let mut sim = Sim::new(setup);
        let segments = Rc::new(RefCell::new(Segments::default()));
        sim.add_tap(Rc::clone(&segments));
        let (sender, _) = sim.open(plan.zeros(), Plan::sink().zeros());
        Self { sim, sender, segments }
    }

    fn info(&self) -> Info {
        let id = self.sim.session(self.sender).id;
        self.sim.host(0).endpoint.connection(id).unwrap().info(self.sim.now())
    }

    /// The application writes so many full segments.
    fn write(&mut self, segments: usize) {
        let (now, id) = (self.sim.now(), self.sim.session(self.sender).id);
        let mss = usize::from(self.info().mss);
        let host = self.sim.host_mut(0);
        host.endpoint.drive(now, id, |connection| connection.write(&vec![0; segments * mss]).unwrap()).unwrap();
        self.sim.settle(0);
    }
}

/// RACK waits for what was overtaken once it has seen that the path reorders, and does not before: a loss among many segments is
/// repaired as soon as three behind it have arrived. Many pairs, each of which arrives second first and has an ACK for each of
/// its segments, change nothing of that.
#[test]
fn a_loss_after_many_pairs_is_repaired_as_soon() {
    let lost_until = at(8_001);
    for pairs in [false, true] {
        let mut links = links();
        links.there.outages = vec![outage(at(8_000), Span::from_millis(1), OutageKind::Lose)];
        let mut world = World::new(links, "vegas", pairs, Plan::bulk(u64::MAX));
        world.sim.run_for(Span::from_secs(8));
        let before = world.info();
        assert_eq!((before.segments_retransmitted, before.dsacks), (0, 0), "pairs {pairs}");
        let flipped = world.segments.borrow().flipped();
        assert!(if pairs { flipped > 50 } else { flipped == 0 }, "pairs {pairs}: {flipped} flipped");
        world.sim.run_for(Span::from_secs(1));
        let info = world.info();
        assert_eq!((info.recoveries, info.spurious_recoveries, info.dsacks, info.timeouts), (1, 0, 0, 0));
        let (_, repaired) = world.segments.borrow().repeated(at(7_000)).unwrap();
        // 40 ms there and back, and what sending the three and two more takes; a quarter of a round trip more if RACK waits.
        let after = repaired.since(lost_until);
        println!("pairs {pairs}: {flipped} flipped, repaired after {after:?}");
        assert!(after < Span::from_millis(40) + Span::from_micros(600) * 5, "pairs {pairs}: {after:?}");
    }
}

/// If `silent`, ACKs are lost from the first flight on until the timer has the first segment that was not acknowledged sent again,
/// for nothing: a pair's first in the stream, if there are such. Later four segments leave, while `lost` the link loses what it
/// sends. What left then, and what was known before.
fn after_a_needless_retransmission(pairs: bool, silent: bool, lost: Option<Outage>) -> (Segments, Info) {
    let mut links = links();
    if silent {
        // The pair leaves at 47.0 ms, 2 ms behind the segment before it, and its segments arrive at 67.6 and 68.2 ms.
        let from = if pairs { at(67) + Span::from_micros(900) } else { at(50) };
        links.back.outages = vec![outage(from, at(300) - from, OutageKind::Lose)];
    }
    links.there.outages.extend(lost);
    let mut plan = Plan::sink();
    plan.close = Close::Never;
    let mut world = World::new(links, "cubic", pairs, plan);
    world.sim.run_for(Span::from_millis(45));
    world.write(30);
    world.sim.run_for(Span::from_millis(1_955));
    // Window and pacer recover.
    world.write(150);
    // Not for long: the window would be that of a restart.
    while world.info().unacked_segments > 0 {
        world.sim.run_for(Span::from_millis(10));
    }
    let before = world.info();
    world.segments.take();
    world.write(4);
    world.sim.run_for(Span::from_secs(2));
    (world.segments.take(), before)
}

/// How long after the fourth of those segments the second in the stream is repaired when it is lost, which leaves two behind it;
/// and what was known before.
fn repair(pairs: bool, silent: bool) -> (Span, Info) {
    let (whole, _) = after_a_needless_retransmission(pairs, silent, None);
    // Of a pair it leaves second, behind the segment before the pair. Each takes 0.6 ms on the link.
    let until = if pairs { 2 } else { 1 };
    let ends = whole.0[..=until].iter().fold(Time::ZERO, |free, (sent, _, _)| free.max(*sent) + Span::from_micros(600));
    let lost = outage(ends - Span::from_micros(100), Span::from_micros(200), OutageKind::Lose);
    let (segments, before) = after_a_needless_retransmission(pairs, silent, Some(lost));
    let (_, again) = segments.repeated(Time::ZERO).unwrap();
    (again - segments.0[3].0, before)
}

/// RACK's window grows with each round trip in which it shows that something was sent again for nothing; not for what a pair
/// may have caused.
#[test]
fn a_duplicate_of_a_pair_does_not_widen_the_window() {
    let quarters = |pairs, silent| {
        let (after, before) = repair(pairs, silent);
        let seen = (before.dsacks, before.timeouts, before.segments_retransmitted);
        assert_eq!(seen, if silent { (1, 1, 1) } else { (0, 0, 0) }, "pairs {pairs}");
        // The last one's round trip, and so many quarters of the least one.
        (after - Span::from_micros(40_600)).as_secs_f64() / 0.010
    };
    let found =
        [(true, false), (true, true), (false, false), (false, true)].map(|(pairs, silent)| quarters(pairs, silent));
    println!("{found:?}");
    let [pairs, pairs_silent, plain, plain_silent] = found;
    for quarters in [pairs, pairs_silent, plain] {
        assert!((0.9..1.3).contains(&quarters), "{found:?}");
    }
    // That a needless retransmission shows at all.
    assert!(plain_silent > 1.9, "{found:?}");
}
