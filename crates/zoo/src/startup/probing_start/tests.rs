use longhaul_cc::{TxId, update};
use longhaul_units::Bytes;

use super::*;

const MSS: Bytes = Bytes(1000);
const RTT: Span = Span::from_millis(550);

fn start(change: impl FnOnce(&mut ProbingStart)) -> ProbingStart {
    let mut start = ProbingStart::of(ProbeKind::Outstanding, "speedy-start", &mut Values::default());
    change(&mut start);
    let granted = update!(Granted { probes: true, probe_echo: true, ..Granted::basic() });
    start.on_granted(&granted, &path()).unwrap();
    start
}

fn path() -> Path {
    let mut path = Path::new(MSS);
    path.handshake_rtt = Some(RTT);
    path.queued = Bytes(1 << 30);
    path
}

fn answers(now: Time, acked: u32, lost: u32) -> Ack<'static> {
    let mut ack = Ack::new(now);
    (ack.probes_acked, ack.probes_lost) = (acked, lost);
    ack
}

fn begun(start: &mut ProbingStart, path: &Path) -> Window {
    let mut window = Window::new(10.0 * MSS.as_f64());
    assert_eq!(start.begin(Opening::Connection, Time::ZERO, path, &mut window), Step::Stay);
    assert_eq!((window.cwnd, start.overlay().probe), (MSS.as_f64(), None), "one segment, and nothing before it");
    start.on_sent(&Sent::new(Time::ZERO, TxId(1), MSS), path);
    window
}

/// In one round trip, 63 probes follow one segment, and their ACKs in the next one open the window: two round trips to
/// 64 segments (SW-3 of the paper).
#[test]
fn it_opens_the_window_in_two_round_trips() {
    let (mut start, path) = (start(|_| {}), path());
    let mut window = begun(&mut start, &path);
    let plan = start.overlay().probe.unwrap();
    assert_eq!((plan.segments, plan.gap, plan.dscp), (63, RTT / 64, 1));
    let mut now = Time::ZERO + RTT;
    for _ in 0..62 {
        now += RTT / 64;
        assert_eq!(start.on_ack(&answers(now, 1, 0), &path, &mut window), Step::Stay);
    }
    now += RTT / 64;
    assert!(now <= Time::ZERO + RTT * 2);
    assert_eq!(start.on_ack(&answers(now, 1, 0), &path, &mut window), Step::Done);
    assert_eq!((window.cwnd, window.ssthresh), (64_000.0, 64_000.0), "congestion avoidance follows");
}

/// If routers drop two thirds of the probes, the window is what remains.
#[test]
fn what_routers_drop_does_not_open_it() {
    let (mut start, path) = (start(|_| {}), path());
    let mut window = begun(&mut start, &path);
    assert_eq!(start.on_ack(&answers(Time::ZERO + RTT, 21, 0), &path, &mut window), Step::Stay);
    let until = start.next_tick().unwrap();
    assert_eq!(until, Time::ZERO + RTT * 2 + RTT / 4);
    assert_eq!(start.on_tick(until, &path, &mut window), Step::Done);
    assert_eq!((window.cwnd, start.next_tick()), (22_000.0, None));
}

/// The probes are limited by the data to send, the peer's window and the ceiling. Slow start may follow.
#[test]
fn no_more_is_probed_for_than_can_be_used() {
    for (queued, offered, goal) in
        [(9_000, 1 << 20, 10), (1 << 20, 12_000, 12), (1 << 20, 1 << 20, 64), (0, 1 << 20, 1)]
    {
        let (mut start, mut path) = (start(|config| config.then_slow_start = true), path());
        (path.queued, path.peer_window) = (Bytes(queued), Bytes(offered));
        let mut window = begun(&mut start, &path);
        assert_eq!(start.overlay().probe.unwrap().segments, goal - 1, "{queued} {offered}");
        assert_eq!(start.on_ack(&answers(Time::ZERO + RTT, goal - 1, 0), &path, &mut window), Step::Done);
        assert!(window.below_threshold());
    }
}

/// If an application writes in pieces, the number of probes follows. It does not decrease when data was sent.
#[test]
fn what_is_written_while_probes_leave_is_probed_for() {
    let (mut start, mut path) = (start(|_| {}), path());
    path.queued = Bytes(9_000);
    begun(&mut start, &path);
    let first = start.overlay().probe.unwrap();
    let mut probe = Sent::new(Time::ZERO + RTT / 64, TxId(0), MSS);
    probe.kind = SegmentKind::Probe;
    for (queued, segments) in [(9_000, 9), (30_000, 30), (1_000, 30), (1 << 20, 63)] {
        path.queued = Bytes(queued);
        start.on_sent(&probe, &path);
        let plan = start.overlay().probe.unwrap();
        assert_eq!((plan.segments, plan.gap, plan.id), (segments, RTT / 64, first.id), "{queued}");
    }
}

/// More acknowledged probes than were sent, which only a misbehaving peer reports, do not open the window beyond the
/// ceiling.
#[test]
fn a_liar_gets_the_ceiling_at_most() {
    let (mut start, path) = (start(|config| config.max_probe = 16), path());
    let mut window = begun(&mut start, &path);
    start.on_ack(&answers(Time::ZERO + RTT, 1000, 0), &path, &mut window);
    assert_eq!(window.cwnd, 16_000.0);
}

