//! RCP and XCP over simulated links: shares of a link if routers answer, and behaviour if they do not answer or answer
//! falsely.

use std::sync::Arc;

use longhaul_cc::Congestion;
use longhaul_link::router::{QuickStartConfig, RcpConfig, XcpConfig};
use longhaul_link::topology::{Duplex, Topology, dumbbell};
use longhaul_link::{Hook, Limit, LinkConfig, Router, RouterConfig, View};
use longhaul_sim::{Parcel, Plan, SessionId, Setup, Sim, full_segments};
use longhaul_tcp::{Config, ConnectionError, Info};
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::network::{Feedback, Forward, Request, WireDelta, WireRate};
use longhaul_wire::{CheshireCodec, Codec, Flags};

const RTT: Span = Span::from_millis(100);
/// Rate of the link in Mb/s, unless a test changes it.
const MEGABITS: u64 = 20;
/// Payload of a 1500-byte packet: its length without IPv4, UDP, the segment header with timestamps, and the option of
/// each protocol.
const PAYLOAD: [(&str, f64); 2] = [("rcp", 1500.0 - 68.0), ("xcp", 1500.0 - 72.0)];
/// Payload of a 1500-byte packet without the option.
const PLAIN_PAYLOAD: f64 = 1448.0;

fn router_of(name: &str) -> RouterConfig {
    match name {
        "rcp" => RouterConfig::Rcp(RcpConfig::default()),
        "xcp" => RouterConfig::Xcp(XcpConfig::default()),
        _ => RouterConfig::QuickStart(QuickStartConfig::default()),
    }
}

fn payload(name: &str) -> f64 {
    PAYLOAD.iter().find(|(of, _)| *of == name).unwrap().1
}

fn forward(router: Option<RouterConfig>) -> LinkConfig {
    forward_at(MEGABITS, router)
}

fn forward_at(megabits: u64, router: Option<RouterConfig>) -> LinkConfig {
    let rate = Rate::from_bits_per_sec(megabits * 1_000_000);
    let mut there = LinkConfig::new(rate, RTT / 2).queue(Limit::Packets(2000)).hop();
    there.router = router;
    there
}

fn links(router: Option<RouterConfig>) -> Duplex {
    Duplex { there: forward(router), back: LinkConfig::delay(RTT / 2) }
}

fn setup(topology: Topology, congestion: &str) -> Setup {
    Setup::new(1, topology).configure(|config| {
        full_segments(config);
        config.congestion = longhaul_tests_papers::congestion(congestion);
        config.routers_answer = true;
    })
}

fn pair(router: Option<RouterConfig>, congestion: &str) -> Setup {
    setup(Setup::pair(1, links(router)).topology, congestion)
}

/// Bulk flows from node 0 to node 1, or between the ends of a path of several links.
struct World {
    sim: Sim,
    senders: Vec<SessionId>,
}

impl World {
    fn new(links: Duplex, congestion: &str, flows: usize) -> Self {
        let mut topology = Topology::new();
        let (a, b) = (topology.host(), topology.host());
        topology.duplex(a, b, links);
        Self::over(topology, (a, b), congestion, flows)
    }

    fn over(topology: Topology, ends: (u32, u32), congestion: &str, flows: usize) -> Self {
        Self::in_sim(Sim::new(setup(topology, congestion)), ends, flows)
    }

    fn in_sim(mut sim: Sim, (from, to): (u32, u32), flows: usize) -> Self {
        let open =
            |_| sim.open_between(from as usize, to as usize, Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros()).0;
        let senders = (0..flows).map(open).collect();
        Self { sim, senders }
    }

    /// Runs one flow over a link with a hook that edits its requests.
    fn edited(setup: Setup, mut edit: impl FnMut(Time, &mut Forward) + 'static) -> Self {
        let mut sim = Sim::new(setup);
        sim.set_hook(0, Router(move |now: Time, _: &_, _: u32, forward: &mut Forward| edit(now, forward)));
        Self::in_sim(sim, (0, 1), 1)
    }

    fn run(&mut self, seconds: f64) -> &mut Self {
        self.sim.run_for(Span::from_secs_f64(seconds));
        self
    }

    fn info(&self, flow: usize) -> Info {
        let sender = self.senders[flow];
        let id = self.sim.session(sender).id;
        self.sim.host(sender.host).endpoint.connection(id).unwrap().info(self.sim.now())
    }

