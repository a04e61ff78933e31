use longhaul_cc::{AckedSegment, TxId, update};
use longhaul_units::{Rate, Span};

use super::super::*;

const MSS: Bytes = Bytes(1000);
const RTT: Span = Span::from_millis(100);
const IW: f64 = 10_000.0;

fn path(queued: u64) -> Path {
    let mut path = Path::new(MSS);
    (path.handshake_rtt, path.srtt) = (Some(RTT), Some(RTT));
    path.queued = Bytes(queued);
    path
}

fn granted() -> Granted {
    update!(Granted { segments: true, ..Granted::basic() })
}

fn start(max_jump: u64, then_slow_start: bool) -> FirstFlight {
    let mut startup = FirstFlight::jump_start(JumpStartConfig { max_jump: Bytes(max_jump), then_slow_start });
    startup.on_granted(&granted(), &path(0)).unwrap();
    startup
}

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// Sends a segment, and calls the tick that it requests at once.
fn send(startup: &mut FirstFlight, window: &mut Window, millis: u64, path: &Path) {
    startup.on_sent(&Sent::new(at(millis), TxId(0), MSS), path);
    if let Some(due) = startup.next_tick() {
        assert_eq!(due, at(millis));
        assert_eq!(startup.on_tick(due, path, window), Step::Stay);
        assert_eq!(startup.next_tick(), None);
    }
}

/// Returns a jump of `segments` segments, all of which were sent.
fn jumped(mut startup: FirstFlight, segments: u64) -> (FirstFlight, Window) {
    let mut window = Window::new(IW);
    assert_eq!(startup.begin(Opening::Connection, at(0), &path(0), &mut window), Step::Stay);
    for k in 1..=segments {
        send(&mut startup, &mut window, k, &path((segments - k) * 1000));
    }
    assert_eq!(window.cwnd, segments as f64 * 1000.0);
    (startup, window)
}

fn delivered(segments: u64, episode: Episode) -> Ack<'static> {
    let mut ack = Ack::new(at(100));
    (ack.delivered, ack.cumulative) = (MSS * segments, MSS * segments);
    (ack.cwnd_limited, ack.episode) = (true, episode);
    ack
}

/// Returns an ACK that detects a loss with `segments` segments outstanding.
fn loss(segments: u64) -> Ack<'static> {
    let mut ack = delivered(1, Episode::Enter);
    ack.flight_size = MSS * segments;
    ack
}

/// The jump D is the minimum of the queued data, the peer's window and the limit, and it is paced at D / RTT. A tick
/// is requested when its size becomes known.
#[test]
fn the_jump_is_the_least_of_three_over_a_round_trip() {
    for (queued, peer, limit, jump) in [
        (50_000, u64::MAX, u64::MAX, 51_000.0),
        (1 << 30, 70_000, u64::MAX, 70_000.0),
        (1 << 30, u64::MAX, 65_536, 65_536.0),
    ] {
        let (mut startup, mut window, mut path) = (start(limit, false), Window::new(IW), path(queued));
        path.peer_window = Bytes(peer);
        startup.begin(Opening::Connection, at(0), &path, &mut window);
        assert_eq!((window.cwnd, startup.overlay()), (IW, Overlay::default()), "nothing is known yet");
        send(&mut startup, &mut window, 0, &path);
        assert_eq!(window.cwnd, jump);
        assert_eq!(startup.overlay().pace.unwrap().rate, Rate::from_bytes_over(Bytes(jump as u64), RTT));
    }
}

/// Data written while the jump is sent makes it longer, up to the limit; data taken back does not make it shorter.
#[test]
fn it_grows_with_what_is_written() {
    let (mut startup, mut window) = (start(64_000, false), Window::new(IW));
    startup.begin(Opening::Connection, at(0), &path(0), &mut window);
    let mut jumps = Vec::new();
    for queued in [19_000, 18_000, 40_000, 5_000, 90_000] {
        send(&mut startup, &mut window, 0, &path(queued));
        jumps.push(window.cwnd);
    }
    assert_eq!(jumps, [20_000.0, 20_000.0, 43_000.0, 43_000.0, 64_000.0]);
}

