use longhaul_units::{Bytes, Time};

use super::*;
use crate::tests::{MSS, segments, sender};

/// draft-kazuho-ccwg-rapid-start: 53/60 and 11/60 for beta 0.7, 29/36 and 11/36 for 0.5. Draft 02, section 3.3.1:
/// 9/10 and 1/5, 5/6 and 1/3.
#[test]
fn the_factors_are_those_of_the_drafts() {
    for (k, beta, lost, acked) in [
        (K_QUICLY, 0.7, 53.0 / 60.0, 11.0 / 60.0),
        (K_QUICLY, 0.5, 29.0 / 36.0, 11.0 / 36.0),
        (K_DRAFT_02, 0.7, 9.0 / 10.0, 1.0 / 5.0),
        (K_DRAFT_02, 0.5, 5.0 / 6.0, 1.0 / 3.0),
    ] {
        let factors = Factors::new(k, beta);
        assert!(
            (factors.lost - lost).abs() < 1e-12 && (factors.acked - acked).abs() < 1e-12,
            "{k} {beta}: {factors:?}"
        );
    }
}

/// Runs a recovery with `cwnd` segments in flight, of which `lost` were lost; one loss is detected per delivered
/// segment. Returns the window in segments before the first delivery and at the end.
fn repaired(k: f64, beta: f64, cwnd: u64, lost: u64) -> (f64, f64) {
    let mut recovery = RapidStartRecovery { k, ..RapidStartRecovery::default() };
    let path = Path::new(MSS);
    let mut window = Window::new(segments(cwnd).as_f64());
    let target = beta * window.cwnd;
    let mut enter = Ack::new(Time::ZERO);
    (enter.flight_size, enter.prior_in_flight) = (segments(cwnd), segments(cwnd));
    recovery.enter(target, &enter, &path, &mut window);
    let first = window.cwnd / MSS.as_f64();
    let mut before = window.cwnd;
    for arrived in 0..cwnd - lost {
        let mut ack = Ack::new(Time::ZERO);
        ack.delivered = MSS;
        ack.newly_lost = if arrived < lost { MSS } else { Bytes::ZERO };
        recovery.on_ack(&ack, &path, &mut window);
        assert!(window.cwnd <= before);
        before = window.cwnd;
    }
    assert_eq!(recovery.exit(&Ack::new(Time::ZERO), &path, &mut window), Step::Stay);
    (first, window.cwnd / MSS.as_f64())
}

/// Draft 02, appendix A: the window is beta times the delivered amount, however much was lost.
#[test]
fn at_the_end_the_window_is_beta_times_what_arrived() {
    for k in [K_QUICLY, K_DRAFT_02] {
        for beta in [0.5, 0.7, 0.85] {
            for lost in [1, 30, 100, 150] {
                let (first, last) = repaired(k, beta, 300, lost);
                assert!((first - 300.0 * (beta + k * (1.0 - beta))).abs() < 1e-6, "{first}");
                let expected = beta * (300 - lost) as f64;
                assert!((last - expected).abs() < 1e-6, "{k}, {beta}, {lost} lost: {last}, not {expected}");
            }
        }
    }
}

/// A recovery that takes longer than a round trip reduces the window no further.
#[test]
fn what_is_repaired_later_takes_nothing_off() {
    let mut recovery = RapidStartRecovery { k: K_DRAFT_02, ..RapidStartRecovery::default() };
    let path = Path::new(MSS);
    let mut window = Window::new(segments(100).as_f64());
    let mut ack = Ack::new(Time::ZERO);
    ack.flight_size = segments(100);
    recovery.enter(segments(50).as_f64(), &ack, &path, &mut window);
    (ack.delivered, ack.newly_lost) = (segments(60), segments(20));
    recovery.on_ack(&ack, &path, &mut window);
    // 5/6 of 100, minus a third of 60 and 5/6 of 20. After that only 20 of the remaining 80 count.
    let expected = |acked: f64, lost: f64| 250.0 / 3.0 - acked / 3.0 - lost * 5.0 / 6.0;
    assert!((window.cwnd / MSS.as_f64() - expected(60.0, 20.0)).abs() < 1e-6);
    recovery.on_ack(&ack, &path, &mut window);
    assert!((window.cwnd / MSS.as_f64() - expected(75.0, 25.0)).abs() < 1e-6, "{}", window.cwnd / MSS.as_f64());
    let last = window.cwnd;
    recovery.on_ack(&ack, &path, &mut window);
    assert_eq!(window.cwnd, last);
}

