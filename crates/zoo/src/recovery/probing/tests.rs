use longhaul_units::{Span, Time};

use super::*;

const MSS: Bytes = Bytes(1000);
/// Window at the loss, in segments.
const BEFORE: u64 = 40;

fn recovery(scheme: Scheme) -> ProbingRecovery {
    let mut recovery = ProbingRecovery::of(scheme, &mut Values::default());
    recovery.on_granted(&update!(Granted { probes: true, ..Granted::basic() }), &path()).unwrap();
    recovery
}

fn path() -> Path {
    let mut path = Path::new(MSS);
    path.peer_window = MSS * 64;
    path
}

/// Returns an ACK after which `in_flight` segments are in flight, and which reports `probes` answered probes.
fn ack(total: u64, in_flight: u64, probes: u32) -> Ack<'static> {
    let mut ack = Ack::new(Time::ZERO);
    ack.delivered = MSS;
    (ack.total_delivered, ack.in_flight, ack.prior_in_flight) = (MSS * total, MSS * in_flight, MSS * (in_flight + 1));
    ack.cwnd_limited = true;
    ack.probes_acked = probes;
    ack
}

/// Enters recovery with half of a window of 40 segments and processes a round trip of ACKs, 39 duplicates.
fn repaired(recovery: &mut ProbingRecovery) -> (Window, u32) {
    let mut window = update!(Window { ssthresh: 20_000.0, ..Window::new(40_000.0) });
    recovery.enter(20_000.0, &ack(0, BEFORE - 1, 0), &path(), &mut window);
    assert_eq!(window.cwnd, 20_000.0, "halved once the window before is kept");
    for k in 1..BEFORE {
        let in_flight = (BEFORE - 1 - k).max(20);
        assert_eq!(recovery.on_ack(&ack(k, in_flight, 0), &path(), &mut window), Step::Stay);
    }
    let sent = recovery.overlay().probe.unwrap().segments;
    assert_eq!(recovery.exit(&ack(BEFORE, 20, 0), &path(), &mut window), Step::Stay);
    assert_eq!(recovery.overlay().probe, None, "no probe leaves after the recovery ACK");
    (window, sent)
}

/// Claims SW-4 and SW-5 of the paper: cwnd0 probes and cwnd0/2 segments of data are sent, and the window grows from the
/// (cwnd0/2 + 1)-th answer on. If all probes are answered, the loss was random and the window is restored. If half
/// are, it was congestion, and the window stays halved.
#[test]
fn probes_tell_chance_from_congestion() {
    for scheme in [Scheme::Rapid, Scheme::Quick] {
        for (answered, window_after) in [(20, 20), (21, 21), (30, 30), (40, 40)] {
            let mut recovery = recovery(scheme);
            let (mut window, sent) = repaired(&mut recovery);
            assert_eq!(sent, 40, "{scheme:?}");
            let mut answers = ack(BEFORE, 20, answered);
            answers.delivered = Bytes::ZERO;
            assert_eq!(recovery.on_ack(&answers, &path(), &mut window), Step::Stay);
            assert_eq!(window.cwnd, f64::from(window_after) * 1000.0, "{scheme:?} {answered}");
        }
    }
}

/// The window expanding period lasts one round trip. In TCP-Peach data increases the window by one segment in total,
/// in TCP-Swift by one segment per segment: if gated, only once the loss is known to be random and up to the window
/// before; as published, after any loss.
#[test]
fn the_window_expanding_period() {
    let grown = |scheme, answered| {
        let mut recovery = recovery(scheme);
        let (mut window, _) = repaired(&mut recovery);
        let mut answers = ack(BEFORE, 20, answered);
        answers.delivered = Bytes::ZERO;
        recovery.on_ack(&answers, &path(), &mut window);
        let mut acks = 0;
        for k in 1.. {
            acks += 1;
            if recovery.on_ack(&ack(BEFORE + k, 20, 0), &path(), &mut window) == Step::Done {
                break;
            }
        }
        (window.cwnd / 1000.0, acks)
    };
    let near = |(window, acks): (f64, u64), expected: f64| {
        assert_eq!(acks, 20, "the period is a window long");
        assert!((window - expected).abs() < 0.1, "{window} {expected}");
    };
    near(grown(Scheme::Rapid, 20), 21.0);
    near(grown(Scheme::Quick, 30), 30.7);
    let (gated, paper) = (Scheme::Speedy { gated: true }, Scheme::Speedy { gated: false });
    near(grown(gated, 19), 21.0);
    near(grown(gated, 20), 40.0);
    near(grown(paper, 0), 40.0);
    near(grown(paper, 40), 60.0);
    near(grown(gated, 40), 40.0);
}

