//! Tests of the search without a connection. Sizes are UDP payload in bytes: the MTU less 28 for IPv4, 48 for IPv6.

use super::*;

/// Bytes of TCP options on each segment.
const OPTIONS: u16 = 12;

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

fn pmtu(max: u16, ipv6: bool) -> Pmtu {
    let mut pmtu = Pmtu::new(&Config { base_plpmtu: 1232, max_plpmtu: max, ..Config::default() }, ipv6);
    (pmtu.peer_mss, pmtu.options) = (u16::MAX, OPTIONS);
    pmtu
}

/// Returns the size that is probed at `now`, without sending the probe.
fn due(pmtu: &Pmtu, now: Time) -> Option<u16> {
    pmtu.probe_payload(now, OPTIONS).map(|payload| payload + HEADER + OPTIONS)
}

/// Sends the probe that is due and returns its size.
fn probe(pmtu: &mut Pmtu, now: Time) -> Option<u16> {
    let size = due(pmtu, now)?;
    pmtu.probe_sent(size - HEADER - OPTIONS, OPTIONS);
    assert_eq!(due(pmtu, now), None, "one probe at a time");
    Some(size)
}

#[test]
fn the_search_begins_with_common_links_and_then_bisects() {
    let mut pmtu = pmtu(8972, false);
    assert_eq!((pmtu.current, pmtu.mss(), pmtu.announced_mss()), (1232, 1208, 8960));
    assert_eq!(probe(&mut pmtu, at(0)), Some(1472), "Ethernet");
    assert!(pmtu.on_probe_delivered());
    assert_eq!((pmtu.current, probe(&mut pmtu, at(0))), (1472, Some(8972)), "jumbo frames");
    pmtu.on_probe_lost(at(0));
    assert_eq!(probe(&mut pmtu, at(0)), Some(4324), "the only common size in between, FDDI");
    assert!(pmtu.on_probe_delivered());
    assert_eq!(probe(&mut pmtu, at(0)), Some(6648), "the middle of 4324 and 8972");
}

/// The sizes common to tunnels are bisected. A lost one is tried again after PROBE_TIMER, and after MAX_PROBES losses
/// the search rests for PMTU_RAISE_TIMER (RFC 8899, section 5.1).
#[test]
fn a_size_is_refused_for_longer_with_each_loss() {
    let mut pmtu = pmtu(1472, false);
    for (size, arrives) in [(1472, false), (1412, false), (1372, true), (1392, true)] {
        assert_eq!(probe(&mut pmtu, at(0)), Some(size));
        if arrives {
            assert!(pmtu.on_probe_delivered());
        } else {
            pmtu.on_probe_lost(at(0));
        }
    }
    assert_eq!(pmtu.current, 1392);
    for (refused_at, again_at) in [(0, 16), (16, 32)] {
        assert_eq!(due(&pmtu, at(again_at) - Span::from_nanos(1)), None, "refused at {refused_at} s");
        assert_eq!(probe(&mut pmtu, at(again_at)), Some(1412));
        pmtu.on_probe_lost(at(again_at));
    }
    assert_eq!(due(&pmtu, at(632) - Span::from_nanos(1)), None);
    assert_eq!(due(&pmtu, at(632)), Some(1472), "the search begins anew");
}

/// RFC 4821, section 7.6.4: a probe that is lost together with other data may have been lost to congestion.
#[test]
fn a_loss_in_an_episode_refuses_no_size_up_to_three_times() {
    let mut pmtu = pmtu(1472, false);
    for episode in 1..=4 {
        assert_eq!(probe(&mut pmtu, at(0)), Some(1472), "{episode}");
        pmtu.on_probe_lost(at(0));
        pmtu.note_episodes(episode - 1);
        assert_eq!(due(&pmtu, at(0)), Some(1412), "no episode has begun since");
        pmtu.note_episodes(episode);
    }
    assert_eq!(due(&pmtu, at(0)), Some(1412), "the fourth loss counts");
}

/// RFC 8899, section 4.3: two timeouts in a row are a black hole; at BASE_PLPMTU, three more.
#[test]
fn a_black_hole_reduces_the_size_to_the_base_and_to_the_minimum() {
    let mut ethernet = pmtu(1472, false);
    probe(&mut ethernet, at(0));
    assert!(ethernet.on_probe_delivered());
    let reductions: Vec<(u32, u16)> =
        (1..10).filter_map(|n| ethernet.on_timeout(at(1), n).then_some((n, ethernet.current))).collect();
    assert_eq!(reductions, [(2, 1232), (5, 508)]);
    // After a delivery, the count begins anew. The next probes are those below the size that was not delivered.
    assert!(!ethernet.on_timeout(at(1), 3) && ethernet.current == 508);
    assert_eq!(due(&ethernet, at(1)), Some(1412));
    // An IPv6 path carries the base size, and so does one whose size the application has set.
    for mut fixed in [pmtu(1472, true), pmtu(1232, false)] {
        assert!((1..10).all(|n| !fixed.on_timeout(at(1), n)) && fixed.current == 1232);
    }
}

#[test]
fn the_peers_mss_and_the_address_family_bound_the_search() {
    let mut ipv4 = pmtu(1472, false);
    let mut up_to = |limit| {
        ipv4.peer_mss = limit;
        due(&ipv4, at(0))
    };
    assert_eq!(
        [up_to(1219), up_to(1220), up_to(1221), up_to(1460), up_to(u16::MAX)],
        [None, None, Some(1233), Some(1472), Some(1472)]
    );
    assert_eq!((ipv4.default_peer_mss(), ipv4.ip_overhead().0), (536, 28));
    let mut ipv6 = pmtu(1472, true);
    assert_eq!((probe(&mut ipv6, at(0)), ipv6.announced_mss()), (Some(1452), 1440));
    assert_eq!((ipv6.default_peer_mss(), ipv6.ip_overhead().0), (1220, 48));
    assert_eq!(due(&pmtu(1232, false), at(0)), None, "discovery is disabled");
}

/// The first hop refuses a datagram by an error, which is more than a loss.
#[test]
fn an_error_of_the_first_hop_refuses_the_size() {
    let mut pmtu = pmtu(1472, false);
    pmtu.on_too_long(at(0));
    assert_eq!(probe(&mut pmtu, at(0)), Some(1472), "without a probe the error means nothing");
    pmtu.on_too_long(at(0));
    assert_eq!((due(&pmtu, at(0)), pmtu.refusals, pmtu.current), (Some(1412), MAX_PROBES, 1232));
}
