use super::*;
use crate::config::Loss;
use crate::queue::Limit;

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

/// Polls at every event, as virtual time does, until the link is empty.
fn drain(link: &mut Link<u64>) -> Vec<(u64, u64)> {
    let mut arrived = Vec::new();
    while let Some(now) = link.next_event() {
        while let Some((at, packet)) = link.poll(now) {
            assert_eq!(at, now, "no event is missed");
            arrived.push((at.as_nanos(), packet.payload));
        }
    }
    arrived
}

#[test]
fn one_packet_takes_serialisation_and_delay() {
    let config = LinkConfig::new(Rate::from_bits_per_sec(155_000_000), Span::from_micros(32_500));
    let mut link = Link::new(config, 1, 0).unwrap();
    assert!(link.offer(at(7), Packet::new(1500, 1)));
    // 12,000 bits at 155 Mb/s: 77,419.35 ns, and the last bit is there a nanosecond later.
    assert_eq!((link.next_event(), link.poll(at(32_577_426))), (Some(at(32_577_427)), None));
    assert_eq!(drain(&mut link), [(32_577_427, 1)]);
    assert_eq!((link.next_event(), link.stats().delivered), (None, 1));
}

/// A CBR source at `ratio` thirds of the link's rate of 7000 bytes a second.
fn cbr(link: &mut Link<u64>, packets: u64, gap: u64) -> Vec<(u64, u64)> {
    let mut arrived = Vec::new();
    for number in 0..packets {
        let now = at(number * gap);
        while let Some(event) = link.next_event().filter(|event| *event <= now) {
            arrived.extend(link.poll(event).map(|(at, packet)| (at.as_nanos(), packet.payload)));
        }
        link.offer(now, Packet::new(1_000, number));
    }
    arrived.extend(drain(link));
    arrived
}

#[test]
fn cbr_below_the_rate_arrives_at_exact_times() {
    // 1000 bytes at 7000 B/s take a seventh of a second; one comes every fifth.
    let mut link = Link::new(LinkConfig::new(Rate::from_bytes_per_sec(7_000), Span::from_millis(300)), 1, 0).unwrap();
    let expected: Vec<_> = (0..1_000).map(|n| (n * 200_000_000 + 142_857_143 + 300_000_000, n)).collect();
    assert_eq!(cbr(&mut link, 1_000, 200_000_000), expected);
    assert_eq!(link.stats().all().sojourn.max(), Span::ZERO);
}

#[test]
fn cbr_above_the_rate_fills_the_queue_and_drops_exactly_the_excess() {
    // One comes every tenth of a second and one leaves every seventh: 10 wait, and one is being sent.
    let config = LinkConfig::new(Rate::from_bytes_per_sec(7_000), Span::ZERO).queue(Limit::Packets(10));
    let mut link = Link::new(config, 1, 0).unwrap();
    let arrived = cbr(&mut link, 10_000, 100_000_000);
    // Back to back: the n-th departure is n sevenths after the beginning, rounded up once, however many came before.
    for (index, (time, _)) in arrived.iter().enumerate() {
        assert_eq!(*time, ((index as u64 + 1) * 1_000_000_000).div_ceil(7));
    }
    // Until the last packet comes at 999.9 s, floor(999.9 * 7) + 1 have begun, and the queue is full.
    let begun = (9_999 * 7) / 10 + 1;
    assert_eq!(arrived.len(), begun + 10);
    let all = link.stats().all();
    assert_eq!((all.offered, all.dropped(Cause::QueueFull)), (10_000, 10_000 - begun as u64 - 10));
    assert_eq!(
        (all.sent, link.stats().delivered, link.stats().max_packets),
        (begun as u64 + 10, begun as u64 + 10, 10)
    );
    assert_eq!((link.backlog(), link.under_way()), ((0, 0), 0));
}

#[test]
fn a_queue_of_bytes_takes_bytes() {
    let config = LinkConfig::new(Rate::from_bytes_per_sec(1_000), Span::ZERO).queue(Limit::Bytes(2_000));
    let mut link = Link::new(config, 1, 0).unwrap();
    let sizes = [1_500, 1_500, 600, 500, 1];
    let admitted = sizes.map(|size| link.offer(at(0), Packet::new(size, 0)));
    // The first is being sent; 1500 and 500 wait.
    assert_eq!(admitted, [true, true, false, true, false]);
    assert_eq!(link.backlog(), (2, 2_000));
    // An empty queue takes what is larger than its limit, so that no packet is too large for good.
    drain(&mut link);
    assert_eq!([1, 3_000, 1].map(|size| link.offer(at(9_000_000_000), Packet::new(size, 0))), [true, true, false]);
}

#[test]
fn losses_depend_on_the_seed_alone() {
    let run = |seed, number| {
        let config = LinkConfig::new(Rate::from_bytes_per_sec(7_000), Span::ZERO).loss(Loss::Uniform(0.1));
        let mut link = Link::new(config, seed, number).unwrap();
        let arrived = cbr(&mut link, 2_000, 200_000_000);
        let lost = link.stats().all().dropped(Cause::Lost);
        assert_eq!(arrived.len() as u64 + lost, 2_000);
        // Six standard deviations.
        assert!((120..=280).contains(&lost), "{lost}");
        arrived
    };
    assert_eq!(run(1, 0), run(1, 0));
    assert_ne!(run(1, 0), run(2, 0));
    assert_ne!(run(1, 0), run(1, 1));
}

#[test]
fn a_packet_begins_no_fraction_of_a_nanosecond_before_it_comes() {
    // A byte takes a third of a second, so that the first ends a fraction before the second comes.
    let mut link = Link::new(LinkConfig::new(Rate::from_bytes_per_sec(3), Span::ZERO), 1, 0).unwrap();
    link.offer(at(0), Packet::new(1, 0));
    link.offer(at(333_333_334), Packet::new(1, 1));
    link.offer(at(333_333_334), Packet::new(1, 2));
    assert_eq!(drain(&mut link), [(333_333_334, 0), (666_666_668, 1), (1_000_000_001, 2)]);
}
