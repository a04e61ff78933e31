use super::*;
use crate::config::Loss;
use crate::queue::Limit;

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

/// Polls at every event until the link is empty, as a simulator in virtual time does.
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
    // 12,000 bits at 155 Mb/s take 77,419.35 ns, so the last bit is sent by the following nanosecond.
    assert_eq!((link.next_event(), link.poll(at(32_577_426))), (Some(at(32_577_427)), None));
    assert_eq!(drain(&mut link), [(32_577_427, 1)]);
    assert_eq!((link.next_event(), link.stats().delivered), (None, 1));
}

/// Offers packets at a constant rate, one every `gap`, and returns what arrives.
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
    // 1000 bytes at 7000 B/s take 1/7 s; one packet arrives every 1/5 s.
    let mut link = Link::new(LinkConfig::new(Rate::from_bytes_per_sec(7_000), Span::from_millis(300)), 1, 0).unwrap();
    let expected: Vec<_> = (0..1_000).map(|n| (n * 200_000_000 + 142_857_143 + 300_000_000, n)).collect();
    assert_eq!(cbr(&mut link, 1_000, 200_000_000), expected);
    assert_eq!(link.stats().all().sojourn.max(), Span::ZERO);
}

#[test]
fn cbr_above_the_rate_fills_the_queue_and_drops_exactly_the_excess() {
    // One packet arrives every 1/10 s and one leaves every 1/7 s: 10 are waiting, and one is being sent.
    let config = LinkConfig::new(Rate::from_bytes_per_sec(7_000), Span::ZERO).queue(Limit::Packets(10));
    let mut link = Link::new(config, 1, 0).unwrap();
    let arrived = cbr(&mut link, 10_000, 100_000_000);
    // Back to back, the n-th departure is n/7 s after the start, rounded up only once.
    for (index, (time, _)) in arrived.iter().enumerate() {
        assert_eq!(*time, ((index as u64 + 1) * 1_000_000_000).div_ceil(7));
    }
    // When the last packet arrives at 999.9 s, floor(999.9 * 7) + 1 have begun, and the queue is full.
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
    // The first packet is being sent; those of 1500 and 500 bytes wait.
    assert_eq!(admitted, [true, true, false, true, false]);
    assert_eq!(link.backlog(), (2, 2_000));
    // An empty queue accepts a packet larger than its limit, so that no packet is too large forever.
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
        // Tolerance: six standard deviations.
        assert!((120..=280).contains(&lost), "{lost}");
        arrived
    };
    assert_eq!(run(1, 0), run(1, 0));
    assert_ne!(run(1, 0), run(2, 0));
    assert_ne!(run(1, 0), run(1, 1));
}

#[test]
fn a_packet_begins_no_fraction_of_a_nanosecond_before_it_comes() {
    // One byte takes 1/3 s, so the first packet ends a fraction of a nanosecond before the second arrives.
    let mut link = Link::new(LinkConfig::new(Rate::from_bytes_per_sec(3), Span::ZERO), 1, 0).unwrap();
    link.offer(at(0), Packet::new(1, 0));
    link.offer(at(333_333_334), Packet::new(1, 1));
    link.offer(at(333_333_334), Packet::new(1, 2));
    assert_eq!(drain(&mut link), [(333_333_334, 0), (666_666_668, 1), (1_000_000_001, 2)]);
}