    fn acked(&self) -> Vec<u64> {
        (0..self.senders.len()).map(|flow| self.info(flow).bytes_acked).collect()
    }

    fn lost(&self) -> u64 {
        (0..self.senders.len()).map(|flow| self.info(flow).bytes_lost).sum()
    }

    /// Returns the rate of each flow on the wire in bits per second over this many seconds, and the mean queue in
    /// packets of 1500 bytes.
    fn measure(&mut self, seconds: f64, payload: f64) -> (Vec<f64>, f64) {
        let before = self.acked();
        let samples = (seconds * 100.0) as u32;
        let mut queued = 0.0;
        for _ in 0..samples {
            self.run(0.01);
            queued += self.sim.link(0).backlog().1 as f64;
        }
        let rate = |(after, before): (u64, u64)| (after - before) as f64 * 8.0 * 1500.0 / payload / seconds;
        let rates = self.acked().into_iter().zip(before).map(rate).collect();
        (rates, queued / f64::from(samples) / 1500.0)
    }
}

fn extremes(rates: &[f64]) -> (f64, f64) {
    let fold = |pick: fn(f64, f64) -> f64| rates.iter().copied().reduce(pick).unwrap();
    (fold(f64::min), fold(f64::max))
}

/// RCP: N flows that start together each get gamma C/N within 5 %, in packets of 1500 bytes, without loss.
#[test]
fn rcp_shares_what_is_to_be_used_evenly() {
    for gamma in [1.0, 0.9] {
        for flows in [1, 2, 10, 50] {
            let router = RouterConfig::Rcp(RcpConfig { gamma, ..RcpConfig::default() });
            let mut world = World::new(links(Some(router)), "rcp", flows);
            let (rates, queue) = world.run(20.0).measure(20.0, payload("rcp"));
            let share = gamma * MEGABITS as f64 * 1e6 / flows as f64;
            let (least, most) = extremes(&rates);
            println!(
                "rcp, gamma {gamma}, {flows} flows: {:.3} to {:.3} of the share, queue {queue:.1} packets",
                least / share,
                most / share
            );
            assert!(least > 0.95 * share && most < 1.05 * share, "{flows} flows, gamma {gamma}: {rates:?}");
            assert_eq!(world.lost(), 0);
        }
    }
}

/// XCP: N flows that start together each get C/N within 5 %, with a queue of a few packets. The link for fifty flows is
/// so fast that each share is seventeen packets per round trip instead of three.
#[test]
fn xcp_shares_the_link_evenly_without_a_queue() {
    for (flows, megabits) in [(1, MEGABITS), (2, MEGABITS), (10, MEGABITS), (50, 5 * MEGABITS)] {
        let links = Duplex { there: forward_at(megabits, Some(router_of("xcp"))), back: LinkConfig::delay(RTT / 2) };
        let mut world = World::new(links, "xcp", flows);
        let (rates, queue) = world.run(30.0).measure(15.0, payload("xcp"));
        let share = megabits as f64 * 1e6 / flows as f64;
        let (least, most) = extremes(&rates);
        println!(
            "xcp, {flows} flows: {:.3} to {:.3} of the share, queue {queue:.1} packets",
            least / share,
            most / share
        );
        assert!(least > 0.95 * share && most < 1.05 * share, "{flows} flows: {rates:?}");
        // The bandwidth-delay products are 167 and 833 packets.
        assert!(queue < 0.05 * megabits as f64 / 12e-3 * RTT.as_secs_f64(), "{flows} flows: {queue} packets");
        assert_eq!(world.lost(), 0);
    }
}

/// Flows with RTTs of 20, 100 and 400 ms get the same share, because feedback refers to rates, not to windows.
#[test]
fn shares_do_not_depend_on_the_round_trip() {
    for name in ["rcp", "xcp"] {
        // The outgoing links of the second router also answer requests, and have no rate limit.
        let access = |millis: u64| {
            let mut access = Duplex::delay(Span::from_millis(millis));
            access.back.router = Some(router_of(name));
            access
        };
        let back = LinkConfig::delay(Span::from_millis(5)).hop();
        let mut bottleneck = Duplex { there: forward(Some(router_of(name))), back };
        bottleneck.there.delay = Span::from_millis(5);
        let dumbbell = dumbbell(bottleneck, [0, 40, 190].map(access), [0; 3].map(access));
        let mut sim = Sim::new(setup(dumbbell.topology, name));
        let ends = dumbbell.left.iter().zip(&dumbbell.right);
        let open = |(from, to): (&u32, &u32)| {
            sim.open_between(*from as usize, *to as usize, Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros()).0
        };
        let senders = ends.map(open).collect();
        let mut world = World { sim, senders };
        let (rates, _) = world.run(60.0).measure(20.0, payload(name));
        let share = MEGABITS as f64 * 1e6 / 3.0;
        println!(
            "{name}, 10, 90 and 390 ms: {:.3?} of the share",
            rates.iter().map(|rate| rate / share).collect::<Vec<_>>()
        );
        let (least, most) = extremes(&rates);
        assert!(least > 0.9 * share && most < 1.1 * share, "{name}: {rates:?}");
    }
}

