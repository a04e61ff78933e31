use longhaul_units::Span;

use super::*;
use crate::TxId;
use crate::compose::Signal;

const MSS: Bytes = Bytes(1000);
const RTT: Span = Span::from_millis(600);
const SAVED: u64 = 400;

fn path() -> Path {
    let mut path = Path::new(MSS);
    (path.handshake_rtt, path.min_rtt, path.latest_rtt, path.srtt) = (Some(RTT), Some(RTT), Some(RTT), Some(RTT));
    path
}

fn launch(rtt: Span) -> CarefulResume {
    let mut launch = CarefulResume::new(CarefulResumeConfig { max_jump: Bytes::MAX, beta: 0.5 });
    launch.recall(SavedPath { window: MSS * SAVED, rate: Rate::from_bytes_over(MSS * SAVED, RTT), rtt });
    launch
}

fn send(launch: &mut CarefulResume, segments: u64) {
    for k in 0..segments {
        launch.on_sent(&Sent::new(Time::ZERO, TxId(k), MSS), &path());
    }
}

/// So many segments delivered in all, one by this ACK, so many in flight.
fn ack(total: u64, in_flight: u64) -> Ack<'static> {
    let mut ack = Ack::new(Time::ZERO + RTT);
    (ack.delivered, ack.total_delivered, ack.in_flight) = (MSS, MSS * total, MSS * in_flight);
    ack.cwnd_limited = true;
    ack
}

/// Ten segments are sent and acknowledged; the window then is half of what was saved, and what is paced in.
fn jumped() -> (CarefulResume, Window) {
    let (mut launch, mut window) = (launch(RTT), Window::new(10_000.0));
    assert_eq!(launch.begin(Opening::Connection, Time::ZERO, &path(), &mut window), LaunchStep::Stay);
    send(&mut launch, 10);
    for k in 1..10 {
        assert_eq!(launch.on_ack(&ack(k, 10), &path(), &mut window), LaunchStep::Stay);
        assert_eq!((launch.phase(), window.cwnd), ("reconnaissance", 10_000.0 + k as f64 * 1000.0), "slow start");
    }
    send(&mut launch, 9);
    assert_eq!(launch.on_ack(&ack(10, 10), &path(), &mut window), LaunchStep::Stay);
    assert_eq!((launch.phase(), window.cwnd), ("unvalidated", 200_000.0));
    assert_eq!(launch.overlay().pace.unwrap().rate, Rate::from_bytes_over(MSS * 200, RTT));
    (launch, window)
}

/// RFC 9959, sections 3.3 to 3.5: the jump lasts until its first segment is acknowledged, and is validated when its last one is.
#[test]
fn a_jump_is_validated() {
    let (mut launch, mut window) = jumped();
    send(&mut launch, 180);
    for k in 11..20 {
        assert_eq!(launch.on_ack(&ack(k, 180), &path(), &mut window), LaunchStep::Stay);
        assert_eq!((launch.phase(), window.cwnd), ("unvalidated", 200_000.0), "those before the jump");
    }
    assert_eq!(launch.on_ack(&ack(20, 179), &path(), &mut window), LaunchStep::Stay);
    assert_eq!((launch.phase(), window.cwnd, launch.overlay().pace), ("validating", 179_000.0, None));
    assert_eq!(launch.pipe, 20_000.0, "ten in flight at the jump, ten delivered since");
    for k in 21..199 {
        assert_eq!(launch.on_ack(&ack(k, 179), &path(), &mut window), LaunchStep::Stay, "{k}");
    }
    assert_eq!(launch.on_ack(&ack(199, 179), &path(), &mut window), LaunchStep::Done);
    assert_eq!((launch.pipe, window.cwnd), (199_000.0, 358_000.0));
    assert!(window.below_threshold());
}

/// A loss in the jump: half of what the path has shown to hold, at once; when all is accounted for, beta of that is the threshold.
#[test]
fn a_loss_is_answered_by_a_safe_retreat() {
    let (mut launch, mut window) = jumped();
    send(&mut launch, 180);
    for k in 11..=20 {
        launch.on_ack(&ack(k, 180), &path(), &mut window);
    }
    let mut lost = ack(21, 150);
    lost.episode = Episode::Enter;
    assert_eq!(
        launch.on_loss(&Loss { signal: Signal::Loss, ack: &lost }, &path(), &mut window),
        LaunchVerdict::Handled
    );
    assert_eq!((launch.phase(), window.cwnd), ("safe-retreat", 10_500.0));
    for k in 22..=50 {
        let mut repair = ack(k, 100);
        repair.episode = Episode::In;
        assert_eq!(launch.on_ack(&repair, &path(), &mut window), LaunchStep::Stay);
        assert_eq!(window.cwnd, 10_500.0, "no growth");
    }
    let mut end = ack(51, 10);
    end.episode = Episode::Exit;
    assert_eq!(launch.on_ack(&end, &path(), &mut window), LaunchStep::Done);
    assert_eq!((window.cwnd, window.ssthresh), (10_500.0, 25_500.0), "half of the 51 that came through");
}

/// Nothing jumps on another path, without a memory, or where there was a loss or too little to send.
#[test]
fn it_abandons_what_does_not_fit() {
    let mut blank = CarefulResume::new(CarefulResumeConfig { max_jump: Bytes::MAX, beta: 0.5 });
    let mut window = Window::new(10_000.0);
    assert_eq!(blank.begin(Opening::Connection, Time::ZERO, &path(), &mut window), LaunchStep::Done);
    use SavedPathUse::{OtherPath, Unused, Used};
    for (saved, limited, made) in [
        (RTT, true, Used),
        (RTT, false, Unused),
        (RTT * 2, true, OtherPath),
        (RTT * 2 - Span::from_nanos(2), true, Used),
        (RTT / 10, true, Used),
        (RTT / 10 - Span::from_nanos(1), true, OtherPath),
    ] {
        let (mut launch, mut window) = (launch(saved), Window::new(10_000.0));
        launch.begin(Opening::Connection, Time::ZERO, &path(), &mut window);
        send(&mut launch, 10);
        let mut last = ack(10, 5);
        last.cwnd_limited = limited;
        launch.on_ack(&last, &path(), &mut window);
        assert_eq!(launch.phase() == "unvalidated", made == Used, "{saved} {limited}");
        assert_eq!(launch.saved_path_use(), made, "{saved} {limited}");
    }
    let (mut launch, mut window) = (launch(RTT), Window::new(10_000.0));
    launch.begin(Opening::Connection, Time::ZERO, &path(), &mut window);
    let lost = ack(1, 5);
    let verdict = launch.on_loss(&Loss { signal: Signal::Loss, ack: &lost }, &path(), &mut window);
    assert_eq!((verdict, window.cwnd), (LaunchVerdict::Delegate, 10_000.0), "the usual decrease");
}

/// Little was there to send: the window is what the pipe showed, and no less than the initial one.
#[test]
fn who_sends_little_keeps_little() {
    let (mut launch, mut window) = jumped();
    for k in 11..20 {
        launch.on_ack(&ack(k, 10), &path(), &mut window);
    }
    assert_eq!(launch.on_ack(&ack(20, 5), &path(), &mut window), LaunchStep::Done);
    assert_eq!(window.cwnd, 20_000.0);
}
