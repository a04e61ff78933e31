//! Slow starts, LEDBAT++ and BBE in complete senders.

use longhaul_conformance::testing::{MSS, Sender, segments};
use longhaul_units::{Bytes, Span};

/// Returns the total of segments sent after each of `rounds` rounds, if every second segment is acknowledged and the
/// ACK of an odd one waits for the next round.
fn sent_after_rounds(spec: &str, rounds: usize) -> Vec<u64> {
    let mut sender = Sender::new(spec);
    let mut sent = 0;
    let mut totals = Vec::new();
    for _ in 0..rounds {
        sent += sender.fill();
        totals.push(sent);
        let arrived = sender.in_flight.0 / MSS.0;
        for _ in 0..arrived / 2 {
            sender.ack(2);
        }
    }
    totals
}

/// RFC 6928, appendix A, table of round trips. Each row has the number of segments, the rounds with an initial window
/// of three segments, and those with ten.
#[test]
fn rounds_to_send_so_many_segments_are_rfc_6928s() {
    let from_three = sent_after_rounds("slow-start(iw=3,l=1)+new-reno", 9);
    let from_ten = sent_after_rounds("slow-start(iw=10,l=1)+new-reno", 5);
    assert_eq!(from_three, [3, 6, 12, 21, 33, 51, 78, 120, 183]);
    assert_eq!(from_ten, [10, 25, 46, 79, 127]);
    let rows = [
        (3, 1, 1),
        (6, 2, 1),
        (10, 3, 1),
        (12, 3, 2),
        (21, 4, 2),
        (25, 5, 2),
        (33, 5, 3),
        (46, 6, 3),
        (51, 6, 4),
        (78, 7, 4),
        (79, 8, 4),
        (120, 8, 5),
        (127, 9, 5),
    ];
    let rounds = |totals: &[u64], segments: u64| totals.iter().position(|total| *total >= segments).map(|at| at + 1);
    for (segments, three, ten) in rows {
        assert_eq!(rounds(&from_three, segments), Some(three), "{segments} segments from 3");
        assert_eq!(rounds(&from_ten, segments), Some(ten), "{segments} segments from 10");
    }
}

/// RFC 5681, section 3.1: if every segment is counted, the window doubles per round trip.
#[test]
fn the_window_doubles_each_round() {
    let mut sender = Sender::new("new-reno");
    sender.fill();
    for round in 1..12 {
        sender.round();
        assert_eq!(sender.cwnd(), segments(10 << round));
    }
}

/// RFC 5681, section 3.2: duplicate ACKs do not open the window, although the transport reports delivered bytes for
/// them.
#[test]
fn duplicate_acks_without_sack_raise_nothing() {
    let mut sender = Sender::new("new-reno");
    sender.path.sack = false;
    sender.fill();
    let mut duplicate = sender.acked(1);
    duplicate.cumulative = Bytes::ZERO;
    sender.tell(&duplicate);
    assert_eq!(sender.cwnd(), segments(10));
}

/// In a complete controller, the window is 10, 20, 40, 80 and 160 segments, and then grows by less than doubling.
#[test]
fn a_sender_slows_down_above_the_bound() {
    let mut sender = Sender::new("limited-slow-start+new-reno");
    sender.fill();
    for expected in [20, 40, 80] {
        sender.round();
        assert_eq!(sender.cwnd(), segments(expected));
    }
    sender.round();
    let above = sender.cwnd();
    sender.round();
    assert!(sender.cwnd() - above < segments(50) && sender.cwnd() - above > segments(38), "{}", sender.cwnd());
}

#[test]
fn a_loss_halves_the_window_of_ledbat() {
    let mut sender = Sender::new("ledbat-plus-plus");
    assert_eq!(sender.cwnd(), segments(2));
    sender.rtt = Span::from_millis(200);
    sender.fill();
    for _ in 0..4 {
        sender.round();
    }
    assert_eq!(sender.cwnd(), segments(32));
    sender.lose();
    assert_eq!(sender.ssthresh(), segments(16));
}

/// With the classifier BBE, NewReno keeps all of its window at a loss without a queue, and half with a full buffer.
#[test]
fn it_spares_new_reno_losses_by_chance() {
    let mut sender = Sender::new("slow-start=slow-start,avoidance=new-reno,loss=bbe");
    sender.fill();
    for _ in 0..4 {
        sender.round();
    }
    sender.rtt = Span::from_millis(115);
    sender.round();
    let full = sender.cwnd();
    sender.lose();
    sender.recover();
    sender.fill();
    assert!((sender.cwnd().as_f64() / full.as_f64() - 0.5).abs() < 0.02, "{} of {full}", sender.cwnd());
    sender.rtt = Span::from_millis(100);
    sender.round();
    let idle = sender.cwnd();
    sender.lose();
    sender.recover();
    assert!(sender.cwnd().as_f64() > 0.97 * idle.as_f64(), "{} of {idle}", sender.cwnd());
}
