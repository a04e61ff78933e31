//! Quick-Start (RFC 4782) over simulated links: approval and denial by routers, and forged responses.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use longhaul_link::router::{QuickStartConfig, RcpConfig};
use longhaul_link::source::{Adu, ConnectionVector, Side};
use longhaul_link::topology::Duplex;
use longhaul_link::{Hook, Limit, LinkConfig, Router, RouterConfig, View};
use longhaul_sim::{Packet, Parcel, Plan, SessionId, Setup, Sighting, Sim, Tap, full_segments};
use longhaul_tcp::{Config, Info, NetworkInfo};
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::network::{
    Feedback, Forward, NetworkOption, QuickStartNonce, QuickStartRate, Request, WireDelta, WireRate,
};
use longhaul_wire::{CheshireCodec, Codec, Flags};

const RTT: Span = Span::from_millis(200);
const MSS: u64 = 1448;

/// Returns links of 20 Mb/s. The hop is a router of this kind, or one that does not process requests.
fn links(router: Option<RouterConfig>) -> Duplex {
    let mut there = LinkConfig::new(Rate::from_bits_per_sec(20_000_000), RTT / 2).queue(Limit::Packets(400));
    there.router = router;
    there.is_hop = true;
    Duplex { there, back: LinkConfig::delay(RTT / 2) }
}

fn quick_start_router() -> Option<RouterConfig> {
    Some(RouterConfig::QuickStart(QuickStartConfig::default()))
}

/// Segments of a connection. `data` has the transmission times of data segments.
#[derive(Default)]
struct Seen {
    data: Vec<Time>,
    requests: Vec<Request>,
    /// Transmission times of requests and reports.
    asked: Vec<Time>,
    /// Transmission times of the receiver's ACKs.
    acks: Vec<Time>,
}

impl Seen {
    /// RFC 4782, sections 3.1 and 4.4: each request, granted or denied, is followed by a report with the nonce that
    /// was sent.
    fn reported(&self, approved: QuickStartRate) {
        let [Request::QuickStart { nonce, .. }, report] = self.requests[..] else { panic!("{:?}", self.requests) };
        assert_eq!(report, Request::QuickStartReport { rate: approved, nonce });
    }
}

