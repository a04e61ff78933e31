//! Flipped pairs are caused by the sender, not by reordering on the path: over simulated links, loss detection behaves
//! in the same way with and without them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use longhaul_link::topology::Duplex;
use longhaul_link::{Limit, LinkConfig, Outage, OutageKind};
use longhaul_sim::{Close, Packet, Plan, SessionId, Setup, Sighting, Sim, Tap};
use longhaul_tcp::{Config, Info};
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::{CheshireCodec, Codec};

/// Data segments sent, in order: time, sequence number, length.
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
    /// Returns the number of segments sent immediately after their successor in the stream.
    fn flipped(&self) -> usize {
        self.0.windows(2).filter(|two| two[1].1.wrapping_add(two[1].2 as u32) == two[0].1).count()
    }

    /// Returns both transmission times of the first segment that was sent twice since `from`.
    fn repeated(&self, from: Time) -> Option<(Time, Time)> {
        let mut first = HashMap::new();
        self.0.iter().filter(|(at, _, _)| *at >= from).find_map(|(at, seq, _)| {
            let before = *first.entry(*seq).or_insert(*at);
            (before < *at).then_some((before, *at))
        })
    }
}

/// Returns links of 20 Mb/s with an RTT of 40 ms.
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
            config.congestion = longhaul_tests_papers::congestion(congestion);
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

    /// Writes this many full segments.
    fn write(&mut self, segments: usize) {
        let (now, id) = (self.sim.now(), self.sim.session(self.sender).id);
        let mss = usize::from(self.info().mss);
        let host = self.sim.host_mut(0);
        host.endpoint.drive(now, id, |connection| connection.write(&vec![0; segments * mss]).unwrap()).unwrap();
        self.sim.settle(0);
    }
}

/// RACK adds a reordering window only after it has detected reordering on the path (RFC 8985, section 6.2). Otherwise,
/// a lost segment is retransmitted as soon as three later segments have arrived. This holds after many pairs, although
/// each of them arrives with the second segment first and is acknowledged segment by segment.
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
        // The retransmission follows after the RTT of 40 ms and the transmission time of five segments. RACK's
        // reordering window would add a quarter of the RTT.
        let after = repaired.since(lost_until);
        println!("pairs {pairs}: {flipped} flipped, repaired after {after:?}");
        assert!(after < Span::from_millis(40) + Span::from_micros(600) * 5, "pairs {pairs}: {after:?}");
    }
}

/// Sends data, and later four segments, with `lost` as an outage of the link. Returns these four segments, and the
/// state before them. If `silent`, ACKs are lost from the first flight on until the retransmission timer causes a
/// spurious retransmission; with pairs, it is of the segment of a pair that is first in the stream.
fn after_a_needless_retransmission(pairs: bool, silent: bool, lost: Option<Outage>) -> (Segments, Info) {
    let mut links = links();
    if silent {
        // The pair is sent at 47.0 ms, 2 ms after the preceding segment, and its segments arrive at 67.6 and 68.2 ms.
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
    // This data restores the window and the pacer.
    world.write(150);
    // The idle period must be short, because the window would be reduced to the restart window otherwise.
    while world.info().unacked_segments > 0 {
        world.sim.run_for(Span::from_millis(10));
    }
    let before = world.info();
    world.segments.take();
    world.write(4);
    world.sim.run_for(Span::from_secs(2));
    (world.segments.take(), before)
}

/// The second of four segments in the stream is lost. Returns the time from the transmission of the fourth segment to
/// the retransmission of the second one, and the state before.
fn repair(pairs: bool, silent: bool) -> (Span, Info) {
    let (whole, _) = after_a_needless_retransmission(pairs, silent, None);
    // If the second segment belongs to a pair, it is sent after the third. Each segment takes 0.6 ms on the link.
    let until = if pairs { 2 } else { 1 };
    let ends = whole.0[..=until].iter().fold(Time::ZERO, |free, (sent, _, _)| free.max(*sent) + Span::from_micros(600));
    let lost = outage(ends - Span::from_micros(100), Span::from_micros(200), OutageKind::Lose);
    let (segments, before) = after_a_needless_retransmission(pairs, silent, Some(lost));
    let (_, again) = segments.repeated(Time::ZERO).unwrap();
    (again - segments.0[3].0, before)
}

/// RACK's reordering window grows with each round trip in which a D-SACK reveals a spurious retransmission (RFC 8985,
/// section 6.2), unless a pair may have caused it.
#[test]
fn a_duplicate_of_a_pair_does_not_widen_the_window() {
    let quarters = |pairs, silent| {
        let (after, before) = repair(pairs, silent);
        let seen = (before.dsacks, before.timeouts, before.segments_retransmitted);
        assert_eq!(seen, if silent { (1, 1, 1) } else { (0, 0, 0) }, "pairs {pairs}");
        // The retransmission is due after the RTT of the last segment; the rest is in quarters of the minimum RTT.
        (after - Span::from_micros(40_600)).as_secs_f64() / 0.010
    };
    let found =
        [(true, false), (true, true), (false, false), (false, true)].map(|(pairs, silent)| quarters(pairs, silent));
    println!("{found:?}");
    let [pairs, pairs_silent, plain, plain_silent] = found;
    for quarters in [pairs, pairs_silent, plain] {
        assert!((0.9..1.3).contains(&quarters), "{found:?}");
    }
    // Without pairs, a spurious retransmission does have an effect.
    assert!(plain_silent > 1.9, "{found:?}");
}
