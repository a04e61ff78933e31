//! Routers on the path that answer requests in passing segments.

use std::cell::RefCell;
use std::rc::Rc;

use longhaul_link::router::{QuickStartConfig, RcpConfig, XcpConfig};
use longhaul_link::topology::{Duplex, chain};
use longhaul_link::{Hook, LinkConfig, Router, RouterConfig, View};
use longhaul_sim::{Packet, Parcel, Plan, Setup, Sighting, Sim, TTL, Tap};
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::network::{Feedback, Forward, QuickStartNonce, QuickStartRate, Request, WireDelta, WireRate};
use longhaul_wire::probe::{ANSWER_LEN, Answer, Probe};
use longhaul_wire::{CheshireCodec, Codec, NetworkOption};

/// Adds a request to the routers to each data segment at the start of the first link.
struct Ask {
    request: Request,
    asked: Rc<RefCell<u64>>,
}

impl Hook<Parcel> for Ask {
    fn offered(&mut self, _now: Time, packet: &mut longhaul_link::Packet<Parcel>, _view: &View) {
        let Some(inner) = &mut packet.payload else { return };
        let (mut header, offset) = CheshireCodec::parse(&inner.payload).expect("a whole segment");
        if inner.payload.len() == offset {
            return;
        }
        let forward = Forward { ttl: TTL, stamps: 0, request: self.request };
        header.options.network = Some(NetworkOption { forward: Some(forward), feedback: None });
        let mut bytes = vec![0; 60];
        let len = CheshireCodec::emit(&header, &mut bytes).expect("there is room");
        bytes.truncate(len);
        bytes.extend_from_slice(&inner.payload[offset..]);
        inner.payload = bytes;
        packet.size = inner.wire_len() as u32;
        *self.asked.borrow_mut() += 1;
    }
}

/// Records the requests in segments that arrive at a host, as edited by the routers.
struct Arrived {
    at: usize,
    seen: Vec<Forward>,
}

impl Tap for Arrived {
    fn see(&mut self, _now: Time, sighting: Sighting, packet: &Packet) {
        if sighting == Sighting::Received(self.at) {
            let (header, _) = CheshireCodec::parse(&packet.payload).expect("a whole segment");
            self.seen.extend(header.options.network.and_then(|option| option.forward));
        }
    }
}

/// An RCP router (Dukkipati, 2007): it writes its own rate into the header if that is lower.
fn rcp(_now: Time, view: &View, _size: u32, forward: &mut Forward) {
    forward.stamps = forward.stamps.saturating_add(1);
    if let (Request::Rcp { rate, .. }, Some(own)) = (&mut forward.request, view.rate) {
        *rate = WireRate::new(rate.rate().min(own));
    }
}

/// RCP advertises the rate of the narrowest link, at any position on the path. If one router does not answer, the
/// request is denied.
#[test]
fn routers_write_the_rate_of_the_bottleneck_into_passing_segments() {
    let megabits = |rate: u64| LinkConfig::new(Rate::from_bits_per_sec(rate * 1_000_000), Span::from_millis(2));
    for (rates, answering, least) in
        [([20, 8], [true, true], 8), ([8, 20], [true, true], 8), ([20, 8], [true, false], 20)]
    {
        let links = [100, rates[0], rates[1]].map(|rate| Duplex::symmetric(megabits(rate)));
        let net = chain(links);
        let (from, to) = (net.ends.0 as usize, net.ends.1 as usize);
        let mut sim = Sim::new(Setup::new(1, net.topology));
        let asked = Rc::new(RefCell::new(0));
        let request = Request::Rcp { rate: WireRate::UNLIMITED, rtt_micros: 0 };
        sim.set_hook(net.links[0].0, Ask { request, asked: Rc::clone(&asked) });
        for ((link, _), _) in net.links[1..].iter().zip(answering).filter(|(_, answers)| *answers) {
            sim.set_hook(*link, Router(rcp));
        }
        let arrived = Rc::new(RefCell::new(Arrived { at: to, seen: Vec::new() }));
        sim.add_tap(Rc::clone(&arrived));
        let (client, server) = sim.open_between(from, to, Plan::bulk(100_000), Plan::sink());
        assert!(sim.run(Span::from_secs(20), Sim::all_done));
        // The option must not affect the stream.
        assert!(sim.session(client).ended_well() && sim.session(server).ended_well());
        assert_eq!(sim.session(server).read, 100_000);
        let seen = &arrived.borrow().seen;
        assert!(seen.len() as u64 == *asked.borrow() && seen.len() > 60, "{} of {}", seen.len(), asked.borrow());
        let rate = WireRate::new(Rate::from_bits_per_sec(least * 1_000_000));
        let answer = if answering == [true, true] { Feedback::Rcp { rate } } else { Feedback::Denied };
        for forward in seen {
            assert_eq!(forward.request, Request::Rcp { rate, rtt_micros: 0 });
            assert_eq!(usize::from(forward.stamps), answering.iter().filter(|answers| **answers).count());
            // Two routers decrement the TTL.
            assert_eq!(forward.feedback(Some(TTL - 2)), Some(answer));
        }
    }
}