/// Resolution 16: an odd probe budget is not overdrawn, no matter how many ACKs arrive.
#[test]
fn r16_the_budget_is_never_overdrawn() {
    let mut recovery = recovery(Scheme::Rapid);
    let mut window = Window::new(5_000.0);
    recovery.enter(2_500.0, &ack(0, 4, 0), &path(), &mut window);
    for k in 1..20 {
        recovery.on_ack(&ack(k, 2, 0), &path(), &mut window);
    }
    assert_eq!((recovery.plan.segments, recovery.loss.left), (5, 0));
}

/// Resolutions 5 and 6: TCP-Peach+ and TCP-Swift send data if the pipe has room, and probes only if it has none.
#[test]
fn r05_r06_data_come_before_probes() {
    for (scheme, probes) in [(Scheme::Rapid, 4), (Scheme::Quick, 2), (Scheme::Speedy { gated: true }, 2)] {
        let mut recovery = recovery(scheme);
        let mut window = Window::new(40_000.0);
        recovery.enter(20_000.0, &ack(0, 39, 0), &path(), &mut window);
        recovery.on_ack(&ack(1, 19, 0), &path(), &mut window);
        assert_eq!(recovery.plan.segments, probes, "{scheme:?}");
    }
}

/// Returns the state at the end of a recovery with half of a window of 40 segments, when the window expands.
fn expanding(scheme: Scheme) -> (ProbingRecovery, Window) {
    let mut recovery = recovery(scheme);
    let (window, _) = repaired(&mut recovery);
    (recovery, window)
}

const GATED: Scheme = Scheme::Speedy { gated: true };
const PAPER: Scheme = Scheme::Speedy { gated: false };
const ALL: [Scheme; 4] = [Scheme::Rapid, Scheme::Quick, GATED, PAPER];

/// Resolution 8: the paper's figure never halves the window. The window before is stored first; the probe budget and
/// the number of ignored answers derive from it.
#[test]
fn r08_the_window_is_halved_after_it_was_kept() {
    for scheme in ALL {
        let mut recovery = recovery(scheme);
        let mut window = update!(Window { ssthresh: 20_000.0, ..Window::new(40_000.0) });
        recovery.enter(20_000.0, &ack(0, BEFORE - 1, 0), &path(), &mut window);
        let loss = recovery.loss;
        let released = recovery.plan.segments;
        assert_eq!((loss.before, loss.left + released, loss.ignored), (40_000.0, 40, 20), "{scheme:?}");
        assert_eq!(window.cwnd, 20_000.0, "{scheme:?}");
    }
}

/// Resolution 9: the pipe is what the transport counts, not the window minus the duplicate ACKs.
#[test]
fn r09_the_pipe_is_counted_not_reckoned() {
    for (in_flight, released) in [(19, 0), (20, 2), (39, 2)] {
        let mut recovery = recovery(GATED);
        let mut window = Window::new(40_000.0);
        recovery.enter(20_000.0, &ack(0, in_flight, 0), &path(), &mut window);
        assert_eq!(recovery.plan.segments, released, "{in_flight}");
    }
}

/// Resolution 10: duplicate and partial ACKs lower the pipe, and do not inflate the window in addition.
#[test]
fn r10_no_ack_of_data_inflates_the_window_in_recovery() {
    for scheme in ALL {
        let mut recovery = recovery(scheme);
        let mut window = update!(Window { ssthresh: 20_000.0, ..Window::new(40_000.0) });
        recovery.enter(20_000.0, &ack(0, BEFORE - 1, 0), &path(), &mut window);
        for k in 1..60 {
            let mut partial = ack(k, 20, 0);
            partial.cumulative = if k % 7 == 0 { MSS * 3 } else { Bytes::ZERO };
            recovery.on_ack(&partial, &path(), &mut window);
            assert_eq!(window.cwnd, 20_000.0, "{scheme:?}");
        }
    }
}

