//! Tests of the metrics cache alone.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use longhaul_units::Rate;

use super::*;

const CONTROLLER: &str = "new-reno";

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
fn the_least_recently_updated_entry_is_evicted() {
    let cache = cache(3, 100);
    for number in [1, 2, 3, 1, 4] {
        cache.seed(at(0), host(number), CONTROLLER, &threshold(u64::from(number)));
        assert!(cache.len() <= 3);
    }
    let known = [1, 2, 3, 4].map(|number| cache.find(at(0), host(number), CONTROLLER).is_some());
    assert_eq!(known, [true, false, true, true]);
    // Lookups, which forged SYNs can cause, do not protect an entry from eviction.
    let _ = cache.find(at(0), host(3), CONTROLLER);
    cache.seed(at(0), host(5), CONTROLLER, &threshold(5));
    assert_eq!(cache.find(at(0), host(3), CONTROLLER), None);
}

#[test]
fn a_cache_with_capacity_zero_keeps_one_entry() {
    let cache = cache(0, 100);
    for number in 0..10 {
        cache.seed(at(0), host(number), CONTROLLER, &threshold(1));
    }
    assert_eq!((cache.len(), cache.find(at(0), host(9), CONTROLLER)), (1, Some(threshold(1))));
}

#[test]
fn values_that_are_too_old_are_ignored() {
    let cache = cache(3, 100);
    cache.seed(at(0), host(1), CONTROLLER, &threshold(1000));
    assert_eq!(cache.find(at(100), host(1), CONTROLLER), Some(threshold(1000)));
    assert_eq!(cache.find(at(101), host(1), CONTROLLER), None);
    // A value that is too old does not count in the mean.
    cache.seed(at(101), host(1), CONTROLLER, &threshold(4000));
    assert_eq!(cache.find(at(101), host(1), CONTROLLER), Some(threshold(4000)));
}

/// A connection that stores a round-trip time but no threshold does not refresh the threshold.
#[test]
fn each_value_has_its_own_age() {
    let cache = cache(3, 100);
    cache.seed(at(0), host(1), CONTROLLER, &threshold(1000));
    cache.seed(at(60), host(1), CONTROLLER, &rtt(100, 10));
    assert_eq!(
        cache.find(at(100), host(1), CONTROLLER),
        Some(PathMetrics { ssthresh: Some(Bytes(1000)), ..rtt(100, 10) })
    );
    assert_eq!(cache.find(at(101), host(1), CONTROLLER), Some(rtt(100, 10)));
    assert_eq!(cache.find(at(161), host(1), CONTROLLER), None);
}

/// RFC 9040, section 6.2, does not prescribe the merge functions; the one for the threshold is FreeBSD's (table 9).
#[test]
fn old_and_new_are_merged() {
    let cache = PathCache::default();
    cache.seed(at(0), host(1), CONTROLLER, &PathMetrics { ssthresh: Some(Bytes(1000)), ..rtt(80, 40) });
    cache.seed(at(1), host(1), CONTROLLER, &PathMetrics { ssthresh: Some(Bytes(4000)), ..rtt(160, 8) });
    let ssthresh = Some(Bytes(2500));
    assert_eq!(cache.find(at(1), host(1), CONTROLLER), Some(PathMetrics { ssthresh, ..rtt(160, 36) }));
    cache.seed(at(2), host(1), CONTROLLER, &PathMetrics { ssthresh: Some(Bytes(500)), ..rtt(80, 100) });
    let ssthresh = Some(Bytes(1500));
    assert_eq!(cache.find(at(2), host(1), CONTROLLER), Some(PathMetrics { ssthresh, ..rtt(150, 100) }));
    let largest = threshold(u64::MAX);
    cache.seed(at(2), host(2), CONTROLLER, &largest);
    cache.seed(at(2), host(2), CONTROLLER, &largest);
    assert_eq!(cache.find(at(2), host(2), CONTROLLER), Some(largest));
}

#[test]
fn entries_are_per_host_and_controller_and_mapped_addresses_are_equal() {
    let cache = PathCache::default();
    cache.seed(at(0), host(1), CONTROLLER, &threshold(1000));
    assert_eq!(cache.find(at(0), host(2), CONTROLLER), None);
    assert_eq!(cache.find(at(0), host(1), "cubic"), None);
    let mapped = IpAddr::V6(Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped());
    assert_eq!(cache.find(at(0), mapped, CONTROLLER), Some(threshold(1000)));
}