/// Returns the requests that arrive at a host after two configured routers, of 20 and 8 Mb/s, have edited them.
fn heard(routers: [Option<RouterConfig>; 2], request: Request) -> Vec<Forward> {
    let megabits = |rate: u64| LinkConfig::new(Rate::from_bits_per_sec(rate * 1_000_000), Span::from_millis(2));
    let net = chain([100, 20, 8].map(|rate| Duplex::symmetric(megabits(rate))));
    let (from, to) = (net.ends.0 as usize, net.ends.1 as usize);
    let mut setup = Setup::new(1, net.topology);
    for ((link, _), router) in net.links[1..].iter().zip(routers) {
        setup.link_mut(*link).router = router;
    }
    let mut sim = Sim::new(setup);
    let asked = Rc::new(RefCell::new(0));
    sim.set_hook(net.links[0].0, Ask { request, asked: Rc::clone(&asked) });
    let arrived = Rc::new(RefCell::new(Arrived { at: to, seen: Vec::new() }));
    sim.add_tap(Rc::clone(&arrived));
    let (client, server) = sim.open_between(from, to, Plan::bulk(100_000), Plan::sink());
    assert!(sim.run(Span::from_secs(20), Sim::all_done));
    assert!(sim.session(client).ended_well() && sim.session(server).ended_well());
    let seen = arrived.borrow().seen.clone();
    assert!(seen.len() as u64 == *asked.borrow() && seen.len() > 60);
    seen
}

/// Each of two configured routers stamps the request, and the receiver accepts the result. If a router is missing or of
/// another kind, the receiver denies it.
#[test]
fn configured_routers_answer_and_a_path_with_another_denies() {
    let nonce = QuickStartNonce::new(0x1357_9bdf);
    let kinds = [
        (
            RouterConfig::QuickStart(QuickStartConfig::default()),
            Request::QuickStart { rate: QuickStartRate::MAX, nonce },
        ),
        (RouterConfig::Rcp(RcpConfig::default()), Request::Rcp { rate: WireRate::UNLIMITED, rtt_micros: 12_000 }),
        (
            RouterConfig::Xcp(XcpConfig::default()),
            Request::Xcp {
                throughput: WireRate::new(Rate::from_bytes_per_sec(500_000)),
                rtt_micros: 12_000,
                delta: WireDelta::new(1 << 40),
            },
        ),
    ];
    for (number, (router, request)) in kinds.iter().enumerate() {
        let answered = heard([Some(router.clone()), Some(router.clone())], *request);
        for forward in &answered {
            let answer = forward.feedback(Some(TTL - 2)).unwrap();
            match (forward.request, answer) {
                // RFC 4782 rates: the routers grant 5.12 Mb/s, the highest rate below 85 % of 8 Mb/s, once. The nonce's
                // lower bits must be unchanged.
                (_, Feedback::QuickStart { rate, nonce: left }) => {
                    assert!(rate.code() <= 7 && nonce.approves(rate, left) && forward.stamps == 2);
                }
                (Request::QuickStart { rate, .. }, Feedback::Denied) => assert_eq!(rate, QuickStartRate::ZERO),
                (_, Feedback::Rcp { rate }) => assert!(rate.rate() <= Rate::from_bits_per_sec(8_000_000)),
                (_, Feedback::Xcp { delta }) => assert!(delta.bytes_per_sec() < 1_000_000),
                other => panic!("{other:?}"),
            }
        }
        if number == 0 {
            assert_eq!(answered.iter().map(|forward| forward.stamps).max(), Some(2));
            let Request::QuickStart { rate, .. } = answered[0].request else { panic!("{:?}", answered[0]) };
            assert_eq!(rate.code(), 7);
        } else {
            assert!(answered.iter().all(|forward| forward.stamps == 2));
        }
        let other = kinds[(number + 1) % 3].0.clone();
        for routers in [[Some(router.clone()), None], [Some(other), Some(router.clone())], [None, None]] {
            let stamps = u8::from(routers.contains(&Some(router.clone())));
            for forward in heard(routers, *request) {
                assert_eq!(forward.feedback(Some(TTL - 2)), Some(Feedback::Denied));
                assert!(forward.stamps <= stamps);
            }
        }
    }
}

/// Replaces the payload of the first data segment to make it a probe.
struct Replace(bool);

impl Hook<Parcel> for Replace {
    fn offered(&mut self, _now: Time, packet: &mut longhaul_link::Packet<Parcel>, _view: &View) {
        let Some(inner) = packet.payload.as_mut().filter(|inner| inner.payload.len() > ANSWER_LEN && self.0) else {
            return;
        };
        self.0 = false;
        Probe::default().emit(&mut inner.payload).expect("there is room");
    }
}

/// Records the TTL of answers to probes.
struct Ttls(Vec<u8>);

impl Tap for Ttls {
    fn see(&mut self, _now: Time, sighting: Sighting, packet: &Packet) {
        if let (Sighting::Sent(_), Some(answer)) = (sighting, Answer::parse(&packet.payload)) {
            self.0.push(answer.ttl);
        }
    }
}

/// Hosts learn the TTL of arriving packets, from which they compute the number of routers on the path.
#[test]
fn hosts_count_the_routers_on_the_path() {
    for routers in 0..4u8 {
        let net = chain((0..=routers).map(|_| Duplex::delay(Span::from_millis(2))));
        let mut setup = Setup::new(1, net.topology);
        setup.hosts.iter_mut().for_each(|host| host.endpoint.reflect = true);
        let mut sim = Sim::new(setup);
        sim.set_hook(net.links[0].0, Replace(true));
        let ttls = Rc::new(RefCell::new(Ttls(Vec::new())));
        sim.add_tap(Rc::clone(&ttls));
        sim.open_between(net.ends.0 as usize, net.ends.1 as usize, Plan::bulk(10_000), Plan::sink());
        assert!(sim.run(Span::from_secs(20), Sim::all_done));
        assert_eq!(ttls.borrow().0, [TTL - routers]);
    }
}