/// Resolutions 11 and 15: the window grows once `wdsn` is zero. Answers in recovery and after it are counted
/// together.
#[test]
fn r11_r15_answers_are_counted_across_the_end_of_recovery() {
    for scheme in ALL {
        let mut recovery = recovery(scheme);
        let mut window = update!(Window { ssthresh: 20_000.0, ..Window::new(40_000.0) });
        recovery.enter(20_000.0, &ack(0, BEFORE - 1, 0), &path(), &mut window);
        let answered = |total, probes| update!(Ack { delivered: Bytes::ZERO, ..ack(total, 20, probes) });
        recovery.on_ack(&answered(39, 12), &path(), &mut window);
        assert_eq!((window.cwnd, recovery.loss.ignored), (20_000.0, 8), "{scheme:?}");
        recovery.exit(&answered(40, 5), &path(), &mut window);
        assert_eq!((window.cwnd, recovery.loss.ignored), (20_000.0, 3), "{scheme:?}");
        recovery.on_ack(&answered(40, 3), &path(), &mut window);
        assert_eq!(window.cwnd, 20_000.0, "{scheme:?}");
        recovery.on_ack(&answered(40, 2), &path(), &mut window);
        assert_eq!(window.cwnd, 22_000.0, "{scheme:?}");
    }
}

/// Resolutions 12 and 13: the period begins with the recovery ACK, not before. It lasts until all data sent by then
/// is acknowledged, including the last segment, which is one window after the recovery ACK.
#[test]
fn r12_r13_the_period_is_from_the_recovery_ack_to_the_last_segment_sent_by_it() {
    let (mut recovery, mut window) = expanding(PAPER);
    assert_eq!(recovery.loss.expands_until, Some(MSS * (BEFORE + 20)));
    assert_eq!(recovery.phase(), "window-expanding");
    for k in 1..20 {
        assert_eq!(recovery.on_ack(&ack(BEFORE + k, 20, 0), &path(), &mut window), Step::Stay);
        assert_eq!(window.cwnd, 20_000.0 + k as f64 * 1000.0);
    }
    assert_eq!(recovery.on_ack(&ack(BEFORE + 20, 20, 0), &path(), &mut window), Step::Done);
    assert_eq!(window.cwnd, 40_000.0, "the last one counts");
}

/// Resolution 13, continued: data that the recovery ACK leaves room for may never be sent, because the application
/// has no more or the peer's window is full. There is no last segment to wait for then. The period ends at the first
/// ACK at which the window is not the limit, or nothing is in flight; that ACK does not increase the window.
#[test]
fn r13_a_sender_that_stops_ends_the_period() {
    for scheme in ALL {
        for (in_flight, limited) in [(8, false), (0, true)] {
            let (mut recovery, mut window) = expanding(scheme);
            recovery.loss.ignored = 0;
            assert_eq!(recovery.on_ack(&ack(BEFORE + 1, 20, 0), &path(), &mut window), Step::Stay);
            let raised = window.cwnd;
            let stopped =
                update!(Ack { cwnd_limited: limited, delivered: Bytes::ZERO, ..ack(BEFORE + 1, in_flight, 0) });
            assert_eq!(recovery.on_ack(&stopped, &path(), &mut window), Step::Done, "{scheme:?}");
            assert_eq!(window.cwnd, raised, "{scheme:?}");
        }
        let (mut recovery, mut window) = expanding(scheme);
        let stopped = update!(Ack { cwnd_limited: false, ..ack(BEFORE + 1, 8, 0) });
        assert_eq!(recovery.on_ack(&stopped, &path(), &mut window), Step::Done, "{scheme:?}");
        assert_eq!(window.cwnd, 20_000.0, "{scheme:?}");
    }
}

/// Resolution 14: an answer that also acknowledges data, because the probe filled a hole, counts as both.
#[test]
fn r14_an_answer_that_repairs_is_an_answer_and_an_ack() {
    let (mut recovery, mut window) = expanding(PAPER);
    recovery.on_ack(&ack(BEFORE + 1, 20, 1), &path(), &mut window);
    assert_eq!((recovery.loss.ignored, window.cwnd), (19, 21_000.0));
    recovery.loss.ignored = 0;
    recovery.on_ack(&ack(BEFORE + 2, 20, 1), &path(), &mut window);
    assert_eq!(window.cwnd, 23_000.0);
}

