//! Paths that drop packets because of ECN: ECN-capable data, or the SYN and SYN-ACK that negotiate it (RFC 3168, section
//! 6.1.1.1).

use std::rc::Rc;

use longhaul_wire::{CheshireCodec, Codec, Flags};

use super::*;
use crate::PathCache;

const ROUND_TRIP: Span = Span::from_millis(100);

/// Returns a net that passes the ECN-capable data segments with these numbers only, and the number that it dropped.
fn black_hole(passed: std::ops::Range<u64>) -> (Net, Rc<Cell<u64>>) {
    let mut net = Net::new(ROUND_TRIP / 2);
    let dropped = Rc::new(Cell::new(0));
    let (count, mut capable) = (Rc::clone(&dropped), 0);
    net.tamper = Box::new(move |_, ecn, _| {
        if ecn == Ecn::NotEct {
            return Some(ecn);
        }
        capable += 1;
        if passed.contains(&capable) {
            return Some(ecn);
        }
        count.set(count.get() + 1);
        None
    });
    (net, dropped)
}

/// Sends 3 MB from one end to the other, and returns the time that takes.
fn send(net: &mut Net, ids: (ConnId, ConnId), from: usize) -> Span {
    const BYTES: usize = 3_000_000;
    let [sender, receiver] = if from == 0 { [ids.0, ids.1] } else { [ids.1, ids.0] };
    let (begun, mut left, mut read) = (net.now, BYTES, 0);
    net.run_until(Span::from_secs(100), |net| {
        let now = net.now;
        while let Some(Ok(taken @ 1..)) = net.ends[from].drive(now, sender, |c| c.write(&vec![7; left.min(64 << 10)])) {
            left -= taken;
        }
        while let Some(Ok(part)) = net.ends[1 - from].drive(now, receiver, |c| c.read(1 << 20)) {
            read += part.len();
        }
        net.pump();
        read == BYTES
    });
    net.now - begun
}

fn is_off(net: &Net, end: usize, id: ConnId) -> bool {
    net.ends[end].connection(id).unwrap().ext.ecn_check.has_failed()
}

/// The losses of three flights reduce the slow-start threshold, so that the transfer takes several seconds instead of one.
#[test]
fn a_path_that_drops_ecn_capable_data_is_noticed_by_either_end() {
    for passed in [0..0, 0..500] {
        for from in [0, 1] {
            let (mut net, dropped) = black_hole(passed.clone());
            let ids = net.connect(Config::default());
            let taken = send(&mut net, ids, from);
            assert!(taken < Span::from_secs(20), "{taken} from {from} after {passed:?}");
            let [sender, receiver] = if from == 0 { [ids.0, ids.1] } else { [ids.1, ids.0] };
            assert!(is_off(&net, from, sender) && !is_off(&net, 1 - from, receiver));
            let before = dropped.get();
            send(&mut net, ids, from);
            assert_eq!(dropped.get(), before, "nothing is ECN-capable any more");
        }
    }
}

/// A window probe is not ECN-capable, and its arrival is no evidence between flights of which only retransmissions arrive.
#[test]
fn the_arrival_of_a_window_probe_says_nothing_about_the_path() {
    let mut net = Net::new(ROUND_TRIP / 2);
    let ids = net.connect(Config { recv_buffer: 1 << 20, recv_buffer_max: 1 << 20, ..Config::default() });
    let note = |net: &mut Net, start| {
        net.ends[0].drive(net.now, ids.0, |c| c.ext.ecn_check.on_arrival(start, true, start + 1)).unwrap();
    };
    let una = |net: &Net| net.ends[0].connection(ids.0).unwrap().snd.una;
    net.run_until(Span::from_secs(60), |net| {
        while let Some(Ok(1..)) = net.ends[0].drive(net.now, ids.0, |c| c.write(&[7; 10_000])) {}
        net.pump();
        net.ends[0].connection(ids.0).unwrap().snd.persist.in_flight
    });
    let (probe, later) = (una(&net), 1 << 30);
    note(&mut net, later);
    note(&mut net, later + 1);
    // The receiver has room for less than a unit of the window scale.
    net.run_until(Span::from_secs(60), |net| una(net) > probe);
    assert!(!is_off(&net, 0, ids.0));
    note(&mut net, later + 2);
    assert!(is_off(&net, 0, ids.0));
}