/// The window keeps at least a third of beta, because a threefold overshoot can have lost two thirds.
#[test]
fn no_more_is_taken_off_than_a_threefold_overshoot() {
    let mut recovery = RapidStartRecovery::default();
    let path = Path::new(MSS);
    let mut window = Window::new(segments(300).as_f64());
    let mut ack = Ack::new(Time::ZERO);
    (ack.flight_size, ack.newly_lost) = (segments(300), segments(290));
    recovery.enter(segments(210).as_f64(), &ack, &path, &mut window);
    assert!((window.cwnd - segments(70).as_f64()).abs() < 1e-6, "{}", window.cwnd);
    // The window also keeps at least two segments.
    let mut recovery = RapidStartRecovery::default();
    let mut window = Window::new(segments(4).as_f64());
    (ack.flight_size, ack.newly_lost) = (segments(4), segments(4));
    recovery.enter(segments(2).as_f64(), &ack, &path, &mut window);
    assert_eq!(window.cwnd, segments(2).as_f64());
}

/// In a complete controller the decrease starts from the amount in flight, the threshold follows the window at the
/// end, and PRR handles the next episode.
#[test]
fn avoidance_takes_over_at_the_window_that_fits() {
    let mut sender = sender("rapid-start+new-reno+rapid-start-recovery");
    sender.path.min_rtt = Some(sender.rtt);
    sender.fill();
    sender.round();
    sender.round();
    assert_eq!(sender.cwnd(), segments(90));
    sender.lose();
    // 29/36 of 90, minus the reduction for what the ACK delivered and marked lost.
    let lost = 29.0 / 36.0 * 89.0 - 11.0 / 36.0;
    assert!((sender.cwnd().segments(MSS) - lost).abs() < 0.01, "{}", sender.cwnd().segments(MSS));
    assert_eq!(sender.snapshot().phase, "recovery");
    // Half of the other segments are lost.
    sender.now += sender.rtt;
    let mut ack = sender.acked(44);
    (ack.newly_lost, ack.episode) = (segments(44), Episode::In);
    sender.tell(&ack);
    sender.recover();
    let window = sender.cwnd();
    assert!(window < segments(25) && window >= segments(15), "{}", window.segments(MSS));
    assert!(sender.ssthresh() > window);
    sender.ack(0);
    assert_eq!((sender.snapshot().phase, sender.cwnd()), ("congestion-avoidance", window));
    assert_eq!(sender.ssthresh(), window);
}

/// A loss after a timeout is unrelated to the start-up phase.
#[test]
fn after_a_timeout_it_is_prr() {
    let mut recovery = RapidStartRecovery::default();
    let path = Path::new(MSS);
    let mut ack = Ack::new(Time::ZERO);
    ack.episode = Episode::Rto;
    recovery.observe(&ack, &path);
    let mut window = Window::new(segments(100).as_f64());
    ack = Ack::new(Time::ZERO);
    (ack.flight_size, ack.prior_in_flight, ack.in_flight) = (segments(100), segments(100), segments(98));
    (ack.recover_flight, ack.delivered, ack.newly_lost) = (segments(100), MSS, MSS);
    recovery.enter(segments(50).as_f64(), &ack, &path, &mut window);
    // The amount in flight and what PRR allows in addition; Rapid Start's recovery would leave 79.
    assert!(window.cwnd > segments(98).as_f64() && window.cwnd <= segments(99).as_f64());
    recovery.exit(&ack, &path, &mut window);
    assert_eq!(window.cwnd, segments(50).as_f64());
}

/// RFC 5681: the decrease starts from the amount in flight if the application does not fill the window.
#[test]
fn the_decrease_is_taken_from_what_is_in_flight() {
    let mut recovery = RapidStartRecovery::default();
    let path = Path::new(MSS);
    let mut window = Window::new(segments(100).as_f64());
    let mut ack = Ack::new(Time::ZERO);
    ack.flight_size = segments(20);
    recovery.enter(segments(10).as_f64(), &ack, &path, &mut window);
    assert!((window.cwnd - 29.0 / 36.0 * segments(20).as_f64()).abs() < 1e-6, "{}", window.cwnd);
    // An episode that ends before all data is accounted for leaves at most the target of congestion avoidance.
    recovery.exit(&Ack::new(Time::ZERO), &path, &mut window);
    assert_eq!(window.cwnd, segments(10).as_f64());
}
