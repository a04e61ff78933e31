use longhaul_cc::{TxId, update};

use super::super::*;

const MSS: Bytes = Bytes(1000);
const RTT: Span = Span::from_millis(100);
const IW: f64 = 10_000.0;

fn path(queued: u64) -> Path {
    let mut path = Path::new(MSS);
    (path.handshake_rtt, path.srtt, path.min_rtt) = (Some(RTT), Some(RTT), Some(RTT));
    path.queued = Bytes(queued);
    path
}

fn at(micros: u64) -> Time {
    Time::ZERO + Span::from_micros(micros)
}

fn start(by_segment: bool) -> FirstFlight {
    let mut startup = FirstFlight::halfback(HalfbackConfig { pacing_threshold: Bytes(141_000), by_segment });
    startup.on_granted(&update!(Granted { probes: true, ..Granted::basic() }), &path(0)).unwrap();
    startup
}

/// Returns a Halfback that has sent a flow of `segments` segments as far as the threshold allows.
fn paced(mut startup: FirstFlight, segments: u64) -> (FirstFlight, Window) {
    let mut window = Window::new(IW);
    assert_eq!(startup.begin(Opening::Connection, at(0), &path(0), &mut window), Step::Stay);
    for k in 1..=segments.min(141) {
        let path = path((segments - k) * 1000);
        startup.on_sent(&Sent::new(at(0), TxId(k), MSS), &path);
        if let Some(due) = startup.next_tick() {
            startup.on_tick(due, &path, &mut window);
        }
    }
    (startup, window)
}

fn delivered(micros: u64, segments: u64) -> Ack<'static> {
    let mut ack = Ack::new(at(micros));
    (ack.delivered, ack.cumulative, ack.cwnd_limited) = (MSS * segments, MSS * segments, true);
    ack
}

fn copies(startup: &FirstFlight) -> u32 {
    startup.overlay().probe.map_or(0, |plan| plan.segments)
}

/// The flow, or 141 kB of it, is spread over the round trip, even if it is smaller than the initial window.
#[test]
fn a_round_trip_is_filled_evenly() {
    for (segments, flight) in [(5, 5), (97, 97), (500, 141)] {
        let (startup, window) = paced(start(false), segments);
        assert_eq!(window.cwnd, (flight as f64 * 1000.0).max(IW));
        let rate = startup.overlay().pace.unwrap().rate;
        assert_eq!(rate, Rate::from_bytes_over(MSS * flight, RTT), "{segments}");
        assert_eq!(startup.overlay().probe, None);
    }
}

/// Each ACK releases a copy, from the last segment backwards and at normal priority, up to half of the flow.
#[test]
fn half_of_the_flow_is_copied_at_most() {
    let (mut startup, mut window) = paced(start(false), 41);
    for k in 1..=40 {
        assert_eq!(startup.on_ack(&delivered(100_000 + k, 1), &path(0), &mut window), Step::Stay);
        assert_eq!(startup.overlay().pace, None, "the ACKs are the clock");
        let plan = startup.overlay().probe.unwrap();
        assert_eq!((plan.segments, plan.dscp, plan.gap), ((k as u32).min(20), 0, Span::ZERO));
        assert_eq!(plan.prefer[0], Some(ProbeKind::Backwards));
    }
    let mut nothing = paced(start(false), 41).0;
    nothing.on_ack(&Ack::new(at(1)), &path(0), &mut window);
    assert_eq!(copies(&nothing), 0);
    // One ACK for three segments releases one copy, or three if each segment releases one.
    for (by_segment, expected) in [(false, 1), (true, 3)] {
        let (mut startup, mut window) = paced(start(by_segment), 41);
        startup.on_ack(&delivered(100_000, 3), &path(0), &mut window);
        assert_eq!(copies(&startup), expected);
    }
}

/// A flow with more data queued has no known end at which copies could start.
#[test]
fn a_longer_flow_is_not_copied() {
    let (mut startup, mut window) = paced(start(false), 500);
    startup.on_ack(&delivered(100_000, 1), &path(359_000), &mut window);
    assert_eq!((copies(&startup), window.cwnd), (0, 141_000.0));
    // The rest was written after the last segment was sent.
    let (mut startup, mut window) = paced(start(false), 41);
    startup.on_ack(&delivered(100_000, 1), &path(100_000), &mut window);
    assert_eq!(copies(&startup), 0);
}