#[test]
fn clones_share_a_cache_and_copies_do_not() {
    let cache = PathCache::default();
    let (clone, copy) = (cache.clone(), cache.copied());
    clone.seed(at(0), host(1), CONTROLLER, &threshold(1));
    assert_eq!((cache.len(), copy.is_empty()), (1, true));
    let later = cache.copied();
    cache.clear();
    assert_eq!((clone.is_empty(), later.find(at(0), host(1), CONTROLLER)), (true, Some(threshold(1))));
}

#[test]
fn empty_metrics_make_no_entry() {
    let cache = PathCache::default();
    cache.seed(at(0), host(1), CONTROLLER, &PathMetrics::default());
    assert!(cache.is_empty());
}

proptest! {
    /// Compares the cache with a list in order of update.
    #[test]
    fn the_cache_agrees_with_a_list(
        lessons in prop::collection::vec((0u32..12, 1u64..1000), 0..60),
        capacity in 1usize..8,
    ) {
        let cache = cache(capacity, 1000);
        let mut list: Vec<(u32, u64)> = Vec::new();
        for (number, bytes) in lessons {
            cache.seed(at(0), host(number), CONTROLLER, &threshold(bytes));
            let old = list.iter().position(|(other, _)| *other == number).map(|place| list.remove(place).1);
            list.push((number, old.map_or(bytes, |old| u64::midpoint(old, bytes))));
            prop_assert_eq!(cache.len(), list.len().min(capacity));
            let latest = &list[list.len() - cache.len()..];
            for number in 0..12 {
                let known = latest.iter().find(|(other, _)| *other == number).map(|(_, bytes)| threshold(*bytes));
                prop_assert_eq!(cache.find(at(0), host(number), CONTROLLER), known);
            }
            list = latest.to_vec();
        }
    }
}

fn saved(bytes: u64) -> PathMetrics {
    let rate = Rate::from_bytes_per_sec(bytes.saturating_mul(2));
    let saved = SavedPath::new(Bytes(bytes), rate, Span::from_millis(500));
    PathMetrics { saved: Some(saved), ..PathMetrics::default() }
}

/// Saved values keep their ages when loaded, even if the clock of the new process has just started.
#[test]
fn a_saved_cache_can_be_loaded_by_another_process() {
    let first = cache(10, 100);
    first.seed(at(1000), host(1), CONTROLLER, &saved(100_000));
    first.seed(at(1050), host(1), CONTROLLER, &rtt(40, 5));
    first.seed(at(1060), host(2), "careful-resume", &threshold(7));
    let text = first.save(at(1070));
    let next = cache(10, 100);
    assert_eq!(next.load(at(1), Span::ZERO, &text), Ok(2));
    assert_eq!(next.find(at(1), host(1), CONTROLLER), first.find(at(1070), host(1), CONTROLLER));
    assert_eq!(next.find(at(1), host(2), "careful-resume"), Some(threshold(7)));
    // After 30 s, the saved path is 100 s old; 1 s later, it is too old.
    assert_eq!(next.find(at(31), host(1), CONTROLLER).and_then(|metrics| metrics.saved), saved(100_000).saved);
    assert_eq!(next.find(at(32), host(1), CONTROLLER).and_then(|metrics| metrics.saved), None);
    assert_eq!(next.save(at(1)), text);
}

/// Only one connection at a time can use a saved path.
#[test]
fn a_saved_path_is_checked_out_once() {
    let cache = cache(10, 100);
    cache.seed(at(0), host(1), CONTROLLER, &saved(100_000));
    let taken = |at| match cache.take_saved(at, host(1), CONTROLLER) {
        Taken::Nothing => "nothing",
        Taken::Damaged => "damaged",
        Taken::TooOld => "too old",
        Taken::CheckedOut(path) => {
            assert_eq!(Some(path.value), saved(100_000).saved);
            "checked out"
        }
    };
    assert_eq!([taken(at(50)), taken(at(50))], ["checked out", "nothing"]);
    cache.seed(at(0), host(1), CONTROLLER, &saved(100_000));
    assert_eq!([taken(at(101)), taken(at(50))], ["too old", "nothing"], "and it is removed");
    cache.seed(at(0), host(1), CONTROLLER, &saved(u64::MAX));
    assert_eq!([taken(at(0)), taken(at(0))], ["damaged", "nothing"]);
}

