//! Swift Start in complete controllers.

mod congestion;

use longhaul_cc::registry::Spec;
use longhaul_cc::{
    BuildParams, Congestion, Demands, Granted, PathEvent, Quantity, SegmentKind, SendLimit, Sent, TxId, observed,
    update,
};
use longhaul_conformance::testing::{MSS, Sender, segments};
use longhaul_units::{Bytes, Rate, Span, Time};

/// Returns a sender with much data over a path of 100 ms, whose flight was sent.
fn sender(spec: &str, granted: Granted) -> Sender {
    let congestion: Congestion = spec.parse().unwrap();
    let mut sender = Sender::with(congestion.build(&BuildParams::default()), granted);
    sender.path.queued = Bytes(1 << 30);
    sender.fill();
    sender
}

fn new(spec: &str) -> Sender {
    sender(spec, Granted::basic())
}

/// Processes all ticks up to `until`.
fn pass(sender: &mut Sender, until: Time) {
    while let Some(due) = sender.controller.next_tick().filter(|due| *due <= until) {
        sender.now = sender.now.max(due);
        sender.controller.on_tick(sender.now, &sender.path);
        sender.fill();
    }
    sender.now = until;
}

/// Processes an ACK of `count` segments after `micros` microseconds. Returns how many segments it releases.
fn ack(sender: &mut Sender, micros: u64, count: u64) -> u64 {
    let until = sender.now + Span::from_micros(micros);
    pass(sender, until);
    sender.ack(count);
    sender.fill()
}

/// Processes two ACKs of two segments each after a round trip of 100 ms, `delta` us apart. Returns how many segments
/// the first one releases.
fn pair(sender: &mut Sender, delta: u64) -> u64 {
    let left = ack(sender, 100_000, 2);
    ack(sender, delta, 2);
    left
}

fn phase(sender: &Sender) -> &'static str {
    sender.snapshot().phase
}

/// The steps of the corrected algorithm: four segments are sent at once; the first ACK releases three; after the
/// second one, segments are paced at the rate of the estimate, 2920 x 100 / 1 / 4 bytes per 100 ms; after 50 segments
/// the window is the outstanding bytes.
#[test]
fn the_second_round_is_the_estimate_over_gamma() {
    let mut sender = new("swift-start+new-reno");
    assert_eq!((sender.in_flight, sender.cwnd(), phase(&sender)), (segments(4), segments(4), "swift-start-probe"));
    assert!(sender.control().pace.is_some_and(|pace| pace.rate == Rate::MAX && pace.quantum >= Some(segments(4))));
    assert_eq!(pair(&mut sender, 1000), 3);
    assert_eq!(
        (phase(&sender), sender.cwnd()),
        ("swift-start-paced", segments(3)),
        "the first departure is an interval later"
    );
    let pace = sender.control().pace.unwrap();
    assert_eq!((pace.rate.as_bytes_per_sec(), pace.quantum), (730_000, Some(MSS)));
    let begun = sender.now;
    let first = sender.controller.next_tick().unwrap();
    assert_eq!(first - begun, Span::from_millis(2), "50 segments in 100 ms");
    // Pacing is up to the transport: here everything is sent as soon as it is allowed.
    pass(&mut sender, first);
    assert_eq!((sender.in_flight, sender.cwnd(), phase(&sender)), (segments(50), segments(50), "slow-start"));
    assert_eq!(sender.control().pace, None);
    assert_eq!(sender.ssthresh(), Bytes::MAX, "the threshold stays what it was");
}

/// The estimate is reported through all wrappers around the start: 2920 bytes in 1 ms, over 100 ms, before the divisor
/// and after it.
#[test]
fn the_estimate_is_told_by_name() {
    let told = |sender: &Sender| {
        let estimates = sender.snapshot().estimates;
        estimates.iter().map(|estimate| (estimate.name, estimate.value)).collect::<Vec<_>>()
    };
    let plain = "swift-start+new-reno".parse::<Congestion>().unwrap();
    let observed = observed(plain.clone(), Demands::default(), |_, _, _| {});
    for congestion in [plain, observed] {
        let mut sender = Sender::with(congestion.build(&BuildParams::default()), Granted::basic());
        sender.path.queued = Bytes(1 << 30);
        sender.fill();
        assert_eq!(told(&sender), []);
        pair(&mut sender, 1000);
        let expected = [
            ("start-rate", Quantity::Rate(Rate::from_bytes_per_sec(2_920_000))),
            ("start-window", Quantity::Bytes(Bytes(292_000))),
            ("start-part", Quantity::Bytes(Bytes(73_000))),
            ("start-rtt", Quantity::Span(Span::from_millis(100))),
            ("start-gap", Quantity::Span(Span::from_millis(1))),
        ];
        assert_eq!(told(&sender), expected);
    }
}

