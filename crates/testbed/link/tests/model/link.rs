//! Tests of a link from offer to arrival: every impairment, packet order, and drivers that are punctual or late.

use longhaul_link::{
    Bleaching, Cause, Classes, CoDelConfig, Corruption, Discipline, DualPi2Config, Ecn, GilbertElliott, Hook, Limit,
    Link, LinkConfig, LinkRate, Loss, Mtu, Outage, OutageKind, Packet, Phase, PieConfig, Policer, QueueConfig,
    RedConfig, Reordering, Router, Step, Trace, View,
};
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::network::{Forward, Request, WireRate};
use longhaul_wire::{CheshireCodec, Codec, Header, NetworkOption, Segment};
use proptest::prelude::*;

const RATE: Rate = Rate::from_bytes_per_sec(1_000_000);

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn config() -> LinkConfig {
    LinkConfig::new(RATE, Span::from_millis(10))
}

fn drain(link: &mut Link<u64>) -> Vec<(u64, u64)> {
    let mut arrived = Vec::new();
    while let Some(now) = link.next_event() {
        while let Some((at, packet)) = link.poll(now) {
            arrived.push((at.as_nanos() / 1_000_000, packet.payload));
        }
    }
    arrived
}

/// Offers `packets` packets of 1000 bytes, one per millisecond, and returns what arrives when, in milliseconds.
fn run(config: LinkConfig, packets: u64) -> (Vec<(u64, u64)>, Link<u64>) {
    let mut link = Link::new(config, 5, 0).unwrap();
    let mut arrived = Vec::new();
    for number in 0..packets {
        while let Some(event) = link.next_event().filter(|event| *event <= at(number)) {
            arrived.extend(link.poll(event).map(|(at, packet)| (at.as_nanos() / 1_000_000, packet.payload)));
        }
        link.offer(at(number), Packet::new(1_000, number));
    }
    arrived.extend(drain(&mut link));
    (arrived, link)
}

fn numbers(arrived: &[(u64, u64)]) -> Vec<u64> {
    arrived.iter().map(|(_, number)| *number).collect()
}

#[test]
fn listed_packets_are_lost() {
    let (arrived, link) = run(config().loss(Loss::List(vec![2, 3, 7])), 8);
    assert_eq!(numbers(&arrived), [0, 3, 4, 5, 7]);
    assert_eq!(link.stats().all().dropped(Cause::Lost), 3);
}

#[test]
fn an_outage_loses_or_holds() {
    let outage = |kind| Outage { from: at(3), until: at(6), kind };
    let (lost, link) = run(LinkConfig { outages: vec![outage(OutageKind::Lose)], ..config() }, 8);
    // Packet n is sent from n to n + 1 ms: those that end at 3, 4 or 5 ms are lost.
    assert_eq!(numbers(&lost), [0, 1, 5, 6, 7]);
    assert_eq!(link.stats().all().dropped(Cause::Outage), 3);
    let (held, link) = run(LinkConfig { outages: vec![outage(OutageKind::Hold)], ..config() }, 8);
    assert_eq!(held, (0..8).map(|n| (n + if n < 3 { 11 } else { 14 }, n)).collect::<Vec<_>>());
    assert_eq!(link.stats().max_packets, 3);
}

#[test]
fn steps_change_rate_and_delay_without_reordering() {
    let step = |millis, rate, delay| Step { at: at(millis), rate, delay };
    let longer = step(3, Some(Rate::from_bytes_per_sec(500_000)), Some(Span::from_millis(30)));
    let shorter = step(20, Some(RATE), Some(Span::from_millis(5)));
    let (arrived, _) = run(LinkConfig { steps: vec![longer, shorter], ..config() }, 30);
    // One packet per 1 ms until 3 ms, then per 2 ms: transmissions end at 1, 2, 3, 5, 7 .. 19, 20.5, 21.5 ...
    let expected = |n: u64| match n {
        0 | 1 => n + 11,
        // These end at 3 ms or later, after the delay has changed.
        2..=10 => (3 + 2 * (n - 2)) + 30,
        // With the shorter delay, these would overtake the last one on the longer delay, which arrives at 49 ms.
        11..=30 => (n + 9 + 5).max(49),
        _ => unreachable!(),
    };
    let by_hand: Vec<_> = (0..30).map(|n| (expected(n), n)).collect();
    assert_eq!(arrived, by_hand);
}

