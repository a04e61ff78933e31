//! Start-up schemes that send much data early, over simulated links: Jump-Start, Halfback, Paced Start and an unpaced
//! initial window, compared with slow start.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use longhaul_cc::{Congestion, SavedPath};
use longhaul_link::router::QuickStartConfig;
use longhaul_link::topology::Duplex;
use longhaul_link::{Limit, LinkConfig, Loss, RouterConfig};
use longhaul_sim::{Close, Packet, Plan, SessionId, Setup, Sighting, Sim, Tap, full_segments};
use longhaul_tcp::{Config, Info, PathCache, PathMetrics};
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Flags, Header};

const MSS: u64 = 1448;
const KB: u64 = 1000;

/// Transmission times of data segments, the receiver's latest header, and the scale of its window.
#[derive(Default)]
struct Seen {
    data: Vec<(Time, u64)>,
    answer: Option<(Packet, Header)>,
    shift: u8,
}

impl Tap for Seen {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        let Ok((header, offset)) = CheshireCodec::parse(&packet.payload) else { return };
        match sighting {
            Sighting::Sent(0) if packet.payload_len() > offset => {
                self.data.push((now, (packet.payload_len() - offset) as u64));
            }
            Sighting::Received(0) => {
                self.shift = header.options.window_scale.unwrap_or(self.shift);
                self.answer = Some((packet.clone(), header));
            }
            _ => {}
        }
    }
}

impl Seen {
    /// Returns the maximum number of segments sent at one instant.
    fn together(&self) -> usize {
        self.data.chunk_by(|one, two| one.0 == two.0).map(<[_]>::len).max().unwrap_or(0)
    }
}

/// A path of `mbit` Mb/s and `rtt` ms with a queue of `packets` packets.
#[derive(Clone, Copy)]
struct Link {
    mbit: u64,
    rtt: u64,
    packets: u64,
}

impl Link {
    /// Creates a path with a queue of one bandwidth-delay product.
    const fn bdp(mbit: u64, rtt: u64) -> Self {
        Self { mbit, rtt, packets: mbit * rtt * 125 / 1500 }
    }

    const fn rtt(self) -> Span {
        Span::from_millis(self.rtt)
    }

    fn there(self) -> LinkConfig {
        LinkConfig::new(Rate::from_bits_per_sec(self.mbit * 1_000_000), self.rtt() / 2)
            .queue(Limit::Packets(self.packets))
    }

    fn open(self, congestion: &str, bytes: u64) -> World {
        World::new(self, self.there(), congestion, bytes, |_| {})
    }
}

struct World {
    sim: Sim,
    sender: SessionId,
    receiver: SessionId,
    seen: Rc<RefCell<Seen>>,
    link: Link,
    bytes: u64,
}

impl World {
    fn new(link: Link, there: LinkConfig, congestion: &str, bytes: u64, change: impl Fn(&mut Config)) -> Self {
        let back = LinkConfig::delay(link.rtt() / 2);
        let setup = Setup::pair(7, Duplex { there, back }).configure(|config| {
            full_segments(config);
            config.congestion = longhaul_tests_papers::congestion(congestion);
            config.nagle = false;
            change(config);
        });
        let mut sim = Sim::new(setup);
        let seen = Rc::new(RefCell::new(Seen::default()));
        sim.add_tap(Rc::clone(&seen));
        let mut plan = Plan::bulk(bytes).zeros();
        plan.close = Close::Never;
        let (sender, receiver) = sim.open(plan, Plan::sink().zeros());
        Self { sim, sender, receiver, seen, link, bytes }
    }

    /// Runs until `round_trips` round trips after the SYN.
    fn until(&mut self, round_trips: f64) -> Info {
        let end = Time::ZERO + self.link.rtt().mul_f64(round_trips);
        self.sim.run_for(end - self.sim.now());
        self.info()
    }

    fn info(&self) -> Info {
        let id = self.sim.session(self.sender).id;
        self.sim.host(0).endpoint.connection(id).unwrap().info(self.sim.now())
    }

    /// Returns the number of round trips from the SYN until all data is read.
    fn finish(&mut self) -> f64 {
        let (receiver, bytes) = (self.receiver, self.bytes);
        let done = |sim: &Sim| sim.find(receiver).is_some_and(|session| session.read >= bytes);
        assert!(self.sim.run(Span::from_secs(60), done), "it takes a minute");
        (self.sim.now() - Time::ZERO).as_secs_f64() / self.link.rtt().as_secs_f64()
    }

