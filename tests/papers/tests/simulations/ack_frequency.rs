//! ACK frequency of the receiver over simulated links: as requested by the sender if both ends support the option,
//! otherwise one ACK per two segments.

use std::cell::RefCell;
use std::rc::Rc;

use longhaul_link::topology::Duplex;
use longhaul_link::{Hook, Limit, LinkConfig, View};
use longhaul_sim::{Close, Packet, Parcel, Plan, SessionId, Setup, Sighting, Sim, Tap, full_segments};
use longhaul_tcp::{AckRateInfo, Config, Info};
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::{AckRate, CheshireCodec, Codec, Flags, Header, Options};

const MSS: u64 = 1448;

/// SYNs, requested ratios, and number of bytes acknowledged by each ACK of the receiver.
#[derive(Default)]
struct Seen {
    syns: Vec<Options>,
    asked: Vec<u8>,
    steps: Vec<u64>,
    newest: Option<u32>,
}

impl Tap for Seen {
    fn see(&mut self, _now: Time, sighting: Sighting, packet: &Packet) {
        let Ok((header, offset)) = CheshireCodec::parse(&packet.payload) else { return };
        let syn = header.flags.contains(Flags::SYN);
        match sighting {
            Sighting::Sent(_) if syn => {
                self.newest = Some(header.ack);
                self.syns.push(header.options);
            }
            Sighting::Sent(0) => self.asked.extend(header.options.ack_rate.map(AckRate::segments)),
            Sighting::Sent(1) if packet.payload_len() == offset => {
                let step = self.newest.map_or(0, |newest| header.ack.wrapping_sub(newest));
                self.newest = Some(header.ack);
                self.steps.extend((step > 0).then_some(u64::from(step)));
            }
            _ => {}
        }
    }
}

impl Seen {
    /// Returns the median number of bytes per ACK, over all ACKs that acknowledge data.
    fn usual_step(&self) -> u64 {
        let mut steps = self.steps.clone();
        steps.sort_unstable();
        steps[steps.len() / 2]
    }
}

struct Change<F>(F);

impl<F: FnMut(&mut Header)> Hook<Parcel> for Change<F> {
    fn offered(&mut self, _now: Time, packet: &mut longhaul_link::Packet<Parcel>, _view: &View) {
        let Some(inner) = packet.payload.as_mut() else { return };
        let Ok((header, offset)) = CheshireCodec::parse(&inner.payload) else { return };
        let mut changed = header.clone();
        (self.0)(&mut changed);
        if changed != header {
            let mut bytes = [0; 60];
            let len = CheshireCodec::emit(&changed, &mut bytes).unwrap();
            let payload = inner.payload.split_off(offset);
            inner.payload = [&bytes[..len], &payload].concat();
        }
    }
}

struct World {
    sim: Sim,
    sender: SessionId,
    receiver: SessionId,
    seen: Rc<RefCell<Seen>>,
    rtt: Span,
}

impl World {
    fn new(mbit: u64, rtt: u64, congestion: &str, bytes: u64, prepare: impl FnOnce(&mut Sim)) -> Self {
        let (rate, rtt) = (Rate::from_bits_per_sec(mbit * 1_000_000), Span::from_millis(rtt));
        let there = LinkConfig::new(rate, rtt / 2).queue(Limit::Bytes(rate.bytes_in(rtt).0));
        let links = Duplex { there, back: LinkConfig::delay(rtt / 2) };
        let setup = Setup::pair(1, links).configure(|config: &mut Config| {
            full_segments(config);
            config.congestion = longhaul_tests_papers::congestion(congestion);
            config.nagle = false;
        });
        let mut sim = Sim::new(setup);
        let seen = Rc::new(RefCell::new(Seen::default()));
        sim.add_tap(Rc::clone(&seen));
        prepare(&mut sim);
        let mut plan = Plan::bulk(bytes).zeros();
        plan.close = Close::Never;
        let (sender, receiver) = sim.open(plan, Plan::sink().zeros());
        Self { sim, sender, receiver, seen, rtt }
    }

    fn until(&mut self, round_trips: f64) -> Info {
        let end = Time::ZERO + self.rtt.mul_f64(round_trips);
        self.sim.run_for(end - self.sim.now());
        self.info()
    }

