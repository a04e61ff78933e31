//! Rules of composed controllers.

mod marks;
mod stages;
mod startup;
mod threshold;

use longhaul_units::{Bytes, Span};

use longhaul_cc::{BuildParams, Congestion, Detection, EcnMark, Episode, Granted, PathEvent, SegmentKind, update};
use longhaul_conformance::testing::{MSS, Sender, assert_cached_threshold, assert_undone, segments};

#[test]
fn a_loss_lowers_once_and_the_increase_resumes_linearly() {
    let mut sender = Sender::new("new-reno");
    sender.fill();
    for _ in 0..4 {
        sender.round();
    }
    assert_eq!((sender.cwnd(), sender.snapshot().phase), (segments(160), "slow-start"));
    sender.lose();
    assert_eq!((sender.ssthresh(), sender.snapshot().phase), (segments(80), "recovery"));
    for _ in 0..3 {
        let mut more = sender.acked(2);
        (more.episode, more.cumulative) = (Episode::In, Bytes::ZERO);
        sender.tell(&more);
    }
    assert_eq!(sender.ssthresh(), segments(80));
    sender.recover();
    assert_eq!((sender.cwnd(), sender.snapshot().phase), (segments(80), "congestion-avoidance"));
    sender.fill();
    sender.round();
    assert_eq!(sender.cwnd(), segments(81));
}

/// RFC 5681, section 4.3: a lost retransmission is a second indication.
#[test]
fn a_lost_retransmission_lowers_again() {
    let mut sender = Sender::after_a_loss("new-reno");
    sender.lose();
    assert_eq!(sender.ssthresh(), segments(40));
    let mut again = sender.acked(1);
    (again.episode, again.cumulative) = (Episode::Again, Bytes::ZERO);
    again.flight_size = segments(80);
    sender.tell(&again);
    assert_eq!(sender.ssthresh(), segments(20));
    sender.recover();
    assert_eq!(sender.cwnd(), segments(20));
}

/// RFC 5681, equation 4 and the text after it.
#[test]
fn only_the_first_timeout_of_a_run_lowers_the_threshold() {
    let mut sender = Sender::after_a_loss("new-reno");
    sender.time_out(1);
    assert_eq!((sender.cwnd(), sender.ssthresh()), (segments(1), segments(40)));
    sender.send(SegmentKind::Retransmit);
    sender.time_out(2);
    assert_eq!((sender.cwnd(), sender.ssthresh()), (segments(1), segments(40)));
    assert_eq!(sender.snapshot().phase, "slow-start");
    sender.send(SegmentKind::Retransmit);
    for expected in [2, 4, 8, 16, 32, 40, 41] {
        let count = sender.in_flight.0 / MSS.0;
        for _ in 0..count {
            let mut ack = sender.acked(1);
            ack.episode = Episode::Rto;
            sender.tell(&ack);
        }
        assert_eq!(sender.cwnd(), segments(expected));
        sender.fill();
    }
    assert_eq!(sender.snapshot().phase, "congestion-avoidance");
}

/// RFC 3168, section 6.1.2: marks decrease the window as losses do, once per window of data. Losses among the same
/// data do not decrease it again.
#[test]
fn a_mark_lowers_once_and_losses_among_the_same_data_do_not() {
    let mut sender = Sender::after_a_loss("new-reno");
    sender.mark();
    assert_eq!((sender.ssthresh(), sender.snapshot().phase), (segments(40), "cwr"));
    sender.mark();
    sender.lose();
    assert_eq!((sender.ssthresh(), sender.snapshot().phase), (segments(40), "recovery"));
    sender.recover();
    assert_eq!(sender.cwnd(), segments(40));
    sender.fill();
    sender.mark();
    assert_eq!(sender.ssthresh(), segments(20));
}

/// RFC 9438, section 4.6: marks decrease the window to no less than one segment, losses to two.
#[test]
fn marks_reduce_to_one_segment() {
    let mut sender = Sender::after_a_loss("cubic");
    for _ in 0..20 {
        sender.mark();
        sender.recover();
        sender.fill();
        if sender.cwnd() < segments(2) {
            break;
        }
    }
    assert_eq!(sender.ssthresh(), segments(2));
    sender.mark();
    assert_eq!(sender.cwnd(), segments(1));
}

#[test]
fn nothing_grows_while_the_window_does_not_limit() {
    for spec in ["cubic", "new-reno", "slow-start(iw=3,l=1)+new-reno"] {
        for mut sender in [Sender::new(spec), Sender::after_a_loss(spec)] {
            let before = sender.cwnd();
            for _ in 0..100 {
                sender.send(SegmentKind::Data);
                let mut ack = sender.acked(1);
                (ack.cwnd_limited, ack.round_start) = (false, true);
                sender.now += sender.rtt;
                sender.tell(&ack);
            }
            assert_eq!(sender.cwnd(), before, "{spec}");
        }
    }
}

