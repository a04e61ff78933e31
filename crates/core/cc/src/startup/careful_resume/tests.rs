use longhaul_units::Span;

use super::*;
use crate::compose::Signal;
use crate::{Episode, TxId};

const MSS: Bytes = Bytes(1000);
const RTT: Span = Span::from_millis(600);
const SAVED: u64 = 400;

fn path() -> Path {
    let mut path = Path::new(MSS);
    (path.handshake_rtt, path.min_rtt, path.latest_rtt, path.srtt) = (Some(RTT), Some(RTT), Some(RTT), Some(RTT));
    path
}

fn startup(rtt: Span) -> CarefulResume {
    configured(rtt, Bytes::MAX, 0.5)
}

fn configured(rtt: Span, max_jump: Bytes, beta: f64) -> CarefulResume {
    let mut startup = CarefulResume { max_jump, beta, ..CarefulResume::default() };
    startup.on_event(
        &StageEvent::SavedPath(SavedPath { window: MSS * SAVED, rate: Rate::from_bytes_over(MSS * SAVED, RTT), rtt }),
        &path(),
    );
    startup
}

fn send(startup: &mut CarefulResume, segments: u64) {
    for k in 0..segments {
        startup.on_sent(&Sent::new(Time::ZERO, TxId(k), MSS), &path());
    }
}

/// Returns an ACK of one segment, with `total` segments delivered in total and `in_flight` in flight.
fn ack(total: u64, in_flight: u64) -> Ack<'static> {
    let mut ack = Ack::new(Time::ZERO + RTT);
    (ack.delivered, ack.total_delivered, ack.in_flight) = (MSS, MSS * total, MSS * in_flight);
    ack.cwnd_limited = true;
    ack
}

/// Ten segments are sent and acknowledged. Then the window is half of the saved one, and paced.
fn jumped() -> (CarefulResume, Window) {
    jumped_to(startup(RTT), 200_000.0)
}

fn jumped_to(mut startup: CarefulResume, jump: f64) -> (CarefulResume, Window) {
    let mut window = Window::new(10_000.0);
    assert_eq!(startup.begin(Opening::Connection, Time::ZERO, &path(), &mut window), Step::Stay);
    send(&mut startup, 10);
    for k in 1..10 {
        assert_eq!(startup.on_ack(&ack(k, 10), &path(), &mut window), Step::Stay);
        assert_eq!((startup.phase(), window.cwnd), ("reconnaissance", 10_000.0 + k as f64 * 1000.0), "slow start");
    }
    send(&mut startup, 9);
    assert_eq!(startup.on_ack(&ack(10, 10), &path(), &mut window), Step::Stay);
    assert_eq!((startup.phase(), window.cwnd), ("unvalidated", jump));
    assert_eq!(startup.overlay().pace.unwrap().rate, Rate::from_bytes_over(Bytes::from_f64(jump), RTT));
    (startup, window)
}

/// RFC 9959, sections 3.3 to 3.5: the jump lasts until its first segment is acknowledged, and is validated when its
/// last one is.
#[test]
fn a_jump_is_validated() {
    let (mut startup, mut window) = jumped();
    send(&mut startup, 180);
    for k in 11..20 {
        assert_eq!(startup.on_ack(&ack(k, 180), &path(), &mut window), Step::Stay);
        assert_eq!((startup.phase(), window.cwnd), ("unvalidated", 200_000.0), "those before the jump");
    }
    assert_eq!(startup.on_ack(&ack(20, 179), &path(), &mut window), Step::Stay);
    assert_eq!((startup.phase(), window.cwnd, startup.overlay().pace), ("validating", 179_000.0, None));
    assert_eq!(startup.pipe, 20_000.0, "ten in flight at the jump, ten delivered since");
    for k in 21..199 {
        assert_eq!(startup.on_ack(&ack(k, 179), &path(), &mut window), Step::Stay, "{k}");
    }
    assert_eq!(startup.on_ack(&ack(199, 179), &path(), &mut window), Step::Done);
    assert_eq!((startup.pipe, window.cwnd), (199_000.0, 358_000.0));
    assert!(window.below_threshold());
}

