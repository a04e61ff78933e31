//! Rules of [`Composed`](longhaul_cc::compose::Composed) with stages of this crate.

use longhaul_cc::{BuildParams, Detection, Granted, NetworkFeedback, SegmentKind, StartupOutcome, update};
use longhaul_conformance::testing::{MSS, Sender, assert_cached_threshold, assert_undone, segments};
use longhaul_units::{Rate, Span};

use super::{registry, spec};

fn resumed(text: &str) -> Sender {
    registry();
    Sender::resumed(text)
}

#[test]
fn a_known_threshold_ends_the_first_slow_start() {
    registry();
    ["hstcp", "scalable", "westwood"].into_iter().for_each(assert_cached_threshold);
}

/// Estimators count bytes in either case: after the same ACKs, Westwood's threshold is the same.
#[test]
fn estimates_count_bytes_where_acks_are_counted() {
    let [bytes, acks] = [true, false].map(|byte_counting| {
        let params = update!(BuildParams { mss: MSS, byte_counting, ..BuildParams::default() });
        let mut sender = Sender::with(spec("slow-start+westwood").build(&params), Granted::basic());
        sender.fill();
        for _ in 0..30 {
            sender.now += Span::from_millis(10);
            for _ in 0..2 {
                sender.send(SegmentKind::Data);
            }
            sender.ack(2);
        }
        let cwnd = sender.cwnd();
        sender.lose();
        (cwnd, sender.ssthresh())
    });
    assert_eq!((bytes.0, acks.0), (segments(70), segments(40)));
    assert_eq!(bytes.1, acks.1);
    assert!(bytes.1 > segments(10) && bytes.1 < segments(30), "{}", bytes.1);
}

/// RFC 3168, section 6.1.2: losses among data sent before the mark are the same congestion event, even after the
/// retreat. The slow-start variant must not run as if nothing had happened; Rapid Start would triple the window per
/// round trip.
#[test]
fn losses_among_the_data_of_a_mark_are_not_answered_again() {
    let mut sender = resumed("careful-resume+rapid-start+new-reno");
    sender.fill();
    sender.round();
    (0..30).for_each(|_| sender.ack(1));
    assert!(sender.fill() > 30, "behind the jump, in slow start");
    sender.mark();
    while sender.snapshot().phase == "safe-retreat" {
        sender.ack(1);
    }
    let (cwnd, ssthresh) = (sender.cwnd(), sender.ssthresh());
    assert!(sender.flight() > 30 && ssthresh == segments(100), "{} left, {ssthresh}", sender.flight());
    sender.ack(1);
    assert_eq!(sender.cwnd(), cwnd + MSS);
    sender.lose();
    assert_eq!((sender.snapshot().phase, sender.ssthresh()), ("recovery", ssthresh));
}

/// RFC 4782, section 4.6.2: the initial window, then slow start up to half of the delivered data, but only after the
/// flight is delivered. The response to a mark covers a whole window of data, including losses in it (RFC 3168,
/// section 6.1.2).
#[test]
fn a_mark_in_an_approved_flight_is_answered_until_that_has_arrived() {
    for lossy in [false, true] {
        let mut sender = resumed("quick-start(rate=40000)+slow-start+new-reno");
        let mut approved = sender.acked(0);
        approved.network = Some(NetworkFeedback::QuickStart(Rate::from_bits_per_sec(40_960_000)));
        sender.tell(&approved);
        assert_eq!(sender.fill(), 338, "packets of 1460 + 52 bytes in 100 ms at 40.96 Mb/s");
        (0..99).for_each(|_| sender.ack(1));
        sender.mark();
        let answer = (segments(10), segments(50));
        assert_eq!((sender.snapshot().phase, sender.cwnd(), sender.ssthresh()), ("recovery", answer.0, answer.1));
        if lossy {
            sender.lose();
            assert_eq!((sender.cwnd(), sender.ssthresh()), answer, "among the same data");
            sender.recover();
        } else {
            while sender.flight() > 1 {
                sender.ack(1);
                assert_eq!((sender.cwnd(), sender.ssthresh()), answer, "{} left", sender.flight());
            }
            sender.ack(1);
        }
        assert_eq!((sender.snapshot().phase, sender.cwnd(), sender.ssthresh()), ("slow-start", answer.0, answer.1));
    }
}

fn run(text: &str, queued: u64, rounds: u32) -> Sender {
    registry();
    Sender::run(text, queued, rounds)
}

#[test]
fn a_jump_is_told_and_so_is_why_there_was_none() {
    assert_eq!(run("jump-start+new-reno", 40, 3).snapshot().startup, StartupOutcome::Used);
    let few = run("jump-start+new-reno", 1, 1).snapshot().startup;
    assert!(
        matches!(few, StartupOutcome::GivenUp(why) if why.contains("before the initial window had left")),
        "{few:?}"
    );
}

#[test]
fn a_scheme_that_paces_counts_as_used_while_it_still_runs() {
    let mut sender = run("jump-start+new-reno", 40, 0);
    let told = |sender: &Sender| (sender.snapshot().phase, sender.snapshot().startup);
    assert_eq!(told(&sender), ("jump-start", StartupOutcome::Running));
    sender.send_queued();
    sender.ack(1);
    assert_eq!(told(&sender), ("jump-start", StartupOutcome::Used));
}

#[test]
fn the_classic_recovery_counts_duplicate_acks() {
    let needs = spec("reno-classic").build(&BuildParams::default()).needs();
    assert_eq!(needs.detection(), Some(Detection::DuplicateAcks));
}

#[test]
fn the_classic_controller_grows_only_while_the_window_limits() {
    let mut sender = super::sender("reno-classic");
    let before = sender.cwnd();
    for _ in 0..100 {
        sender.send(SegmentKind::Data);
        let mut ack = sender.acked(1);
        (ack.cwnd_limited, ack.round_start) = (false, true);
        sender.now += sender.rtt;
        sender.tell(&ack);
    }
    assert_eq!(sender.cwnd(), before);
}

#[test]
fn a_spurious_decrease_of_the_classic_controller_is_undone() {
    for timeout in [false, true] {
        let mut sender = super::sender("reno-classic");
        sender.fill();
        (0..3).for_each(|_| sender.round());
        assert_undone(&mut sender, timeout);
    }
}