/// RFC 5681, section 4.1: slow start from the restart window up to the threshold.
#[test]
fn idleness_leaves_the_restart_window() {
    let mut sender = Sender::after_a_loss("cubic");
    let ssthresh = sender.ssthresh();
    sender.ack(sender.in_flight.0 / MSS.0);
    sender.event(&PathEvent::IdleRestart { now: sender.now, idle: Span::from_secs(9) });
    assert_eq!((sender.cwnd(), sender.ssthresh()), (segments(10), ssthresh));
    assert_eq!(sender.snapshot().phase, "slow-start");
    sender.fill();
    for _ in 0..6 {
        sender.round();
    }
    assert_eq!(sender.snapshot().phase, "congestion-avoidance");
}

#[test]
fn a_window_below_the_restart_window_survives_idleness() {
    let mut sender = Sender::after_a_loss("new-reno");
    for _ in 0..4 {
        sender.lose();
        sender.recover();
        sender.fill();
    }
    let before = sender.cwnd();
    assert_eq!(before, segments(5));
    sender.event(&PathEvent::IdleRestart { now: sender.now, idle: Span::from_secs(9) });
    assert_eq!((sender.cwnd(), sender.snapshot().phase), (before, "congestion-avoidance"));
}

/// RFC 6928, section 2: after a loss in an initial flight of more than 4 KB, restarts use RFC 3390's window.
#[test]
fn a_loss_in_the_initial_flight_makes_restarts_conservative() {
    for (rounds_before_loss, restart) in [(0, 3), (1, 10)] {
        let mut sender = Sender::new("slow-start+cubic");
        sender.fill();
        for _ in 0..rounds_before_loss {
            sender.round();
        }
        sender.lose();
        sender.recover();
        sender.fill();
        for _ in 0..40 {
            sender.round();
        }
        sender.ack(sender.in_flight.0 / MSS.0);
        assert!(sender.cwnd() > segments(10));
        sender.event(&PathEvent::IdleRestart { now: sender.now, idle: Span::from_secs(9) });
        assert_eq!(sender.cwnd(), segments(restart), "a loss after {rounds_before_loss} rounds");
    }
}

#[test]
fn undo_returns_window_threshold_phase_and_avoidance() {
    for spec in ["cubic", "new-reno", "new-reno+rfc6675"] {
        for timeout in [false, true] {
            let mut sender = Sender::after_a_loss(spec);
            let mut other = Sender::after_a_loss(spec);
            for sender in [&mut sender, &mut other] {
                for _ in 0..3 {
                    sender.round();
                }
            }
            assert_undone(&mut sender, timeout);
            // Congestion avoidance continues like that of the flow without loss.
            sender.in_flight = other.in_flight;
            for _ in 0..20 {
                sender.round();
                other.round();
            }
            assert_eq!(sender.cwnd(), other.cwnd(), "{spec}");
        }
    }
}

#[test]
fn undo_of_the_first_loss_returns_to_slow_start() {
    let mut sender = Sender::new("cubic");
    sender.fill();
    sender.lose();
    sender.event(&PathEvent::Spurious { now: sender.now, timeout: false, in_flight: sender.in_flight });
    assert_eq!((sender.cwnd(), sender.ssthresh()), (segments(10), Bytes::MAX));
    sender.round();
    assert!(sender.cwnd() > segments(15));
}

/// RFC 9438, section 4.9.2: a window that has grown beyond its old size is kept.
#[test]
fn undo_does_not_lower_a_window_that_has_recovered() {
    let mut sender = Sender::after_a_loss("new-reno");
    sender.lose();
    sender.recover();
    sender.fill();
    for _ in 0..60 {
        sender.round();
    }
    let before = sender.cwnd();
    assert!(before > segments(80));
    sender.event(&PathEvent::Spurious { now: sender.now, timeout: false, in_flight: sender.in_flight });
    assert_eq!(sender.cwnd(), before);
}

#[test]
fn undo_of_another_kind_or_after_a_mark_does_nothing() {
    let mut sender = Sender::after_a_loss("new-reno");
    sender.lose();
    sender.event(&PathEvent::Spurious { now: sender.now, timeout: true, in_flight: sender.in_flight });
    assert_eq!(sender.ssthresh(), segments(40));
    sender.recover();
    sender.fill();
    sender.mark();
    sender.event(&PathEvent::Spurious { now: sender.now, timeout: false, in_flight: sender.in_flight });
    assert_eq!(sender.ssthresh(), segments(20));
}