#[test]
fn nothing_is_probed_without_leave_or_round_trip() {
    let mut refused = start(|_| {});
    refused.on_granted(&Granted::basic(), &path()).unwrap();
    let mut unknown = path();
    unknown.handshake_rtt = None;
    for (start, path) in [(&mut refused, &path()), (&mut start(|_| {}), &unknown)] {
        let mut window = Window::new(10_000.0);
        assert_eq!(start.begin(Opening::Connection, Time::ZERO, path, &mut window), Step::Done);
        assert_eq!(window.cwnd, 10_000.0, "slow start's initial window");
    }
}

/// After a timeout, the connection probes again with a new plan, unless configured otherwise or the peer does not name
/// the probe that it acknowledges. After an idle period it does not.
#[test]
fn a_timeout_starts_it_again() {
    let (mut again, path) = (start(|_| {}), path());
    begun(&mut again, &path);
    let first = again.overlay().probe.unwrap().id;
    again.abort();
    assert_eq!(again.overlay().probe, None, "a timeout ends it");
    let mut window = Window::new(MSS.as_f64());
    assert_eq!(again.begin(Opening::Timeout, Time::ZERO, &path, &mut window), Step::Stay);
    let mut resent = Sent::new(Time::ZERO, TxId(2), MSS);
    resent.kind = SegmentKind::Retransmit;
    again.on_sent(&resent, &path);
    assert_ne!(again.overlay().probe.unwrap().id, first);
    let mut once = start(|config| config.after_timeout = false);
    for opening in [Opening::Timeout, Opening::Idle] {
        assert_eq!(once.begin(opening, Time::ZERO, &path, &mut window), Step::Done);
    }
    let mut nameless = start(|_| {});
    nameless.on_granted(&update!(Granted { probes: true, ..Granted::basic() }), &path).unwrap();
    assert_eq!(nameless.begin(Opening::Timeout, Time::ZERO, &path, &mut window), Step::Done);
    assert_eq!(nameless.begin(Opening::Connection, Time::ZERO, &path, &mut window), Step::Stay);
}

/// Resolution 2: tau is the handshake's RTT divided by the peer's window in segments, of which at most 64 count.
#[test]
fn r02_tau_is_of_the_handshake_and_of_segments() {
    for (offered, goal) in [(10_000, 10), (40_999, 40), (1 << 20, 64)] {
        let (mut start, mut path) = (start(|_| {}), path());
        (path.peer_window, path.srtt) = (Bytes(offered), Some(RTT * 3));
        begun(&mut start, &path);
        let plan = start.overlay().probe.unwrap();
        assert_eq!((plan.segments, plan.gap), (goal - 1, RTT / u64::from(goal)), "{offered}");
    }
}

/// Resolution 3: the figure does not show the effect of an ACK. The ACK of a probe opens the window by one segment,
/// and ACKs of data do not, because no expanding period is active.
#[test]
fn r03_an_answer_is_a_segment_and_an_ack_of_data_is_none() {
    let (mut start, path) = (start(|_| {}), path());
    let mut window = begun(&mut start, &path);
    let mut data = answers(Time::ZERO + RTT, 0, 0);
    (data.delivered, data.cumulative, data.cwnd_limited) = (MSS, MSS, true);
    start.on_ack(&data, &path, &mut window);
    assert_eq!(window.cwnd, 1000.0);
    data.probes_acked = 3;
    start.on_ack(&data, &path, &mut window);
    assert_eq!(window.cwnd, 4000.0);
}

/// Resolution 20: the table's threshold of 64 segments is for variants with slow start; after the probes, congestion
/// avoidance follows.
#[test]
fn r20_no_slow_start_follows_the_probes() {
    for acked in [5, 63] {
        let (mut start, path) = (start(|_| {}), path());
        let mut window = begun(&mut start, &path);
        start.on_ack(&answers(Time::ZERO + RTT, acked, 63 - acked), &path, &mut window);
        assert_eq!(window.ssthresh, window.cwnd);
    }
}

/// After a header of 100 bytes, a full-sized segment may follow at once, by a tick later than the current time. A FIN
/// alone requests no tick.
#[test]
fn a_small_segment_lets_a_full_one_follow() {
    let (mut start, mut path, mut window) = (start(|_| {}), path(), Window::new(10.0 * MSS.as_f64()));
    path.queued = Bytes::ZERO;
    start.begin(Opening::Connection, Time::ZERO, &path, &mut window);
    start.on_sent(&Sent::new(Time::ZERO, TxId(1), Bytes::ZERO), &path);
    assert_eq!((start.next_tick(), window.cwnd), (None, 1000.0));
    start.on_sent(&Sent::new(Time::ZERO, TxId(2), Bytes(100)), &path);
    let due = start.next_tick().unwrap();
    assert!(due > Time::ZERO);
    assert_eq!(start.on_tick(due, &path, &mut window), Step::Stay);
    assert_eq!((start.next_tick(), window.cwnd, start.overlay().probe), (None, 1100.0, None));
    path.queued = Bytes(1 << 30);
    start.on_sent(&Sent::new(due, TxId(3), MSS), &path);
    assert!(start.overlay().probe.is_some(), "the full segment is probed behind");
}