/// ACKs of 141 segments arrive every 2 ms: at 500 kB/s, the path holds 50 kB per 100 ms. If they arrive as fast as the
/// segments were sent, they say nothing about the path, and slow start continues from what was sent.
#[test]
fn the_acks_rate_is_the_window() {
    for (gap, cwnd, ssthresh) in
        [(2000, 50_000.0, 50_000.0), (100_000 / 141, 141_000.0, f64::INFINITY), (50_000, IW, IW)]
    {
        let (mut startup, mut window) = paced(start(false), 500);
        for k in 0..141 {
            let step = startup.on_ack(&delivered(100_000 + k * gap, 1), &path(359_000), &mut window);
            assert_eq!(step == Step::Done, k == 140, "{k}");
        }
        assert_eq!((window.cwnd.round(), window.ssthresh.round()), (cwnd, ssthresh), "{gap}");
        assert_eq!(startup.overlay(), Overlay::default());
    }
}

/// A loss halves the window and starts recovery, while copies continue; the copies do not count.
#[test]
fn a_loss_halves_while_the_copies_go_on() {
    let (mut startup, mut window) = paced(start(false), 100);
    startup.on_ack(&delivered(100_000, 1), &path(0), &mut window);
    let mut ack = delivered(101_000, 1);
    (ack.flight_size, ack.episode) = (MSS * 98, Episode::Enter);
    let loss = LossEvent::new(Signal::Loss, &ack);
    assert_eq!(startup.on_loss(&loss, &path(0), &mut window), StartupResponse::Handled);
    assert_eq!((window.cwnd, window.ssthresh, copies(&startup)), (49_000.0, 49_000.0, 2));
    ack.episode = Episode::In;
    for k in 3..60 {
        assert_eq!(startup.on_ack(&ack, &path(0), &mut window), Step::Stay);
        assert_eq!((window.cwnd, copies(&startup)), (49_000.0, k.min(50)));
    }
    ack.episode = Episode::Exit;
    assert_eq!(startup.on_ack(&ack, &path(0), &mut window), Step::Done);
    assert_eq!((window.cwnd, window.ssthresh, startup.overlay()), (49_000.0, 49_000.0, Overlay::default()));
}

/// Without probes, pacing or a known RTT, and unless a connection begins, there is no Halfback.
#[test]
fn it_is_none_where_it_must_be() {
    let mut unknown = path(9000);
    unknown.handshake_rtt = None;
    let (mut bare, mut unpaced) = (start(false), start(false));
    bare.on_granted(&Granted::basic(), &path(0)).unwrap();
    unpaced.on_granted(&update!(Granted { probes: true, pacing: false, ..Granted::basic() }), &path(0)).unwrap();
    let cases = [
        (bare, path(0), Opening::Connection),
        (unpaced, path(0), Opening::Connection),
        (start(false), unknown, Opening::Connection),
        (start(false), path(0), Opening::Timeout),
        (start(false), path(0), Opening::Idle),
    ];
    for (mut startup, path, opening) in cases {
        let mut window = Window::new(IW);
        assert_eq!(startup.begin(opening, at(0), &path, &mut window), Step::Done);
        assert_eq!((window, startup.overlay(), startup.next_tick()), (Window::new(IW), Overlay::default(), None));
    }
}

/// After a timeout while the flow is sent, the window is what was sent of it, or the initial window.
#[test]
fn a_timeout_takes_what_was_not_sent() {
    for (sent, kept) in [(3, IW), (15, 15_000.0)] {
        let (mut startup, mut window) = (start(false), Window::new(IW));
        startup.begin(Opening::Connection, at(0), &path(0), &mut window);
        for k in 1..=sent {
            startup.on_sent(&Sent::new(at(0), TxId(k), MSS), &path(1 << 30));
            startup.on_tick(at(0), &path(1 << 30), &mut window);
        }
        assert_eq!(window.cwnd, 141_000.0);
        startup.on_timeout(&Timeout::new(at(300_000), 1, MSS * sent), &path(1 << 30), &mut window);
        assert_eq!(window, Window::new(kept));
    }
}
