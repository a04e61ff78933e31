use longhaul_cc::{TxId, update};

use super::*;

const MSS: Bytes = Bytes(1448);
const RTT: Span = Span::from_millis(100);
const IW: f64 = 14_480.0;

fn path() -> Path {
    let mut path = Path::new(MSS);
    (path.handshake_rtt, path.srtt) = (Some(RTT), Some(RTT));
    path
}

fn granted() -> Granted {
    update!(Granted { network_header: Some(NetworkHeaderKind::QuickStart), ..Granted::basic() })
}

fn start(again: u64) -> QuickStart {
    QuickStart { wanted: Rate::from_bits_per_sec(10_000_000), again, ..QuickStart::default() }
}

fn answer(network: NetworkFeedback) -> Ack<'static> {
    let mut ack = Ack::new(Time::ZERO);
    ack.network = Some(network);
    ack
}

fn delivered(segments: u64, episode: Episode) -> Ack<'static> {
    let mut ack = Ack::new(Time::ZERO + RTT);
    ack.delivered = MSS * segments;
    (ack.cwnd_limited, ack.episode) = (true, episode);
    ack
}

/// Returns a Quick-Start that waits for its answer.
fn waiting() -> (QuickStart, Window) {
    let (mut startup, mut window) = (start(0), Window::new(IW));
    assert_eq!(
        startup.overlay().header,
        Some(NetworkHeader::QuickStart { rate: Rate::from_bits_per_sec(10_000_000) }),
        "before the SYN"
    );
    startup.on_granted(&granted(), &path()).unwrap();
    assert_eq!(startup.overlay().header, None);
    assert_eq!(startup.begin(Opening::Connection, Time::ZERO, &path(), &mut window), Step::Stay);
    (startup, window)
}

/// Returns a Quick-Start with an approval of 10,240 kb/s. In 100 ms these are 128,000 bytes, and the payload has 1448
/// of each 1500.
fn sending(segments: u64) -> (QuickStart, Window) {
    let (mut startup, mut window) = waiting();
    let rate = Rate::from_bits_per_sec(10_240_000);
    assert_eq!(startup.on_ack(&answer(NetworkFeedback::QuickStart(rate)), &path(), &mut window), Step::Stay);
    assert!((window.cwnd - 128_000.0 * 1448.0 / 1500.0).abs() < 2.0, "{}", window.cwnd);
    let pace = startup.overlay().pace.unwrap();
    assert!((pace.rate.as_bytes_per_sec() as f64 - 1_280_000.0 * 1448.0 / 1500.0).abs() < 2.0);
    for k in 0..segments {
        startup.on_sent(&Sent::new(Time::ZERO, TxId(k), MSS), &path());
    }
    (startup, window)
}

/// RFC 4782, section 4.4: the window is the approved rate times the RTT, and is paced. At the first ACK of the flight,
/// it becomes what was sent, and then grows as in Limited Slow-Start.
#[test]
fn the_first_flight_has_the_approved_rate() {
    let (mut startup, mut window) = sending(60);
    assert_eq!(startup.on_ack(&delivered(2, Episode::None), &path(), &mut window), Step::Stay);
    assert_eq!((window.cwnd, startup.overlay().pace), (62.0 * 1448.0, None), "the ACK clock has taken over");
    for _ in 0..57 {
        assert_eq!(startup.on_ack(&delivered(1, Episode::None), &path(), &mut window), Step::Stay);
    }
    assert!(window.cwnd < 112.0 * 1448.0, "Limited Slow-Start above 100 segments: {}", window.cwnd / 1448.0);
    assert_eq!(startup.on_ack(&delivered(1, Episode::None), &path(), &mut window), Step::Done);
    assert!(window.below_threshold());
}

/// A denial, a rate below the initial window, and a missing grant leave the initial window.
#[test]
fn a_denial_leaves_the_initial_window() {
    let slow = Rate::from_bits_per_sec(1_000_000);
    for feedback in [NetworkFeedback::Denied, NetworkFeedback::QuickStart(slow), NetworkFeedback::Rcp(Rate::MAX)] {
        let (mut startup, mut window) = waiting();
        assert_eq!(startup.on_ack(&answer(feedback), &path(), &mut window), Step::Done, "{feedback:?}");
        assert_eq!((window, startup.overlay()), (Window::new(IW), Overlay::default()));
    }
    let mut refused = start(0);
    refused.on_granted(&Granted::basic(), &path()).unwrap();
    let mut window = Window::new(IW);
    assert_eq!(refused.begin(Opening::Connection, Time::ZERO, &path(), &mut window), Step::Done);
}