/// With an idle RCP router on the path, 1 MB arrives as soon as if the sender knew the rate. On a link that was never
/// used, the transfer also takes the time in which the router raises its initial rate, a twentieth of the capacity.
#[test]
fn a_short_flow_begins_at_the_full_rate() {
    let bytes = 1_000_000;
    let limit = 1.5 * RTT.as_secs_f64() + bytes as f64 * 8.0 * 1500.0 / 1448.0 / (MEGABITS as f64 * 1e6);
    let mut seconds = Vec::new();
    for warm in [true, false] {
        let mut setup = pair(Some(router_of("rcp")), "rcp");
        // If the receiver also sent requests, its segments would have too little room to advertise the whole window.
        Arc::make_mut(&mut setup.hosts[1].config).congestion = Congestion::default();
        let mut sim = Sim::new(setup);
        let begin = if warm { 10.0 } else { 0.0 };
        if warm {
            sim.open(Plan::bulk(1000).zeros(), Plan::sink().zeros());
        }
        sim.run_for(Span::from_secs_f64(begin));
        let (_, receiver) = sim.open(Plan::bulk(bytes).zeros(), Plan::sink().zeros());
        assert!(sim.run(Span::from_secs(60), |sim| sim.find(receiver).is_some_and(|session| session.ended)));
        let session = sim.session(receiver);
        assert_eq!(session.read, bytes);
        seconds.push(session.read_at.unwrap().since(Time::ZERO).as_secs_f64() - begin);
    }
    println!(
        "1 MB: limit {limit:.3} s; rcp {:.3} s over a link in use, {:.3} s over a fresh one",
        seconds[0], seconds[1]
    );
    assert!(seconds[0] < 1.05 * limit, "{} s, limit {limit} s", seconds[0]);
    assert!(seconds[1] > seconds[0]);
}

/// Returns links on which a request gets no complete answer: no router, a router of another kind, one of two routers.
fn deaf_topologies(name: &str) -> Vec<(&'static str, Topology, (u32, u32))> {
    let single = |router: Option<RouterConfig>| {
        let mut topology = Topology::new();
        let (a, b) = (topology.host(), topology.host());
        topology.duplex(a, b, links(router));
        (topology, (a, b))
    };
    let other = if name == "rcp" { "xcp" } else { "rcp" };
    let (nobody, ends) = single(None);
    let (another, _) = single(Some(router_of(other)));
    let (quick_start, _) = single(Some(router_of("quick-start")));
    let mut two = Topology::new();
    let (a, router, b) = (two.host(), two.router(), two.host());
    let near = Duplex { there: forward(Some(router_of(name))), back: LinkConfig::delay(Span::ZERO).hop() };
    two.duplex(a, router, near);
    // The second router has the same rate, and decrements the TTL without answering.
    let mut far = forward(None);
    far.delay = Span::ZERO;
    two.duplex(router, b, Duplex { there: far, back: LinkConfig::delay(RTT / 2) });
    vec![
        ("no router", nobody, ends),
        ("a router of another kind", another, ends),
        ("a Quick-Start router", quick_start, ends),
        ("one of two routers", two, (a, b)),
    ]
}

