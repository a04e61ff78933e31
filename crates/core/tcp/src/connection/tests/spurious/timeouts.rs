//! Detection of spurious timeouts: Eifel (RFC 3522), F-RTO (RFC 5682) and D-SACK (RFC 2883).

use super::*;

/// After a delay of half a second the ACK of the original arrives (RFC 3522): the segments marked lost are in flight.
#[test]
fn a_timeout_due_to_delay_is_undone() {
    let mut script = Script::new(STAMPED);
    let at = script.time_out();
    assert_eq!(script.info().backoff, 1);
    let sent = script.sent.len();
    script.window(10);
    assert_eq!(script.ack(at + 10, 2, 0, &[]), [Undone(true)]);
    assert_eq!(script.shared.lock().unwrap().in_flight, script.info().unacked_segments);
    let info = script.info();
    assert_eq!((info.recovery, info.timeouts, info.spurious_recoveries, info.backoff), (RecoveryState::Open, 1, 1, 0));
    assert_eq!(script.sent.len(), sent, "the window is full");
    assert_eq!(script.patience(at + 11, 2), 25, "delayed, but not reordered");
}

#[test]
fn a_timeout_due_to_loss_is_not_undone() {
    for setting in [STAMPED, PLAIN] {
        let mut script = Script::new(setting);
        let at = script.time_out();
        script.window(20);
        assert_eq!(script.ack(at + 101, 2, at - 1, &[]), []);
        let new = script.sent.last().unwrap().1;
        assert!(new > 12 && script.sent_again().len() == 11, "2 to 11 are retransmitted, then new data");
        // RFC 5682, section 3.1, step 3a: SACKs of segments sent after the timeout prove nothing.
        assert_eq!(script.ack(at + 203, 2, at - 1, &[(new - 1, new)]), []);
        assert_eq!((script.info().spurious_recoveries, script.info().recovery), (0, RecoveryState::Timeout));
    }
}

/// RFC 5682, section 3.1, step 3b: a segment that was sent before the timeout and not retransmitted has arrived.
#[test]
fn delivery_of_original_data_shows_a_timeout_to_be_spurious() {
    let reports: [(u64, &[(u64, u64)]); 2] = [(1, &[(2, 3)]), (3, &[])];
    for (una, blocks) in reports {
        let mut script = Script::new(PLAIN);
        let at = script.time_out();
        assert_eq!(script.ack(at + 10, una, 0, blocks), [Undone(true)]);
        assert_eq!((script.info().recovery, script.info().spurious_recoveries), (RecoveryState::Open, 1));
    }
}

/// If a single segment is late, only the D-SACK for the second copy reveals it.
#[test]
fn the_timeout_of_a_single_segment_is_undone_by_its_dsack() {
    let mut script = Script::new(Setting { detection: Some(Detection::Sack), segments: 2, ..PLAIN });
    let at = script.time_out();
    assert_eq!(script.ack(at + 10, 2, 0, &[]), []);
    assert_eq!(script.ack(at + 100, 2, 0, &[(1, 2)]), [Undone(true)]);
}

/// RFC 5682, section 2.1: without SACK, an ACK beyond the retransmission may be due to data that waited at the
/// receiver for the one lost segment.
#[test]
fn without_sack_an_ack_beyond_the_retransmission_proves_nothing() {
    for una in [11, 6] {
        let mut script = Script::new(WITHOUT_SACK);
        let at = script.time_out();
        assert_eq!(script.ack(at + 101, una, 0, &[]), []);
        assert_eq!(script.info().spurious_recoveries, 0, "{una}");
    }
}

/// RFC 5682, section 2.1, steps 2b and 3b: after the first ACK, new segments are sent instead of those marked lost,
/// so that the second ACK decides.
#[test]
fn without_sack_the_second_ack_shows_a_timeout_to_be_spurious() {
    let mut script = Script::new(WITHOUT_SACK);
    let at = script.time_out();
    let sent = script.sent.len();
    assert_eq!(script.ack(at + 10, 2, 0, &[]), []);
    assert_eq!(script.sent[sent..], [(at + 10, 11), (at + 10, 12)]);
    assert_eq!(script.ack(at + 11, 3, 0, &[]), [Undone(true)]);
    assert_eq!(script.sent_again().len(), 1);
}

/// RFC 5682, section 2.1, steps 2a and 3a: a duplicate ACK ends the detection.
#[test]
fn without_sack_a_duplicate_ack_ends_the_detection() {
    for acks in [[1, 3, 4], [2, 2, 4]] {
        let mut script = Script::new(WITHOUT_SACK);
        let at = script.time_out();
        for (after, una) in [5, 10, 12].into_iter().zip(acks) {
            assert_eq!(script.ack(at + after, una, 0, &[]), [], "{acks:?}");
        }
    }
}

/// RFC 5682, section 2.1, step 2b: without new data, segments marked lost are retransmitted.
#[test]
fn without_new_data_lost_segments_are_retransmitted() {
    let mut script = Script::new(Setting { segments: 11, ..WITHOUT_SACK });
    let at = script.time_out();
    assert_eq!(script.ack(at + 101, 2, 0, &[]), []);
    assert_eq!(script.sent_again()[1..], [(at + 101, 2)]);
}

/// RFC 5682, section 2.1, step 2b: if less than a full segment can be sent, the algorithm ends, and cwnd alone limits
/// the retransmissions.
#[test]
fn without_a_full_new_segment_cwnd_limits_retransmissions() {
    let mut script = Script::new(Setting { segments: 11, ..WITHOUT_SACK });
    script.window(1);
    assert_eq!(script.end.drive(script.now, script.id, |c| c.write(&[7; 100]).unwrap()), Some(100));
    let at = script.time_out();
    assert_eq!(script.ack(at + 101, 2, 0, &[]), []);
    assert_eq!(script.sent_again()[1..], [(at + 101, 2)]);
}

/// RFC 5682, section 3.1, step 2b: at most two segments in excess of cwnd are sent on the first ACK, and none later.
#[test]
fn two_segments_in_excess_of_cwnd_are_sent_on_the_first_ack_only() {
    let mut script = Script::new(PLAIN);
    let at = script.time_out();
    let sent = script.sent.len();
    assert_eq!(script.ack(at + 101, 2, at - 1, &[]), []);
    assert_eq!(script.sent[sent..], [(at + 101, 2), (at + 101, 12)], "the tail loss probe was segment 11");
    assert_eq!(script.ack(at + 202, 3, at + 101, &[]), []);
    assert_eq!(script.sent[sent + 2..], [], "segment 12 fills the window");
}

/// RFC 8985, section 7.3: a tail loss probe is new data even if the Nagle algorithm holds it back.
#[test]
fn a_tail_loss_probe_overrides_the_nagle_algorithm() {
    let mut script = Script::new(Setting { segments: 11, ..PLAIN });
    assert_eq!(script.end.drive(script.now, script.id, |c| c.write(&[7; 100]).unwrap()), Some(100));
    script.poll();
    let sent = script.sent.len();
    assert!(script.fire(script.now + Span::from_secs(1)));
    assert_eq!(script.info().tail_probes, 1);
    assert_eq!(script.sent[sent..].iter().map(|sent| sent.1).collect::<Vec<_>>(), [11]);
}
