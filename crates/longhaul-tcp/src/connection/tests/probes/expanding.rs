//! The window expanding period of a sender that stops before it (resolution 13 of TCP-Swift's figures).

use super::*;

/// What stops the sender in recovery.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stop {
    Nothing,
    /// The application writes no more.
    Application,
    /// The peer takes eight segments at a time from now on.
    Peer,
}

/// How long the period lasts, and what is known at its begin and end. Thirteen segments wait beyond the window when recovery begins.
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

/// Its end is reckoned from what the window has room for at the recovery ACK, which may never leave. Then it ends with the first ACK that
/// finds the window no limit, at most a round trip and what the pacer is late by after its begin as ever, and not when some later window has
/// brought as many bytes. A window that is of no use is not raised.
#[test]
fn r13_a_sender_that_stops_ends_the_period() {
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