/// After an outage, ECN-capable segments arrive again.
#[test]
fn an_outage_is_not_taken_for_a_path_that_drops_ecn_capable_data() {
    for lasts in [1, 5, 20] {
        let mut net = Net::new(ROUND_TRIP / 2);
        let ids = net.connect(Config::default());
        let (begins, now) = (net.now + Span::from_millis(500), Rc::clone(&net.sent_at));
        let ends = begins + Span::from_secs(lasts);
        net.lose = Box::new(move |_, _, _| (begins..ends).contains(&now.get()));
        send(&mut net, ids, 0);
        let info = net.ends[0].connection(ids.0).unwrap().info(net.now);
        assert!(info.recoveries > 0 && !is_off(&net, 0, ids.0), "{lasts} s");
    }
}

/// The next connections to the same host neither offer nor accept ECN.
#[test]
fn later_connections_to_the_host_start_without_ecn() {
    for from in [0, 1] {
        let (mut net, dropped) = black_hole(0..0);
        let cache = PathCache::default();
        let config = Config { path_cache: Some(cache.clone()), ..Config::default() };
        let ids = net.connect(config.clone());
        send(&mut net, ids, from);
        for (end, id) in [(0, ids.0), (1, ids.1)] {
            let now = net.now;
            net.ends[end].drive(now, id, |c| c.shutdown());
            net.ends[end].release(now, id);
        }
        net.run_until(Span::from_secs(200), |net| net.ends.iter().all(Endpoint::is_idle));
        let before = dropped.get();
        assert!(before > 0);
        // The cached metrics survive a restart of the process.
        let text = cache.save(net.now);
        cache.clear();
        assert!(cache.load(net.now, Span::ZERO, &text).is_ok(), "{text}");
        let ids = net.connect(config);
        send(&mut net, ids, from);
        assert_eq!(dropped.get(), before);
        let info = |net: &Net| net.ends[from].connection([ids.0, ids.1][from]).unwrap().info(net.now);
        assert!(!info(&net).options.ecn);
    }
}

/// The repetition comes without ECN setup, after which neither side sends ECN-capable data.
#[test]
fn a_lost_syn_or_syn_ack_with_ecn_setup_is_repeated_without() {
    for dropped in [Flags::SYN | Flags::ECE | Flags::CWR, Flags::SYN | Flags::ACK | Flags::ECE] {
        let (mut net, _) = black_hole(0..0);
        let mut hole = std::mem::replace(&mut net.tamper, Box::new(|_, ecn, _| Some(ecn)));
        net.tamper = Box::new(move |from, ecn, datagram| {
            let (header, _) = CheshireCodec::parse(datagram).unwrap();
            assert_eq!(ecn, Ecn::NotEct);
            if header.flags == dropped { None } else { hole(from, ecn, datagram) }
        });
        let ids = net.connect(Config::default());
        assert!(net.now - Time::ZERO < Span::from_secs(2), "one timeout: {}", net.now);
        for from in [0, 1] {
            send(&mut net, ids, from);
        }
    }
}

/// Only a flight that was sent after another one was lost counts, and any ECN-capable segment that arrives clears the
/// count.
#[test]
fn three_flights_of_which_only_retransmissions_arrive() {
    let mut check = super::super::ecn_check::EcnCheck::default();
    let lost = [(1, 20), (5, 20), (19, 25), (20, 30), (29, 40)];
    for (start, nxt) in lost {
        check.on_arrival(start, true, nxt);
        assert!(!check.drops_ect());
    }
    check.on_arrival(41, false, 60);
    for (start, nxt) in lost {
        check.on_arrival(60 + start, true, 60 + nxt);
        assert!(!check.drops_ect());
    }
    check.on_arrival(100, true, 110);
    assert!(check.drops_ect() && check.has_failed());
    check.on_arrival(110, false, 120);
    assert!(check.drops_ect(), "sent before");
}
