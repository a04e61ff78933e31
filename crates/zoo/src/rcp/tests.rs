use longhaul_cc::{EcnMark, Episode, Granted, update};
use longhaul_units::{Bytes, Span};

use super::*;
use crate::tests::{MSS, Sender, slow_start};

const RTT: Span = Span::from_millis(100);

/// Returns a sender after the handshake, before any answer.
fn sender(spec: &str) -> Sender {
    let spec = crate::tests::spec(spec);
    let granted = update!(Granted { network_header: Some(NetworkHeaderKind::Rcp), ..Granted::basic() });
    let mut sender = Sender::with(spec.build(&BuildParams::default()), granted);
    sender.path.srtt = Some(RTT);
    sender
}

fn answer(sender: &mut Sender, network: NetworkFeedback) {
    let mut ack = Ack::new(sender.now);
    ack.network = Some(network);
    sender.tell(&ack);
}

fn told(sender: &mut Sender, bytes_per_sec: u64) {
    answer(sender, NetworkFeedback::Rcp(Rate::from_bytes_per_sec(bytes_per_sec)));
}

/// With 1460 bytes of payload in packets of 1528, 1,528,000 bytes/s on the wire are 1000 segments per second. A new
/// rate applies at once, up and down. The window has the segments of two round trips plus ten.
#[test]
fn the_rate_is_what_routers_say() {
    let mut sender = sender("rcp");
    assert_eq!((sender.cwnd(), sender.control().pace), (MSS, None));
    for rate in [1000_u64, 50, 2000] {
        told(&mut sender, rate * 1528);
        let pace = sender.control().pace.unwrap();
        assert!(pace.rate.as_bytes_per_sec().abs_diff(rate * 1460) <= 1, "{pace:?}");
        assert_eq!(pace.quantum, Some(MSS));
        let window = MSS * (rate / 5 + 10);
        assert!(sender.cwnd().0.abs_diff(window.0) <= 1, "{} for {window}", sender.cwnd());
    }
    // At 100,000 segments per second they are sent in pairs.
    told(&mut sender, 152_800_000);
    assert_eq!(sender.control().pace.unwrap().quantum, None);
    assert_eq!(sender.control().ecn, EcnMark::NotEct);
}

/// The request has an unlimited rate, or that of the option, and the smoothed RTT.
#[test]
fn the_request_has_the_rate_wanted_and_the_round_trip() {
    let fresh = Rcp::new(&mut Values::default(), &BuildParams::default());
    assert_eq!(fresh.control().header, Some(NetworkHeader::Rcp { rate: Rate::MAX, rtt: Span::ZERO }));
    let mut sender = sender("rcp(rate=100)");
    told(&mut sender, 1000);
    let rate = Rate::from_bits_per_sec(100_000_000);
    assert_eq!(sender.control().header, Some(NetworkHeader::Rcp { rate, rtt: RTT }));
}

/// At a rate of zero, a segment every half second requests a rate again, and the next answer applies at once.
#[test]
fn at_rate_zero_it_asks_now_and_then() {
    let mut sender = sender("rcp");
    told(&mut sender, 0);
    assert_eq!(sender.control().pace.unwrap().rate, Rate::from_bytes_per_sec(2920));
    told(&mut sender, 1_528_000);
    assert_eq!(sender.control().pace.unwrap().rate.as_bytes_per_sec(), 1_460_000);
}

/// Losses do not change the rate. A timeout leaves one segment until data arrives; an idle period leaves ten per
/// round trip until an answer arrives.
#[test]
fn silence_is_answered_and_loss_is_not() {
    let mut sender = sender("rcp");
    told(&mut sender, 1_528_000);
    let before = sender.control();
    for episode in [Episode::Enter, Episode::In, Episode::Again, Episode::Exit] {
        let mut ack = Ack::new(sender.now);
        (ack.episode, ack.newly_lost, ack.delivered) = (episode, MSS * 3, MSS);
        sender.tell(&ack);
        assert_eq!(sender.control(), before, "{episode:?}");
    }
    sender.time_out(1);
    assert_eq!((sender.cwnd(), sender.control().pace), (MSS, before.pace));
    sender.fill();
    sender.ack(1);
    assert_eq!(sender.control(), before);
    let (now, idle) = (sender.now, Span::from_secs(10));
    sender.event(&PathEvent::IdleRestart { now, idle });
    // The rate on the wire, including headers.
    let slow = 10.0 * MSS.as_f64() / 0.1 * 1460.0 / 1528.0;
    assert!((sender.control().pace.unwrap().rate.as_bytes_per_sec() as f64 - slow).abs() <= 1.0);
    told(&mut sender, 1_528_000);
    assert_eq!(sender.control(), before);
}

/// The window is at most the peer's, whatever the answer.
#[test]
fn a_forged_rate_is_bounded_by_the_peers_window() {
    let mut sender = sender("rcp");
    sender.path.peer_window = Bytes(1 << 20);
    answer(&mut sender, NetworkFeedback::Rcp(Rate::from_bytes_per_sec(u64::MAX / 2)));
    assert_eq!(sender.cwnd(), Bytes(1 << 20));
    let spec = crate::tests::spec("rcp");
    let params = update!(BuildParams { max_cwnd: Bytes(50_000), ..BuildParams::default() });
    let granted = update!(Granted { network_header: Some(NetworkHeaderKind::Rcp), ..Granted::basic() });
    let mut capped = Sender::with(spec.build(&params), granted);
    capped.path.srtt = Some(RTT);
    told(&mut capped, 1 << 40);
    assert_eq!(capped.cwnd(), Bytes(50_000));
}

/// A rate above the request counts as a denial; differences due to rounding on the wire do not.
#[test]
fn a_rate_above_the_request_is_a_denial() {
    for (rate, honest) in [(12_500_000, true), (12_500_001, true), (12_600_000, false), (1 << 50, false)] {
        let mut sender = sender("rcp(rate=100)");
        told(&mut sender, rate);
        assert_eq!(sender.control().header.is_some(), honest, "{rate}");
        assert_eq!(sender.snapshot().phase, if honest { "router-assisted" } else { "slow-start" });
    }
}

/// After a denial, even after good answers, or after silence, NewReno takes over permanently, and no later answer
/// changes that.
#[test]
fn a_denial_is_the_end_of_it() {
    for good in [false, true] {
        let mut sender = sender("rcp");
        if good {
            told(&mut sender, 1_528_000);
        }
        answer(&mut sender, NetworkFeedback::Denied);
        assert_eq!(sender.control(), slow_start(MSS * 10));
        told(&mut sender, 100_000_000);
        assert_eq!(sender.control(), slow_start(MSS * 10));
        sender.fill();
        sender.round();
        assert_eq!(sender.cwnd(), MSS * 20);
        sender.lose();
        sender.recover();
        assert!((sender.cwnd().segments(MSS) - 10.0).abs() < 1.1, "{}", sender.cwnd());
        sender.time_out(1);
        assert_eq!(sender.cwnd(), MSS);
    }
    // The window was one segment at the time of the denial.
    let mut sender = sender("rcp");
    told(&mut sender, 1_528_000);
    sender.time_out(1);
    answer(&mut sender, NetworkFeedback::Denied);
    assert_eq!(sender.control(), slow_start(MSS));
}
