use super::*;

fn packet(payload: usize) -> Packet {
    let from = ([192, 0, 2, 1], 1).into();
    let to = ([192, 0, 2, 2], 2).into();
    Packet { from, to, ecn: Ecn::Ect0, dscp: 0, payload: vec![0; payload] }
}

fn run(config: LinkConfig, packets: usize, payload: usize) -> (Vec<(u64, Ecn)>, LinkStats) {
    let (mut link, mut random, mut out) = (Link::new(config), Random::new(1), Vec::new());
    for _ in 0..packets {
        link.offer(Time::ZERO, packet(payload), &mut random, |at, p| out.push(((at - Time::ZERO).as_millis(), p.ecn)));
    }
    (out, link.stats())
}

/// A thousand bytes on the wire at a megabyte a second take a millisecond each.
fn slow() -> LinkConfig {
    LinkConfig { rate: Some(Rate::from_bytes_per_sec(1_000_000)), ..LinkConfig::delay(Span::from_millis(10)) }
}

#[test]
fn packets_leave_at_the_rate_and_arrive_a_delay_later() {
    let (out, stats) = run(slow(), 3, 972);
    assert_eq!(out.iter().map(|o| o.0).collect::<Vec<_>>(), [11, 12, 13]);
    assert_eq!(stats.passed_bytes, 3_000);
}

#[test]
fn a_full_queue_drops_by_packets_and_by_bytes() {
    let by_packets = LinkConfig { queue: QueueLimit::Packets(4), ..slow() };
    assert_eq!(run(by_packets, 9, 972).1.queue_full, 5);
    let by_bytes = LinkConfig { queue: QueueLimit::Bytes(2_500), ..slow() };
    assert_eq!(run(by_bytes, 9, 972).1.queue_full, 7);
    let tiny = LinkConfig { queue: QueueLimit::Bytes(1), ..slow() };
    assert_eq!(run(tiny, 9, 972).1.passed, 1);
}

#[test]
fn marks_begin_above_the_threshold() {
    let marking = LinkConfig { mark_above: Some(2_000), ..slow() };
    let (out, _) = run(marking, 5, 972);
    let marked: Vec<bool> = out.iter().map(|o| o.1 == Ecn::Ce).collect();
    assert_eq!(marked, [false, false, false, true, true]);
}

#[test]
fn each_fault_has_its_fate() {
    let at = Time::ZERO + Span::from_secs(5);
    let config = LinkConfig::delay(Span::ZERO);
    let fate = |config: LinkConfig| {
        let mut copies = 0;
        let fate = Link::new(config).offer(at, packet(1_000), &mut Random::new(1), |_, _| copies += 1);
        (fate, copies)
    };
    assert_eq!(fate(config.clone()), (Fate::Passed, 1));
    assert_eq!(fate(LinkConfig { duplication: 1.0, ..config.clone() }), (Fate::Passed, 2));
    assert_eq!(fate(LinkConfig { loss: 1.0, ..config.clone() }), (Fate::Lost, 0));
    assert_eq!(fate(LinkConfig { corruption: 1.0, ..config.clone() }), (Fate::Corrupted, 0));
    assert_eq!(fate(LinkConfig { corruption: 1.0, corruption_unseen: 1.0, ..config.clone() }), (Fate::Passed, 1));
    assert_eq!(fate(LinkConfig { black_hole: Some((at, 999)), ..config.clone() }), (Fate::TooLong, 0));
    assert_eq!(fate(LinkConfig { black_hole: Some((at, 1_000)), ..config.clone() }), (Fate::Passed, 1));
    assert_eq!(fate(LinkConfig { outages: vec![(Time::ZERO, at)], ..config.clone() }), (Fate::Passed, 1));
    assert_eq!(fate(LinkConfig { outages: vec![(at, Time::MAX)], ..config }), (Fate::Outage, 0));
}

#[test]
fn late_packets_are_overtaken() {
    let reordering = Some(Reordering { share: 0.5, delay: Span::from_millis(50) });
    let (out, _) = run(LinkConfig { reordering, ..LinkConfig::delay(Span::from_millis(10)) }, 200, 10);
    let late = out.iter().filter(|o| o.0 > 10).count();
    assert!((50..150).contains(&late), "{late}");
    assert!(out.iter().all(|o| (10..60).contains(&o.0)));
}