/// ACKs in the paced round neither open the window nor release data.
#[test]
fn acks_while_paced_grow_nothing() {
    let mut sender = new("swift-start+new-reno");
    pair(&mut sender, 1000);
    let first = sender.controller.next_tick().unwrap();
    sender.controller.on_tick(first, &sender.path);
    sender.now = first;
    assert_eq!(sender.cwnd(), segments(50));
    let mut event = sender.acked(2);
    event.limit = SendLimit::Pacing;
    sender.tell(&event);
    assert_eq!(sender.cwnd(), segments(48), "50 less the two that came back");
    sender.fill();
    let due = sender.now;
    pass(&mut sender, due);
    assert_eq!((sender.cwnd(), sender.in_flight, phase(&sender)), (segments(48), segments(48), "slow-start"));
}

/// Gamma divides the estimate, which depends on bytes and times only.
#[test]
fn gamma_divides_the_estimate() {
    for (gamma, window) in [(1, 200), (2, 100), (8, 25)] {
        let mut sender = new(&format!("swift-start(gamma={gamma})+new-reno"));
        pair(&mut sender, 1000);
        let first = sender.controller.next_tick().unwrap();
        pass(&mut sender, first);
        assert_eq!(sender.cwnd(), segments(window), "gamma {gamma}");
    }
}

