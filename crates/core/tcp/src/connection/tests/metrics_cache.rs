//! Tests of connections that use the metrics cache (RFC 9040, section 6).

use longhaul_cc::SavedPath;
use longhaul_units::{Bytes, Rate};
use longhaul_wire::{CheshireCodec, Codec, Flags, Header};

use super::*;
use crate::{PathCache, PathMetrics};

const CONTROLLER: &str = "new-reno";

fn remembering(cache: &PathCache) -> Config {
    Config { congestion: CONTROLLER.parse().unwrap(), path_cache: Some(cache.clone()), ..Config::default() }
}

fn find(net: &Net, cache: &PathCache, end: usize) -> Option<PathMetrics> {
    cache.find(net.now, Net::tuple(end).remote.ip(), CONTROLLER)
}

/// Transfers the given number of bytes over a net with a round-trip time of 20 ms that drops the data segments with
/// these numbers; returns the net and the cache of end 0.
fn after(bytes: usize, lost: &'static [u64]) -> (Net, PathCache, Info) {
    let mut net = Net::new(Span::from_millis(10));
    let mut data = 0;
    net.lose = Box::new(move |_, from, datagram| {
        let is_data = from == 0 && datagram.len() > 1000;
        data += u64::from(is_data);
        is_data && lost.contains(&data)
    });
    let cache = PathCache::default();
    let ids = net.connect(remembering(&cache));
    let info = net.transfer(ids, bytes, Span::from_secs(30));
    assert_eq!(info.recoveries, lost.len() as u64);
    (net, cache, info)
}

#[test]
fn a_long_connection_stores_its_threshold_and_the_next_starts_with_it() {
    let (mut net, cache, info) = after(3_000_000, &[200]);
    let left = find(&net, &cache, 1).expect("an entry");
    let ssthresh = info.ssthresh.expect("there was a loss");
    assert_eq!(left.ssthresh, Some(ssthresh.max(info.cwnd / 2)));
    assert_eq!((left.srtt, left.rttvar), (info.srtt, info.rttvar));
    // The peer sent no data and stores no threshold.
    assert_eq!(find(&net, &cache, 0).and_then(|metrics| metrics.ssthresh), None);
    net.ends = Net::new(Span::ZERO).ends;
    let (a, _) = net.connect(remembering(&cache));
    let next = net.ends[0].connection(a).unwrap().info(net.now);
    assert_eq!((next.ssthresh, next.phase), (left.ssthresh, "slow-start"));
    assert!(next.cwnd <= Bytes(14_600), "the initial window stays: {}", next.cwnd);
    assert_eq!(next.srtt, Some(Span::from_millis(20)), "its own sample, not the cached one");
}

/// A loss five segments before the end, when the window is no longer the limit, halves the remaining flight.
#[test]
fn a_loss_at_the_end_does_not_change_the_stored_threshold() {
    let (net, cache, info) = after(3_000_000, &[200]);
    let left = find(&net, &cache, 1).and_then(|metrics| metrics.ssthresh);
    let last = info.data_segments_out - 5;
    let (net, cache, info) = after(3_000_000, Box::leak(Box::new([200, last])));
    assert!(info.ssthresh < left, "{:?}, {left:?}", info.ssthresh);
    assert_eq!(find(&net, &cache, 1).and_then(|metrics| metrics.ssthresh), left);
}

/// RFC 9040, section 8: a short connection with an early loss has a threshold that says nothing about the path.
#[test]
fn a_short_connection_stores_no_threshold() {
    let (net, cache, info) = after(400_000, &[40]);
    assert!(info.ssthresh.is_some());
    let left = find(&net, &cache, 1).expect("samples of the round trip");
    assert_eq!((left.ssthresh, left.srtt), (None, info.srtt));
}

