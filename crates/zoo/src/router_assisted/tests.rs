use longhaul_units::Time;

use super::*;
use crate::tests::{MSS, segments, slow_start};

fn at(seconds: u64) -> Time {
    Time::from_nanos(seconds * 1_000_000_000)
}

fn round(network: Option<NetworkFeedback>) -> Ack<'static> {
    let mut ack = Ack::new(at(2));
    (ack.round_start, ack.delivered, ack.network) = (true, MSS, network);
    ack
}

/// One denial is enough, and so are three consecutive round trips without an answer; other ACKs between them do not
/// count.
#[test]
fn a_denial_or_three_silent_rounds_are_the_end() {
    let answer = || Some(NetworkFeedback::Xcp(0));
    let mut fallback = Fallback::new(&BuildParams::default());
    assert!(!fallback.is_denied(&round(answer())));
    assert!(fallback.is_denied(&round(Some(NetworkFeedback::Denied))));
    let mut fallback = Fallback::new(&BuildParams::default());
    for _ in 0..3 {
        assert!(!fallback.is_denied(&round(None)));
        assert!(!fallback.is_denied(&round(None)));
        // Neither ACK starts a round trip in which data arrived.
        assert!(!fallback.is_denied(&update!(Ack { round_start: false, ..round(None) })));
        assert!(!fallback.is_denied(&update!(Ack { delivered: Bytes::ZERO, ..round(None) })));
        assert!(!fallback.is_denied(&round(answer())));
    }
    assert_eq!([(); 3].map(|()| fallback.is_denied(&round(None))), [false, false, true]);
}

/// The fallback is NewReno with the initial window, or with the current window if that is smaller.
#[test]
fn plain_tcp_begins_with_no_more_than_there_was() {
    let path = Path::new(MSS);
    for (window, expected) in [(Bytes(1), 1), (segments(3), 3), (segments(10), 10), (segments(1000), 10)] {
        let mut fallback = Fallback::new(&BuildParams::default());
        fallback.fall_back(&Ack::new(at(1)), &path, window);
        let plain = fallback.plain.as_ref().unwrap();
        assert_eq!(plain.control(), slow_start(segments(expected)));
        assert_eq!((plain.name(), plain.snapshot().phase), ("new-reno".to_owned(), "slow-start"));
    }
    let handshake_lossy = update!(Path { handshake_lossy: true, ..path });
    let mut fallback = Fallback::new(&BuildParams::default());
    fallback.fall_back(&Ack::new(at(1)), &handshake_lossy, segments(10));
    assert_eq!(fallback.plain.as_ref().unwrap().control().cwnd, MSS);
}

/// Data in flight at the denial does not change the window, data sent after it does.
#[test]
fn what_left_at_the_rate_of_routers_earns_nothing() {
    let path = Path::new(MSS);
    let mut fallback = Fallback::new(&BuildParams::default());
    let mut denial = Ack::new(at(1));
    (denial.total_delivered, denial.in_flight) = (segments(50), segments(100));
    assert!(!fallback.on_ack(&denial, &path));
    fallback.fall_back(&denial, &path, segments(100));
    for (arrived, expected) in [(51, 10), (150, 10), (151, 11), (152, 12)] {
        let mut ack = Ack::new(at(2));
        (ack.delivered, ack.cumulative, ack.total_delivered) = (MSS, MSS, segments(arrived));
        ack.cwnd_limited = true;
        assert!(fallback.on_ack(&ack, &path));
        assert_eq!(fallback.plain.as_ref().unwrap().control().cwnd, segments(expected), "{arrived}");
    }
}

/// Below two segments in 250 us, segments are sent one by one: 2 x 1460 bytes / 250 us = 11.68 MB/s.
#[test]
fn slow_flows_send_no_pairs() {
    for (rate, quantum) in [(11_670_000, Some(MSS)), (11_680_000, None), (0, Some(MSS))] {
        let pace = pace(Rate::from_bytes_per_sec(rate), MSS);
        assert_eq!(pace, update!(Pace { quantum, ..Pace::new(Rate::from_bytes_per_sec(rate.max(1))) }));
    }
}

/// Neither controller works without routers.
#[test]
fn nothing_is_granted_without_routers() {
    for (name, kind) in [("rcp", NetworkHeaderKind::Rcp), ("xcp", NetworkHeaderKind::Xcp)] {
        let spec = crate::tests::spec(name);
        let required = spec.build(&BuildParams::default()).needs().required;
        assert_eq!(required.missing(&update!(Granted { network_header: Some(kind), ..Granted::basic() })), None);
        assert_eq!(required.missing(&Granted::basic()), Some("router feedback"));
    }
}

/// Conformance suite for both, with so many runs that hundreds of them have routers: one scenario in six grants them.
#[test]
fn controllers_of_routers_conform() {
    let mut expect = longhaul_conformance::Expect::default();
    (expect.answers_loss, expect.earns_window) = (false, false);
    for name in ["rcp", "rcp(rate=100)", "xcp", "xcp(iw=1)"] {
        let spec = crate::tests::spec(name);
        longhaul_conformance::check(&spec, expect, 512);
    }
}