#[test]
fn phases_repeat_without_reordering() {
    let phase = |lasts, delay, loss, interval| {
        let [lasts, delay, interval] = [lasts, delay, interval].map(Span::from_millis);
        Phase { lasts, delay, loss, interval }
    };
    // Transmissions end at 1, 2, 3 ... ms. The period is 10 ms.
    let cycle = vec![phase(4, 3, 0.0, 0), phase(1, 0, 1.0, 0), phase(5, 0, 0.0, 4)];
    let (arrived, link) = run(LinkConfig { cycle, ..config() }, 20);
    let expected = |n: u64| match (n + 1) % 10 {
        0..=3 => Some(n + 14),
        4 => None,
        _ => Some((n + 11).next_multiple_of(4)),
    };
    let mut last = 0;
    let by_hand: Vec<_> = (0..20)
        .filter_map(|n| expected(n).map(|at| (at, n)))
        .map(|(at, n)| {
            last = at.max(last);
            (last, n)
        })
        .collect();
    assert_eq!(arrived, by_hand);
    assert_eq!(link.stats().all().dropped(Cause::Lost), 2);
}

#[test]
fn large_packets_vanish_in_a_black_hole() {
    let mtu = Some(Mtu { from: at(5), size: 999 });
    let (arrived, link) = run(LinkConfig { mtu, ..config() }, 8);
    assert_eq!(numbers(&arrived), [0, 1, 2, 3]);
    assert_eq!(link.stats().all().dropped(Cause::TooLong), 4);
}

/// Bleaching happens before the queue, which cannot mark such packets any more.
#[test]
fn fields_of_the_header_are_cleared() {
    for (ecn, dscp) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut link = Link::new(LinkConfig { bleaching: Bleaching { ecn, dscp }, ..config() }, 5, 0).unwrap();
        link.offer(at(0), Packet::new(1_000, 0).dscp(46).ecn(Ecn::Ect1));
        let event = link.next_event().unwrap();
        let (_, packet) = link.poll(event).unwrap();
        assert_eq!(packet.ecn, if ecn { Ecn::NotEct } else { Ecn::Ect1 });
        assert_eq!(packet.dscp, if dscp { 0 } else { 46 });
    }
}

#[test]
fn jitter_spreads_but_keeps_the_order() {
    let (arrived, _) = run(LinkConfig { jitter: Span::from_millis(20), ..config() }, 2_000);
    assert_eq!(numbers(&arrived), (0..2_000).collect::<Vec<_>>());
    let delays: Vec<u64> = arrived.iter().map(|(at, number)| at - number - 1).collect();
    assert!(delays.iter().all(|delay| (10..=30).contains(delay)) && delays.iter().max() > Some(&28));
}

#[test]
fn reordering_moves_a_share_so_many_places_back() {
    let places = |places| Some(Reordering::Places { share: 0.02, places, patience: Span::from_secs(1) });
    let (arrived, link) = run(LinkConfig { reordering: places(3), ..config() }, 10_000);
    assert_eq!(arrived.len(), 10_000);
    let moved = link.stats().reordered;
    assert!((100..300).contains(&moved), "{moved}");
    // A packet that is not the largest so far was overtaken by exactly three packets that were not held back
    // themselves.
    let mut largest = 0;
    let mut is_late = vec![false; 10_000];
    for (_, number) in &arrived {
        is_late[*number as usize] = *number < largest;
        largest = largest.max(*number);
    }
    for (index, (_, number)) in arrived.iter().enumerate().filter(|(_, (_, number))| is_late[*number as usize]) {
        let before = arrived[..index].iter().filter(|(_, other)| other > number && !is_late[*other as usize]);
        assert_eq!(before.count(), 3, "{number}");
    }
    assert_eq!(is_late.iter().filter(|late| **late).count() as u64, moved);
}

#[test]
fn a_late_share_is_overtaken_by_time() {
    let (least, most) = (Span::from_millis(10), Span::from_millis(100));
    let reordering = Some(Reordering::Late { share: 0.05, least, most });
    let (arrived, link) = run(LinkConfig { reordering, ..config() }, 10_000);
    let lateness: Vec<u64> = arrived.iter().map(|(at, number)| at - number - 11).filter(|late| *late > 0).collect();
    assert!((400..600).contains(&lateness.len()) && lateness.len() as u64 == link.stats().reordered);
    assert!(lateness.iter().all(|late| (10..=100).contains(late)));
    let mean = lateness.iter().sum::<u64>() as f64 / lateness.len() as f64;
    assert!((mean - 55.0).abs() < 6.0, "{mean}");
}

