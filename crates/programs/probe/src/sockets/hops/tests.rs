//! The queueing hop, and the packets that errors belong to.

use super::*;

fn at(queueing_us: &[u64]) -> Option<u8> {
    let hops: Vec<_> = (1..).zip(queueing_us).map(|(ttl, us)| (ttl, Span::from_micros(*us))).collect();
    queue_at(&hops)
}

#[test]
fn the_first_rise_that_stays_is_where_the_queue_is() {
    assert_eq!(at(&[100, 15_000, 15_300]), Some(2));
    assert_eq!(at(&[100, 200, 15_000]), Some(3));
    assert_eq!(at(&[15_000, 15_100, 15_050]), Some(1));
    assert_eq!(at(&[100, 5_000, 5_100, 15_000]), Some(2), "the first of two queues");
    assert_eq!(at(&[100, 3_000, 3_100, 40_000]), Some(4), "but not a small one before a large one");
}

/// Hop 2 is a router that is slow to write ICMP errors; the hops behind it do not show that delay.
#[test]
fn a_slow_router_is_no_queue() {
    assert_eq!(at(&[100, 30_000, 200, 15_000]), Some(4));
    assert_eq!(at(&[100, 30_000, 200, 300]), None);
    assert_eq!((at(&[]), at(&[900, 990])), (None, None));
}

#[test]
fn queueing_is_the_median_above_the_least() {
    let rtts = [20, 5, 21, 19, 22].map(Span::from_millis).to_vec();
    let hop = Hop { rtts, ..Hop::default() };
    assert_eq!((hop.base(), hop.queueing()), (Some(Span::from_millis(5)), Some(Span::from_millis(15))));
    assert_eq!(Hop { rtts: vec![Span::from_millis(5); 3], ..Hop::default() }.queueing(), None, "too few");
}

const ROUTER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

fn millis(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// A scanner that sent packets to hop 1 at 0 and 250 ms, and packets to hop 2 directly after them.
fn scanner() -> Scanner {
    let peer = SocketAddr::from(([127, 0, 0, 1], 9));
    let hops = [1, 2].map(|ttl| Hop { ttl, ..Hop::default() }).to_vec();
    let probed = |(ttl, at)| Probed { ttl, at: millis(at), answered: false };
    let probes = [(1, 0), (2, 1), (1, 250), (2, 251)].map(probed).to_vec();
    let socket = Socket::connect(peer).unwrap();
    Scanner { socket, destination: peer.ip(), hops, probes, first: u32::MAX, shown: Time::ZERO }
}

#[test]
fn reports_are_matched_by_the_number_that_they_quote() {
    let mut scanner = scanner();
    // Errors for the third packet, for the first, for the first again, and for a packet that was never sent.
    for (number, at) in [(1, 260), (u32::MAX, 270), (u32::MAX, 280), (77, 290)] {
        scanner.take(Some(number), Some(ROUTER), millis(at));
    }
    assert_eq!(scanner.hops[0].rtts, [10, 270].map(Span::from_millis));
    assert_eq!((scanner.hops[0].address, scanner.hops[1].address), (Some(ROUTER), None));
}

/// The eight bytes that RFC 792 requires are the UDP header, without any of the probe.
#[test]
fn reports_without_a_nonce_are_matched_by_sender_and_order() {
    let mut scanner = scanner();
    scanner.hops[0].address = Some(ROUTER);
    scanner.hops[0].rtts.push(Span::from_millis(20));
    // At 10 ms after the second packet, with a round trip of 20 ms, the error can only belong to the first.
    scanner.take(None, Some(ROUTER), millis(260));
    scanner.take(None, Some(ROUTER), millis(275));
    assert_eq!(scanner.hops[0].rtts, [20, 260, 25].map(Span::from_millis));
    // An unknown sender is a hop that has not answered yet.
    let other = IpAddr::from([192, 0, 2, 2]);
    scanner.take(None, Some(other), millis(281));
    assert_eq!((scanner.hops[1].address, &scanner.hops[1].rtts), (Some(other), &vec![Span::from_millis(30)]));
    scanner.take(None, Some(ROUTER), millis(90_000));
    assert_eq!(scanner.hops[0].rtts.len(), 3, "no packet was sent recently");
}
