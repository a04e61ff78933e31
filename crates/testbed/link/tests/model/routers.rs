//! Convergence of RCP and XCP routers at the output of a link, with sources that obey them immediately.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use longhaul_link::router::{QuickStartConfig, RcpConfig, XcpConfig};
use longhaul_link::{Link, LinkConfig, Packet, RouterConfig, RouterStats};
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::network::{Forward, NetworkOption, QuickStartNonce, QuickStartRate, Request, WireDelta, WireRate};
use longhaul_wire::{CheshireCodec, Codec, Header, Segment};

/// Bytes of an IP packet.
const SIZE: u32 = 1000;
/// Delay from the link's end via the receiver back to the sender; the delay of the link is the same.
const BACK: Span = Span::from_millis(50);
/// 40 Mb/s: 500 packets of 1000 bytes per RTT of 100 ms.
const CAPACITY: u64 = 5_000_000;

fn segment(request: Request) -> Vec<u8> {
    let forward = Forward { ttl: 64, stamps: 0, request };
    let mut header = Header::default();
    header.options.network = Some(NetworkOption { forward: Some(forward), feedback: None });
    let mut datagram = vec![0; 64];
    let len = CheshireCodec::emit(&header, &mut datagram).unwrap();
    datagram.truncate(len);
    datagram
}

fn forward(datagram: &[u8]) -> Forward {
    Segment::parse::<CheshireCodec>(datagram).unwrap().header.options.network.unwrap().forward.unwrap()
}

/// Behaviour of the sources: what they request, and when they send.
trait Behaviour {
    /// Returns the request in a packet that a source sends.
    fn request(&mut self, source: usize) -> Request;
    /// Handles an answer that reaches a source, with the measured RTT.
    fn answered(&mut self, source: usize, answer: Request, rtt: Span);
    /// Returns when a source may send next, or `None` if it must wait for an answer.
    fn next(&mut self, source: usize, now: Time, in_flight: u64) -> Option<Time>;
}

/// Goodput of each source after `since`, the mean bytes queued in that time, and the router's counters.
struct Outcome {
    rates: Vec<f64>,
    queue: f64,
    stats: RouterStats,
}

/// Runs sources that start 100 ms apart until `until`.
fn run(behaviour: &mut impl Behaviour, router: RouterConfig, sources: usize, until: u64, since: u64) -> Outcome {
    let config = LinkConfig::new(Rate::from_bytes_per_sec(CAPACITY), BACK).router(router);
    let mut link = Link::<Vec<u8>>::new(config, 1, 0).unwrap();
    let (until, since) = (Time::ZERO + Span::from_secs(until), Time::ZERO + Span::from_secs(since));
    // Events are a source's turn to send, or an answer on its way: time, number and source.
    let mut events: BinaryHeap<Reverse<(Time, u64, usize)>> = BinaryHeap::new();
    let mut answers = std::collections::HashMap::new();
    let mut sent_at = std::collections::HashMap::new();
    let (mut number, mut in_flight) = (0u64, vec![0u64; sources]);
    let mut arrived = vec![0u64; sources];
    let (mut waited, mut looks) = (0u64, 0u64);
    for source in 0..sources {
        number += 1;
        events.push(Reverse((Time::ZERO + Span::from_millis(100) * source as u64, number, source)));
    }
    // The number of the event at which each source sends next; other turns are stale.
    let mut turns: Vec<Option<u64>> = (1..=sources as u64).map(Some).collect();
    loop {
        let next = events.peek().map(|Reverse((at, ..))| *at);
        let due = link.next_event().into_iter().chain(next).min().unwrap();
        if due > until {
            break;
        }
        // Count the packets that arrive, and schedule their answers.
        while let Some((at, packet)) = link.poll(due) {
            number += 1;
            let source = packet.flow as usize;
            arrived[source] += u64::from(at > since) * u64::from(packet.size);
            let answer = forward(&packet.payload);
            assert_eq!(answer.stamps, 1);
            answers.insert(number, (answer.request, sent_at.remove(&packet.to).unwrap()));
            events.push(Reverse((at + BACK, number, source)));
        }
        if next != Some(due) {
            continue;
        }
        // Handle an answer or a turn to send; ignore stale turns.
        let Some(Reverse((now, id, source))) = events.pop() else { break };
        if let Some((answer, left)) = answers.remove(&id) {
            in_flight[source] -= 1;
            behaviour.answered(source, answer, now - left);
        } else if turns[source] != Some(id) {
            continue;
        }
        turns[source] = None;
        if now > since {
            waited += link.backlog().1;
            looks += 1;
        }
        // Send as much as the source may, and schedule its next turn.
        while let Some(at) = behaviour.next(source, now, in_flight[source]) {
            number += 1;
            if at > now {
                events.push(Reverse((at, number, source)));
                turns[source] = Some(number);
                break;
            }
            let mut packet = Packet::new(SIZE, segment(behaviour.request(source))).flow(source as u32);
            packet.to = number as u32;
            sent_at.insert(packet.to, now);
            in_flight[source] += 1;
            link.offer(now, packet);
        }
    }
    let seconds = (until - since).as_secs_f64();
    Outcome {
        rates: arrived.iter().map(|bytes| *bytes as f64 / seconds).collect(),
        queue: waited as f64 / looks as f64,
        stats: *link.router_stats().unwrap(),
    }
}