/// There is no jump if no more data is available than the initial window, if the RTT is unknown, without pacing, after
/// a lossy handshake, and after idle periods or timeouts.
#[test]
fn it_is_a_plain_start_where_it_must_be() {
    let (mut startup, mut window) = (start(64_000, false), Window::new(IW));
    startup.begin(Opening::Connection, at(0), &path(0), &mut window);
    for k in 1..=10 {
        send(&mut startup, &mut window, k, &path((10 - k) * 1000));
    }
    assert_eq!((window.cwnd, startup.overlay()), (IW, Overlay::default()));
    assert_eq!(startup.on_ack(&delivered(2, Episode::None), &path(0), &mut window), Step::Done);
    assert_eq!(window, Window::new(IW + 2000.0), "slow start");

    let (mut unknown, mut lossy) = (path(50_000), path(50_000));
    unknown.handshake_rtt = None;
    lossy.handshake_lossy = true;
    let mut unpaced = start(64_000, false);
    unpaced.on_granted(&update!(Granted { pacing: false, ..granted() }), &path(0)).unwrap();
    let cases = [
        (start(64_000, false), unknown, Opening::Connection),
        (start(64_000, false), lossy, Opening::Connection),
        (unpaced, path(50_000), Opening::Connection),
        (start(64_000, false), path(50_000), Opening::Idle),
        (start(64_000, false), path(50_000), Opening::Timeout),
    ];
    for (mut startup, path, opening) in cases {
        let mut window = Window::new(IW);
        assert_eq!(startup.begin(opening, at(0), &path, &mut window), Step::Done, "{opening:?}");
        assert_eq!((window, startup.next_tick()), (Window::new(IW), None));
    }
}

/// The threshold from earlier connections limits the jump.
#[test]
fn a_known_threshold_bounds_it() {
    let (mut startup, mut window) = (start(u64::MAX, false), update!(Window { ssthresh: 30_000.0, ..Window::new(IW) }));
    startup.begin(Opening::Connection, at(0), &path(0), &mut window);
    send(&mut startup, &mut window, 0, &path(90_000));
    assert_eq!(window.cwnd, 30_000.0);
}

/// The first ACK ends the pacing, and the window becomes what was sent. Data that was not sent by then is not part of
/// the jump.
#[test]
fn the_first_ack_ends_the_pacing() {
    let (mut startup, mut window) = (start(u64::MAX, false), Window::new(IW));
    startup.begin(Opening::Connection, at(0), &path(0), &mut window);
    for k in 0..40 {
        send(&mut startup, &mut window, k, &path(60_000 - 1000 * (k + 1)));
    }
    assert_eq!(window.cwnd, 60_000.0);
    let nothing = Ack::new(at(90));
    assert_eq!(startup.on_ack(&nothing, &path(20_000), &mut window), Step::Stay);
    assert!(startup.overlay().pace.is_some(), "an ACK of nothing");
    assert_eq!(startup.on_ack(&delivered(2, Episode::None), &path(20_000), &mut window), Step::Stay);
    assert_eq!((window.cwnd, startup.overlay()), (40_000.0, Overlay::default()));
}

/// Without loss, the window stays, and congestion avoidance continues from it, or slow start if so configured.
#[test]
fn without_loss_the_window_stays() {
    let (mut startup, mut window) = jumped(start(u64::MAX, false), 50);
    assert_eq!(startup.on_ack(&delivered(49, Episode::None), &path(0), &mut window), Step::Stay);
    assert_eq!(startup.on_ack(&delivered(1, Episode::None), &path(0), &mut window), Step::Done);
    assert_eq!(window, update!(Window { ssthresh: 50_000.0, ..Window::new(50_000.0) }));
    let (mut startup, mut window) = jumped(start(u64::MAX, true), 50);
    assert_eq!(startup.on_ack(&delivered(50, Episode::None), &path(0), &mut window), Step::Done);
    assert_eq!(window, Window::new(100_000.0));
}

/// 30 of 100 segments in flight arrive as retransmissions: the window becomes (100 - 30) / 2 segments. Until then it
/// is half of the flight, as in RFC 6675.
#[test]
fn a_loss_leaves_half_of_what_came_through() {
    for listed in [true, false] {
        let (mut startup, mut window) = jumped(start(u64::MAX, true), 100);
        startup.on_granted(&update!(Granted { segments: listed, ..Granted::basic() }), &path(0)).unwrap();
        startup.on_ack(&delivered(0, Episode::None), &path(0), &mut window);
        let ack = loss(100);
        let lost = LossEvent::new(Signal::Loss, &ack);
        assert_eq!(startup.on_loss(&lost, &path(0), &mut window), StartupResponse::Handled);
        assert_eq!((window.cwnd, window.ssthresh, startup.phase()), (50_000.0, 50_000.0, "recovery"));
        for k in 0..30 {
            let mut resent = Sent::new(at(200), TxId(200 + k), MSS);
            resent.kind = SegmentKind::Retransmit;
            startup.on_sent(&resent, &path(0));
            let mut segment = AckedSegment::new(TxId(200 + k), at(200), MSS);
            segment.kind = SegmentKind::Retransmit;
            let segments = [segment, AckedSegment::new(TxId(k), at(100), MSS)];
            let mut ack = delivered(2, Episode::In);
            ack.acked = if listed { &segments } else { &[] };
            assert_eq!(startup.on_ack(&ack, &path(0), &mut window), Step::Stay);
            assert_eq!(window.cwnd, 50_000.0);
        }
        assert_eq!(startup.on_ack(&delivered(39, Episode::Exit), &path(0), &mut window), Step::Done);
        assert_eq!(window, update!(Window { ssthresh: 35_000.0, ..Window::new(35_000.0) }), "{listed}");
    }
}

