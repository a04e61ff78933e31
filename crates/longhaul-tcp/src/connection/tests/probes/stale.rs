//! Probes that outlive what they were sent for: a timeout, a start, an expanding period. What becomes of them is nobody's to know any more
//! (resolutions 15 and 17 of TCP-Swift's figures).

use super::*;

/// While that says so, all data from end 0 is lost, until the first of it is sent again by the window.
fn blackout(net: &mut Net) -> Rc<Cell<bool>> {
    let dark = Rc::new(Cell::new(false));
    let (switch, dscp, mut first) = (Rc::clone(&dark), Rc::clone(&net.dscp), None);
    net.lose = Box::new(move |_, from, datagram| {
        if from != 0 || datagram.len() < 1000 || !switch.get() {
            return false;
        }
        let seq = CheshireCodec::parse(datagram).unwrap().0.seq;
        let again = first == Some(seq);
        if dscp.get() == 0 {
            first = first.or(Some(seq));
            switch.set(!again);
        }
        switch.get()
    });
    dark
}

/// What is known six times behind the one timeout, a round trip apart and a little later than answers come.
fn after_timeout(net: &mut Net, ids: (ConnId, ConnId)) -> Vec<Info> {
    let known = run_until(net, ids, |_, info| info.timeouts > 0);
    let from = net.now;
    assert_eq!(known.cwnd.0, MSS, "{known:?}");
    (1..=6).map(|nth| run_until(net, ids, |now, _| now >= from + RTT * nth + RTT / 20)).collect()
}

/// The fresh segments of end 0 with these numbers are lost.
fn lose_fresh(net: &mut Net, numbers: Vec<u64>) {
    let (mut seen, mut count) = (HashSet::new(), 0);
    net.lose = Box::new(move |_, from, datagram| {
        let fresh = from == 0 && again(&mut seen, datagram) == Some(false);
        count += u64::from(fresh);
        fresh && numbers.contains(&count)
    });
}

/// A flight is lost, probes and all: the first one, or what a recovery sends. After the timeout the start begins anew, and its window is
/// 64 segments two round trips later. A peer that doesn't name what it answers cannot tell copies of what was sent again from that: slow
/// start opens the window up to the threshold.
#[test]
fn r17_a_start_after_a_timeout_hears_of_its_own_probes_only() {
    for (extensions, in_recovery) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut net = Net::new(DELAY);
        let ids = net.connect(config("tcp-swift", extensions));
        if in_recovery {
            lose_fresh(&mut net, vec![200]);
            run_until(&mut net, ids, |_, info| info.phase == "recovery");
        }
        blackout(&mut net).set(true);
        let before = probes(&info(&net, ids.0)).sent;
        let known = after_timeout(&mut net, ids);
        let windows: Vec<_> = known.iter().map(|info| info.cwnd.0 / MSS).collect();
        let last = &known[5];
        assert_eq!((last.timeouts, last.phase), (1, "congestion-avoidance"), "{last:?}");
        if extensions {
            assert_eq!((windows[1], windows[5]), (64, 67), "{windows:?}");
            continue;
        }
        assert_eq!(probes(last).sent, probes(&known[0]).sent, "none leaves after the timeout: {last:?}");
        assert!(probes(last).sent > before, "some had left before");
        let threshold = known[0].ssthresh.unwrap().0 / MSS;
        assert_eq!(threshold, if in_recovery { 16 } else { 2 });
        // Doubled by round trips from one segment, and then one more each.
        let doubled = threshold.ilog2() as usize;
        assert!(windows[doubled] + 1 >= threshold && windows[5] >= threshold, "{windows:?} {threshold}");
    }
}

/// A loss in the expanding period begins a recovery of its own, while answers to the probes of the one before still come, for those wait
/// behind data. They are not what the new one passes over, and none raises its window. Its own are dropped: the window stays where it fell
/// to, but for the segment that congestion avoidance adds in a round trip.
#[test]
fn r15_a_recovery_hears_of_its_own_probes_only() {
    for congestion in ["tcp-peach", "tcp-peach-plus", "tcp-swift"] {
        let mut net = Net::new(DELAY);
        let ids = net.connect(config(congestion, true));
        let (dropping, dscp) = (Rc::new(Cell::new(false)), Rc::clone(&net.dscp));
        let (switch, mut seen, mut count) = (Rc::clone(&dropping), HashSet::new(), 0);
        net.lose = Box::new(move |_, from, datagram| {
            let fresh = from == 0 && again(&mut seen, datagram) == Some(false);
            count += u64::from(fresh);
            (fresh && [200, 272].contains(&count)) || (switch.get() && dscp.get() == 1)
        });
        run_until(&mut net, ids, |_, info| info.recoveries == 1);
        net.lag = RTT * 3 / 4;
        run_until(&mut net, ids, |_, info| info.phase != "recovery");
        dropping.set(true);
        let fallen = run_until(&mut net, ids, |_, info| info.recoveries == 2);
        let end = net.now + RTT * 3;
        let after = run_until(&mut net, ids, |now, info| {
            assert!(info.cwnd.0 <= fallen.cwnd.0 + MSS * 3, "{congestion}: {:?}", probes(info));
            now >= end
        });
        let late = probes(&after).acked - probes(&fallen).acked;
        assert!(late > 30, "{congestion}: {late} came late");
        assert_eq!((after.recoveries, after.timeouts), (2, 0), "{congestion}: {after:?}");
    }
}