/// RFC 5681, section 3.1. Other changes of the segment size keep the window in bytes.
#[test]
fn a_smaller_segment_scales_the_first_flight_only() {
    let smaller = Bytes(730);
    let mut sender = Sender::new("new-reno");
    sender.path.mss = smaller;
    sender.event(&PathEvent::Mss { now: sender.now, old: MSS });
    assert_eq!(sender.cwnd(), segments(5));
    let mut sender = Sender::new("new-reno");
    sender.fill();
    sender.round();
    sender.path.mss = smaller;
    sender.event(&PathEvent::Mss { now: sender.now, old: MSS });
    assert_eq!(sender.cwnd(), segments(20));
    // Larger segments raise the lower limits.
    sender.time_out(1);
    sender.path.mss = segments(20);
    sender.event(&PathEvent::Mss { now: sender.now, old: smaller });
    assert_eq!((sender.cwnd(), sender.ssthresh()), (segments(20), segments(40)));
}

#[test]
fn ecn_is_preferred_and_used_as_far_as_granted() {
    for (granted, used) in [(EcnMark::NotEct, EcnMark::NotEct), (EcnMark::Ect1, EcnMark::Ect0)] {
        let spec: longhaul_cc::registry::Spec = "cubic".parse().expect("a name");
        let controller = spec.build(&BuildParams::default());
        assert_eq!(controller.needs().preferred.ecn, EcnMark::Ect0);
        let sender = Sender::with(controller, update!(Granted { ecn: granted, ..Granted::basic() }));
        assert_eq!(sender.control().ecn, used);
    }
}

#[test]
fn recoveries_ask_for_their_loss_detection() {
    for (spec, detection) in [("cubic", None), ("rfc6675", Some(Detection::Sack))] {
        assert_eq!(Sender::new(spec).controller.needs().detection(), detection, "{spec}");
    }
}

#[test]
fn a_known_threshold_ends_the_first_slow_start() {
    ["new-reno", "cubic", "slow-start+cubic"].into_iter().for_each(assert_cached_threshold);
}

/// RFC 5681, equation 4: the threshold is derived from the data in flight, not from the cached value.
#[test]
fn a_known_threshold_is_replaced_by_the_first_decrease() {
    let mut sender = Sender::with_threshold("new-reno", Some(segments(1000)));
    sender.fill();
    sender.round();
    sender.lose();
    assert_eq!(sender.ssthresh(), segments(10));
}

/// A threshold below the initial window does not lower that window, and the threshold is at least two segments.
#[test]
fn a_known_threshold_leaves_the_initial_window_as_it_is() {
    for (known, ssthresh) in [(Bytes::ZERO, segments(2)), (Bytes(1), segments(2)), (segments(4), segments(4))] {
        let mut sender = Sender::with_threshold("new-reno", Some(known));
        assert_eq!((sender.cwnd(), sender.ssthresh()), (segments(10), ssthresh));
        assert_eq!(sender.snapshot().phase, "congestion-avoidance");
        sender.fill();
        sender.round();
        assert_eq!(sender.cwnd(), segments(11));
    }
    let most = Sender::with_threshold("new-reno", Some(Bytes(u64::MAX)));
    assert_eq!((most.cwnd(), most.snapshot().phase), (segments(10), "slow-start"));
    assert_eq!(Sender::with_threshold("new-reno", None).ssthresh(), Bytes::MAX);
}

/// RFC 5681, equations 2 and 3: an ACK counts as at most one segment. With one ACK for two segments, as usual
/// receivers send them, slow start increases the window by half per round trip, and congestion avoidance by half a
/// segment. With one ACK per segment, nothing changes.
#[test]
fn an_ack_counts_for_a_segment_where_acks_are_counted() {
    for (byte_counting, each, first, last) in [(true, 2, 20, 41), (false, 1, 20, 41), (false, 2, 15, 41)] {
        let congestion: Congestion = "new-reno".parse().expect("a name");
        let ssthresh = Some(segments(40));
        let params =
            update!(BuildParams { mss: MSS, byte_counting, initial_ssthresh: ssthresh, ..BuildParams::default() });
        let mut sender = Sender::with(congestion.build(&params), Granted::basic());
        let round = |sender: &mut Sender| {
            sender.fill();
            let mut left = sender.in_flight.0 / MSS.0;
            while left > 0 {
                let count = left.min(each);
                let ack = sender.acked(count);
                sender.tell(&ack);
                left -= count;
            }
            sender.cwnd()
        };
        assert_eq!(round(&mut sender), segments(first), "{byte_counting}, {each}");
        while sender.cwnd() < segments(40) {
            round(&mut sender);
        }
        let mut rounds = 0;
        while sender.cwnd() < segments(last) {
            round(&mut sender);
            rounds += 1;
        }
        assert_eq!(rounds, if byte_counting || each == 1 { 1 } else { 2 }, "{byte_counting}, {each}");
    }
}