/// Sources that send at the last advertised rate as soon as they receive it.
struct RcpSources(Vec<(f64, Span, Time)>);

impl Behaviour for RcpSources {
    fn request(&mut self, source: usize) -> Request {
        Request::Rcp { rate: WireRate::UNLIMITED, rtt_micros: self.0[source].1.as_micros() as u32 }
    }

    fn answered(&mut self, source: usize, answer: Request, rtt: Span) {
        let Request::Rcp { rate, .. } = answer else { panic!("{answer:?}") };
        (self.0[source].0, self.0[source].1) = (rate.rate().as_bytes_per_sec() as f64, rtt);
    }

    fn next(&mut self, source: usize, now: Time, in_flight: u64) -> Option<Time> {
        let (rate, _, last) = &mut self.0[source];
        if *rate == 0.0 {
            // The first packet carries the request; wait for its answer.
            return (in_flight == 0).then_some(now);
        }
        let due = *last + Span::from_secs_f64(f64::from(SIZE) / *rate);
        if due <= now {
            // A source may catch up by less than one packet.
            *last = due.max(now - Span::from_secs_f64(f64::from(SIZE) / *rate));
        }
        Some(due)
    }
}

#[test]
fn rcp_converges_to_gamma_times_the_share() {
    for (sources, gamma) in [(1, 0.95), (2, 0.95), (10, 0.95), (50, 0.95), (10, 0.8)] {
        let mut behaviour = RcpSources(vec![(0.0, Span::ZERO, Time::ZERO); sources]);
        let router = RouterConfig::Rcp(RcpConfig { gamma, ..RcpConfig::default() });
        let Outcome { rates, queue, stats } = run(&mut behaviour, router, sources, 30, 20);
        let share = gamma * CAPACITY as f64 / sources as f64;
        for rate in &rates {
            assert!((rate / share - 1.0).abs() < 0.05, "{sources}: {rate} of {share}");
        }
        // Sources are not synchronized, so packets of several ones occasionally arrive at once.
        assert!(queue < f64::from(SIZE) * sources as f64, "{sources}: {queue} bytes wait");
        assert!(stats.answered == stats.lowered && stats.denied == 0 && stats.passed == 0, "{stats:?}");
    }
}

/// Sources with a window in bytes, which changes by the feedback times their RTT.
struct XcpSources(Vec<(f64, Span)>);

impl Behaviour for XcpSources {
    fn request(&mut self, source: usize) -> Request {
        let (window, rtt) = self.0[source];
        if rtt.is_zero() {
            return Request::Xcp { throughput: WireRate::default(), rtt_micros: 0, delta: WireDelta::new(0) };
        }
        let throughput = WireRate::new(Rate::from_bytes_per_sec((window / rtt.as_secs_f64()) as u64));
        Request::Xcp { throughput, rtt_micros: rtt.as_micros() as u32, delta: WireDelta::new(1 << 50) }
    }

    fn answered(&mut self, source: usize, answer: Request, rtt: Span) {
        let Request::Xcp { delta, .. } = answer else { panic!("{answer:?}") };
        let (window, last) = &mut self.0[source];
        *last = rtt;
        *window = (*window + delta.bytes_per_sec() as f64 * rtt.as_secs_f64()).max(f64::from(SIZE));
    }

    fn next(&mut self, source: usize, now: Time, in_flight: u64) -> Option<Time> {
        ((in_flight + 1) as f64 * f64::from(SIZE) <= self.0[source].0).then_some(now)
    }
}

#[test]
fn xcp_converges_to_equal_shares_and_an_empty_queue() {
    for sources in [1, 2, 10, 50] {
        let mut behaviour = XcpSources(vec![(f64::from(SIZE), Span::ZERO); sources]);
        let Outcome { rates, queue, stats } =
            run(&mut behaviour, RouterConfig::Xcp(XcpConfig::default()), sources, 60, 40);
        let share = CAPACITY as f64 / sources as f64;
        for rate in &rates {
            assert!((rate / share - 1.0).abs() < 0.05, "{sources}: {rate} of {share}");
        }
        assert!(queue < 0.02 * 500_000.0, "{sources}: {queue} bytes wait, more than 2 % of a window");
        // The first packets report no RTT and request nothing.
        assert!(stats.answered - stats.lowered <= sources as u64 && stats.passed == 0, "{stats:?}");
    }
}