/// Resolution 17: a timeout voids the rest of the budget and the number of answers to ignore. The next loss starts
/// its own plan.
#[test]
fn r17_a_timeout_clears_everything() {
    let (mut recovery, mut window) = expanding(GATED);
    let before = recovery.plan.id;
    recovery.abort();
    let Loss { left, ignored, expands_until, .. } = recovery.loss;
    assert_eq!((left, ignored, expands_until), (0, 0, None));
    window.cwnd = 8_000.0;
    recovery.enter(4_000.0, &ack(0, 8, 0), &path(), &mut window);
    assert_ne!(recovery.plan.id, before);
    assert_eq!((recovery.plan.segments, recovery.loss.left), (2, 6));
}

/// Resolution 18: if gated, data does not increase the window before the loss is known to be random, and then at most
/// to the window before. As published, a loss has no lasting decrease: after congestion the window is restored, and
/// after a random loss it is half as large again. It never exceeds the peer's window.
#[test]
fn r18_gated_keeps_the_decrease_and_paper_does_not() {
    let grown = |scheme, probes, peer| {
        let (mut recovery, mut window) = expanding(scheme);
        let path = update!(Path { peer_window: MSS * peer, ..path() });
        recovery.on_ack(&update!(Ack { delivered: Bytes::ZERO, ..ack(BEFORE, 20, probes) }), &path, &mut window);
        (1..=20).for_each(|k| _ = recovery.on_ack(&ack(BEFORE + k, 20, 0), &path, &mut window));
        (window.cwnd / 1000.0).floor()
    };
    // After congestion half of the 40 probes are answered, after a random loss all.
    assert_eq!((grown(GATED, 19, 64), grown(PAPER, 19, 64)), (20.0, 40.0));
    assert_eq!((grown(GATED, 40, 64), grown(PAPER, 40, 64)), (40.0, 60.0));
    for scheme in ALL {
        assert_eq!(grown(scheme, 40, 24), 24.0, "{scheme:?}: the peer's window has shrunk");
    }
}

/// Resolution 24: no probe is sent after the recovery ACK. Data that the recovery ACK allows belongs to the period,
/// which is a window long even if less was in flight.
#[test]
fn r24_what_the_recovery_ack_lets_go_is_of_the_period() {
    for (in_flight, last) in [(12, 20), (20, 20), (31, 31)] {
        let mut recovery = recovery(GATED);
        let mut window = update!(Window { ssthresh: 20_000.0, ..Window::new(40_000.0) });
        recovery.enter(20_000.0, &ack(0, 39, 0), &path(), &mut window);
        // Half a segment of room allows no further segment.
        window.cwnd += 500.0;
        recovery.exit(&ack(BEFORE, in_flight, 0), &path(), &mut window);
        assert_eq!((recovery.loss.expands_until, recovery.overlay().probe), (Some(MSS * (BEFORE + last)), None));
    }
}

/// Resolution 25: after the decrease the window is smaller than the pipe. The difference does not wrap, and it
/// releases probes, not data.
#[test]
fn r25_a_negative_room_is_none() {
    for (in_flight, room) in [(39, false), (21, false), (20, false), (19, true), (0, true)] {
        let mut recovery = recovery(Scheme::Quick);
        let mut window = Window::new(40_000.0);
        recovery.enter(
            20_000.0,
            &update!(Ack { prior_in_flight: MSS * 40, ..ack(0, in_flight, 0) }),
            &path(),
            &mut window,
        );
        assert_eq!(recovery.plan.segments == 0, room, "{in_flight}");
    }
}

/// Resolution 26: a delayed ACK of two segments expands the window by two.
#[test]
fn r26_delayed_acks_do_not_halve_the_growth() {
    for each in [1, 2, 4, 10] {
        let (mut recovery, mut window) = expanding(PAPER);
        for k in 1..=20 / each {
            recovery.on_ack(
                &update!(Ack { delivered: MSS * each, ..ack(BEFORE + k * each, 20, 0) }),
                &path(),
                &mut window,
            );
        }
        assert_eq!(window.cwnd, 40_000.0, "{each}");
    }
}