/// The same holds for a long connection that sends little and has a loss with four segments in flight.
#[test]
fn a_long_connection_that_sends_little_stores_no_threshold() {
    let mut net = Net::new(Span::from_millis(10));
    let mut data = 0;
    net.lose = Box::new(move |_, from, datagram| {
        let is_data = from == 0 && datagram.len() > 1000;
        data += u64::from(is_data);
        is_data && data == 9
    });
    let cache = PathCache::default();
    let (a, b) = net.connect(remembering(&cache));
    for turn in 1..=100 {
        net.ends[0].drive(net.now, a, |c| c.write(&[7; 4_700]));
        net.run_until(Span::from_secs(10), |net| {
            net.ends[1].drive(net.now, b, |c| while c.read(1 << 20).is_ok_and(|part| !part.is_empty()) {});
            net.ends[0].connection(a).unwrap().info(net.now).bytes_acked == turn * 4_700
        });
    }
    let info = net.transfer((a, b), 0, Span::from_secs(10));
    assert!(info.ssthresh.is_some_and(|ssthresh| ssthresh < Bytes(5_000)), "{:?}", info.ssthresh);
    assert!(info.age > Span::from_millis(20) * 100);
    assert_eq!(find(&net, &cache, 1).expect("samples").ssthresh, None);
}

/// Without a loss, no threshold is stored.
#[test]
fn a_connection_without_a_threshold_stores_none() {
    let (net, cache, info) = after(3_000_000, &[]);
    assert_eq!(info.ssthresh, None);
    assert_eq!(find(&net, &cache, 1).expect("samples").ssthresh, None);
}

#[test]
fn a_handshake_stores_nothing_whether_it_succeeds_or_fails() {
    let cache = PathCache::default();
    let mut net = Net::new(Span::from_millis(10));
    let (a, _) = net.connect(remembering(&cache));
    net.ends[0].drive(net.now, a, crate::Connection::abort);
    net.pump();
    assert!(cache.is_empty());
    net.lose = Box::new(|_, _, _| true);
    let config = Config { syn_retries: 1, ..remembering(&cache) };
    let id = net.ends[0].connect(net.now, Net::tuple(1), Arc::new(config)).unwrap();
    net.run_until(Span::from_secs(30), |net| net.ends[0].connection(id).is_none_or(|c| c.status().is_drained()));
    assert!(cache.is_empty());
}

/// The threshold and the timer of a connection over a dead path say nothing about the path.
#[test]
fn a_connection_that_timed_out_stores_nothing() {
    let cache = PathCache::default();
    let mut net = Net::new(Span::from_millis(10));
    let mut data = 0;
    net.lose = Box::new(move |_, from, datagram| {
        data += u64::from(from == 0 && datagram.len() > 1000);
        data >= 2000
    });
    let config = Config { user_timeout: Some(Span::from_secs(20)), ..remembering(&cache) };
    let (a, b) = net.connect(config);
    net.run_until(Span::from_secs(60), |net| {
        net.ends[0].drive(net.now, a, |c| while c.write(&[7; 64 << 10]).is_ok_and(|n| n > 0) {});
        net.ends[1].drive(net.now, b, |c| while c.read(1 << 20).is_ok_and(|part| !part.is_empty()) {});
        net.pump();
        net.ends[0].connection(a).unwrap().status().error().is_some()
    });
    assert_eq!(find(&net, &cache, 1), None);
}

/// Passive opens use the cache as well, also those by SYN cookies.
#[test]
fn an_accepted_connection_starts_with_the_cached_metrics() {
    for always_cookies in [false, true] {
        let cache = PathCache::default();
        let known = PathMetrics { ssthresh: Some(Bytes(77_000)), ..PathMetrics::default() };
        cache.seed(Time::ZERO, Net::tuple(0).remote.ip(), CONTROLLER, &known);
        let mut net = Net::new(Span::from_millis(10));
        let mut endpoint = EndpointConfig::new([2; 32]);
        endpoint.always_cookies = always_cookies;
        net.ends[1] = Endpoint::new(endpoint, Time::ZERO);
        let (a, b) = net.connect(remembering(&cache));
        assert_eq!(net.ends[1].stats().cookies_accepted, u64::from(always_cookies));
        let info = |end: usize, id| net.ends[end].connection(id).unwrap().info(net.now);
        assert_eq!((info(1, b).ssthresh, info(0, a).ssthresh), (known.ssthresh, None));
    }
}

