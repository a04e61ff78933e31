//! Memory that an idle connection keeps, and memory that it frees.

use longhaul_cc::Congestion;
use longhaul_units::{Bytes, Rate};

use super::*;
use crate::config::KeepAlive;
use crate::{PathCache, PathMetrics};

const DELAY: Span = Span::from_millis(5);
/// More than a retransmission timeout.
const STEP: Span = Span::from_millis(400);

fn config() -> Config {
    Config { congestion: Congestion::copa_cubic(), ..Config::default() }
}

/// A connection whose ends have sent `bytes` to each other, `idle` later.
fn idle(config: Config, bytes: usize, idle: Span) -> (Net, [ConnId; 2]) {
    let mut net = Net::new(DELAY);
    let (a, b) = net.connect(config);
    exchange(&mut net, [a, b], bytes);
    wait(&mut net, idle);
    (net, [a, b])
}

/// Sends `bytes` both ways until all are acknowledged.
fn exchange(net: &mut Net, ids: [ConnId; 2], bytes: usize) {
    let (mut written, mut read) = ([0; 2], [0; 2]);
    let data = vec![7; bytes];
    net.run_until(Span::from_secs(100), |net| {
        let now = net.now;
        for (end, id) in ids.into_iter().enumerate() {
            net.ends[end].drive(now, id, |c| {
                written[end] += c.write(&data[written[end]..]).unwrap_or(0);
                while let Ok(part) = c.read(1 << 20) {
                    read[end] += part.len();
                }
            });
        }
        net.pump();
        (0..2).all(|end| read[end] >= bytes && !net.ends[end].connection(ids[end]).unwrap().snd.has_outstanding())
    });
}

/// Lets `span` pass.
fn wait(net: &mut Net, span: Span) {
    let end = net.now + span;
    net.pump();
    loop {
        let timers = net.ends.iter_mut().filter_map(Endpoint::poll_timeout).min();
        let next = timers.into_iter().chain(net.flying.front().map(|flying| flying.0)).min();
        if next.is_none_or(|next| next > end) {
            break;
        }
        net.step();
    }
    net.now = net.now.max(end);
}

fn has_control(net: &Net, ids: [ConnId; 2]) -> [bool; 2] {
    [0, 1].map(|end| net.ends[end].connection(ids[end]).unwrap().cc.sending.made().is_some())
}

#[test]
fn what_controls_sending_is_dropped_after_small_messages() {
    let (mut net, ids) = idle(config(), 100, Span::from_millis(150));
    assert_eq!(has_control(&net, ids), [true; 2], "less than a retransmission timeout later");
    wait(&mut net, STEP);
    assert_eq!(net.ends[0].poll_timeout(), None, "there is nothing left to be freed");
    assert_eq!(has_control(&net, ids), [false; 2]);
    // It can be looked at, and data can be received, without it.
    for (end, id) in ids.into_iter().enumerate() {
        let info = net.ends[end].connection(id).unwrap().info(net.now);
        assert_eq!((info.cwnd.0, info.congestion.as_str()), (u64::from(info.mss) * 10, "copa-cubic"));
        assert_eq!((info.delivered, info.min_rtt), (100, Some(DELAY * 2)));
    }
    assert_eq!(has_control(&net, ids), [false; 2]);
    let now = net.now;
    net.ends[0].drive(now, ids[0], |c| c.write(&[7; 100]).unwrap());
    wait(&mut net, Span::from_millis(50));
    assert_eq!(has_control(&net, ids), [true, false]);
    exchange(&mut net, ids, 1_000_000);
    let info = net.ends[0].connection(ids[0]).unwrap().info(net.now);
    assert_eq!((info.delivered, info.bytes_lost), (1_000_200, 0));
}

/// A connection that only receives, or waits, never needs it.
#[test]
fn what_controls_sending_is_dropped_after_the_handshake() {
    let (mut net, ids) = idle(config(), 0, STEP);
    assert_eq!(has_control(&net, ids), [false; 2]);
    assert_eq!(net.ends[0].poll_timeout(), None, "there is nothing left to be freed");
    let now = net.now;
    let mut got = 0;
    net.ends[0].drive(now, ids[0], |c| c.write(&vec![7; 100_000]).unwrap());
    net.run_until(Span::from_secs(10), |net| {
        let now = net.now;
        net.ends[1].drive(now, ids[1], |c| got += c.read(1 << 20).map_or(0, |part| part.len()));
        got == 100_000
    });
    assert_eq!(has_control(&net, ids), [true, false]);
}

/// A controller that has measured the path during a large message is kept for a minute. A controller that does not say
/// whether it can be freed is kept.
#[test]
fn what_a_controller_has_learnt_is_kept_for_a_minute() {
    let (mut net, ids) = idle(config(), 200_000, Span::from_secs(59));
    assert_eq!(has_control(&net, ids), [true; 2]);
    wait(&mut net, Span::from_secs(2));
    assert_eq!(has_control(&net, ids), [false; 2]);
    exchange(&mut net, ids, 200_000);
    let (net, ids) = idle(Config::default(), 100, Span::from_secs(100));
    assert_eq!(has_control(&net, ids), [true; 2]);
}

