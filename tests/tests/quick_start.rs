//! Quick-Start (RFC 4782) over whole links in virtual time: what routers approve, what they deny, and answers that are forged.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::cell::RefCell;
use std::rc::Rc;

use longhaul_link::router::{QuickStartConfig, RcpConfig};
use longhaul_link::topology::Duplex;
use longhaul_link::{Limit, LinkConfig, Router, RouterConfig};
use longhaul_sim::{Packet, Plan, SessionId, Setup, Sighting, Sim, Tap, unlimited};
use longhaul_tcp::{Config, Info, NetworkInfo};
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::network::{Forward, QuickStartNonce, QuickStartRate, Request};
use longhaul_wire::{CheshireCodec, Codec};

const RTT: Span = Span::from_millis(200);
const MSS: u64 = 1448;

/// 20 Mb/s with a router, or without one that answers.
fn links(router: Option<RouterConfig>) -> Duplex {
    let mut there = LinkConfig::new(Rate::from_bits_per_sec(20_000_000), RTT / 2).queue(Limit::Packets(400));
    there.router = router;
    there.is_hop = true;
    Duplex { there, back: LinkConfig::delay(RTT / 2) }
}

fn quick_start_router() -> Option<RouterConfig> {
    Some(RouterConfig::QuickStart(QuickStartConfig::default()))
}

/// Segments of data and when they left; requests, reports and answers.
#[derive(Default)]
struct Seen {
    data: Vec<Time>,
    requests: Vec<Request>,
}

impl Tap for Seen {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        let Ok((header, offset)) = CheshireCodec::parse(&packet.payload) else { return };
        if sighting != Sighting::Sent(0) {
            return;
        }
        if packet.payload_len() > offset {
            self.data.push(now);
        }
        self.requests.extend(header.options.network.and_then(|network| network.forward).map(|forward| forward.request));
    }
}

struct World {
    sim: Sim,
    sender: SessionId,
    seen: Rc<RefCell<Seen>>,
}

impl World {
    fn new(links: Duplex, congestion: &str, change: impl Fn(&mut Config)) -> Self {
        Self::prepared(links, congestion, change, |_| {})
    }

    fn prepared(links: Duplex, congestion: &str, change: impl Fn(&mut Config), prepare: impl FnOnce(&mut Sim)) -> Self {
        let setup = Setup::pair(1, links).configure(|config| {
            unlimited(config);
            config.congestion = congestion.parse().unwrap();
            config.routers_answer = true;
            change(config);
        });
        let mut sim = Sim::new(setup);
        let seen = Rc::new(RefCell::new(Seen::default()));
        sim.add_tap(Rc::clone(&seen));
        prepare(&mut sim);
        let (sender, _) = sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
        Self { sim, sender, seen }
    }

    fn until(&mut self, round_trips: f64) -> Info {
        let end = Time::ZERO + RTT.mul_f64(round_trips);
        self.sim.run_for(end - self.sim.now());
        let id = self.sim.session(self.sender).id;
        self.sim.host(0).endpoint.connection(id).unwrap().info(self.sim.now())
    }

    fn network(&mut self) -> NetworkInfo {
        self.until(1.9).network.unwrap()
    }
}

const NAME: &str = "quick-start(rate=10000)+limited-slow-start+new-reno";

/// 10,240 kb/s asked for and approved: the first flight is 10.24 Mb/s for a round trip, evenly paced, and a report says so to the
/// routers.
#[test]
fn routers_approve_and_the_first_flight_fills_a_round_trip() {
    let mut world = World::new(links(quick_start_router()), NAME, |_| {});
    let info = world.until(1.99);
    let network = info.network.unwrap();
    assert_eq!((network.requests, network.granted, network.denied, network.refused), (1, 1, 0, 0));
    let seen = world.seen.borrow();
    let sent = seen.data.len() as f64;
    // A segment is 1500 bytes of IP.
    let expected = 10_240_000.0 / 8.0 / 1500.0 * RTT.as_secs_f64();
    assert!((sent - expected).abs() < 0.05 * expected, "{sent} segments, {expected} approved");
    let gaps: Vec<f64> = seen.data.windows(2).map(|two| (two[1] - two[0]).as_secs_f64()).collect();
    let spacing = 1500.0 * 8.0 / 10_240_000.0;
    assert!(gaps.iter().all(|gap| *gap < 3.0 * spacing), "no pause in the flight");
    let rate = QuickStartRate::at_least(Rate::from_bits_per_sec(10_000_000));
    assert!(matches!(seen.requests[0], Request::QuickStart { rate: asked, .. } if asked == rate));
    assert!(matches!(seen.requests[1], Request::QuickStartReport { rate: approved, .. } if approved == rate));
    assert_eq!(seen.requests.len(), 2);
    drop(seen);
    let later = world.until(3.5);
    assert_eq!((later.bytes_lost, later.recoveries), (0, 0));
    assert!(later.cwnd.0 > 100 * MSS);
}