    fn info(&self) -> Info {
        let id = self.sim.session(self.sender).id;
        self.sim.host(0).endpoint.connection(id).unwrap().info(self.sim.now())
    }

    /// Returns the receiver's state of the sender's request.
    fn receiver(&self) -> Option<AckRateInfo> {
        let id = self.sim.session(self.receiver).id;
        self.sim.host(1).endpoint.connection(id).unwrap().info(self.sim.now()).ack_rate
    }

    /// Runs until the end of the start-up phase.
    fn after(&mut self, phase: &str) -> Info {
        self.until(1.5);
        while self.info().phase.starts_with(phase) {
            self.sim.step();
        }
        self.info()
    }
}

const HALFBACK: &str = "halfback+slow-start+new-reno";
const PACED_START: &str = "paced-start+slow-start+new-reno";

/// Halfback requests one ACK per segment in the last segment of the handshake. Each segment of a short flow is then
/// acknowledged separately, and half of them are copied. With delayed ACKs, a third would be.
#[test]
fn each_segment_of_a_short_flow_is_acknowledged() {
    for segments in [20, 60, 97] {
        let mut world = World::new(20, 100, HALFBACK, segments * MSS, |_| {});
        let info = world.until(4.0);
        let seen = world.seen.borrow();
        assert_eq!((seen.asked.as_slice(), world.receiver().unwrap().heeded), (&[1][..], 1));
        assert_eq!(seen.steps, vec![MSS; segments as usize], "one by one");
        let copies = info.probes.unwrap().sent;
        assert!((segments * 9 / 20..=segments / 2).contains(&copies), "{copies} copies of {segments}");
        assert_eq!((info.bytes_lost, info.segments_retransmitted), (0, 0));
    }
}

/// After the first hundred segments, the sender withdraws the request, and the receiver returns to one ACK per two
/// segments.
#[test]
fn a_long_flow_goes_back_to_every_other_segment() {
    let mut world = World::new(20, 100, HALFBACK, u64::MAX, |_| {});
    let info = world.until(12.0);
    assert_eq!(info.ack_rate.unwrap().ratio, 0);
    let seen = world.seen.borrow();
    assert_eq!(seen.asked, [1, 2, 2, 2]);
    assert_eq!(seen.steps[..90], vec![MSS; 90]);
    let mut later = seen.steps[300..600].to_vec();
    later.sort_unstable();
    assert_eq!(later[150], 2 * MSS);
}

/// Without arrival times, Paced Start uses the spacing of ACKs. It gets one ACK per segment even from a receiver that
/// delays ACKs otherwise, and estimates the path within 6 %.
#[test]
fn paced_start_finds_the_path_by_single_acks() {
    for (mbit, rtt) in [(20, 100), (5, 500), (100, 50)] {
        let untimed = || Change(|header: &mut Header| header.options.arrival_permitted = false);
        let mut world = World::new(mbit, rtt, PACED_START, u64::MAX, |sim| sim.set_hook(0, untimed()));
        let info = world.after("paced-start");
        assert!(!info.arrival_times && info.ack_rate.unwrap().requests > 0, "{mbit} {rtt}");
        let holds = (mbit * rtt * 125) as f64 * 1448.0 / 1500.0;
        assert!((info.cwnd.as_f64() / holds - 1.0).abs() < 0.06, "{mbit} {rtt}: {} of {holds}", info.cwnd);
        assert_eq!((info.bytes_lost, info.ssthresh), (0, Some(info.cwnd)));
        let seen = world.seen.borrow();
        assert!(seen.steps.iter().all(|step| *step == MSS), "{mbit} {rtt}: {:?}", seen.steps);
    }
}

/// If a SYN in either direction lacks the option, nothing is requested, and the receiver sends one ACK per two
/// segments.
#[test]
fn peers_without_the_option_receive_no_requests() {
    for link in [0, 1] {
        let without = Change(|header: &mut Header| header.options.ack_rate_permitted = false);
        let mut world = World::new(20, 100, HALFBACK, 97 * MSS, |sim| sim.set_hook(link, without));
        let info = world.until(4.0);
        let seen = world.seen.borrow();
        assert!(info.ack_rate.is_none() && seen.asked.is_empty());
        assert_eq!((seen.usual_step(), info.bytes_acked), (2 * MSS, 97 * MSS));
        let copies = info.probes.unwrap().sent;
        assert!((30..=34).contains(&copies), "a third: {copies}");
        if link == 0 {
            assert_eq!((seen.syns.len(), seen.syns[1].ack_rate_permitted), (2, false), "not unasked");
            assert!(world.receiver().is_none());
        }
    }
}