    /// Repeats the receiver's latest packet with a changed header.
    fn forge(&mut self, change: impl FnOnce(&mut Header)) {
        let (packet, mut header) = self.seen.borrow().answer.clone().unwrap();
        if header.flags.contains(Flags::SYN) {
            (header.flags, header.seq) = (Flags::ACK, header.seq.wrapping_add(1));
            header.options = longhaul_wire::Options { timestamps: header.options.timestamps, ..Default::default() };
        }
        change(&mut header);
        let mut bytes = [0; 64];
        let len = CheshireCodec::emit(&header, &mut bytes).unwrap();
        self.sim.inject(Span::ZERO, 0, Packet { payload: bytes[..len].to_vec(), zeros: 0, ..packet });
    }

    fn sent_once(&self) -> u64 {
        let info = self.info();
        info.bytes_sent - info.bytes_retransmitted
    }
}

const SLOW_START: &str = "slow-start+new-reno";
const STARTS: [&str; 4] = [
    "jump-start(max-jump=0)+slow-start+new-reno",
    "jump-start(then=slow-start)+slow-start+new-reno",
    "halfback+slow-start+new-reno",
    "paced-start+slow-start+new-reno",
];

/// With slow start, 100 kB take three round trips after the handshake, with 10, 20 and 40 segments. With a jump, they
/// take one round trip, plus the one-way delay.
#[test]
fn a_hundred_kilobytes_take_a_round_trip() {
    for link in [Link::bdp(20, 100), Link::bdp(20, 500)] {
        let slow = link.open(SLOW_START, 100 * KB).finish();
        assert!((3.5..4.5).contains(&slow), "{slow}");
        for start in [STARTS[0], STARTS[2]] {
            let mut world = link.open(start, 100 * KB);
            let time = world.finish();
            assert!((2.4..=2.55).contains(&time), "{start}: {time} round trips");
            assert_eq!(world.info().bytes_lost, 0);
        }
        let limited = link.open(STARTS[1], 100 * KB).finish();
        assert!(limited < slow - 0.3, "64 KiB, and the rest for their ACKs: {limited}, not {slow}");
    }
}

/// On paths with a BDP of 166 or 833 segments, a jump without a limit sends all of 1 MB. Half of it is lost on the
/// first path, and nothing on the second.
#[test]
fn a_megabyte_is_sooner_too() {
    for (rtt, shares, full) in [(100, [0.65, 0.85, 0.85, 0.8], true), (500, [0.4, 0.8, 0.75, 0.65], false)] {
        let link = Link::bdp(20, rtt);
        let slow = link.open(SLOW_START, 1000 * KB).finish();
        for (start, share) in STARTS.into_iter().zip(shares) {
            let mut world = link.open(start, 1000 * KB);
            let (time, lost) = (world.finish(), world.info().bytes_lost);
            println!("{rtt} ms, {start}: {time:.2} round trips, slow start {slow:.2}; {lost} bytes lost");
            assert!(time <= share * slow, "{rtt} ms, {start}: {time} round trips, slow start {slow}");
            if start == STARTS[0] {
                assert_eq!(lost > 400 * KB, full, "{rtt} ms: {lost} bytes lost");
            }
        }
    }
}

/// Without pacing, the initial window is sent as ten segments at once, compared with two with paced start-up.
#[test]
fn the_initial_window_at_once_or_paced() {
    let link = Link::bdp(20, 100);
    for (start, together) in [("initial-burst+slow-start+new-reno", 10), (SLOW_START, 2)] {
        let mut world = link.open(start, u64::MAX);
        let info = world.until(1.95);
        assert_eq!(info.bytes_sent, 10 * MSS);
        assert_eq!(world.seen.borrow().together(), together, "{start}");
        let first = world.seen.borrow().data.len();
        world.until(4.0);
        let mut seen = world.seen.borrow_mut();
        seen.data.drain(..first);
        assert_eq!(seen.together(), 2, "{start}: the rounds that follow are paced");
    }
    // In a queue of five packets, the unpaced window has losses, and the paced one does not.
    let small = Link { packets: 5, ..link };
    let lost = |start| small.open(start, u64::MAX).until(4.0).bytes_lost;
    assert_eq!(lost(SLOW_START), 0);
    assert!(lost("initial-burst+slow-start+new-reno") > 0);
}

