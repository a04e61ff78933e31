use longhaul_units::Span;

use super::*;
use crate::compose::Signal;
use crate::{Episode, TxId};

const MSS: Bytes = Bytes(1000);
const RTT: Span = Span::from_millis(600);

fn path() -> Path {
    let mut path = Path::new(MSS);
    (path.handshake_rtt, path.srtt) = (Some(RTT), Some(RTT));
    path
}

fn saved(rtt: Span) -> SavedPath {
    // A rate is a whole number of bytes per second.
    SavedPath { window: MSS * 500, rate: Rate::from_bytes_per_sec(666_667), rtt }
}

/// Returns a Fast Start with a saved path of 400 segments.
fn startup(rtt: Span) -> CachedStart {
    let mut startup = CachedStart::default();
    startup.on_event(&StageEvent::SavedPath(saved(rtt)), &path());
    startup
}

fn ack(delivered: u64, lost: u64, in_flight: u64, episode: Episode) -> Ack<'static> {
    let mut ack = Ack::new(Time::ZERO + RTT);
    (ack.delivered, ack.newly_lost, ack.in_flight) = (MSS * delivered, MSS * lost, MSS * in_flight);
    (ack.cwnd_limited, ack.episode) = (true, episode);
    ack
}

fn begun() -> (CachedStart, Window) {
    let (mut startup, mut window) = (startup(RTT), Window::new(10_000.0));
    assert_eq!(startup.begin(Opening::Connection, Time::ZERO, &path(), &mut window), Step::Stay);
    for k in 0..400 {
        startup.on_sent(&Sent::new(Time::ZERO, TxId(k), MSS), &path());
    }
    (startup, window)
}

/// The first flight is the saved window, paced over a round trip and marked for routers to drop it first.
#[test]
fn the_first_flight_is_what_was_saved() {
    let (mut startup, mut window) = begun();
    let overlay = startup.overlay();
    assert_eq!((window.cwnd, overlay.dscp), (400_000.0, 1));
    assert_eq!(overlay.pace.unwrap().rate, Rate::from_bytes_over(MSS * 400, RTT));
    assert_eq!(startup.on_ack(&ack(399, 0, 399, Episode::None), &path(), &mut window), Step::Stay);
    assert_eq!(startup.on_ack(&ack(1, 0, 400, Episode::None), &path(), &mut window), Step::Done);
    assert_eq!((window.cwnd, window.ssthresh, startup.overlay()), (400_000.0, 400_000.0, Overlay::default()));
}

/// A request of a few segments does not validate the four hundred saved ones.
#[test]
fn a_part_of_the_flight_validates_a_part() {
    for (segments, window_after) in [(3, 10_000.0), (30, 30_000.0)] {
        let (mut startup, mut window) = (startup(RTT), Window::new(10_000.0));
        startup.begin(Opening::Connection, Time::ZERO, &path(), &mut window);
        for k in 0..segments {
            startup.on_sent(&Sent::new(Time::ZERO, TxId(k), MSS), &path());
        }
        assert_eq!(startup.on_ack(&ack(segments, 0, 0, Episode::None), &path(), &mut window), Step::Done);
        assert_eq!((window.cwnd, window.ssthresh), (window_after, 400_000.0));
    }
}

/// After recovery, the window is half of what was delivered; if most was lost, the saved path is ignored.
#[test]
fn a_stale_memory_is_given_up() {
    for (lost, window_after, ssthresh) in
        [(100, 150_000.0, 150_000.0), (200, 100_000.0, 100_000.0), (360, 10_000.0, f64::INFINITY)]
    {
        let (mut startup, mut window) = begun();
        let first = ack(15, lost, 100, Episode::Enter);
        let response = startup.on_loss(&LossEvent { signal: Signal::Loss, ack: &first }, &path(), &mut window);
        assert_eq!(
            (response, window.cwnd, startup.overlay()),
            (StartupResponse::Handled, 10_000.0, Overlay::default())
        );
        assert_eq!(startup.on_ack(&ack(2, 0, 50, Episode::In), &path(), &mut window), Step::Stay);
        assert_eq!(window.cwnd, 12_000.0, "as in slow start");
        assert_eq!(startup.on_ack(&ack(9, 0, 50, Episode::In), &path(), &mut window), Step::Stay);
        assert_eq!(window.cwnd, 15_000.0, "as far as what had come through");
        assert_eq!(startup.on_ack(&ack(1, 0, 5, Episode::Exit), &path(), &mut window), Step::Done);
        assert_eq!((window.cwnd, window.ssthresh), (window_after, ssthresh), "{lost}");
    }
}

#[test]
fn another_path_gets_the_initial_window() {
    for (rtt, fits) in [(RTT, true), (RTT * 2, false), (RTT / 10, true), (RTT / 11, false)] {
        let (mut startup, mut window) = (startup(rtt), Window::new(10_000.0));
        let step = startup.begin(Opening::Connection, Time::ZERO, &path(), &mut window);
        assert_eq!((step == Step::Stay, window.cwnd > 10_000.0), (fits, fits), "{rtt}");
        let made = if fits { SavedPathUse::Used } else { SavedPathUse::OtherPath };
        assert_eq!(startup.saved_path_use(), made, "{rtt}");
    }
    let mut bounded = CachedStart { max_window: MSS * 50, ..CachedStart::default() };
    bounded.on_event(&StageEvent::SavedPath(saved(RTT)), &path());
    let mut small = path();
    for (offered, cwnd) in [(1000, 50_000.0), (30, 30_000.0)] {
        small.peer_window = MSS * offered;
        let mut window = Window::new(10_000.0);
        bounded.on_event(&StageEvent::SavedPath(saved(RTT)), &path());
        bounded.begin(Opening::Connection, Time::ZERO, &small, &mut window);
        assert_eq!(window.cwnd, cwnd);
    }
}

/// Returns the threshold that a timeout would leave.
fn after_timeout(startup: &CachedStart) -> Option<f64> {
    let timeout = Timeout::new(Time::ZERO, 1, Bytes::ZERO);
    startup.clone().on_timeout(&timeout, &path(), &mut Window::new(1000.0))
}

/// After a timeout, the threshold is half of the bytes delivered, at least the initial window. Without a saved path,
/// congestion avoidance sets it.
#[test]
fn a_timeout_leaves_half_of_what_came_through() {
    let mut idle = startup(RTT);
    assert_eq!(after_timeout(&idle), None);
    let (mut startup, mut window) = begun();
    assert_eq!(after_timeout(&startup), Some(10_000.0), "nothing came through");
    startup.on_ack(&ack(90, 0, 310, Episode::None), &path(), &mut window);
    assert_eq!(after_timeout(&startup), Some(45_000.0));
    let lost = ack(10, 50, 250, Episode::Enter);
    startup.on_loss(&LossEvent { signal: Signal::Loss, ack: &lost }, &path(), &mut window);
    assert_eq!(after_timeout(&startup), Some(50_000.0));
    startup.on_ack(&ack(20, 0, 230, Episode::In), &path(), &mut window);
    assert_eq!(after_timeout(&startup), Some(60_000.0));
    for mut startup in [startup, idle] {
        startup.abort();
        assert_eq!((after_timeout(&startup), startup.overlay()), (None, Overlay::default()));
        assert_eq!(startup.on_ack(&ack(1, 0, 0, Episode::Rto), &path(), &mut window), Step::Done);
    }
    idle.begin(Opening::Timeout, Time::ZERO, &path(), &mut window);
    assert_eq!(idle.phase(), "handshake", "it begins with a connection only");
}
