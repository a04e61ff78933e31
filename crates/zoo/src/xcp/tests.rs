use longhaul_cc::{Granted, update};
use longhaul_units::{Bytes, Span};

use super::*;
use crate::tests::{MSS, Sender, slow_start};

const RTT: Span = Span::from_millis(100);

/// Returns a sender after the handshake, with `window` segments in its window and all of them in flight.
fn sender(window: u64) -> Sender {
    let mut sender = fresh("xcp");
    if window > 10 {
        // A segment has 1532 bytes on the wire.
        answer(&mut sender, NetworkFeedback::Xcp(((window - 10) * 15_320) as i64));
    }
    sender.fill();
    sender
}

fn fresh(spec: &str) -> Sender {
    let spec = crate::tests::spec(spec);
    let granted = update!(Granted { network_header: Some(NetworkHeaderKind::Xcp), ..Granted::basic() });
    let mut sender = Sender::with(spec.build(&BuildParams::default()), granted);
    sender.path.srtt = Some(RTT);
    sender
}

fn answer(sender: &mut Sender, network: NetworkFeedback) {
    let mut ack = Ack::new(sender.now);
    (ack.network, ack.cwnd_limited) = (Some(network), true);
    sender.tell(&ack);
}

fn in_segments(sender: &Sender) -> f64 {
    sender.cwnd().segments(MSS)
}

/// With packets of 1532 bytes, 15,320 bytes/s more are one segment more per round trip of 100 ms, and as much less is
/// one less. The window is at least one segment.
#[test]
fn the_window_moves_by_the_change_times_the_round_trip() {
    let mut sender = sender(100);
    assert!((in_segments(&sender) - 100.0).abs() < 1e-3);
    for (delta, expected) in [(15_320, 101.0), (-30_640, 99.0), (0, 99.0), (153_200, 109.0), (-100_000_000, 1.0)] {
        answer(&mut sender, NetworkFeedback::Xcp(delta));
        assert!((in_segments(&sender) - expected).abs() < 2e-3, "{delta}: {}", in_segments(&sender));
    }
}

/// The request states the window per round trip, including headers, or zero before the first RTT. The pace is the
/// same without headers.
#[test]
fn the_header_has_throughput_and_round_trip() {
    let before = Xcp::new(&mut Values::default(), &BuildParams::default()).control();
    let nothing = NetworkHeader::Xcp { throughput: Rate::ZERO, rtt: Span::ZERO, delta: 0 };
    assert_eq!((before.header, before.pace), (Some(nothing), None));
    let mut sender = sender(100);
    sender.path.peer_window = MSS * 400;
    answer(&mut sender, NetworkFeedback::Xcp(0));
    let control = sender.control();
    let Some(NetworkHeader::Xcp { throughput, rtt, delta }) = control.header else { panic!("{control:?}") };
    assert!(throughput.as_bytes_per_sec().abs_diff(1_532_000) <= 20, "{throughput:?}");
    assert_eq!(rtt, RTT);
    // The request is for what fills the peer's window, 300 segments more.
    assert!((delta - 4_596_000).abs() <= 40, "{delta}");
    assert!(control.pace.unwrap().rate.as_bytes_per_sec().abs_diff(1_460_000) <= 20);
}

/// 20 segments are sent one by one, evenly over a round trip; 7 are sent unpaced by the transport.
#[test]
fn small_windows_are_not_paced() {
    let mut sender = sender(20);
    assert_eq!(sender.control().pace.unwrap().quantum, Some(MSS));
    answer(&mut sender, NetworkFeedback::Xcp(-13 * 15_320));
    assert_eq!(sender.control().pace, None);
}

/// A sender that the window does not limit requests no increase and ignores one, but applies decreases.
#[test]
fn an_idle_sender_gets_no_more() {
    let mut sender = sender(100);
    let before = in_segments(&sender);
    for (delta, change) in [(153_200, 0.0), (-153_200, -10.0)] {
        let mut ack = sender.acked(1);
        (ack.cwnd_limited, ack.network) = (false, Some(NetworkFeedback::Xcp(delta)));
        sender.tell(&ack);
        assert!((in_segments(&sender) - before - change).abs() < 1e-2, "{delta}");
        let header = sender.control().header;
        assert!(matches!(header, Some(NetworkHeader::Xcp { delta: 0, .. })), "{header:?}");
    }
}

/// RFC 5681: a loss leaves half of the flight, and a timeout one segment; both are undone if spurious. Increases are
/// ignored during recovery.
#[test]
fn losses_are_answered_as_in_tcp() {
    let mut sender = sender(100);
    sender.lose();
    assert!((in_segments(&sender) - 50.0).abs() < 1e-2);
    let mut ack = sender.acked(1);
    (ack.episode, ack.network) = (Episode::In, Some(NetworkFeedback::Xcp(1_532_000)));
    sender.tell(&ack);
    assert!((in_segments(&sender) - 50.0).abs() < 1e-2);
    let spurious = |sender: &Sender, timeout| PathEvent::Spurious { now: sender.now, timeout, in_flight: Bytes::ZERO };
    let event = spurious(&sender, true);
    sender.event(&event);
    assert!((in_segments(&sender) - 50.0).abs() < 1e-2);
    let event = spurious(&sender, false);
    sender.event(&event);
    assert!((in_segments(&sender) - 100.0).abs() < 1e-2);
    sender.time_out(1);
    sender.time_out(2);
    assert_eq!(sender.cwnd(), MSS);
    let event = spurious(&sender, true);
    sender.event(&event);
    assert!((in_segments(&sender) - 100.0).abs() < 1e-2);
    let (now, idle) = (sender.now, Span::from_secs(10));
    sender.event(&PathEvent::IdleRestart { now, idle });
    assert_eq!(sender.cwnd(), MSS * 10);
}

/// The window is at most the peer's, whatever the answer.
#[test]
fn a_forged_change_is_bounded_by_the_peers_window() {
    let mut sender = sender(100);
    sender.path.peer_window = Bytes(1 << 20);
    answer(&mut sender, NetworkFeedback::Xcp(i64::MAX));
    assert_eq!(sender.cwnd(), Bytes(1 << 20));
    // A peer's window that is closed temporarily does not change the congestion window.
    sender.path.peer_window = Bytes::ZERO;
    answer(&mut sender, NetworkFeedback::Xcp(i64::MAX));
    assert_eq!(sender.cwnd(), Bytes(1 << 20));
    answer(&mut sender, NetworkFeedback::Xcp(i64::MIN));
    assert_eq!(sender.cwnd(), MSS);
}

#[test]
fn a_denial_is_the_end_of_it() {
    let mut sender = fresh("xcp(iw=4)");
    assert_eq!(sender.cwnd(), MSS * 4);
    answer(&mut sender, NetworkFeedback::Denied);
    assert_eq!(sender.control(), slow_start(MSS * 4));
    answer(&mut sender, NetworkFeedback::Xcp(1 << 30));
    assert_eq!(sender.control(), slow_start(MSS * 4));
    sender.fill();
    sender.round();
    assert_eq!(sender.cwnd(), MSS * 8);
    sender.lose();
    sender.recover();
    assert!((in_segments(&sender) - 4.0).abs() < 1.1, "{}", sender.cwnd());
    let mut sender = self::sender(100);
    answer(&mut sender, NetworkFeedback::Denied);
    assert_eq!(sender.control(), slow_start(MSS * 10));
}