/// Resolution 26, continued: if a receiver acknowledges every third segment only, each such ACK releases the probes
/// of three, up to the budget.
#[test]
fn r26_delayed_acks_do_not_thin_the_probes() {
    for each in [1, 3, 30] {
        let mut recovery = recovery(Scheme::Rapid);
        let mut window = Window::new(40_000.0);
        recovery.enter(20_000.0, &ack(0, 39, 0), &path(), &mut window);
        let delivered = MSS * each;
        recovery.on_ack(&update!(Ack { delivered, ..ack(1, 30, 0) }), &path(), &mut window);
        assert_eq!(u64::from(recovery.plan.segments), (2 + 2 * each).min(40), "{each}");
    }
}

/// A loss in the period ends it. The next recovery starts from the current window.
#[test]
fn a_loss_in_the_period_cancels_it() {
    let (mut recovery, mut window) = expanding(PAPER);
    (1..=10).for_each(|k| _ = recovery.on_ack(&ack(BEFORE + k, 30, 0), &path(), &mut window));
    assert_eq!(window.cwnd, 30_000.0);
    let first = recovery.plan.id;
    recovery.enter(15_000.0, &ack(BEFORE + 11, 29, 0), &path(), &mut window);
    let Loss { before, ignored, expands_until, .. } = recovery.loss;
    assert_eq!((before, ignored, expands_until, window.cwnd), (30_000.0, 15, None, 15_000.0));
    assert!(recovery.overlay().probe.is_some_and(|plan| plan.id != first && plan.segments == 2));
}

/// A start-up scheme's plan that a loss interrupts differs from the recovery's plan, because the transport identifies
/// plans by their numbers only.
#[test]
fn plans_of_starts_and_recoveries_differ() {
    let spec = crate::tests::spec("tcp-swift");
    let mut controller = spec.build(&longhaul_cc::BuildParams::default());
    let mut path = update!(Path { handshake_rtt: Some(Span::from_millis(550)), queued: Bytes(1 << 20), ..path() });
    path.mss = MSS;
    let granted = update!(Granted { probes: true, ..Granted::basic() });
    controller.on_granted(&granted, &path).unwrap();
    controller.on_event(&longhaul_cc::PathEvent::Established { now: Time::ZERO, granted }, &path);
    controller.on_sent(&longhaul_cc::Sent::new(Time::ZERO, longhaul_cc::TxId(1), MSS), &path);
    let start = controller.control().probe.unwrap();
    let mut lossy = ack(1, 30, 30);
    (lossy.episode, lossy.flight_size) = (longhaul_cc::Episode::Enter, MSS * 30);
    controller.on_ack(&lossy, &path);
    let recovery = controller.control().probe.unwrap();
    assert_eq!(controller.snapshot().phase, "recovery");
    assert_ne!(start.id, recovery.id);
}

/// Without probes, or if the window does not limit the sender, the window does not expand.
#[test]
fn without_probes_it_is_plain_recovery() {
    let mut plain = ProbingRecovery::of(Scheme::Speedy { gated: false }, &mut Values::default());
    plain.on_granted(&Granted::basic(), &path()).unwrap();
    let mut window = Window::new(40_000.0);
    plain.enter(20_000.0, &ack(0, 39, 0), &path(), &mut window);
    assert_eq!(plain.overlay().probe, None);
    assert_eq!(plain.exit(&ack(40, 20, 0), &path(), &mut window), Step::Done);
    assert_eq!(window.cwnd, 20_000.0);
}

/// A mark always indicates congestion: no probe is sent, and the window stays where congestion avoidance set it.
#[test]
fn a_mark_is_not_asked_about() {
    for scheme in [Scheme::Rapid, Scheme::Quick, Scheme::Speedy { gated: false }] {
        let mut recovery = recovery(scheme);
        let mut window = Window::new(40_000.0);
        let mut marked = ack(0, 39, 0);
        marked.ecn_echo = true;
        recovery.enter(20_000.0, &marked, &path(), &mut window);
        for k in 1..20 {
            recovery.on_ack(&ack(k, 20, 0), &path(), &mut window);
        }
        assert_eq!(recovery.overlay().probe.map_or(0, |plan| plan.segments), 0, "{scheme:?}");
        assert_eq!(recovery.exit(&ack(40, 20, 0), &path(), &mut window), Step::Done);
        assert_eq!(window.cwnd, 20_000.0, "{scheme:?}");
    }
}