/// Without an estimate, slow start by one segment per ACK continues.
#[test]
fn without_a_sound_pair_slow_start_goes_on() {
    type Case = (&'static str, fn(&mut Sender));
    let cases: [Case; 9] = [
        ("the first ACK covers all four", |sender| {
            ack(sender, 100_000, 4);
        }),
        ("the first ACK covers three", |sender| {
            ack(sender, 100_000, 3);
        }),
        ("the second ACK covers one: the delayed-ACK timer", |sender| {
            ack(sender, 100_000, 2);
            ack(sender, 100_000, 1);
        }),
        ("the second ACK does not come", |sender| {
            ack(sender, 100_000, 2);
            let until = sender.now + Span::from_millis(199);
            pass(sender, until);
            assert_eq!(phase(sender), "swift-start-probe");
            pass(sender, until + Span::from_millis(1));
        }),
        ("the ACKs came at one time", |sender| {
            pair(sender, 0);
        }),
        ("they were merged", |sender| {
            ack(sender, 100_000, 2);
            sender.now += Span::from_millis(1);
            let mut event = sender.acked(2);
            event.coalesced = true;
            sender.tell(&event);
        }),
        ("a segment was sent again", |sender| {
            ack(sender, 100_000, 2);
            sender.send(SegmentKind::Retransmit);
            ack(sender, 1000, 2);
        }),
        ("one was overtaken", |sender| {
            ack(sender, 100_000, 2);
            let mut event = sender.acked(1);
            event.cumulative = Bytes::ZERO;
            sender.tell(&event);
        }),
        ("the estimate is the window", |sender| {
            // 2920 x 100 / 10 / 4 is five segments.
            pair(sender, 10_000);
        }),
    ];
    for (name, happen) in cases {
        let mut sender = new("swift-start+new-reno");
        happen(&mut sender);
        assert_eq!(phase(&sender), "slow-start", "{name}");
        let cwnd = sender.cwnd();
        assert!(cwnd >= segments(5) && cwnd <= segments(6), "{name}: {cwnd}");
        ack(&mut sender, 1000, 1);
        // Data delivered above the hole also counts then.
        let grown = if name == "one was overtaken" { MSS * 2 } else { MSS };
        assert_eq!(sender.cwnd(), cwnd + grown, "{name}");
    }
}

/// An estimate of one segment more than the window suffices for a paced round.
#[test]
fn an_estimate_above_the_window_paces() {
    let mut sender = new("swift-start+new-reno");
    pair(&mut sender, 8000);
    assert_eq!(phase(&sender), "swift-start-paced");
    let last = sender.now + Span::from_millis(100);
    pass(&mut sender, last);
    assert_eq!(sender.cwnd(), segments(6), "2920 x 100 / 8 / 4 is 6.25 segments");
}

/// If the first ACK is of one segment, the next two segments are the pair, covered by one ACK or by two.
#[test]
fn the_pair_is_of_two_segments() {
    for acks in [&[1, 2][..], &[1, 1, 1]] {
        let mut sender = new("swift-start(gamma=1)+new-reno");
        ack(&mut sender, 100_000, acks[0]);
        for count in &acks[1..] {
            ack(&mut sender, 2000 / (acks.len() as u64 - 1), *count);
        }
        let first = sender.controller.next_tick().unwrap();
        pass(&mut sender, first);
        // Two segments in 2 ms are a hundred in 100 ms. In addition, the fourth segment of the flight is outstanding.
        assert_eq!(sender.cwnd(), segments(101), "{acks:?}");
    }
}

/// The flight includes a path MTU probe. It is larger than the other segments, so the window holds only three, and its
/// delivery increases the segment size. The pair is still of two segments, and the estimate uses their bytes.
#[test]
fn segments_of_a_flight_may_differ() {
    let congestion: Congestion = "swift-start(gamma=1)+new-reno".parse().unwrap();
    for probe_first in [true, false] {
        let mut sender = Sender::with(congestion.build(&BuildParams::default()), Granted::basic());
        sender.path.queued = Bytes(1 << 30);
        let (small, large) = (MSS, MSS + MSS / 5);
        let sizes = if probe_first { [large, small, small] } else { [small, small, large] };
        for bytes in sizes {
            let mut sent = Sent::new(sender.now, TxId(0), bytes);
            sent.in_flight_before = sender.in_flight;
            sender.in_flight += bytes;
            sender.controller.on_sent(&sent, &sender.path);
        }
        sender.now += Span::from_millis(100);
        let tell = |sender: &mut Sender, bytes| {
            let mut event = sender.acked(0);
            (event.cumulative, event.delivered) = (bytes, bytes);
            sender.in_flight -= bytes;
            event.in_flight = sender.in_flight;
            sender.tell(&event);
        };
        tell(&mut sender, sizes[0]);
        if probe_first {
            sender.path.mss = large;
        }
        sender.now += Span::from_millis(2);
        tell(&mut sender, sizes[1] + sizes[2]);
        assert_eq!(phase(&sender), "swift-start-paced");
        let rate = sender.control().pace.unwrap().rate.as_bytes_per_sec();
        assert_eq!(rate, ((sizes[1] + sizes[2]) * 500).0, "probe first: {probe_first}");
    }
}

/// With a clock that has ticks, 100.9 ms are 101 ticks or 100, and a time of zero counts as one tick.
#[test]
fn a_tick_is_what_times_are_counted_in() {
    for (offset, delta, window) in [(0, 1000, 100), (50, 1000, 100), (0, 100, 100), (200, 900, 101)] {
        let mut sender = new("swift-start(gamma=2,tick=1)+new-reno");
        // The flight was sent at a whole tick; the first ACK arrives this much later than 100 ms.
        ack(&mut sender, 100_000 + offset * 5, 2);
        ack(&mut sender, delta, 2);
        let mut last = sender.now;
        for _ in 0..110 {
            last += Span::from_millis(1);
            pass(&mut sender, last);
        }
        assert_eq!(sender.cwnd(), segments(window), "{offset} {delta}");
    }
}

/// A flight of fewer than four segments yields no estimate.
#[test]
fn a_short_flight_is_no_flight() {
    let congestion: Congestion = "swift-start+new-reno".parse().unwrap();
    let mut sender = Sender::with(congestion.build(&BuildParams::default()), Granted::basic());
    (0..3).for_each(|_| sender.send(SegmentKind::Data));
    ack(&mut sender, 100_000, 2);
    assert_eq!(phase(&sender), "slow-start");
}

/// The response to a loss, an ECN mark or a timeout starts from the outstanding bytes instead of the planned window,
/// and ends the round.
#[test]
fn congestion_ends_the_round_and_is_answered_from_the_flight() {
    let paced = || {
        let mut sender = new("swift-start+new-reno");
        pair(&mut sender, 1000);
        let first = sender.controller.next_tick().unwrap();
        sender.controller.on_tick(first, &sender.path);
        sender.now = first;
        (0..17).for_each(|_| sender.send(SegmentKind::Data));
        assert_eq!((sender.in_flight, sender.cwnd()), (segments(20), segments(50)));
        sender
    };
    let mut sender = paced();
    sender.lose();
    assert_eq!((sender.ssthresh(), phase(&sender)), (segments(10), "recovery"));
    let mut sender = paced();
    sender.mark();
    assert_eq!((sender.ssthresh(), phase(&sender)), (segments(10), "cwr"));
    let mut sender = paced();
    sender.time_out(1);
    assert_eq!((sender.ssthresh(), sender.cwnd(), phase(&sender)), (segments(10), segments(1), "slow-start"));
    assert_eq!(sender.controller.next_tick(), None, "no timer is left");
}

/// Undoing a decrease restores the outstanding bytes as the window, in slow start.
#[test]
fn undo_does_not_bring_the_round_back() {
    let mut sender = new("swift-start+new-reno");
    pair(&mut sender, 1000);
    let first = sender.controller.next_tick().unwrap();
    sender.controller.on_tick(first, &sender.path);
    (0..17).for_each(|_| sender.send(SegmentKind::Data));
    let flight = sender.in_flight;
    sender.lose();
    sender.event(&PathEvent::Spurious { now: sender.now, timeout: false, in_flight: sender.in_flight });
    assert_eq!((sender.cwnd(), phase(&sender), sender.controller.next_tick()), (flight, "slow-start", None));
}

/// After lost SYNs nothing is known about the path, and after an idle period or a timeout there is a window: Swift
/// Start does not begin.
#[test]
fn only_a_new_connection_starts() {
    let mut sender = new("swift-start+new-reno");
    sender.path.handshake_lossy = true;
    let granted = Granted::basic();
    sender.event(&PathEvent::Established { now: sender.now, granted });
    assert_eq!((sender.cwnd(), phase(&sender)), (segments(1), "slow-start"));
    sender.path.handshake_lossy = false;
    sender.event(&PathEvent::IdleRestart { now: sender.now, idle: Span::from_secs(9) });
    assert_eq!(phase(&sender), "slow-start");
}

/// With segments larger than Ethernet's, the flight has the bytes of RFC 6928, not four segments.
#[test]
fn large_segments_make_a_smaller_flight() {
    let congestion: Congestion = "swift-start+new-reno".parse().unwrap();
    let mut sender = Sender::with(congestion.build(&BuildParams::default()), Granted::basic());
    sender.path.mss = Bytes(8948);
    sender.event(&PathEvent::Established { now: sender.now, granted: Granted::basic() });
    assert_eq!(sender.cwnd(), Bytes(17_896));
}

/// The handshake's RTT is used only if it is less.
#[test]
fn the_handshake_corrects_the_round_trip() {
    for (handshake, window) in [(50, 50), (100, 100), (150, 100)] {
        let mut sender = new("swift-start(gamma=2,handshake-rtt=on)+new-reno");
        sender.path.handshake_rtt = Some(Span::from_millis(handshake));
        pair(&mut sender, 1000);
        let first = sender.controller.next_tick().unwrap();
        pass(&mut sender, first);
        assert_eq!(sender.cwnd(), segments(window), "{handshake} ms");
    }
}

/// If the transport does not pace, segments are sent one by one at their times.
#[test]
fn without_a_pacer_each_segment_has_its_time() {
    let granted = update!(Granted { pacing: false, ..Granted::basic() });
    let mut sender = sender("swift-start+new-reno", granted);
    pair(&mut sender, 1000);
    let begun = sender.now;
    for k in 1..=47 {
        let due = sender.controller.next_tick().unwrap();
        assert_eq!((due - begun, sender.in_flight), (Span::from_millis(2 * k), segments(2 + k)));
        pass(&mut sender, due);
    }
    assert_eq!((sender.in_flight, phase(&sender)), (segments(50), "slow-start"));
}

/// After the paced round, the window may be less than the outstanding segments by the two of the second ACK.
#[test]
fn the_pair_may_be_deducted() {
    let granted = update!(Granted { pacing: false, ..Granted::basic() });
    for (options, window) in [("", 50), ("(deduct-pair=on)", 48)] {
        let mut sender = sender(&format!("swift-start{options}+new-reno"), granted);
        pair(&mut sender, 1000);
        let until = sender.now + Span::from_millis(99);
        pass(&mut sender, until);
        assert_eq!((sender.cwnd(), phase(&sender)), (segments(window), "slow-start"), "{options}");
    }
}

#[test]
fn the_divisor_is_at_most_eight() {
    assert_eq!("swift-start(gamma=4)+new-reno".parse::<Spec>().unwrap().to_string(), "swift-start+new-reno");
    assert!("swift-start(gamma=9)".parse::<Spec>().is_err());
}
