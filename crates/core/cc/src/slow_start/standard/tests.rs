use longhaul_units::{Bytes, Time};

use super::*;
use crate::Episode;
use crate::testing::{MSS, Sender, segments};

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

#[test]
fn it_ends_exactly_at_the_threshold() {
    let mut slow_start = StandardSlowStart::new(10, 0);
    let mut window = Window { cwnd: 5000.0, ssthresh: 7000.0 };
    let ack = Ack::new(Time::ZERO);
    let path = Path::new(MSS);
    assert_eq!(slow_start.on_ack(&ack, Bytes(1999), &path, &mut window), Step::Stay);
    assert_eq!(slow_start.on_ack(&ack, Bytes(1460), &path, &mut window), Step::Done);
    assert_eq!(window.cwnd, 7000.0);
}

/// RFC 3465, sections 2.2 and 2.3.
#[test]
fn one_ack_counts_for_two_segments_unpaced_and_for_one_after_a_timeout_without_sack() {
    let mut path = Path::new(MSS);
    let raise = |slow_start: &mut StandardSlowStart, episode, path: Path| {
        let mut window = Window::new(0.0);
        let mut ack = Ack::new(Time::ZERO);
        ack.episode = episode;
        slow_start.on_ack(&ack, segments(44), &path, &mut window);
        Bytes::from_f64(window.cwnd)
    };
    let mut slow_start = StandardSlowStart::new(10, 0);
    assert_eq!(raise(&mut slow_start, Episode::None, path), segments(44));
    path.paced = false;
    assert_eq!(raise(&mut slow_start, Episode::None, path), segments(2));
    let without_sack = Path { sack: false, ..path };
    assert_eq!(raise(&mut slow_start, Episode::Rto, without_sack), segments(1));
    assert_eq!(raise(&mut StandardSlowStart::new(10, 5), Episode::Rto, path), segments(5));
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