#[test]
fn duplicates_arrive_twice_and_corruption_flips_one_bit() {
    let (arrived, link) = run(LinkConfig { duplication: 0.1, ..config() }, 10_000);
    let copies = arrived.len() as u64 - 10_000;
    assert_eq!((copies, link.stats().delivered), (link.stats().duplicated, arrived.len() as u64));
    assert!((820..=1_180).contains(&copies), "{copies}");

    let corruption = Corruption { share: 0.5, unseen: 0.5 };
    let mut link = Link::new(LinkConfig { corruption, ..config() }, 5, 0).unwrap();
    let original = vec![0u8; 100];
    (0..1_000).for_each(|n| assert!(link.offer(at(n), Packet::new(128, original.clone()))));
    let (mut whole, mut flipped) = (0, 0);
    while let Some(now) = link.next_event() {
        let Some((_, packet)) = link.poll(now) else { continue };
        let bits: u32 = packet.payload.iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(bits, u32::from(packet.corrupted));
        if packet.corrupted { flipped += 1 } else { whole += 1 }
    }
    assert!((405..=595).contains(&whole) && (170..=330).contains(&flipped), "{whole} {flipped}");
    assert_eq!(link.stats().all().dropped(Cause::Corrupted), 1_000 - whole - flipped);
}

#[test]
fn the_policer_drops_before_the_queue() {
    let policer = Some(Policer { rate: Rate::from_bytes_per_sec(250_000), burst: 3_000 });
    let (arrived, link) = run(LinkConfig { policer, ..config() }, 1_000);
    // Three packets pass at once, then one in four: there are tokens for 3000 bytes, and for 250 more per
    // millisecond.
    let expected = (3_000 + 999 * 250) / 1_000;
    assert_eq!((arrived.len(), link.stats().all().dropped(Cause::Policed)), (expected, 1_000 - expected as u64));
    assert_eq!(link.stats().max_packets, 1, "only the packet that begins at once");
}

#[test]
fn a_trace_drives_a_link() {
    let trace = Trace::parse("2\n2\n5\n").unwrap();
    let rate = LinkRate::Trace(trace.into());
    let mut link = Link::new(LinkConfig { rate, delay: Span::from_millis(10), ..LinkConfig::default() }, 1, 0).unwrap();
    // A packet that arrives at an opportunity is too late for it; the one that waits can use two opportunities at 2
    // ms.
    for (millis, number) in [(0, 0), (2, 1), (3, 2), (6, 3)] {
        while let Some(event) = link.next_event().filter(|event| *event <= at(millis)) {
            assert_eq!(link.poll(event), None, "nothing is there before 12 ms");
        }
        link.offer(at(millis), Packet::new(1_500, number));
    }
    assert_eq!(drain(&mut link), [(12, 0), (15, 1), (17, 2), (17, 3)]);
}

#[test]
fn gilberts_losses_come_through_the_link() {
    let loss = Loss::GilbertElliott(GilbertElliott::simple(0.01, 0.25));
    let (arrived, link) = run(config().loss(loss), 50_000);
    let lost = link.stats().all().dropped(Cause::Lost);
    assert_eq!(arrived.len() as u64 + lost, 50_000);
    let share = lost as f64 / 50_000.0;
    assert!((share / (0.01 / 0.26) - 1.0).abs() < 0.2, "{share}");
}

#[test]
fn a_link_can_be_reconfigured_with_packets_in_flight() {
    let mut link = Link::new(config().loss(Loss::Uniform(1.0)), 1, 0).unwrap();
    (0..3).for_each(|number| assert!(link.offer(at(0), Packet::new(1_000, number))));
    // The first packet is lost; the others are sent on a link that is twice as fast and lossless.
    let better = LinkConfig::new(Rate::from_bytes_per_sec(2_000_000), Span::from_millis(3));
    link.reconfigure(Time::from_nanos(500_000), better).unwrap();
    assert!(link.reconfigure(at(1), LinkConfig::new(Rate::ZERO, Span::ZERO)).is_err());
    let mut arrived = Vec::new();
    while let Some(now) = link.next_event() {
        arrived.extend(link.poll(now).map(|(at, packet)| (at.as_nanos(), packet.payload)));
    }
    assert_eq!(arrived, [(4_500_000, 1), (5_000_000, 2)]);
}