/// Returns FlightSize when the loss of a jump is detected, the number of retransmitted bytes, and the state after
/// recovery.
fn after_the_loss(link: Link, max_jump: u64) -> (u64, u64, Info) {
    let start = format!("jump-start(max-jump={max_jump})+slow-start+new-reno");
    let mut world = link.open(&start, u64::MAX);
    let mut outstanding = 0;
    while world.info().recoveries == 0 {
        let info = world.info();
        outstanding = info.bytes_sent - info.bytes_acked;
        assert!(world.sim.step().is_some() && world.sim.now() < Time::ZERO + link.rtt() * 20, "nothing was lost");
    }
    // FlightSize excludes the two segments of limited transmit (RFC 5681, section 3.2).
    let flight = world.info().cwnd.0 * 2;
    assert!(flight <= outstanding && flight + 2 * MSS >= outstanding, "half of {outstanding} is not {flight} / 2");
    while world.info().phase == "recovery" {
        world.sim.step();
    }
    let info = world.info();
    (flight, info.bytes_retransmitted, info)
}

/// The window after recovery is (F - R)/2, whether a queue of ten packets loses much of the flight F, or one of a
/// bandwidth-delay product loses little.
#[test]
fn the_window_after_a_loss_is_half_of_what_came_through() {
    let narrow = Link::bdp(4, 100);
    for (link, max_jump, share) in [(Link { packets: 10, ..narrow }, 72, 0.1..0.6), (narrow, 128, 0.1..0.6)] {
        let (flight, resent, info) = after_the_loss(link, max_jump);
        assert!(share.contains(&(resent as f64 / flight as f64)), "{resent} of {flight}");
        assert_eq!((info.recoveries, info.timeouts), (1, 0));
        assert_eq!(info.bytes_retransmitted, info.bytes_lost, "nothing was sent again twice");
        assert_eq!(info.cwnd.0, (flight - resent) / 2, "{} packets", link.packets);
        assert_eq!(info.ssthresh, Some(info.cwnd));
    }
}

/// At most two segments are sent at one instant, which is the pacing quantum at these rates. This holds during
/// start-up, in the transition, and after recovery.
#[test]
fn nothing_leaves_in_bursts() {
    for link in [Link::bdp(20, 100), Link { packets: 20, ..Link::bdp(20, 100) }, Link::bdp(5, 500)] {
        for start in STARTS {
            let mut world = link.open(start, 400 * KB);
            world.finish();
            let together = world.seen.borrow().together();
            assert!(together <= 2, "{start}: {together} at once");
        }
    }
}

/// Halfback sends one copy per ACK: for a flow of 1 to 97 segments, a third of the flow with one ACK per two segments,
/// and half with one ACK per segment. Nothing is lost, and no copy causes a spurious reaction.
#[test]
fn halfback_copies_half_of_the_flow() {
    for segments in [1, 2, 10, 41, 97] {
        for (every, clock, share) in [(2, "ack", 3), (1, "ack", 2), (2, "segment", 2)] {
            let link = Link::bdp(20, 100);
            let start = format!("halfback(clock={clock})+slow-start+new-reno");
            let mut world = World::new(link, link.there(), &start, segments * MSS, |config| config.ack_every = every);
            let time = world.finish();
            assert!(time < 2.6, "{time} round trips");
            let info = world.until(4.0);
            let copies = info.probes.unwrap().sent;
            assert!(copies <= segments / 2, "{segments}, {every} {clock}: {copies} copies");
            assert!(copies + 2 >= segments / share, "{segments}, {every} {clock}: {copies} copies");
            assert_eq!((info.bytes_lost, info.recoveries, info.segments_retransmitted), (0, 0, 0), "{info:?}");
        }
    }
}

/// The last five segments of thirty are lost. Halfback's copies replace them sooner than a tail loss probe triggers
/// their retransmission.
#[test]
fn halfback_repairs_the_tail() {
    let link = Link::bdp(20, 100);
    let time = |start: &str| {
        let mut there = link.there();
        // The SYN is the first packet, so segments 26 to 30 are the packets 27 to 31.
        there.loss = Loss::List((27..=31).collect());
        let mut world = World::new(link, there, start, 30 * MSS, |_| {});
        let time = world.finish();
        (time, world.info().timeouts, world.info().tail_probes)
    };
    let (halfback, timeouts, probes) = time(STARTS[2]);
    assert_eq!((timeouts, probes), (0, 0));
    // The tail loss probe waits for two round trips (RFC 8985, section 7.2). No retransmission timeout occurs.
    let (jump, jump_timeouts, jump_probes) = time(STARTS[0]);
    assert_eq!((jump_timeouts, jump_probes > 0), (0, true));
    assert!(halfback < 2.8 && halfback + 2.0 < jump, "{halfback} and {jump} round trips");
}