/// The next controller begins with what is known of the path, and with what was granted to the first one.
#[test]
fn a_new_controller_knows_the_path_and_what_was_granted() {
    let (mut net, ids) = idle(config(), 100, STEP);
    let marks = Rc::new(Cell::new(None));
    let seen = Rc::clone(&marks);
    net.tamper = Box::new(move |from, ecn, _| {
        if from == 0 {
            seen.set(seen.get().or(Some(ecn)));
        }
        Some(ecn)
    });
    let now = net.now;
    net.ends[0].drive(now, ids[0], |c| c.write(&[7; 100]).unwrap());
    // The first flight is paced by the round trip, which was measured before.
    let info = net.ends[0].connection(ids[0]).unwrap().info(now);
    assert_eq!((info.pacing_rate.is_some(), info.min_rtt), (true, Some(DELAY * 2)));
    net.pump();
    assert_eq!(marks.get(), Some(Ecn::Ect0));
}

/// A new controller keeps to a limit that was set before the first one was dropped, or after.
#[test]
fn a_new_controller_follows_the_configuration() {
    let ceiling = Rate::from_bits_per_sec(1_000_000);
    for waits in [[STEP, Span::ZERO], [Span::ZERO, STEP]] {
        let (mut net, ids) = idle(config(), 0, waits[0]);
        let now = net.now;
        net.ends[0].drive(now, ids[0], |c| c.update_config(|config| config.max_pacing_rate = ceiling));
        net.ends[1].drive(now, ids[1], |c| c.update_config(|config| config.keep_alive = Some(KeepAlive::default())));
        wait(&mut net, waits[1]);
        assert_eq!(has_control(&net, ids), [false; 2]);
        let pace = |net: &Net, end: usize| net.ends[end].connection(ids[end]).unwrap().info(net.now).pacing_rate;
        assert_eq!(pace(&net, 0), Some(ceiling));
        exchange(&mut net, ids, 100_000);
        assert_eq!(pace(&net, 0), Some(ceiling));
        assert!(pace(&net, 1) > Some(ceiling));
    }
}

/// A threshold that earlier connections to the host have left is not forgotten.
#[test]
fn a_controller_for_a_known_path_is_kept() {
    let cache = PathCache::default();
    let metrics = PathMetrics { ssthresh: Some(Bytes(50_000)), ..PathMetrics::default() };
    cache.seed(Time::ZERO, Net::tuple(1).remote.ip(), "copa-cubic", &metrics);
    let (net, ids) = idle(Config { path_cache: Some(cache), ..config() }, 100, STEP);
    assert_eq!(has_control(&net, ids), [true, false]);
}

/// Small buffers are freed at once, large ones are kept for two seconds.
#[test]
fn buffers_are_freed_in_two_steps() {
    let memory =
        |net: &Net, ids: [ConnId; 2]| [0, 1].map(|end| net.ends[end].connection(ids[end]).unwrap().status().memory());
    let (net, ids) = idle(config(), 100, Span::from_millis(150));
    assert!(memory(&net, ids).into_iter().all(|bytes| bytes > 0));
    let (net, ids) = idle(config(), 100, STEP);
    assert_eq!(memory(&net, ids), [0; 2]);
    let (mut net, ids) = idle(config(), 2_000_000, Span::from_millis(1900));
    let large = memory(&net, ids);
    assert!(large.into_iter().all(|bytes| bytes > 50_000), "{large:?}");
    wait(&mut net, Span::from_millis(200));
    let left = memory(&net, ids);
    assert!(left.into_iter().all(|bytes| bytes < 5_000), "{left:?}");
}

/// A receiver that sends nothing frees memory after it has read everything.
#[test]
fn a_receiver_frees_its_memory_without_sending() {
    let (mut net, ids) = idle(config(), 100, Span::from_secs(3));
    for len in [100, 300_000] {
        let mut left = len;
        let mut written = 0;
        net.run_until(Span::from_secs(10), |net| {
            let now = net.now;
            net.ends[0].drive(now, ids[0], |c| written += c.write(&vec![7; len - written]).unwrap_or(0));
            net.ends[1].drive(now, ids[1], |c| left -= c.read(1 << 20).map_or(0, |part| part.len()));
            net.pump();
            left == 0
        });
        assert!(net.ends[1].connection(ids[1]).unwrap().status().memory() > 0);
        wait(&mut net, Span::from_secs(3));
        assert_eq!(net.ends[1].connection(ids[1]).unwrap().status().memory(), 0, "after {len} bytes");
    }
}

/// The peer of a connection that keeps itself alive vanishes, and is missed. Nothing is left to be done then.
#[test]
fn an_idle_connection_notices_that_its_peer_vanishes() {
    let keep_alive = Some(KeepAlive { idle: Span::from_secs(10), interval: Span::from_secs(10), probes: 3 });
    let (mut net, ids) = idle(Config { keep_alive, ..config() }, 100, Span::from_secs(50));
    let infos = [0, 1].map(|end| net.ends[end].connection(ids[end]).unwrap().info(net.now));
    assert!(infos.iter().all(|info| info.state == State::Established && info.segments_in >= 5), "{infos:?}");
    net.lose = Box::new(|_, _, _| true);
    let missed = Some(crate::ConnectionError::TimedOut);
    net.run_until(Span::from_secs(60), |net| {
        (0..2).all(|end| net.ends[end].connection(ids[end]).unwrap().status().error() == missed)
    });
    assert_eq!([0, 1].map(|end| net.ends[end].poll_timeout()), [None; 2]);
}