/// After a loss in the jump, the window is at once half of `PipeSize`. When everything is accounted for, beta times
/// `PipeSize` is the threshold.
#[test]
fn a_loss_is_answered_by_a_safe_retreat() {
    let (mut startup, mut window) = jumped();
    send(&mut startup, 180);
    for k in 11..=20 {
        startup.on_ack(&ack(k, 180), &path(), &mut window);
    }
    let mut lost = ack(21, 150);
    lost.episode = Episode::Enter;
    assert_eq!(
        startup.on_loss(&LossEvent { signal: Signal::Loss, ack: &lost }, &path(), &mut window),
        StartupResponse::Handled
    );
    assert_eq!((startup.phase(), window.cwnd), ("safe-retreat", 10_500.0));
    for k in 22..=50 {
        let mut recovery = ack(k, 100);
        recovery.episode = Episode::In;
        assert_eq!(startup.on_ack(&recovery, &path(), &mut window), Step::Stay);
        assert_eq!(window.cwnd, 10_500.0, "no growth");
    }
    let mut end = ack(51, 10);
    end.episode = Episode::Exit;
    assert_eq!(startup.on_ack(&end, &path(), &mut window), Step::Done);
    assert_eq!((window.cwnd, window.ssthresh), (10_500.0, 25_500.0), "half of the 51 that came through");
}

/// There is no jump on another path, without a saved path, after a loss, or with too little data to send.
#[test]
fn it_abandons_what_does_not_fit() {
    let mut blank = CarefulResume::default();
    let mut window = Window::new(10_000.0);
    assert_eq!(blank.begin(Opening::Connection, Time::ZERO, &path(), &mut window), Step::Done);
    use SavedPathUse::{OtherPath, Unused, Used};
    for (saved, limited, made) in [
        (RTT, true, Used),
        (RTT, false, Unused),
        (RTT * 2, true, OtherPath),
        (RTT * 2 - Span::from_nanos(2), true, Used),
        (RTT / 10, true, Used),
        (RTT / 10 - Span::from_nanos(1), true, OtherPath),
    ] {
        let (mut startup, mut window) = (startup(saved), Window::new(10_000.0));
        startup.begin(Opening::Connection, Time::ZERO, &path(), &mut window);
        send(&mut startup, 10);
        let mut last = ack(10, 5);
        last.cwnd_limited = limited;
        startup.on_ack(&last, &path(), &mut window);
        assert_eq!(startup.phase() == "unvalidated", made == Used, "{saved} {limited}");
        assert_eq!(startup.saved_path_use(), made, "{saved} {limited}");
    }
    let (mut startup, mut window) = (startup(RTT), Window::new(10_000.0));
    startup.begin(Opening::Connection, Time::ZERO, &path(), &mut window);
    let lost = ack(1, 5);
    let response = startup.on_loss(&LossEvent { signal: Signal::Loss, ack: &lost }, &path(), &mut window);
    assert_eq!((response, window.cwnd), (StartupResponse::Delegate, 10_000.0), "the usual decrease");
}

/// With little data to send, the window becomes `PipeSize`, at least the initial window.
#[test]
fn who_sends_little_keeps_little() {
    let (mut startup, mut window) = jumped();
    for k in 11..20 {
        startup.on_ack(&ack(k, 10), &path(), &mut window);
    }
    assert_eq!(startup.on_ack(&ack(20, 5), &path(), &mut window), Step::Done);
    assert_eq!(window.cwnd, 20_000.0);
}