#[test]
fn a_router_writes_into_the_network_feedback_option() {
    let forward = Forward { ttl: 64, stamps: 0, request: Request::Rcp { rate: WireRate::UNLIMITED, rtt_micros: 0 } };
    let mut header = Header::default();
    header.options.network = Some(NetworkOption { forward: Some(forward), feedback: None });
    let mut datagram = vec![0; 64];
    let len = CheshireCodec::emit(&header, &mut datagram).unwrap();
    datagram.truncate(len);
    let grant = WireRate(77);
    let router = Router(|_now, view: &View, _size, forward: &mut Forward| {
        assert_eq!(view.rate, Some(RATE));
        forward.stamps += 1;
        if let Request::Rcp { rate, .. } = &mut forward.request {
            *rate = grant;
        }
    });
    let mut link = Link::with_hook(config().hop(), 1, 0, router).unwrap();
    link.offer(at(0), Packet::new(92, datagram));
    let (_, packet) = link.poll(at(100)).unwrap();
    let segment = Segment::parse::<CheshireCodec>(&packet.payload).unwrap();
    let forward = segment.header.options.network.unwrap().forward.unwrap();
    assert_eq!((forward.stamps, packet.ttl), (1, 63));
    assert_eq!(forward.request, Request::Rcp { rate: grant, rtt_micros: 0 });
    assert!(forward.feedback(Some(packet.ttl)).is_some());
}

/// Counts the calls of a hook.
#[derive(Default)]
struct Seen([u64; 3], Time);

impl Hook<u64> for Seen {
    fn offered(&mut self, now: Time, _: &mut Packet<u64>, _: &View) {
        assert!(now >= self.1, "in the order of time");
        self.1 = now;
        self.0[0] += 1;
    }

    fn egress(&mut self, now: Time, ends: Time, _: &mut Packet<u64>, _: &View) {
        assert!(now >= self.1 && ends >= now, "in the order of time");
        self.1 = now;
        self.0[1] += 1;
    }

    fn dropped(&mut self, _: Time, _: &Packet<u64>, _: Cause) {
        self.0[2] += 1;
    }
}

fn any_config() -> impl Strategy<Value = LinkConfig> {
    let loss = prop_oneof![
        Just(Loss::None),
        (0.0..0.5).prop_map(Loss::Uniform),
        (0.0..0.1, 0.1..1.0).prop_map(|(p, r)| Loss::GilbertElliott(GilbertElliott::simple(p, r))),
    ];
    let rate = prop_oneof![
        Just(LinkRate::Unlimited),
        (1_000u64..10_000_000).prop_map(|rate| Rate::from_bytes_per_sec(rate).into()),
        prop::collection::vec(1u32..30, 1..9).prop_map(|mut millis| {
            millis.sort_unstable();
            let lines: String = millis.iter().map(|millis| format!("{millis}\n")).collect();
            LinkRate::Trace(Trace::parse(&lines).unwrap().into())
        }),
    ];
    let reordering = prop_oneof![
        Just(None),
        (0.0..0.3, 1u32..5, 0u64..50).prop_map(|(share, places, patience)| {
            Some(Reordering::Places { share, places, patience: Span::from_millis(patience) })
        }),
        (0.0..0.3, 0u64..9, 9u64..50).prop_map(|(share, least, most)| {
            let (least, most) = (Span::from_millis(least), Span::from_millis(most));
            Some(Reordering::Late { share, least, most })
        }),
    ];
    let outage = (0u64..200, 1u64..100, any::<bool>()).prop_map(|(from, length, hold)| {
        let kind = if hold { OutageKind::Hold } else { OutageKind::Lose };
        vec![Outage { from: at(from), until: at(from + length), kind }]
    });
    let codel = CoDelConfig { target: Span::from_millis(1), interval: Span::from_millis(10) };
    let discipline = prop::sample::select(vec![
        Discipline::default(),
        Discipline::DropHead,
        Discipline::Priority(Classes::default()),
        Discipline::CoDel(codel),
        Discipline::Red(RedConfig { min: 1.0, max: 4.0, max_p: 0.2, weight: 0.1 }),
        Discipline::Pie(PieConfig { max_burst: Span::ZERO, ..PieConfig::default() }),
        Discipline::DualPi2(DualPi2Config::default()),
    ]);
    let queue = (discipline, 1u64..20, any::<bool>()).prop_map(|(discipline, limit, ecn)| {
        let limit = Limit::Packets(limit);
        QueueConfig { discipline, limit, ecn }
    });
    (rate, 0u64..50, queue, loss, reordering, outage, 0.0..0.2, 0u64..10).prop_map(
        |(rate, delay, queue, loss, reordering, outages, duplication, jitter)| LinkConfig {
            rate,
            delay: Span::from_millis(delay),
            loss,
            reordering,
            outages,
            duplication,
            jitter: Span::from_millis(jitter),
            queue,
            ..LinkConfig::default()
        },
    )
}