/// At 2 Mb/s, the path carries 17 segments per round trip. A flow that continues after Halfback gets this window,
/// computed from the rate of the ACKs.
#[test]
fn halfback_hands_over_the_rate_of_the_acks() {
    let link = Link { mbit: 2, rtt: 100, packets: 200 };
    let mut world = link.open(STARTS[2], u64::MAX);
    world.until(2.5);
    while world.info().phase.starts_with("halfback") {
        world.sim.step();
    }
    let info = world.info();
    let fits = 2e6 / 8.0 * 0.1 * 1448.0 / 1500.0;
    assert!((info.cwnd.as_f64() / fits - 1.0).abs() < 0.05, "{} of {fits}", info.cwnd);
    assert_eq!((info.ssthresh, info.bytes_lost), (Some(info.cwnd), 0));
    assert_eq!(info.probes.map(|probes| probes.sent), Some(0), "the end of the flow is not known");
}

/// On an idle path, Paced Start finds the BDP by two trains, both from arrival times and from ACKs.
#[test]
fn paced_start_finds_the_path() {
    for (mbit, rtt) in [(20, 100), (20, 500), (5, 500), (100, 50)] {
        for extensions in [true, false] {
            let link = Link::bdp(mbit, rtt);
            let mut world =
                World::new(link, link.there(), STARTS[3], u64::MAX, |config| config.extensions = extensions);
            world.until(1.5);
            while world.info().phase.starts_with("paced-start") {
                world.sim.step();
            }
            let info = world.info();
            let holds = (mbit * rtt * 125) as f64 * 1448.0 / 1500.0;
            assert!((info.cwnd.as_f64() / holds - 1.0).abs() < 0.06, "{mbit} {rtt}: {} of {holds}", info.cwnd);
            assert_eq!((info.bytes_lost, info.ssthresh), (0, Some(info.cwnd)));
            let later = world.until(10.0);
            assert_eq!(later.bytes_lost, 0, "{mbit} {rtt}");
        }
    }
}

/// Starts a transfer with the cached metrics or routers that the start-up scheme needs: 20 Mb/s, an RTT of 100 ms, and
/// the window that fills this path.
fn prepared(start: &str, bytes: u64) -> World {
    let link = Link::bdp(20, 100);
    let mut there = link.there();
    there.router = Some(RouterConfig::QuickStart(QuickStartConfig::default()));
    there.is_hop = true;
    let rate = Rate::from_bits_per_sec(20_000_000);
    let mut known = PathMetrics::default();
    known.saved = Some(SavedPath::new(rate.bytes_in(link.rtt()), rate, link.rtt()));
    let cache = PathCache::default();
    let congestion: Congestion = longhaul_tests_papers::congestion(start);
    cache.seed(Time::ZERO, IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), &congestion.name(), &known);
    World::new(link, there, start, bytes, |config| {
        config.routers_answer = true;
        config.path_cache = Some(cache.clone());
    })
}

/// The peer shrinks its window to 20 kB during the jump: no further data is sent, and the event is counted once.
/// Schemes that jump without measurement continue with the amount of data sent so far as window.
#[test]
fn a_window_that_shrinks_is_kept_to() {
    // The start-up scheme, its phase, a time at which the phase is active, and the time of the next genuine ACK, in
    // round trips.
    for (start, phase, at, quiet) in [
        (STARTS[0], "jump-start", 1.3, 1.9),
        (STARTS[2], "halfback-pacing", 1.3, 1.9),
        (STARTS[3], "paced-start-fill", 3.3, 3.9),
        ("cached-start+slow-start+new-reno", "fast-start", 1.3, 1.9),
        ("quick-start(rate=20000)+limited-slow-start+new-reno", "quick-start", 1.3, 1.9),
        ("careful-resume+slow-start+new-reno", "unvalidated", 2.8, 2.98),
        ("swift-start+slow-start+new-reno", "swift-start-paced", 2.7, 2.95),
    ] {
        let mut world = prepared(start, 200 * KB);
        let before = world.until(at);
        let (sent, outstanding) = (before.bytes_sent, before.bytes_sent - before.bytes_acked);
        assert!(outstanding > 20 * KB && sent < 100 * KB, "{start}: {sent}, {outstanding}");
        assert_eq!((before.phase, before.windows_shrunk), (phase, 0), "{start}");
        let shift = world.seen.borrow().shift;
        world.forge(|header| header.window = ((20 * KB) >> shift) as u16);
        let later = world.until(quiet);
        assert_eq!((later.bytes_sent, later.peer_window.0), (sent, ((20 * KB) >> shift) << shift), "{start}");
        // The first genuine ACK opens the window again.
        let after = world.until(quiet + 0.2);
        let acked = after.bytes_acked - before.bytes_acked;
        assert!(after.cwnd.0 <= before.cwnd.0 + acked, "{start}: {} from {}", after.cwnd, before.cwnd);
        if [STARTS[0], STARTS[2]].contains(&start) {
            assert!(after.cwnd.0 <= sent.max(10 * MSS), "{start}: {} for {sent}", after.cwnd);
        }
        world.finish();
        let info = world.info();
        assert_eq!((info.bytes_lost, info.windows_shrunk), (0, 1), "{start}");
    }
}

