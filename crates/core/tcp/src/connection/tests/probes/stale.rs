//! Probes whose purpose has ended with a timeout, a start-up or an expanding period; their answers are ignored
//! (resolutions 15 and 17 of TCP-Swift).

use super::*;

/// Drops all data of end 0 while the returned flag is set. It is cleared when the primary loop retransmits the first
/// segment.
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

/// Returns the statistics six times after the timeout, one round trip apart and slightly later than the answers
/// arrive.
fn after_timeout(net: &mut Net, ids: (ConnId, ConnId)) -> Vec<Info> {
    let known = run_until(net, ids, |_, info| info.timeouts > 0);
    let from = net.now;
    assert_eq!(known.cwnd.0, MSS, "{known:?}");
    (1..=6).map(|nth| run_until(net, ids, |now, _| now >= from + RTT * nth + RTT / 20)).collect()
}

/// Drops the first transmissions of the segments with these numbers.
fn lose_fresh(net: &mut Net, numbers: Vec<u64>) {
    let (mut seen, mut count) = (HashSet::new(), 0);
    net.lose = Box::new(move |_, from, datagram| {
        let fresh = from == 0 && again(&mut seen, datagram) == Some(false);
        count += u64::from(fresh);
        fresh && numbers.contains(&count)
    });
}

/// A whole flight with its probes is lost, in the first flight or in recovery. After the timeout, start-up begins
/// again and reaches 64 segments two round trips later. If the peer does not identify the probes it answers, answers
/// cannot be told from duplicates of retransmissions, and slow start opens the window up to the threshold.
#[test]
fn r17_startup_after_a_timeout_counts_only_its_own_probes() {
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
            // In the first flight, the tail loss probe is lost too, and its repair costs the answer of one probe.
            let most = if in_recovery { 64 } else { 63 };
            assert_eq!((windows[1], windows[5]), (most, most + 3), "{windows:?}");
            continue;
        }
        assert_eq!(probes(last).sent, probes(&known[0]).sent, "no probe is sent after the timeout: {last:?}");
        assert!(probes(last).sent > before, "some were sent before");
        let threshold = known[0].ssthresh.unwrap().0 / MSS;
        assert_eq!(threshold, if in_recovery { 16 } else { 2 });
        // The window doubles per round trip from one segment to the threshold, and then grows by one segment.
        let doubled = threshold.ilog2() as usize;
        assert!(windows[doubled] + 1 >= threshold && windows[5] >= threshold, "{windows:?} {threshold}");
    }
}

/// A loss in the expanding period starts another recovery while answers to the probes of the first one still arrive,
/// delayed behind data. They do not count in the new recovery and do not open its window. Its own probes are lost, so
/// the window only grows by the one segment per round trip of congestion avoidance.
#[test]
fn r15_a_recovery_counts_only_its_own_probes() {
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