/// Without answers, both controllers behave like NewReno from the first round trip on.
#[test]
fn without_answers_they_are_plain_tcp() {
    for name in ["rcp", "xcp"] {
        for (what, topology, ends) in deaf_topologies(name) {
            let mut plain = World::over(topology.clone(), ends, "new-reno", 1);
            let mut world = World::over(topology, ends, name, 1);
            for seconds in [0.19, 1.1, 10.0, 20.0] {
                let (sent, expected) = (world.run(seconds).info(0).bytes_sent, plain.run(seconds).info(0).bytes_sent);
                // Each segment keeps the space for the option, so that its payload is smaller.
                let ratio = sent as f64 / expected as f64 * PLAIN_PAYLOAD / payload(name);
                assert!(
                    (ratio - 1.0).abs() < 0.05,
                    "{name}, {what}, after {seconds} s more: {sent} and {expected} bytes"
                );
            }
            let info = world.info(0);
            let network = info.network.unwrap();
            assert_eq!((network.granted, network.denied), (0, 1), "{name}, {what}");
            assert_eq!(network.requests, 1, "{name}, {what}: only the SYN asks");
            assert_eq!(info.congestion, name);
            assert!(info.ssthresh.is_some(), "{name}, {what}");
        }
    }
}

/// If the application does not vouch for the routers, or the peer does not support the option, the connection fails
/// with an error.
#[test]
fn without_a_word_for_the_routers_there_is_no_connection() {
    for name in ["rcp", "xcp"] {
        for vouches in [false, true] {
            let setup = pair(Some(router_of(name)), name).configure(|config| config.routers_answer = vouches);
            let mut sim = Sim::new(setup);
            let (sender, _) = sim.open(Plan::bulk(1000).zeros(), Plan::sink().zeros());
            sim.run_for(Span::from_secs(5));
            let error = sim.session(sender).error;
            let refused = matches!(error, Some(ConnectionError::NeedNotGranted { need: "router feedback", .. }));
            assert!(if vouches { error.is_none() } else { refused }, "{name}: {error:?}");
        }
    }
}

/// If a router stops answering, the controller continues as NewReno.
#[test]
fn a_router_that_stops_answering_ends_it() {
    for name in ["rcp", "xcp"] {
        let mut world = World::new(links(Some(router_of(name))), name, 1);
        let before = world.run(10.0).info(0);
        assert_eq!(before.phase, "router-assisted");
        assert!(before.network.unwrap().granted > 1000);
        world.sim.reconfigure(0, forward(None)).unwrap();
        let after = world.run(0.2).info(0);
        assert_eq!(after.phase, "slow-start", "{name}");
        assert!(after.network.unwrap().denied > 0, "{name}");
        let requests = after.network.unwrap().requests;
        // The window is the initial window, doubled at most once.
        assert!(after.cwnd.0 <= 20 * 1448, "{name}: {}", after.cwnd);
        // If the router answers again, requests are not resumed.
        world.sim.reconfigure(0, forward(Some(router_of(name)))).unwrap();
        let later = world.run(10.0).info(0);
        assert_eq!(later.network.unwrap().requests, requests, "{name}");
        let sent = (later.bytes_acked - after.bytes_acked) as f64 * 8.0 / 10.0;
        assert!(sent > 0.7 * MEGABITS as f64 * 1e6, "{name}: NewReno fills the link again, {sent} bit/s");
    }
}

/// A single packet that a router has not processed counts as a denial, whatever the answers before and after it are.
#[test]
fn one_unstamped_packet_is_enough() {
    for name in ["rcp", "xcp"] {
        let mut count = 0;
        let mut world = World::edited(pair(None, name), move |_, forward| {
            count += 1;
            if count != 100 {
                forward.stamps += 1;
            }
            if let Request::Rcp { rate, .. } = &mut forward.request {
                *rate = WireRate::new(Rate::from_bits_per_sec(10_000_000));
            }
            if let Request::Xcp { delta, .. } = &mut forward.request {
                *delta = WireDelta::new(0);
            }
        });
        let info = world.run(3.0).info(0);
        assert_ne!(info.phase, "router-assisted", "{name}");
        assert!(info.network.unwrap().granted > 40, "{name}");
    }
}