/// RFC 4782, section 4.6.2: a loss in the flight has the same response as without an approval.
#[test]
fn a_loss_in_the_flight_takes_all_back() {
    let (mut startup, mut window) = sending(60);
    startup.on_ack(&delivered(20, Episode::None), &path(), &mut window);
    let lost = delivered(10, Episode::Enter);
    let loss = LossEvent::new(longhaul_cc::compose::Signal::Loss, &lost);
    assert_eq!(startup.on_loss(&loss, &path(), &mut window), StartupResponse::Handled);
    assert_eq!((window.cwnd, window.ssthresh), (IW, 15.0 * 1448.0), "half of the 30 delivered");
    assert_eq!(startup.on_ack(&delivered(5, Episode::In), &path(), &mut window), Step::Stay);
    assert_eq!(startup.on_ack(&delivered(5, Episode::Exit), &path(), &mut window), Step::Done);
    assert_eq!(window.cwnd, IW, "slow start from there");
}

/// An approval is valid for a round trip, at most 3 s. If nothing is sent in that time, the window is the initial one.
#[test]
fn an_approval_expires() {
    let (mut startup, mut window) = sending(0);
    let until = startup.next_tick().unwrap();
    assert_eq!(until, Time::ZERO + RTT);
    assert_eq!(startup.on_tick(until, &path(), &mut window), Step::Done);
    assert_eq!(window.cwnd, IW);
    let (mut startup, mut window) = waiting();
    let mut long = path();
    long.handshake_rtt = Some(Span::from_secs(5));
    let rate = Rate::from_bits_per_sec(10_240_000);
    startup.on_ack(&answer(NetworkFeedback::QuickStart(rate)), &long, &mut window);
    assert_eq!(startup.next_tick(), Some(Time::ZERO + Span::from_secs(3)));
}

/// Returns a connection that continues after an idle period with `queued` segments to send. Its window is the restart
/// window.
fn idle(mut startup: QuickStart, queued: u64) -> (QuickStart, Window, Step) {
    startup.on_granted(&granted(), &path()).unwrap();
    let mut window = update!(Window { ssthresh: 50_000.0, ..Window::new(IW) });
    let step = startup.begin(Opening::Idle, Time::ZERO, &queue(queued), &mut window);
    (startup, window, step)
}

fn queue(segments: u64) -> Path {
    let mut path = path();
    path.queued = MSS * segments;
    path
}

fn asked(startup: &QuickStart) -> Option<u64> {
    match startup.overlay().header? {
        NetworkHeader::QuickStart { rate } => Some(rate.as_bits_per_sec() / 1000),
        _ => None,
    }
}

/// RFC 4782, section 4.1: the rate requested is that of the data that can be sent in a round trip. There is no request
/// if the restart window holds this data.
#[test]
fn a_pause_is_followed_by_a_request_for_what_is_of_use() {
    let (startup, window, step) = idle(start(0), 1000);
    assert_eq!((asked(&startup), window.cwnd, step), (Some(10_000), IW, Step::Stay));
    // 40 segments of 1500 bytes per 100 ms.
    assert_eq!(asked(&idle(start(0), 40).0), Some(4799), "to a byte");
    let (startup, _, step) = idle(start(0), 10);
    assert_eq!((asked(&startup), step), (None, Step::Done));
}

/// RFC 4782, section 4.8: after congestion, the request is limited by the largest flight since. After a loss in a
/// Quick-Start flight, there are no further requests.
#[test]
fn congestion_bounds_requests_or_ends_them() {
    let seen = |episode, segments: u64| {
        let mut ack = delivered(1, episode);
        ack.prior_in_flight = MSS * segments;
        ack
    };
    let mut startup = start(0);
    startup.observe(&seen(Episode::None, 500), &path());
    startup.observe(&seen(Episode::Enter, 500), &path());
    startup.observe(&seen(Episode::Exit, 20), &path());
    assert_eq!(asked(&idle(startup, 1000).0), Some(2399), "20 segments in 100 ms");
    let mut marked = start(0);
    let mut ack = seen(Episode::None, 500);
    ack.ecn_echo = true;
    marked.observe(&ack, &path());
    assert_eq!(idle(marked, 1000).2, Step::Done, "nothing has been in flight since");
    let mut timed_out = start(0);
    timed_out.observe(&seen(Episode::None, 500), &path());
    timed_out.begin(Opening::Timeout, Time::ZERO, &path(), &mut Window::new(IW));
    assert_eq!(idle(timed_out, 1000).2, Step::Done);
    for timeout in [false, true] {
        let (mut startup, mut window) = sending(60);
        startup.on_ack(&delivered(1, Episode::None), &path(), &mut window);
        if timeout {
            startup.abort();
        } else {
            let lost = delivered(1, Episode::Enter);
            startup.on_loss(&LossEvent::new(longhaul_cc::compose::Signal::Loss, &lost), &path(), &mut window);
        }
        startup.observe(&seen(Episode::None, 500), &path());
        assert_eq!(idle(startup, 1000).2, Step::Done);
    }
}