/// RFC 9959, section 3.4: the Unvalidated phase ends when the window is full.
#[test]
fn a_full_window_ends_the_jump() {
    let (mut startup, mut window) = jumped();
    send(&mut startup, 190);
    startup.on_ack(&ack(11, 199), &path(), &mut window);
    assert_eq!((startup.phase(), window.cwnd), ("unvalidated", 200_000.0), "room for one more");
    send(&mut startup, 1);
    assert_eq!(startup.on_ack(&ack(12, 200), &path(), &mut window), Step::Stay);
    assert_eq!((startup.phase(), window.cwnd, startup.overlay().pace), ("validating", 200_000.0, None));
    assert_eq!((startup.pipe, startup.after), (12_000.0, MSS * 210));
}

/// The Unvalidated phase ends after a round trip: with an ACK of data sent before the jump, or by the timer if no ACK
/// arrives.
#[test]
fn a_round_trip_ends_the_jump() {
    let end = Time::ZERO + RTT * 2;
    for by_ack in [true, false] {
        let (mut startup, mut window) = jumped();
        assert_eq!(startup.next_tick(), Some(end));
        send(&mut startup, 100);
        let mut early = ack(11, 109);
        early.now = end - Span::from_nanos(1);
        startup.on_ack(&early, &path(), &mut window);
        startup.on_tick(early.now, &path(), &mut window);
        assert_eq!((startup.phase(), window.cwnd), ("unvalidated", 200_000.0));
        let step = if by_ack {
            let mut late = ack(12, 108);
            late.now = end;
            startup.on_ack(&late, &path(), &mut window)
        } else {
            send(&mut startup, 5);
            startup.on_tick(end, &path(), &mut window)
        };
        assert_eq!((step, startup.phase(), startup.next_tick()), (Step::Stay, "validating", None));
        // The jump, and 10 segments before it, less the delivered ones. Without an ACK, what was sent since the last.
        let (pipe, flight) = if by_ack { (12_000.0, 108_000.0) } else { (11_000.0, 114_000.0) };
        assert_eq!((startup.pipe, window.cwnd), (pipe, flight), "{by_ack}");
    }
}

/// RFC 9959, section 3.4: a flight no larger than PipeSize needs no validation, even if it exceeds the initial window.
#[test]
fn a_flight_that_the_pipe_has_shown_to_hold_needs_no_validation() {
    for (flight, step, cwnd) in [(19, Step::Done, 20_000.0), (20, Step::Done, 20_000.0), (21, Step::Stay, 21_000.0)] {
        let (mut startup, mut window) = jumped();
        send(&mut startup, flight);
        (11..20).for_each(|k| assert_eq!(startup.on_ack(&ack(k, flight), &path(), &mut window), Step::Stay));
        assert_eq!(startup.on_ack(&ack(20, flight), &path(), &mut window), step, "{flight}");
        assert_eq!((startup.pipe, window.cwnd), (20_000.0, cwnd), "{flight}");
    }
}

/// The jump is limited by `max-jump` and the peer's window. There is none if the window is already as large.
#[test]
fn a_jump_is_bounded() {
    jumped_to(configured(RTT, MSS * 50, 0.5), 50_000.0);
    jumped_to(configured(RTT, MSS * 201, 0.5), 200_000.0);
    let mut startup = configured(RTT, MSS * 20, 0.5);
    let mut window = Window::new(10_000.0);
    startup.begin(Opening::Connection, Time::ZERO, &path(), &mut window);
    send(&mut startup, 10);
    (1..10).for_each(|k| assert_eq!(startup.on_ack(&ack(k, 10), &path(), &mut window), Step::Stay));
    assert_eq!(startup.on_ack(&ack(10, 10), &path(), &mut window), Step::Done);
    assert_eq!((window.cwnd, startup.overlay().pace), (20_000.0, None));
}