/// An attacker on the path who raises the routers' answers can increase the rate at most to one peer's window per round
/// trip, which is 64 KiB here. If the sender requested a limited rate, answers above it are refused.
#[test]
fn forged_answers_are_bounded() {
    let forge = |_: Time, forward: &mut Forward| {
        forward.stamps += 1;
        match &mut forward.request {
            Request::Rcp { rate, .. } => *rate = WireRate::new(Rate::from_bytes_per_sec(1 << 50)),
            Request::Xcp { delta, .. } => *delta = WireDelta::new(1 << 50),
            _ => {}
        }
    };
    for (name, instructed) in [("rcp", true), ("rcp(rate=100)", false), ("xcp", false)] {
        let small = |config: &mut Config| (config.recv_buffer, config.recv_buffer_max) = (65_536, 65_536);
        let mut world = World::edited(pair(None, name).configure(small), forge);
        for _ in 0..300 {
            let info = world.run(0.01).info(0);
            assert!(info.in_flight.0 <= 65_536, "{name}: {}", info.in_flight);
            assert!(info.cwnd.0 <= 65_536 || info.phase != "router-assisted", "{name}: {}", info.cwnd);
        }
        let info = world.info(0);
        assert_eq!(info.phase == "router-assisted", instructed, "{name}");
        // An answer above the request is forged. If an RCP request has no limit, no answer exceeds it.
        let network = info.network.unwrap();
        assert_eq!((network.refused > 0, network.granted > 0), (!instructed, instructed), "{name}");
        let rate = info.bytes_acked as f64 / 3.0;
        assert!(rate <= 65_536.0 / RTT.as_secs_f64() * 1.01, "{name}: {rate} bytes/s");
    }
}

/// An RCP answer can be as high as the request, rounded as on the wire. The next higher value on the wire is forged.
#[test]
fn an_rcp_answer_is_at_most_the_request() {
    for name in ["rcp(rate=100)", "rcp(rate=999999)"] {
        for above in [0, 1] {
            let edit = move |_: Time, forward: &mut Forward| {
                forward.stamps += 1;
                if let Request::Rcp { rate, .. } = &mut forward.request {
                    *rate = WireRate(rate.0 + above);
                }
            };
            let small = |config: &mut Config| (config.recv_buffer, config.recv_buffer_max) = (65_536, 65_536);
            let info = World::edited(pair(None, name).configure(small), edit).run(1.0).info(0);
            let network = info.network.unwrap();
            let seen = (network.refused > 0, network.granted > 0, info.phase == "router-assisted");
            assert_eq!(seen, (above > 0, above == 0, above == 0), "{name}: {network:?}");
        }
    }
}

/// Adds an answer to each segment after the handshake, whose receiver has not sent a request.
struct Unasked(Feedback);

impl Hook<Parcel> for Unasked {
    fn offered(&mut self, _now: Time, packet: &mut longhaul_link::Packet<Parcel>, _view: &View) {
        let Some(inner) = packet.payload.as_mut() else { return };
        let Ok((mut header, offset)) = CheshireCodec::parse(&inner.payload) else { return };
        let syn = header.flags.contains(Flags::SYN);
        let Some(option) = header.options.network.as_mut().filter(|_| !syn) else { return };
        option.feedback = Some(self.0);
        let mut bytes = [0; 60];
        let len = CheshireCodec::emit(&header, &mut bytes).unwrap();
        inner.payload.splice(..offset, bytes[..len].iter().copied());
    }
}

/// A receiver without requests gets an answer with each segment. Each answer is refused, and the receiver's own
/// controller, CUBIC, is not affected.
#[test]
fn unsolicited_router_feedback_is_ignored() {
    let answers = [
        Feedback::Denied,
        Feedback::Rcp { rate: WireRate::new(Rate::MAX) },
        Feedback::Xcp { delta: WireDelta::new(-1) },
    ];
    for answer in answers {
        let mut setup = pair(Some(router_of("rcp")), "rcp");
        Arc::make_mut(&mut setup.hosts[1].config).congestion = Congestion::default();
        let mut sim = Sim::new(setup);
        sim.set_hook(0, Unasked(answer));
        let (_, receiver) = sim.open(Plan::bulk(1_000_000).zeros(), Plan::sink().zeros());
        sim.run_for(Span::from_secs(1));
        let id = sim.session(receiver).id;
        let info = sim.host(1).endpoint.connection(id).unwrap().info(sim.now());
        let network = info.network.unwrap();
        assert_eq!((network.requests, network.granted, network.denied), (0, 0, 0), "{answer:?}");
        assert!(network.refused > 50, "{answer:?}: {network:?} of {} segments", info.segments_in);
        assert_eq!(info.phase, "slow-start", "{answer:?}");
    }
}

/// Replaces each later answer on the reverse path by the highest one so far.
#[derive(Default)]
struct Replay(Option<Feedback>);