/// Returns a connection after an idle period whose request for 10,240 kb/s was approved while ten segments were in
/// flight.
fn resumed(segments: u64) -> (QuickStart, Window) {
    let (mut startup, mut window, _) = idle(start(0), 1000);
    let mut first = delivered(1, Episode::None);
    first.in_flight = MSS * 9;
    first.network = Some(NetworkFeedback::QuickStart(Rate::from_bits_per_sec(10_240_000)));
    assert_eq!(startup.on_ack(&first, &path(), &mut window), Step::Stay);
    assert!((window.cwnd - 128_000.0 * 1448.0 / 1500.0).abs() < 2.0, "{}", window.cwnd);
    for k in 0..segments {
        startup.on_sent(&Sent::new(Time::ZERO, TxId(k), MSS), &path());
    }
    (startup, window)
}

/// RFC 4782, section 4.4: ACKs of data sent before the approval do not end it. The ACK after those is the first of the
/// flight.
#[test]
fn acks_of_what_left_before_do_not_end_the_flight() {
    let (mut startup, mut window) = resumed(60);
    let opened = window.cwnd;
    for _ in 0..9 {
        assert_eq!(startup.on_ack(&delivered(1, Episode::None), &path(), &mut window), Step::Stay);
        assert_eq!((window.cwnd, startup.overlay().pace.is_some()), (opened, true));
    }
    assert_eq!(startup.on_ack(&delivered(1, Episode::None), &path(), &mut window), Step::Stay);
    assert_eq!((window.cwnd, startup.overlay().pace), (60.0 * 1448.0, None), "above its threshold it does not grow");
    for _ in 0..58 {
        assert_eq!(startup.on_ack(&delivered(1, Episode::None), &path(), &mut window), Step::Stay);
    }
    assert_eq!(startup.on_ack(&delivered(1, Episode::None), &path(), &mut window), Step::Done);
    // An approval that is hardly used leaves the window without it: one segment more than the restart window.
    let (mut startup, mut window) = resumed(2);
    startup.on_ack(&delivered(10, Episode::None), &path(), &mut window);
    assert!(window.cwnd >= IW + 1448.0 && window.cwnd < IW + 12.0 * 1448.0, "{}", window.cwnd);
}

/// RFC 4782, section 4.8, (3): the window is half of the approved one, or the one without an approval if that is less.
#[test]
fn a_loss_after_a_pause_leaves_the_lesser_window() {
    for (wide, expected) in [(false, IW + 1448.0), (true, 64_000.0 * 1448.0 / 1500.0)] {
        let (mut startup, mut window, _) = idle(start(0), 1000);
        if wide {
            window.cwnd = 100_000.0;
        }
        let mut first = delivered(1, Episode::None);
        first.network = Some(NetworkFeedback::QuickStart(Rate::from_bits_per_sec(10_240_000)));
        startup.on_ack(&first, &path(), &mut window);
        for k in 0..80 {
            startup.on_sent(&Sent::new(Time::ZERO, TxId(k), MSS), &path());
        }
        let lost = delivered(1, Episode::Enter);
        let loss = LossEvent::new(longhaul_cc::compose::Signal::Loss, &lost);
        assert_eq!(startup.on_loss(&loss, &path(), &mut window), StartupResponse::Handled);
        assert!((window.cwnd - expected).abs() < 2.0, "{wide}: {}", window.cwnd);
    }
}