/// A lost retransmission halves the window again, and the end of recovery does not undo that.
#[test]
fn a_lost_retransmission_halves_again() {
    let (mut startup, mut window) = jumped(start(u64::MAX, false), 100);
    let ack = loss(100);
    startup.on_loss(&LossEvent::new(Signal::Loss, &ack), &path(0), &mut window);
    let again = delivered(0, Episode::Again);
    let response = startup.on_loss(&LossEvent::new(Signal::LossAgain, &again), &path(0), &mut window);
    assert_eq!((response, window.cwnd, window.ssthresh), (StartupResponse::Handled, 25_000.0, 25_000.0));
    startup.on_ack(&delivered(90, Episode::Exit), &path(0), &mut window);
    assert_eq!(window.cwnd, 25_000.0);
}

/// If almost everything was retransmitted, one segment remains.
#[test]
fn a_segment_is_the_least() {
    let (mut startup, mut window) = jumped(start(u64::MAX, false), 20);
    startup.on_granted(&Granted::basic(), &path(0)).unwrap();
    let ack = loss(20);
    startup.on_loss(&LossEvent::new(Signal::Loss, &ack), &path(0), &mut window);
    let mut resent = Sent::new(at(200), TxId(200), MSS * 19);
    resent.kind = SegmentKind::Retransmit;
    startup.on_sent(&resent, &path(0));
    assert_eq!(startup.on_ack(&delivered(20, Episode::Exit), &path(0), &mut window), Step::Done);
    assert_eq!(window.cwnd, 1000.0);
}

/// Returns the threshold that a timeout would leave.
fn after_timeout(startup: &FirstFlight) -> Option<f64> {
    let timeout = Timeout::new(Time::ZERO, 1, Bytes::ZERO);
    startup.clone().on_timeout(&timeout, &path(0), &mut Window::new(1000.0))
}

/// After a timeout, the threshold is half of the bytes delivered, at least two segments. Before there was a jump,
/// congestion avoidance sets the threshold.
#[test]
fn a_timeout_leaves_half_of_what_was_delivered() {
    let threshold = after_timeout;
    let mut armed = start(u64::MAX, false);
    armed.begin(Opening::Connection, at(0), &path(0), &mut Window::new(IW));
    assert_eq!(threshold(&armed), None);
    let (mut startup, mut window) = jumped(start(u64::MAX, false), 50);
    assert_eq!(threshold(&startup), Some(2000.0), "nothing was");
    startup.on_ack(&delivered(20, Episode::None), &path(0), &mut window);
    assert_eq!(threshold(&startup), Some(10_000.0));
    let ack = loss(30);
    startup.on_loss(&LossEvent::new(Signal::Loss, &ack), &path(0), &mut window);
    assert_eq!(threshold(&startup), Some(10_500.0));
    startup.on_ack(&delivered(5, Episode::In), &path(0), &mut window);
    assert_eq!(threshold(&startup), Some(13_000.0));
    startup.abort();
    assert_eq!(threshold(&startup), None);
}

/// Congestion avoidance responds to ECN marks, and to a loss before there was a jump.
#[test]
fn other_signals_are_not_its_own() {
    let (mut startup, mut window) = jumped(start(u64::MAX, false), 50);
    let ack = loss(50);
    let mark = LossEvent::new(Signal::Ecn, &ack);
    assert_eq!(startup.on_loss(&mark, &path(0), &mut window), StartupResponse::Delegate);
    let mut armed = start(u64::MAX, false);
    armed.begin(Opening::Connection, at(0), &path(0), &mut window);
    let lost = LossEvent::new(Signal::Loss, &ack);
    assert_eq!(armed.on_loss(&lost, &path(0), &mut window), StartupResponse::Delegate);
}

/// The whole window of the peer is requested if the window of the SYN cannot hold the jump.
#[test]
fn a_jump_above_the_syns_window_asks_for_the_whole() {
    for (max_jump, asks) in [(63 << 10, false), (64 << 10, true), (u64::MAX, true)] {
        assert_eq!(start(max_jump, false).needs().preferred.whole_window, asks, "{max_jump}");
    }
}

/// After a timeout during the jump, the window is what was sent of it, or the initial window.
#[test]
fn a_timeout_takes_what_was_not_sent() {
    for (sent, kept) in [(3, IW), (15, 15_000.0)] {
        let (mut startup, mut window) = (start(64_000, false), Window::new(IW));
        startup.begin(Opening::Connection, at(0), &path(0), &mut window);
        (1..=sent).for_each(|k| send(&mut startup, &mut window, k, &path(1 << 30)));
        assert_eq!(window.cwnd, 64_000.0);
        startup.on_timeout(&Timeout::new(at(300), 1, MSS * sent), &path(1 << 30), &mut window);
        assert_eq!(window, Window::new(kept));
    }
}