/// RFC 9959, section 3.6: the threshold is beta times the bytes delivered, 51 segments here. The window stays at half
/// of PipeSize when the loss was detected, which was 21 segments.
#[test]
fn beta_says_how_much_a_retreat_leaves() {
    for (beta, ssthresh) in [(0.5, 25_500.0), (0.7, 35_700.0), (1.0, 51_000.0)] {
        let (mut startup, mut window) = jumped_to(configured(RTT, Bytes::MAX, beta), 200_000.0);
        send(&mut startup, 180);
        (11..=20).for_each(|k| assert_eq!(startup.on_ack(&ack(k, 180), &path(), &mut window), Step::Stay));
        let (mut lost, mut end) = (ack(21, 150), ack(51, 10));
        (lost.episode, end.episode, end.delivered) = (Episode::Enter, Episode::Exit, MSS * 30);
        startup.on_loss(&LossEvent { signal: Signal::Loss, ack: &lost }, &path(), &mut window);
        assert_eq!(startup.on_ack(&end, &path(), &mut window), Step::Done);
        assert!((window.ssthresh - ssthresh).abs() < 1e-6, "{beta}: {}", window.ssthresh);
        assert_eq!(window.cwnd, 10_500.0, "{beta}");
    }
}

/// Returns the threshold that a timeout would leave.
fn after_timeout(startup: &CarefulResume) -> Option<f64> {
    let timeout = Timeout::new(Time::ZERO, 1, Bytes::ZERO);
    startup.clone().on_timeout(&timeout, &path(), &mut Window::new(1000.0))
}

/// RFC 9959, section 3.6.1: a timeout ends Careful Resume with a threshold of beta times the bytes delivered, at least
/// two segments. Before the jump, congestion avoidance sets the threshold.
#[test]
fn a_timeout_in_each_phase() {
    let ended = |mut startup: CarefulResume, threshold: Option<f64>| {
        let phase = startup.phase();
        match (after_timeout(&startup), threshold) {
            (Some(found), Some(wanted)) => assert!((found - wanted).abs() < 1e-6, "{phase}: {found}, not {wanted}"),
            (found, wanted) => assert_eq!(found, wanted, "{phase}"),
        }
        startup.abort();
        assert_eq!((startup.phase(), startup.overlay().pace, startup.next_tick()), ("handshake", None, None));
        assert_eq!(after_timeout(&startup), None);
        let mut window = Window::new(1000.0);
        assert_eq!(startup.begin(Opening::Timeout, Time::ZERO, &path(), &mut window), Step::Done, "{phase}");
        assert_eq!(startup.on_ack(&ack(300, 0), &path(), &mut window), Step::Done);
        assert_eq!(window, Window::new(1000.0));
    };
    let with = |beta| configured(RTT, Bytes::MAX, beta);
    ended(startup(RTT), None);
    let mut begun = startup(RTT);
    begun.begin(Opening::Connection, Time::ZERO, &path(), &mut Window::new(10_000.0));
    send(&mut begun, 10);
    begun.on_ack(&ack(1, 9), &path(), &mut Window::new(10_000.0));
    assert_eq!(begun.phase(), "reconnaissance");
    ended(begun, None);
    for beta in [0.5, 0.7] {
        let (mut startup, mut window) = jumped_to(with(beta), 200_000.0);
        ended(startup, Some(10_000.0 * beta));
        send(&mut startup, 180);
        (11..=20).for_each(|k| assert_eq!(startup.on_ack(&ack(k, 180), &path(), &mut window), Step::Stay));
        assert_eq!(startup.phase(), "validating");
        ended(startup, Some(20_000.0 * beta));
        let mut lost = ack(21, 150);
        lost.episode = Episode::Enter;
        startup.on_loss(&LossEvent { signal: Signal::Loss, ack: &lost }, &path(), &mut window);
        ended(startup, Some(21_000.0 * beta));
        // A second loss during the retreat counts the bytes delivered with it.
        startup.on_loss(&LossEvent { signal: Signal::LossAgain, ack: &lost }, &path(), &mut window);
        ended(startup, Some(22_000.0 * beta));
    }
    let (mut startup, _) = jumped();
    startup.pipe = 1000.0;
    ended(startup, Some(2000.0));
}