/// A denial after an idle period leaves the window without a request: the restart window and its growth.
#[test]
fn a_denial_after_a_pause_leaves_the_restart_window() {
    let (mut startup, mut window, _) = idle(start(0), 1000);
    let mut denied = delivered(1, Episode::None);
    denied.network = Some(NetworkFeedback::Denied);
    assert_eq!(startup.on_ack(&denied, &path(), &mut window), Step::Done);
    assert_eq!((window.cwnd, startup.overlay()), (IW + 1448.0, Overlay::default()));
    // Without an answer, it waits two round trips.
    let (mut startup, mut window, _) = idle(start(0), 1000);
    let mut silent = delivered(1, Episode::None);
    silent.round_start = true;
    assert_eq!(startup.on_ack(&silent, &path(), &mut window), Step::Stay);
    assert_eq!(startup.on_ack(&silent, &path(), &mut window), Step::Stay);
    assert_eq!(startup.on_ack(&silent, &path(), &mut window), Step::Done);
}

/// With `again`, requests follow denials, until their number is used up, or there is congestion or an approval.
#[test]
fn a_denial_may_be_followed_by_another_request() {
    let begun = |again| {
        let (mut startup, mut window) = (start(again), Window::new(IW));
        startup.on_granted(&granted(), &path()).unwrap();
        startup.begin(Opening::Connection, Time::ZERO, &path(), &mut window);
        let step = startup.on_ack(&answer(NetworkFeedback::Denied), &path(), &mut window);
        (startup, window, step)
    };
    assert_eq!(begun(0).2, Step::Done);
    let (mut startup, mut window, step) = begun(2);
    assert_eq!((asked(&startup), step), (Some(10_000), Step::Stay), "what there is to send is not known yet");
    let mut denied = delivered(5, Episode::None);
    denied.network = Some(NetworkFeedback::Denied);
    assert_eq!(startup.on_ack(&denied, &queue(1000), &mut window), Step::Stay);
    assert_eq!(window.cwnd, 15.0 * 1448.0, "slow start, meanwhile");
    assert_eq!(startup.on_ack(&denied, &queue(1000), &mut window), Step::Done, "enough");
    let (mut startup, mut window, _) = begun(9);
    startup.observe(&delivered(1, Episode::Enter), &path());
    assert_eq!(startup.on_ack(&denied, &queue(1000), &mut window), Step::Done);
}

/// RFC 4782, section 4.5: at most 100 ACKs in the first round trip, and twice as many in each one after that. There is
/// no request if one ACK per two segments is fewer, or if the peer does not support it. 1.3 Gb/s and 200 ms are 218
/// segments of 1500 bytes per ACK.
#[test]
fn acks_are_thinned_out_at_high_rates() {
    let ratios = |kilobits: u64, rtt: u64, heeded: bool| {
        let (mut startup, mut window) = (start(0), Window::new(IW));
        startup.on_granted(&update!(Granted { ack_frequency: heeded, ..granted() }), &path()).unwrap();
        let mut path = path();
        path.handshake_rtt = Some(Span::from_millis(rtt));
        startup.begin(Opening::Connection, Time::ZERO, &path, &mut window);
        let rate = Rate::from_bits_per_sec(kilobits * 1000);
        startup.on_ack(&answer(NetworkFeedback::QuickStart(rate)), &path, &mut window);
        startup.on_sent(&Sent::new(Time::ZERO, TxId(1), MSS), &path);
        let mut ratios = vec![startup.overlay().ack_ratio];
        for _ in 0..10 {
            let mut ack = delivered(1, Episode::None);
            ack.round_start = true;
            if startup.on_ack(&ack, &path, &mut window) == Step::Done {
                break;
            }
            ratios.push(startup.overlay().ack_ratio);
        }
        ratios
    };
    assert_eq!(ratios(1_310_720, 200, true), [218, 218, 109, 54, 27, 13, 6, 3]);
    assert_eq!(ratios(40_960, 200, true), [6, 6, 3]);
    assert_eq!(ratios(40_960, 200, false), [0]);
    assert_eq!(ratios(10_240, 200, true), [0]);
}

/// After a timeout in the round trip of the approval, the window is what was sent, as with the first ACK, or the
/// initial window.
#[test]
fn a_timeout_takes_what_was_not_sent() {
    for (sent, kept) in [(3, IW), (60, 60.0 * 1448.0)] {
        let (mut startup, mut window) = sending(sent);
        startup.on_timeout(&Timeout::new(Time::ZERO + RTT * 3, 1, MSS * sent), &path(), &mut window);
        assert_eq!(window, Window::new(kept));
    }
}