/// Only controllers that benefit from an ACK rate send requests.
#[test]
fn controllers_without_need_do_not_negotiate_ack_rates() {
    for congestion in ["cubic", "new-reno", "jump-start+new-reno", "bbr"] {
        let mut world = World::new(20, 100, congestion, 97 * MSS, |_| {});
        assert!(world.until(4.0).ack_rate.is_none() && world.receiver().is_none(), "{congestion}");
        assert!(world.seen.borrow().syns.iter().all(|syn| !syn.ack_rate_permitted), "{congestion}");
    }
}

/// If a receiver agrees but does not follow requests (here, they are removed on the path), the sender repeats them at
/// most once per round trip, and all data arrives.
#[test]
fn a_receiver_that_does_not_keep_its_word_is_asked_again() {
    let deaf = Change(|header: &mut Header| header.options.ack_rate = None);
    let untimed = Change(|header: &mut Header| header.options.arrival_permitted = false);
    let mut world = World::new(20, 100, PACED_START, u64::MAX, |sim| sim.set_hook(0, (deaf, untimed)));
    let info = world.after("paced-start");
    let trips = (world.sim.now() - Time::ZERO).as_secs_f64() / 0.1;
    let asked = world.seen.borrow().asked.clone();
    assert!(asked.len() >= 2 && (asked.len() as f64) < trips + 2.0, "{} in {trips} round trips", asked.len());
    assert!(asked.iter().all(|ratio| *ratio == 1));
    // Even from one ACK per two segments, the path is estimated correctly.
    let holds = 250_000.0 * 1448.0 / 1500.0;
    assert!((info.cwnd.as_f64() / holds - 1.0).abs() < 0.06, "{} of {holds}", info.cwnd);
    let heard = world.receiver().unwrap();
    assert_eq!((heard.heeded, heard.refused), (0, 0));
}

/// If a sender requests one ACK per 33 or 127 segments, the receiver refuses and counts the request, and sends one ACK
/// per two segments.
#[test]
fn too_few_acks_are_refused() {
    for ratio in [33, 127] {
        let forge = Change(move |header: &mut Header| {
            if header.options.ack_rate.is_some() {
                header.options.ack_rate = Some(AckRate::each(ratio));
            }
        });
        let mut world = World::new(20, 100, HALFBACK, 97 * MSS, |sim| sim.set_hook(0, forge));
        world.until(4.0);
        let heard = world.receiver().unwrap();
        assert!(heard.refused > 0 && heard.heeded == 0, "{heard:?}");
        assert_eq!(world.seen.borrow().usual_step(), 2 * MSS);
    }
    // The receiver accepts at most 32: of the flow's 97 segments, the first has its own ACK, then there is one ACK per
    // 32, and one from the timer.
    let forge = Change(|header: &mut Header| {
        if header.options.ack_rate.is_some() {
            header.options.ack_rate = Some(AckRate::each(32));
        }
    });
    let mut world = World::new(20, 100, "halfback+new-reno", 97 * MSS, |sim| sim.set_hook(0, forge));
    assert_eq!(world.until(4.0).bytes_acked, 97 * MSS);
    assert_eq!(world.seen.borrow().steps[..3], [MSS, 32 * MSS, 32 * MSS]);
}

/// A request of zero is for an ACK of this segment only: each segment that carries it gets an ACK, and the ratio does
/// not change.
#[test]
fn a_segment_may_ask_for_an_ack_of_its_own() {
    let each = Change(|header: &mut Header| {
        if !header.flags.contains(Flags::SYN) {
            header.options.ack_rate = Some(AckRate::AT_ONCE);
        }
    });
    let mut world = World::new(20, 100, HALFBACK, 60 * MSS, |sim| sim.set_hook(0, each));
    world.until(4.0);
    assert_eq!(world.seen.borrow().steps, vec![MSS; 60]);
    let heard = world.receiver().unwrap();
    assert_eq!((heard.heeded, heard.refused), (0, 0));
}