/// If window units are 2^shift bytes, a receiver cannot advertise every position of its right edge (RFC 7323, section
/// 2.4): a reduction by one unit counts as shrinking only if no bytes are acknowledged at the same time. Each further
/// unit counts again.
#[test]
fn rounding_by_the_window_scale_is_not_a_shrunk_window() {
    let mut world = prepared(STARTS[0], 200 * KB);
    let steps = [(1, 100, 0), (1, 0, 1), (0, 0, 1), (3, 0, 2), (4, 0, 3)];
    let offered = world.until(1.3).peer_window.0;
    let shift = world.seen.borrow().shift;
    let (mut taken, mut acked) = (0, 0);
    for (step, (units, bytes, expected)) in steps.into_iter().enumerate() {
        (taken, acked) = (taken + units, acked + bytes);
        // The changed packet is that of the previous step, so the changes accumulate.
        world.forge(|header| (header.window, header.ack) = (header.window - units, header.ack.wrapping_add(bytes)));
        let info = world.until(1.3 + 0.01 * (step + 1) as f64);
        assert_eq!((info.peer_window.0, info.bytes_acked), (offered - (u64::from(taken) << shift), u64::from(acked)));
        assert_eq!(info.windows_shrunk, expected, "step {step}");
    }
}

/// The path fails during the jump: the window becomes one segment, and slow start ends at half of the flight.
#[test]
fn a_timeout_in_the_jump_leaves_a_segment() {
    for start in STARTS {
        let mut world = Link::bdp(20, 100).open(start, 60 * KB);
        world.until(1.02);
        let mut dead = world.link.there();
        dead.loss = Loss::Uniform(1.0);
        world.sim.reconfigure(0, dead).unwrap();
        while world.info().timeouts == 0 {
            world.sim.step();
        }
        let (info, flight) = (world.info(), world.sent_once() - world.info().bytes_acked);
        assert_eq!((info.cwnd.0, info.phase), (MSS, "slow-start"), "{start}");
        assert!(info.ssthresh.unwrap().0 <= (flight / 2).max(2 * MSS), "{start}: {:?} of {flight}", info.ssthresh);
        world.sim.reconfigure(0, world.link.there()).unwrap();
        world.finish();
    }
}

/// A peer acknowledges data that it has not received, or that was never sent. This ends the jump, and the window is
/// limited to the amount of data sent until this data is acknowledged.
#[test]
fn forged_acks_open_no_more_than_the_jump() {
    for start in ["jump-start+new-reno", "halfback+new-reno"] {
        for begins in [1.2, 1.5, 1.9] {
            let mut world = Link::bdp(20, 500).open(start, u64::MAX);
            world.until(begins);
            let jump = world.sent_once().max(10 * MSS);
            assert!(world.info().cwnd.0 > jump, "{start}: in the middle of it");
            for k in 1..=10 {
                let sent = world.sent_once();
                world.forge(|header| header.ack = header.ack.wrapping_add((sent * k / 10) as u32));
                world.forge(|header| header.ack = header.ack.wrapping_add(sent as u32 + 50_000));
                let info = world.until(begins + 0.001 * k as f64);
                assert!(info.bytes_acked > 0 && info.cwnd.0 <= jump + MSS, "{start}, {begins}: {} {jump}", info.cwnd);
            }
        }
    }
}