/// Forged SYNs change neither values nor ages of the hosts they claim to come from.
#[test]
fn forged_syns_do_not_change_the_cache() {
    let cache = PathCache::default();
    let config = Config { congestion: "careful-resume+new-reno".parse().unwrap(), ..remembering(&cache) };
    let (client, congestion) = (IpAddr::from([192, 0, 2, 7]), config.congestion.name());
    let rate = Rate::from_bytes_per_sec(1_000_000);
    let saved = Some(SavedPath::new(Bytes(100_000), rate, Span::from_millis(100)));
    cache.seed(Time::ZERO, client, &congestion, &PathMetrics { saved, ..PathMetrics::default() });
    let before = cache.find(Time::ZERO, client, &congestion);
    let mut endpoint = Endpoint::new(EndpointConfig::new([3; 32]), Time::ZERO);
    endpoint.listen(Arc::new(config));
    let syn = Header { flags: Flags::SYN, seq: 99, window: 65_535, ..Header::default() };
    let mut datagram = vec![0; 60];
    let len = CheshireCodec::emit(&syn, &mut datagram).unwrap();
    let mut now = Time::ZERO;
    for last in 0..=255 {
        let remote = SocketAddr::from(([192, 0, 2, last], 4000));
        endpoint.handle_datagram(now, &DatagramMeta::new(remote, len), &datagram[..len], None);
    }
    while endpoint.poll_transmit(now, &mut Batch::default(), 64).is_some() {}
    assert_eq!(endpoint.len(), 256);
    // Wait until the last of them has been given up.
    while let Some(next) = endpoint.poll_timeout().filter(|_| !endpoint.is_empty()) {
        now = now.max(next);
        endpoint.handle_timeout(now);
        while endpoint.poll_transmit(now, &mut Batch::default(), 64).is_some() {}
    }
    assert_eq!((endpoint.len(), cache.len()), (0, 1));
    assert_eq!(cache.find(now, client, &congestion), before);
    assert_eq!(cache.find(Time::ZERO + Span::from_secs(3601), client, &congestion), None, "with its old age");
}

/// The initial RTO is 1 s (RFC 6298, section 2.1); on a path with a longer round-trip time every SYN would be sent
/// twice.
#[test]
fn the_first_syn_timeout_covers_the_cached_round_trip_time() {
    for (srtt, rttvar, first) in [(20, 5, 1000), (1500, 200, 2300), (30_000, 0, 3000)] {
        let cache = PathCache::default();
        let mut known = PathMetrics { srtt: Some(Span::from_millis(srtt)), ..PathMetrics::default() };
        known.rttvar = Span::from_millis(rttvar);
        cache.seed(Time::ZERO, Net::tuple(1).remote.ip(), CONTROLLER, &known);
        let mut net = Net::new(Span::from_millis(10));
        net.lose = Box::new(|_, _, _| true);
        net.ends[0].connect(net.now, Net::tuple(1), Arc::new(remembering(&cache))).unwrap();
        net.run_until(Span::from_secs(10), |net| net.sent == 2);
        assert_eq!(net.now, Time::ZERO + Span::from_millis(first), "{srtt} ms");
    }
}

/// Controllers without a slow-start threshold neither use nor store one.
#[test]
fn monolithic_controllers_ignore_the_threshold() {
    longhaul_zoo::register().unwrap();
    for name in ["bbr", "bbr1", "copa"] {
        let cache = PathCache::default();
        let known = PathMetrics { ssthresh: Some(Bytes(20_000)), ..PathMetrics::default() };
        cache.seed(Time::ZERO, Net::tuple(1).remote.ip(), name, &known);
        let afresh = PathCache::default();
        let [with, without] = [&cache, &afresh].map(|cache| {
            let mut net = Net::new(Span::from_millis(10));
            let config = Config { congestion: name.parse().unwrap(), ..remembering(cache) };
            let ids = net.connect(config);
            net.transfer(ids, 500_000, Span::from_secs(30))
        });
        assert_eq!((with.cwnd, with.age, with.ssthresh), (without.cwnd, without.age, None), "{name}");
        let left = afresh.find(Time::ZERO, Net::tuple(1).remote.ip(), name).expect("samples");
        assert_eq!(left.ssthresh, None, "{name}");
    }
}
