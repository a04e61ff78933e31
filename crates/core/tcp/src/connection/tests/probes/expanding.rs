//! Window expanding period when the sender stops earlier (resolution 13 of TCP-Swift).

use super::*;

/// Reason why the sender stops in recovery.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stop {
    Nothing,
    /// The application stops writing.
    Application,
    /// The peer limits its window to eight segments.
    Peer,
}

/// Returns the duration of the period, and the statistics at its begin and end. When recovery begins, 13 segments
/// beyond the window wait.
fn period(congestion: &str, stop: Stop) -> (Span, Info, Info) {
    let mut net = Net::new(DELAY);
    let send_buffer = 80 * MSS as usize;
    let ids = net.connect(Config { send_buffer, ..config(congestion, true) });
    let (mut seen, mut count) = (HashSet::new(), 0);
    net.lose = Box::new(move |_, from, datagram| {
        let fresh = from == 0 && again(&mut seen, datagram) == Some(false);
        count += u64::from(fresh);
        fresh && count == 200
    });
    run_until(&mut net, ids, |_, info| info.phase == "recovery");
    if stop == Stop::Peer {
        lying(&mut net, |header| header.window = header.window.min(((8 * MSS) >> 10) as u16));
    }
    let mut wait = |phase: &str| {
        net.run_until(RTT * 100, |net| {
            if stop != Stop::Application {
                net.ends[0].drive(net.now, ids.0, |c| while c.write(&[7; 64 << 10]).is_ok() {});
            }
            net.ends[1].drive(net.now, ids.1, |c| while c.read(1 << 20).is_ok_and(|part| !part.is_empty()) {});
            net.pump();
            info(net, ids.0).phase != phase
        });
        (net.now, info(&net, ids.0))
    };
    let ((begun, from), (ended, to)) = (wait("recovery"), wait("window-expanding"));
    let later = run(&mut net, ids, 10, |_| ());
    assert_eq!((later.recoveries, later.timeouts, later.phase), (1, 0, "congestion-avoidance"), "{later:?}");
    (ended - begun, from, to)
}

/// The end of the period is computed from the room in the window at the recovery ACK, but that data may never be
/// sent. The period then ends with the first ACK at which the window is not the limit: at most one round trip, plus
/// the delay of the pacer, after its begin. If the peer's window is the limit, the congestion window is not
/// increased.
#[test]
fn r13_the_expanding_period_ends_when_the_sender_stops() {
    for congestion in ["tcp-peach", "tcp-peach-plus", "tcp-swift"] {
        for stop in [Stop::Nothing, Stop::Application, Stop::Peer] {
            let (lasted, from, to) = period(congestion, stop);
            let (fallen, raised) = (from.cwnd.0 / MSS, to.cwnd.0 / MSS);
            assert_eq!((from.phase, fallen), ("window-expanding", 33), "{congestion} {stop:?}: {from:?}");
            assert!(lasted < RTT * 3 / 2, "{congestion} {stop:?}: {lasted}");
            let expected = if stop == Stop::Peer { 33..=33 } else { 65..=67 };
            assert!(expected.contains(&raised), "{congestion} {stop:?}: {raised}");
        }
    }
}