/// Sends a segment over a link with or without a router, and returns its request, TTL and the router's counters.
fn passed(router: Option<RouterConfig>, request: Request) -> (Forward, u8, Option<RouterStats>) {
    let config = LinkConfig { router, ..LinkConfig::new(Rate::from_bytes_per_sec(CAPACITY), BACK) };
    let mut link = Link::<Vec<u8>>::new(config, 1, 0).unwrap();
    link.offer(Time::ZERO, Packet::new(SIZE, segment(request)));
    let (_, packet) = link.poll(Time::ZERO + Span::from_secs(1)).unwrap();
    (forward(&packet.payload), packet.ttl, link.router_stats().copied())
}

#[test]
fn a_router_stamps_only_requests_of_its_kind() {
    let nonce = QuickStartNonce::new(0x1234_5678);
    let requests = [
        Request::QuickStart { rate: QuickStartRate::from_code(3), nonce },
        Request::Rcp { rate: WireRate::UNLIMITED, rtt_micros: 0 },
        Request::Xcp { throughput: WireRate::default(), rtt_micros: 0, delta: WireDelta::new(0) },
        Request::QuickStartReport { rate: QuickStartRate::from_code(3), nonce },
    ];
    let routers = [
        RouterConfig::QuickStart(QuickStartConfig::default()),
        RouterConfig::Rcp(RcpConfig::default()),
        RouterConfig::Xcp(XcpConfig::default()),
    ];
    for (own, router) in routers.iter().enumerate() {
        for (kind, request) in requests.iter().enumerate() {
            let (forward, ttl, stats) = passed(Some(router.clone()), *request);
            assert_eq!((forward.stamps, ttl, forward.ttl), (u8::from(own == kind), 63, 64), "{router:?} {request:?}");
            let stats = stats.unwrap();
            assert_eq!((stats.answered, stats.passed), (u64::from(own == kind), u64::from(own != kind)));
            if own != kind {
                assert_eq!(forward.request, *request);
                // A request without a stamp counts as denied; a report needs no answer.
                let answer = (kind < 3).then_some(longhaul_wire::network::Feedback::Denied);
                assert_eq!(forward.feedback(Some(63)), answer);
            }
        }
    }
    // A link without a router is not a hop.
    let (forward, ttl, stats) = passed(None, requests[0]);
    assert_eq!((forward, ttl, stats), (Forward { ttl: 64, stamps: 0, request: requests[0] }, 64, None));
}

#[test]
fn an_unchanged_router_keeps_its_state() {
    let config = |rate| {
        let rate = Rate::from_bytes_per_sec(rate);
        LinkConfig::new(rate, BACK).router(RouterConfig::QuickStart(QuickStartConfig::default()))
    };
    let ask = Request::QuickStart { rate: QuickStartRate::MAX, nonce: QuickStartNonce::new(0) };
    let mut link = Link::new(config(CAPACITY), 1, 0).unwrap();
    let now = |millis| Time::ZERO + Span::from_millis(millis);
    link.offer(now(0), Packet::new(SIZE, segment(ask)));
    link.reconfigure(now(10), config(CAPACITY / 2)).unwrap();
    link.offer(now(20), Packet::new(SIZE, segment(ask)));
    assert_eq!(link.router_stats().map(|stats| (stats.answered, stats.denied)), Some((1, 1)), "half is taken already");
    link.reconfigure(now(30), LinkConfig { router: None, ..config(CAPACITY) }).unwrap();
    assert_eq!(link.router_stats(), None);
    link.reconfigure(now(40), config(CAPACITY)).unwrap();
    link.offer(now(50), Packet::new(SIZE, segment(ask)));
    assert_eq!(link.router_stats().map(|stats| (stats.answered, stats.denied)), Some((1, 0)));
}

/// A burst of 100 kB at 1 MB/s: the router accounts for the queue at the end of each interval, even if the caller is
/// late.
#[test]
fn a_router_sees_the_queue_of_every_interval() {
    let config = LinkConfig::new(Rate::from_bytes_per_sec(1_000_000), BACK);
    let mut link = Link::<Vec<u8>>::new(config.router(RouterConfig::Rcp(RcpConfig::default())), 1, 0).unwrap();
    let ask = || Packet::new(SIZE, segment(Request::Rcp { rate: WireRate::UNLIMITED, rtt_micros: 0 }));
    (0..100).for_each(|_| assert!(link.offer(Time::ZERO, ask())));
    let late = Time::ZERO + Span::from_millis(205);
    link.offer(late, ask());
    let told = std::iter::from_fn(|| link.poll(late + Span::from_secs(1))).last().unwrap().1;
    // One packet leaves per millisecond, ten per interval; all arrived in the first interval.
    let mut rate = 50_000.0;
    for interval in 1..=20 {
        let load = if interval == 1 { 10_000_000.0 } else { 0.0 };
        let waits = f64::max(0.0, 100_000.0 - 10_000.0 * f64::from(interval));
        rate *= 1.0 + 0.05 * (0.4 * (1_000_000.0 - load) - 0.4 * waits / 0.2) / 1_000_000.0;
    }
    let Request::Rcp { rate: told, .. } = forward(&told.payload).request else { panic!("another kind") };
    assert!((told.rate().as_bytes_per_sec() as f64 - rate).abs() <= 1.0, "{told:?}, not {rate}");
}
