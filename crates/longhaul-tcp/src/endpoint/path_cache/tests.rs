//! The memory of paths by itself.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

const LAW: &str = "new-reno";

fn host(number: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number))
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

fn threshold(bytes: u64) -> PathMetrics {
    PathMetrics { ssthresh: Some(Bytes(bytes)), ..PathMetrics::default() }
}

fn rtt(srtt: u64, rttvar: u64) -> PathMetrics {
    PathMetrics { srtt: Some(Span::from_millis(srtt)), rttvar: Span::from_millis(rttvar), ..PathMetrics::default() }
}

fn cache(capacity: usize, max_age: u64) -> PathCache {
    PathCache::new(PathCacheConfig { capacity, max_age: Span::from_secs(max_age) })
}

#[test]
fn the_oldest_lesson_makes_room() {
    let cache = cache(3, 100);
    for number in [1, 2, 3, 1, 4] {
        cache.learn(at(0), host(number), LAW, &threshold(u64::from(number)));
        assert!(cache.len() <= 3);
    }
    let known = [1, 2, 3, 4].map(|number| cache.find(at(0), host(number), LAW).is_some());
    assert_eq!(known, [true, false, true, true]);
    // Nobody keeps an entry by asking for it, as forged SYNs do.
    let _ = cache.find(at(0), host(3), LAW);
    cache.learn(at(0), host(5), LAW, &threshold(5));
    assert_eq!(cache.find(at(0), host(3), LAW), None);
}

#[test]
fn a_memory_without_room_keeps_one_entry() {
    let cache = cache(0, 100);
    for number in 0..10 {
        cache.learn(at(0), host(number), LAW, &threshold(1));
    }
    assert_eq!((cache.len(), cache.find(at(0), host(9), LAW)), (1, Some(threshold(1))));
}

#[test]
fn what_is_too_old_counts_for_nothing() {
    let cache = cache(3, 100);
    cache.learn(at(0), host(1), LAW, &threshold(1000));
    assert_eq!(cache.find(at(100), host(1), LAW), Some(threshold(1000)));
    assert_eq!(cache.find(at(101), host(1), LAW), None);
    // Nor in a mean.
    cache.learn(at(101), host(1), LAW, &threshold(4000));
    assert_eq!(cache.find(at(101), host(1), LAW), Some(threshold(4000)));
}

/// A connection that learnt the round trip and no threshold says nothing of the threshold's age.
#[test]
fn each_value_has_its_own_age() {
    let cache = cache(3, 100);
    cache.learn(at(0), host(1), LAW, &threshold(1000));
    cache.learn(at(60), host(1), LAW, &rtt(100, 10));
    assert_eq!(cache.find(at(100), host(1), LAW), Some(PathMetrics { ssthresh: Some(Bytes(1000)), ..rtt(100, 10) }));
    assert_eq!(cache.find(at(101), host(1), LAW), Some(rtt(100, 10)));
    assert_eq!(cache.find(at(161), host(1), LAW), None);
}

/// RFC 9040, section 6.2, leaves the functions open; the threshold's is FreeBSD's (table 9).
#[test]
fn old_and_new_are_merged() {
    let cache = PathCache::default();
    cache.learn(at(0), host(1), LAW, &PathMetrics { ssthresh: Some(Bytes(1000)), ..rtt(80, 40) });
    cache.learn(at(1), host(1), LAW, &PathMetrics { ssthresh: Some(Bytes(4000)), ..rtt(160, 8) });
    let ssthresh = Some(Bytes(2500));
    assert_eq!(cache.find(at(1), host(1), LAW), Some(PathMetrics { ssthresh, ..rtt(160, 36) }));
    cache.learn(at(2), host(1), LAW, &PathMetrics { ssthresh: Some(Bytes(500)), ..rtt(80, 100) });
    let ssthresh = Some(Bytes(1500));
    assert_eq!(cache.find(at(2), host(1), LAW), Some(PathMetrics { ssthresh, ..rtt(150, 100) }));
    let largest = threshold(u64::MAX);
    cache.learn(at(2), host(2), LAW, &largest);
    cache.learn(at(2), host(2), LAW, &largest);
    assert_eq!(cache.find(at(2), host(2), LAW), Some(largest));
}

#[test]
fn hosts_and_laws_are_told_apart_and_ways_to_write_an_address_are_not() {
    let cache = PathCache::default();
    cache.learn(at(0), host(1), LAW, &threshold(1000));
    assert_eq!(cache.find(at(0), host(2), LAW), None);
    assert_eq!(cache.find(at(0), host(1), "hstcp"), None);
    let mapped = IpAddr::V6(Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped());
    assert_eq!(cache.find(at(0), mapped, LAW), Some(threshold(1000)));
}

#[test]
fn clones_are_one_memory_and_copies_are_not() {
    let cache = PathCache::default();
    let (clone, copy) = (cache.clone(), cache.copied());
    clone.learn(at(0), host(1), LAW, &threshold(1));
    assert_eq!((cache.len(), copy.is_empty()), (1, true));
    let later = cache.copied();
    cache.clear();
    assert_eq!((clone.is_empty(), later.find(at(0), host(1), LAW)), (true, Some(threshold(1))));
}

#[test]
fn nothing_learnt_leaves_no_entry() {
    let cache = PathCache::default();
    cache.learn(at(0), host(1), LAW, &PathMetrics::default());
    assert!(cache.is_empty());
}

proptest! {
    /// Against a list that is searched from its end.
    #[test]
    fn it_keeps_the_latest_of_what_it_was_told(
        lessons in prop::collection::vec((0u32..12, 1u64..1000), 0..60),
        capacity in 1usize..8,
    ) {
        let cache = cache(capacity, 1000);
        let mut list: Vec<(u32, u64)> = Vec::new();
        for (number, bytes) in lessons {
            cache.learn(at(0), host(number), LAW, &threshold(bytes));
            let old = list.iter().position(|(other, _)| *other == number).map(|place| list.remove(place).1);
            list.push((number, old.map_or(bytes, |old| u64::midpoint(old, bytes))));
            prop_assert_eq!(cache.len(), list.len().min(capacity));
            let latest = &list[list.len() - cache.len()..];
            for number in 0..12 {
                let known = latest.iter().find(|(other, _)| *other == number).map(|(_, bytes)| threshold(*bytes));
                prop_assert_eq!(cache.find(at(0), host(number), LAW), known);
            }
            list = latest.to_vec();
        }
    }
}