impl Hook<Parcel> for Replay {
    fn offered(&mut self, _now: Time, packet: &mut longhaul_link::Packet<Parcel>, _view: &View) {
        let Some(inner) = packet.payload.as_mut() else { return };
        let Ok((mut header, _)) = CheshireCodec::parse(&inner.payload) else { return };
        let Some(now) = header.options.network.as_mut().and_then(|network| network.feedback.as_mut()) else { return };
        let better = match (self.0, *now) {
            (Some(Feedback::Rcp { rate: best }), Feedback::Rcp { rate }) => best.rate() > rate.rate(),
            (Some(Feedback::Xcp { delta: best }), Feedback::Xcp { delta }) => {
                best.bytes_per_sec() > delta.bytes_per_sec()
            }
            _ => false,
        };
        if better {
            *now = self.0.unwrap();
        }
        self.0 = Some(*now);
        let mut bytes = [0; 60];
        let len = CheshireCodec::emit(&header, &mut bytes).unwrap();
        inner.payload = bytes[..len].to_vec();
    }
}

/// Answers of RCP and XCP have no nonce, so that old ones are accepted. They never exceed what routers once granted,
/// and the peer's window of 64 KiB also limits the rate here.
#[test]
fn replayed_answers_are_bounded() {
    let honest = |now: Time, forward: &mut Forward| {
        forward.stamps += 1;
        let early = now < Time::from_nanos(2_000_000_000);
        match &mut forward.request {
            Request::Rcp { rate, .. } => {
                *rate = WireRate::new(Rate::from_bits_per_sec(if early { 4_000_000 } else { 400_000 }));
            }
            Request::Xcp { delta, .. } => {
                let asked = delta.bytes_per_sec();
                *delta = WireDelta::new(if early { asked.min(10_000) } else { -10_000 });
            }
            _ => {}
        }
    };
    for (name, most) in [("rcp", 4e6 / 8.0 * 1432.0 / 1500.0), ("xcp", 65_536.0 / RTT.as_secs_f64())] {
        let rate = |replays: bool| {
            let small = |config: &mut Config| (config.recv_buffer, config.recv_buffer_max) = (65_536, 65_536);
            let mut sim = Sim::new(pair(None, name).configure(small));
            sim.set_hook(0, Router(move |now: Time, _: &_, _: u32, forward: &mut Forward| honest(now, forward)));
            if replays {
                sim.set_hook(1, Replay::default());
            }
            let mut world = World::in_sim(sim, (0, 1), 1);
            for _ in 0..400 {
                let info = world.run(0.01).info(0);
                assert!(info.in_flight.0 <= 65_536 && info.cwnd.0 <= 65_536, "{name}: {info:?}");
            }
            let before = world.info(0).bytes_acked;
            let info = world.run(4.0).info(0);
            let network = info.network.unwrap();
            assert_eq!((info.phase, network.refused, network.denied), ("router-assisted", 0, 0), "{name}");
            (info.bytes_acked - before) as f64 / 4.0
        };
        let (told, replayed) = (rate(false), rate(true));
        println!("{name}: {told:.0} bytes/s as told, {replayed:.0} by replays, at most {most:.0}");
        assert!(told < 0.25 * most, "{name}: {told}");
        assert!(replayed > 2.0 * told && replayed <= 1.01 * most, "{name}: {replayed} of {most}");
    }
}

/// A router grants a rate of zero, and later half of the link. At rate zero, one segment per half second carries a
/// request. After the second grant, the flow resumes at once.
#[test]
fn at_rate_zero_rcp_pauses_and_goes_on() {
    let mut world = World::edited(pair(None, "rcp"), |now, forward| {
        forward.stamps += 1;
        let pauses = (Time::from_nanos(2_000_000_000)..Time::from_nanos(6_000_000_000)).contains(&now);
        let bits = if pauses { 0 } else { MEGABITS * 500_000 };
        if let Request::Rcp { rate, .. } = &mut forward.request {
            *rate = WireRate::new(Rate::from_bits_per_sec(bits));
        }
    });
    let before = world.run(2.5).info(0).bytes_sent;
    let after = world.run(3.4).info(0).bytes_sent;
    let asked = (after - before) / 1432;
    assert!((5..=8).contains(&asked), "{asked} segments in a pause of 3.4 s");
    let resumed = world.run(1.1).info(0).bytes_acked;
    let (rates, _) = world.measure(2.0, payload("rcp"));
    assert!(resumed > after, "{resumed}");
    assert!((rates[0] / (MEGABITS as f64 * 5e5) - 1.0).abs() < 0.02, "{rates:?}");
}