/// Whoever does not stamp denies: a router that knows nothing of it, one of another kind, one of two, no router at all; and an
/// application that does not vouch asks nothing.
#[test]
fn it_fails_closed() {
    let plain = World::new(links(None), "limited-slow-start+new-reno", |_| {}).until(1.9).bytes_sent;
    assert_eq!(plain, 10 * MSS);
    let rcp = Some(RouterConfig::Rcp(RcpConfig::default()));
    for router in [None, rcp] {
        let mut world = World::new(links(router.clone()), NAME, |_| {});
        let (network, info) = (world.network(), world.until(1.9));
        assert_eq!((network.granted, network.denied), (0, 1), "{router:?}");
        assert_eq!(info.bytes_sent, plain, "{router:?}");
    }
    // A router in front of it that does not answer.
    let mut topology = longhaul_link::topology::Topology::new();
    let (a, near, far, b) = (topology.host(), topology.router(), topology.router(), topology.host());
    topology.duplex(a, near, Duplex::delay(Span::from_millis(1)));
    topology.duplex(near, far, links(None));
    topology.duplex(far, b, links(quick_start_router()));
    let setup = Setup::new(1, topology).configure(|config| {
        unlimited(config);
        config.congestion = NAME.parse().unwrap();
        config.routers_answer = true;
    });
    let mut sim = Sim::new(setup);
    let (sender, _) = sim.open_between(a as usize, b as usize, Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
    sim.run_for(RTT.mul_f64(3.95));
    let info = sim.host(a as usize).endpoint.connection(sim.session(sender).id).unwrap().info(sim.now());
    assert_eq!(info.network.map(|network| (network.granted, network.denied)), Some((0, 1)));
    assert_eq!(info.bytes_sent, 10 * MSS);

    let mut silent = World::new(links(quick_start_router()), NAME, |config| config.routers_answer = false);
    let info = silent.until(1.9);
    assert_eq!((info.network, info.bytes_sent), (None, plain));
    assert!(silent.seen.borrow().requests.is_empty());
}

/// A receiver that forges: more than was asked for, the rate without the nonce that goes with it.
#[test]
fn forged_answers_are_denials() {
    let forge = |forward: &mut Forward,
                 with: fn(QuickStartRate, QuickStartNonce) -> (QuickStartRate, QuickStartNonce)| {
        forward.stamps += 1;
        if let Request::QuickStart { rate, nonce } = &mut forward.request {
            (*rate, *nonce) = with(*rate, *nonce);
        }
    };
    type With = fn(QuickStartRate, QuickStartNonce) -> (QuickStartRate, QuickStartNonce);
    let cases: [(&str, With, u64); 4] = [
        ("honest", |rate, nonce| (rate, nonce), 0),
        (
            "honestly lowered",
            |rate, nonce| {
                let lower = QuickStartRate::from_code(rate.code() - 1);
                (lower, nonce.lowered(rate, lower, 0x1555_5555))
            },
            0,
        ),
        ("above the request", |rate, nonce| (QuickStartRate::from_code(rate.code() + 1), nonce), 1),
        ("another nonce", |rate, nonce| (rate, QuickStartNonce::new(!nonce.get())), 1),
    ];
    for (what, with, refused) in cases {
        let hook = Router(move |_: Time, _: &_, _: u32, forward: &mut Forward| forge(forward, with));
        let mut world = World::prepared(links(None), NAME, |_| {}, |sim| sim.set_hook(0, hook));
        let network = world.network();
        let info = world.until(1.95);
        assert_eq!((network.refused, network.denied), (refused, refused), "{what}");
        assert_eq!(info.bytes_sent > 11 * MSS, refused == 0, "{what}: {} bytes", info.bytes_sent);
    }
}

/// The SYN is lost: it goes again without a request, and the connection begins as any other (RFC 4782, section 4.7).
#[test]
fn a_lost_syn_asks_no_more() {
    let mut links = links(quick_start_router());
    links.there.loss = longhaul_link::Loss::List(vec![1]);
    let mut world = World::new(links, NAME, |_| {});
    let info = world.until(7.0);
    let network = info.network.unwrap();
    assert_eq!((network.requests, network.granted, network.denied), (1, 0, 1));
    assert_eq!(world.seen.borrow().requests.len(), 1);
}