/// A returned path keeps its age and does not replace one that another connection has stored in the meantime.
#[test]
fn a_returned_path_keeps_its_age() {
    let cache = cache(10, 100);
    let take = |now| match cache.take_saved(now, host(1), CONTROLLER) {
        Taken::CheckedOut(path) => path,
        other => panic!("{other:?}"),
    };
    let known = |now| cache.find(now, host(1), CONTROLLER).and_then(|metrics| metrics.saved);
    cache.seed(at(0), host(1), CONTROLLER, &saved(100_000));
    let path = take(at(60));
    cache.seed(at(90), host(1), CONTROLLER, &rtt(40, 5));
    cache.give_back(host(1), CONTROLLER, path);
    assert_eq!((known(at(100)), known(at(101))), (saved(100_000).saved, None));
    let path = take(at(100));
    cache.seed(at(90), host(1), CONTROLLER, &saved(50_000));
    cache.give_back(host(1), CONTROLLER, path);
    assert_eq!(known(at(101)), saved(50_000).saved);
    // It keeps its age in another process, too.
    let (next, text) = (PathCache::default(), {
        cache.give_back(host(2), CONTROLLER, path);
        cache.save(at(100))
    });
    assert_eq!(next.load(at(1), Span::ZERO, &text), Ok(2));
    assert!(text.contains(&format!("10.0.0.2 {CONTROLLER} - - 100000,")), "100 s old: {text}");
}

/// A text with impossible values is refused as a whole, and impossible values that were seeded are not written.
#[test]
fn impossible_paths_are_refused() {
    let line = |saved: &str| format!("longhaul paths 1\n10.0.0.1 {CONTROLLER} - - 5,{saved}\n");
    let edge = SavedPath::MAX_WINDOW.0;
    for (numbers, good) in [
        ("1,1,1".to_owned(), true),
        (format!("{edge},{},{}", u64::MAX, u64::MAX), true),
        (format!("{},1,1", edge + 1), false),
        (format!("{},1,1", u64::MAX), false),
        ("0,1,1".to_owned(), false),
        ("1,0,1".to_owned(), false),
        ("1,1,0".to_owned(), false),
    ] {
        let cache = cache(10, 100);
        let refusal = Err(LoadError { line: 2, reason: LoadReason::Impossible });
        assert_eq!(cache.load(at(1), Span::ZERO, &line(&numbers)), if good { Ok(1) } else { refusal }, "{numbers}");
        assert_eq!(cache.is_empty(), !good);
    }
    let cache = cache(10, 100);
    cache.seed(at(1), host(1), CONTROLLER, &PathMetrics { ssthresh: Some(Bytes(7)), ..saved(u64::MAX) });
    assert_eq!(cache.save(at(1)), format!("longhaul paths 1\n10.0.0.1 {CONTROLLER} 0,7 - -\n"));
}

/// The error for damaged text names the line, and nothing is loaded.
#[test]
fn damaged_text_is_refused() {
    let good = "192.0.2.1 cubic 5,1000 - 5,1000,2000,500000";
    let cases = [
        (String::new(), 1, LoadReason::Head),
        ("longhaul paths 2\n".to_owned(), 1, LoadReason::Head),
        (format!("longhaul paths 1\n{good}\nhost cubic - - -\n"), 3, LoadReason::Address),
        ("longhaul paths 1\n192.0.2.1 cubik - - -\n".to_owned(), 2, LoadReason::Congestion),
        ("longhaul paths 1\n192.0.2.1\n".to_owned(), 2, LoadReason::Congestion),
        ("longhaul paths 1\n192.0.2.1 cubic - -\n".to_owned(), 2, LoadReason::Numbers),
        ("longhaul paths 1\n192.0.2.1 cubic 5 - -\n".to_owned(), 2, LoadReason::Numbers),
        ("longhaul paths 1\n192.0.2.1 cubic 5,-1 - -\n".to_owned(), 2, LoadReason::Numbers),
        (format!("longhaul paths 1\n{good} more\n"), 2, LoadReason::Numbers),
        (format!("longhaul paths 1\n192.0.2.1 cubic 5,{} - -\n", "9".repeat(30)), 2, LoadReason::Numbers),
    ];
    for (text, line, reason) in cases {
        let cache = cache(10, 100);
        assert_eq!(cache.load(at(1), Span::ZERO, &text), Err(LoadError { line, reason }), "{text:?}");
        assert!(cache.is_empty(), "{text:?}");
    }
    assert_eq!(cache(10, 100).load(at(1), Span::ZERO, &format!("longhaul paths 1\n\n{good}\n")), Ok(1));
}

proptest! {
    #[test]
    fn arbitrary_text_does_not_exceed_the_capacity(text in ".{0,200}", lines in 0..50_u32) {
        let cache = cache(4, 100);
        let many: String = (0..lines).map(|k| format!("10.0.0.{k} cubic 1,{k} - -\n")).collect();
        let _ = cache.load(at(1), Span::ZERO, &format!("longhaul paths 1\n{many}"));
        let _ = cache.load(at(1), Span::ZERO, &format!("longhaul paths 1\n{text}"));
        prop_assert!(cache.len() <= 4);
    }
}