impl Tap for Seen {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        let Ok((header, offset)) = CheshireCodec::parse(&packet.payload) else { return };
        if sighting == Sighting::Sent(1) {
            self.acks.extend((packet.payload_len() == offset && !header.flags.contains(Flags::SYN)).then_some(now));
        }
        if sighting != Sighting::Sent(0) {
            return;
        }
        if packet.payload_len() > offset {
            self.data.push(now);
        }
        let asks = header.options.network.is_some_and(|network| network.forward.is_some());
        self.asked.extend(asks.then_some(now));
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
        Self::opened(links, congestion, change, |sim| {
            prepare(sim);
            sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros()).0
        })
    }

    /// Starts a transfer of 100 kB, an idle period of 5 s, and 5 MB.
    fn resumed(links: Duplex, congestion: &str, prepare: impl FnOnce(&mut Sim)) -> Self {
        let [first, second] = [100_000, 5_000_000].map(|bytes| Adu::new(Side::Initiator, bytes));
        let adus = vec![first, Adu { after_send: Span::from_secs(5), ..second }];
        let vector = ConnectionVector { start: Time::ZERO, adus };
        Self::opened(
            links,
            congestion,
            |_| {},
            |sim| {
                prepare(sim);
                sim.replay(0, 1, &vector).0
            },
        )
    }

    fn opened(
        links: Duplex,
        congestion: &str,
        change: impl Fn(&mut Config),
        open: impl FnOnce(&mut Sim) -> SessionId,
    ) -> Self {
        let setup = Setup::pair(1, links).configure(|config| {
            full_segments(config);
            config.congestion = longhaul_tests_papers::congestion(congestion);
            config.routers_answer = true;
            change(config);
        });
        let mut sim = Sim::new(setup);
        let seen = Rc::new(RefCell::new(Seen::default()));
        sim.add_tap(Rc::clone(&seen));
        let sender = open(&mut sim);
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

/// A request for 10,240 kb/s is approved: the first flight is sent at 10.24 Mb/s for one round trip, evenly paced, and
/// a report tells the routers the approved rate (RFC 4782, section 4.4).
#[test]
fn routers_approve_and_the_first_flight_fills_a_round_trip() {
    let mut world = World::new(links(quick_start_router()), NAME, |_| {});
    let info = world.until(1.99);
    let network = info.network.unwrap();
    assert_eq!((network.requests, network.granted, network.denied, network.refused), (1, 1, 0, 0));
    let seen = world.seen.borrow();
    let sent = seen.data.len() as f64;
    // A segment is an IP packet of 1500 bytes.
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

/// The request is denied if any router does not process it: a router without Quick-Start, one of another kind, one of
/// two routers, or if there is no router. If the application does not vouch for the path, no request is sent.
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
        world.seen.borrow().reported(QuickStartRate::ZERO);
    }
    // The first of two routers does not process the request.
    let mut topology = longhaul_link::topology::Topology::new();
    let (a, near, far, b) = (topology.host(), topology.router(), topology.router(), topology.host());
    topology.duplex(a, near, Duplex::delay(Span::from_millis(1)));
    topology.duplex(near, far, links(None));
    topology.duplex(far, b, links(quick_start_router()));
    let setup = Setup::new(1, topology).configure(|config| {
        full_segments(config);
        config.congestion = longhaul_tests_papers::congestion(NAME);
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

/// A response that approves more than the requested rate, or whose nonce does not match, counts as a denial (RFC 4782,
/// section 4.4).
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
    let cases: [(&str, With, u64, u8); 4] = [
        ("honest", |rate, nonce| (rate, nonce), 0, 8),
        (
            "honestly lowered",
            |rate, nonce| {
                let lower = QuickStartRate::from_code(rate.code() - 1);
                (lower, nonce.lowered(rate, lower, 0x1555_5555))
            },
            0,
            7,
        ),
        ("above the request", |rate, nonce| (QuickStartRate::from_code(rate.code() + 1), nonce), 1, 0),
        ("another nonce", |rate, nonce| (rate, QuickStartNonce::new(!nonce.get())), 1, 0),
    ];
    for (what, with, refused, approved) in cases {
        let hook = Router(move |_: Time, _: &_, _: u32, forward: &mut Forward| forge(forward, with));
        let mut world = World::prepared(links(None), NAME, |_| {}, |sim| sim.set_hook(0, hook));
        let network = world.network();
        let info = world.until(1.95);
        assert_eq!((network.refused, network.denied), (refused, refused), "{what}");
        assert_eq!(info.bytes_sent > 11 * MSS, refused == 0, "{what}: {} bytes", info.bytes_sent);
        world.seen.borrow().reported(QuickStartRate::from_code(approved));
    }
}

/// If the SYN is lost, it is retransmitted without a request, and the connection starts as usual (RFC 4782, section
/// 4.7).
#[test]
fn a_lost_syn_asks_no_more() {
    let mut links = links(quick_start_router());
    links.there.loss = longhaul_link::Loss::List(vec![1]);
    let mut world = World::new(links, NAME, |_| {});
    let info = world.until(7.0);
    let network = info.network.unwrap();
    assert_eq!((network.requests, network.granted, network.denied), (1, 0, 1));
    assert_eq!(world.seen.borrow().requests.len(), 1, "nor reports anything");
}

/// Records the request on the forward path, for a receiver that falsely reports approval.
struct Liar(Rc<Cell<Option<(QuickStartRate, QuickStartNonce)>>>);

impl Hook<Parcel> for Liar {
    fn offered(&mut self, _now: Time, packet: &mut longhaul_link::Packet<Parcel>, _view: &View) {
        let Some(inner) = packet.payload.as_mut() else { return };
        let Ok((mut header, _)) = CheshireCodec::parse(&inner.payload) else { return };
        let Some((network, (rate, nonce))) = header.options.network.as_mut().zip(self.0.get()) else { return };
        if network.feedback == Some(longhaul_wire::network::Feedback::Denied) {
            network.feedback = Some(longhaul_wire::network::Feedback::QuickStart { rate, nonce });
            header.options.fit(header.flags, header.ack); // a SYN-ACK has no room for all
            let mut bytes = [0; 60];
            let len = CheshireCodec::emit(&header, &mut bytes).unwrap();
            inner.payload = bytes[..len].to_vec();
        }
    }
}

/// A receiver may falsely report approval if no router processes requests: the sender believes it, because it has the
/// nonce, and the sender cannot see the TTL (RFC 4782, section 9.4.2, would detect it). The sender then uses at most
/// the requested rate, paced over a round trip.
#[test]
fn a_receiver_that_claims_an_approval_is_believed() {
    let asked = Rc::new(Cell::new(None));
    let kept = Rc::clone(&asked);
    let read = move |_: Time, _: &View, _: u32, forward: &mut Forward| {
        if let Request::QuickStart { rate, nonce } = forward.request {
            kept.set(Some((rate, nonce)));
        }
    };
    let mut world = World::prepared(
        links(None),
        NAME,
        |_| {},
        |sim| {
            sim.set_hook(0, Router(read));
            sim.set_hook(1, Liar(asked));
        },
    );
    let info = world.until(1.99);
    assert_eq!(info.network.map(|network| (network.granted, network.refused)), Some((1, 0)));
    let expected = 10_240_000.0 / 8.0 / 1500.0 * RTT.as_secs_f64();
    let sent = world.seen.borrow().data.len() as f64;
    assert!((sent - expected).abs() < 0.05 * expected, "{sent} segments, {expected} claimed");
}

/// After an idle period of 5 s, the first segment carries a new request (RFC 4782, section 4.8). The restart window is
/// sent first, and 10.24 Mb/s for one round trip after the response. A report follows.
#[test]
fn a_pause_is_followed_by_a_request() {
    let mut world = World::resumed(links(quick_start_router()), NAME, |_| {});
    world.until(24.0);
    let begun = world.seen.borrow().data.len();
    assert!((70..75).contains(&begun), "{begun} segments of 100 kB");
    while world.seen.borrow().asked.len() < 4 {
        world.sim.step();
    }
    let info = world.until((world.sim.now() - Time::ZERO).as_secs_f64() / RTT.as_secs_f64() + 0.99);
    let network = info.network.unwrap();
    assert_eq!((network.requests, network.granted, network.denied, network.refused), (2, 2, 0, 0));
    let seen = world.seen.borrow();
    assert!(matches!(seen.requests[2], Request::QuickStart { .. }), "{:?}", seen.requests);
    assert!(matches!(seen.requests[3], Request::QuickStartReport { .. }), "{:?}", seen.requests);
    assert_eq!(seen.data[begun], seen.asked[2], "on the first segment");
    let waited = (seen.asked[3] - seen.asked[2]).as_secs_f64() / RTT.as_secs_f64();
    assert!((1.0..1.01).contains(&waited), "{waited} round trips");
    let restart = seen.data[begun..].iter().filter(|at| **at < seen.asked[3]).count();
    assert_eq!(restart, 10, "the restart window");
    let sent = seen.data[begun..].len() - restart;
    let expected = 10_240_000.0 / 8.0 / 1500.0 * RTT.as_secs_f64();
    assert!((sent as f64 - expected).abs() < 0.05 * expected, "{sent} segments, {expected} approved");
    assert_eq!(info.bytes_lost, 0);
}

/// Removes network feedback from ACKs on the reverse path, except from those of the handshake.
struct Silence;

impl Hook<Parcel> for Silence {
    fn offered(&mut self, _now: Time, packet: &mut longhaul_link::Packet<Parcel>, _view: &View) {
        let Some(inner) = packet.payload.as_mut() else { return };
        let Ok((mut header, _)) = CheshireCodec::parse(&inner.payload) else { return };
        if !header.flags.contains(Flags::SYN) && header.options.network.take().is_some() {
            let mut bytes = [0; 60];
            let len = CheshireCodec::emit(&header, &mut bytes).unwrap();
            inner.payload = bytes[..len].to_vec();
        }
    }
}

/// Adds a response to ACKs after the handshake: a repetition of that on the SYN-ACK, or another one.
struct Unasked {
    heard: Option<Feedback>,
    other: Option<Feedback>,
    /// Whether to only replace other responses.
    instead: bool,
}

impl Unasked {
    const fn new(other: Option<Feedback>) -> Self {
        Self { heard: None, other, instead: false }
    }
}

impl Hook<Parcel> for Unasked {
    fn offered(&mut self, _now: Time, packet: &mut longhaul_link::Packet<Parcel>, _view: &View) {
        let Some(inner) = packet.payload.as_mut() else { return };
        let Ok((mut header, _)) = CheshireCodec::parse(&inner.payload) else { return };
        if header.flags.contains(Flags::SYN) {
            self.heard = header.options.network.and_then(|network| network.feedback);
            return;
        }
        let option = header.options.network.unwrap_or_default();
        if option.feedback.is_some() == self.instead {
            header.options.network = Some(NetworkOption { feedback: self.other.or(self.heard), ..option });
            let mut bytes = [0; 60];
            let len = CheshireCodec::emit(&header, &mut bytes).unwrap();
            inner.payload = bytes[..len].to_vec();
        }
    }
}

/// The peer repeats a response, denies without a request, or responds like routers of another kind. Each such response
/// is refused and has no effect.
#[test]
fn unsolicited_answers_have_no_effect() {
    let instants = [1.9, 2.1, 2.5, 3.5, 6.0];
    let look = |info: Info| (info.bytes_sent, info.bytes_acked, info.cwnd, info.ssthresh, info.phase);
    let mut honest = World::new(links(quick_start_router()), NAME, |_| {});
    let expected = instants.map(|at| look(honest.until(at)));
    for (what, other) in [
        ("a replay", None),
        ("a denial", Some(Feedback::Denied)),
        (
            "another nonce",
            Some(Feedback::QuickStart { rate: QuickStartRate::from_code(15), nonce: QuickStartNonce::new(7) }),
        ),
        ("RCP's", Some(Feedback::Rcp { rate: WireRate::new(Rate::from_bits_per_sec(1_000_000_000)) })),
        ("XCP's", Some(Feedback::Xcp { delta: WireDelta::new(1_000_000_000) })),
    ] {
        let links = links(quick_start_router());
        let mut world = World::prepared(links, NAME, |_| {}, |sim| sim.set_hook(1, Unasked::new(other)));
        let seen = instants.map(|at| look(world.until(at)));
        assert_eq!(seen, expected, "{what}");
        let network = world.until(6.0).network.unwrap();
        assert_eq!((network.requests, network.granted, network.denied), (1, 1, 0), "{what}");
        let acks = world.seen.borrow().acks.iter().filter(|at| **at < Time::ZERO + RTT.mul_f64(5.5)).count() as u64;
        assert!(network.refused >= acks - 1, "{what}: each counts, {} of {acks}", network.refused);
    }
}

/// The peer repeats the response of the handshake in place of that to the request after the idle period. Its nonce does
/// not match.
#[test]
fn a_replay_does_not_answer_the_next_request() {
    let hook = Unasked { instead: true, ..Unasked::new(None) };
    let mut world = World::resumed(links(quick_start_router()), NAME, |sim| sim.set_hook(1, hook));
    let network = world.until(30.0).network.unwrap();
    assert_eq!((network.requests, network.granted, network.denied, network.refused), (2, 1, 1, 1));
}

/// If no router processes the request, or the response is lost, the amount of data sent after the idle period equals
/// that without Quick-Start, except for the twelve bytes of the request.
#[test]
fn a_pause_fails_closed() {
    let sent = |world: &mut World, until: f64| {
        let info = world.until(until);
        info.bytes_sent
    };
    // The file is written about 26 round trips after the SYN. The segment with the request gets its own ACK, which
    // changes the spacing of the other ACKs.
    for until in [27.9, 28.9] {
        let plain = sent(&mut World::resumed(links(None), "limited-slow-start+new-reno", |_| {}), until);
        let mut denied = World::resumed(links(None), NAME, |_| {});
        let bytes = sent(&mut denied, until);
        assert!(bytes.abs_diff(plain) <= plain / 20, "{bytes}, without {plain}");
        let network = denied.until(until).network.unwrap();
        assert_eq!((network.requests, network.granted, network.denied), (2, 0, 2));
        let mut silent = World::resumed(links(quick_start_router()), NAME, |sim| sim.set_hook(1, Silence));
        silent.until(until);
        let network = silent.until(until).network.unwrap();
        assert_eq!((network.requests, network.granted, network.denied), (2, 1, 1), "the SYN's was answered");
    }
}

/// After a wrong nonce, the sender does not trust the peer any more, and sends no request after the idle period (RFC
/// 4782, section 4.4).
#[test]
fn no_request_follows_a_failed_nonce_check() {
    let forge = |_: Time, _: &View, _: u32, forward: &mut Forward| {
        forward.stamps += 1;
        if let Request::QuickStart { nonce, .. } = &mut forward.request {
            *nonce = QuickStartNonce::new(!nonce.get());
        }
    };
    let mut world = World::resumed(links(None), NAME, |sim| sim.set_hook(0, Router(forge)));
    let network = world.until(30.0).network.unwrap();
    assert_eq!((network.requests, network.refused), (1, 1));
}

/// With the option `again`, a connection whose request was denied repeats it once per round trip, and uses the rate as
/// soon as the routers grant it.
#[test]
fn a_connection_that_goes_on_may_ask_again() {
    let name = "quick-start(rate=10000,again=3)+limited-slow-start+new-reno";
    let mut denied = World::new(links(None), name, |_| {});
    let network = denied.until(8.0).network.unwrap();
    assert_eq!((network.requests, network.denied), (4, 4));
    let asked = denied.seen.borrow().asked.clone();
    let requests = denied.seen.borrow().requests.clone();
    let times: Vec<_> = asked.iter().zip(&requests).filter(|(_, r)| matches!(r, Request::QuickStart { .. })).collect();
    assert!(times.windows(2).all(|two| *two[1].0 - *two[0].0 >= RTT), "one a round trip");
    // The router does not process the request on the SYN, but processes later ones.
    let mut first = true;
    let late = move |_: Time, _: &View, _: u32, forward: &mut Forward| {
        forward.stamps += u8::from(!std::mem::take(&mut first));
    };
    let mut world = World::prepared(links(None), name, |_| {}, |sim| sim.set_hook(0, Router(late)));
    let info = world.until(2.99);
    assert_eq!(info.network.map(|network| (network.requests, network.granted, network.denied)), Some((2, 1, 1)));
    let expected = 10_240_000.0 / 8.0 / 1500.0 * RTT.as_secs_f64();
    let sent = (world.seen.borrow().data.len() - 10) as f64;
    assert!((sent - expected).abs() < 0.1 * expected, "{sent} segments, {expected} approved");
}

/// At 40.96 Mb/s, 682 segments are sent in a round trip of 200 ms. The receiver sends one ACK per six of them, 114 in
/// the round trip (RFC 4782, section 4.5), then one per three, and then one per two as usual.
#[test]
fn acks_are_thinned_out() {
    let mut there = LinkConfig::new(Rate::from_bits_per_sec(100_000_000), RTT / 2).queue(Limit::Packets(2000));
    (there.router, there.is_hop) = (quick_start_router(), true);
    let links = Duplex { there, back: LinkConfig::delay(RTT / 2) };
    let name = "quick-start(rate=40000)+limited-slow-start+new-reno";
    let mut world = World::new(links, name, |_| {});
    world.until(1.995);
    let flight = world.seen.borrow().data.len();
    assert!((650..700).contains(&flight), "{flight}");
    let info = world.until(2.5);
    let acks = world.seen.borrow().acks.len();
    assert!((flight / 6..=flight / 6 + 12).contains(&acks), "{acks} for {flight}");
    assert!(world.seen.borrow().acks[0] < Time::ZERO + RTT.mul_f64(1.52), "the first segment has one");
    assert_eq!(info.ack_rate.unwrap().ratio, 6);
    let end = world.until(8.0);
    assert_eq!((end.ack_rate.unwrap().ratio, end.bytes_lost), (0, 0));
}