proptest! {
    /// Whatever the link and however late its driver, packets are conserved and arrival times are the same.
    #[test]
    fn packets_are_conserved_and_times_do_not_depend_on_the_driver(
        config in any_config(),
        gaps in prop::collection::vec((0u64..5_000_000, 40u32..3_000), 1..150),
        late in 0u64..20_000_000,
        seed: u64,
    ) {
        let run = |late: u64| {
            let mut link = Link::with_hook(config.clone(), seed, 0, Seen::default()).unwrap();
            let (mut now, mut arrived) = (Time::ZERO, Vec::new());
            for (number, (gap, size)) in (0u64..).zip(&gaps) {
                now += Span::from_nanos(*gap);
                while let Some(event) = link.next_event().filter(|event| *event <= now) {
                    let late = (event + Span::from_nanos(late)).min(now);
                    arrived.extend(std::iter::from_fn(|| link.poll(late)).map(|(at, packet)| (at, packet.payload, packet.ecn)));
                }
                let packet = Packet::new(*size, number).dscp(number as u8 % 2).ecn(Ecn::from_bits(number as u8));
                link.offer(now, packet);
            }
            while let Some(event) = link.next_event() {
                let late = event + Span::from_nanos(late);
                arrived.extend(std::iter::from_fn(|| link.poll(late)).map(|(at, packet)| (at, packet.payload, packet.ecn)));
            }
            let (stats, all) = (link.stats(), link.stats().all());
            assert_eq!(all.offered + stats.duplicated, stats.delivered + all.dropped_total());
            assert_eq!(stats.delivered, arrived.len() as u64);
            assert_eq!(link.hook.0, [all.offered, all.sent, all.dropped_total()]);
            assert_eq!((link.backlog(), link.under_way()), ((0, 0), 0));
            assert!(arrived.windows(2).all(|pair| pair[0].0 <= pair[1].0));
            arrived
        };
        prop_assert_eq!(run(0), run(late));
    }
}

#[test]
fn one_fault_leaves_the_draws_of_the_others_alone() {
    let lost = |change: fn(&mut LinkConfig)| {
        let mut config = config().loss(Loss::Uniform(0.05));
        change(&mut config);
        let (arrived, _) = run(config, 3_000);
        let mut missing: Vec<u64> = (0..3_000).collect();
        missing.retain(|number| !arrived.iter().any(|(_, other)| other == number));
        missing
    };
    let alone = lost(|_| {});
    assert!(alone.len() > 90);
    assert_eq!(alone, lost(|config| config.duplication = 0.3));
    assert_eq!(alone, lost(|config| config.jitter = Span::from_millis(9)));
    let late = |share| Reordering::Late { share, least: Span::ZERO, most: Span::from_millis(9) };
    let copies = |loss: Loss| run(LinkConfig { duplication: 0.1, loss, ..config() }, 3_000);
    assert_eq!(alone, lost(|config| config.corruption = Corruption { share: 0.5, unseen: 1.0 }));
    let reordered = LinkConfig { reordering: Some(late(0.2)), ..config().loss(Loss::Uniform(0.05)) };
    assert_eq!(run(reordered, 3_000).0.len(), 3_000 - alone.len());
    // Conversely, losses do not change which packets are duplicated.
    let twice = |arrived: &[(u64, u64)]| -> Vec<u64> {
        arrived.windows(2).filter(|pair| pair[0].1 == pair[1].1).map(|pair| pair[0].1).collect()
    };
    let mut of_all = twice(&copies(Loss::None).0);
    of_all.retain(|number| !alone.contains(number));
    assert_eq!(twice(&copies(Loss::Uniform(0.05)).0), of_all);
}
