use super::*;
use crate::TxId;

const MSS: Bytes = Bytes(1448);
const RTT: Span = Span::from_millis(100);
const IW: f64 = 14_480.0;

fn path() -> Path {
    let mut path = Path::new(MSS);
    (path.handshake_rtt, path.srtt) = (Some(RTT), Some(RTT));
    path
}

fn granted() -> Granted {
    Granted { network_header: Some(NetworkHeaderKind::QuickStart), ..Granted::basic() }
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

/// A launch that waits for its answer.
fn waiting() -> (QuickStart, Window) {
    let (mut launch, mut window) = (QuickStart::new(10_000), Window::new(IW));
    assert_eq!(
        launch.overlay().header,
        Some(NetworkHeader::QuickStart { rate: Rate::from_bits_per_sec(10_000_000) }),
        "before the SYN"
    );
    launch.on_granted(&granted(), &path()).unwrap();
    assert_eq!(launch.overlay().header, None);
    assert_eq!(launch.begin(Opening::Connection, Time::ZERO, &path(), &mut window), LaunchStep::Stay);
    (launch, window)
}

/// 10,240 kb/s for 100 ms: 128,000 bytes, of which a segment has 1448 of each 1500.
fn sending(segments: u64) -> (QuickStart, Window) {
    let (mut launch, mut window) = waiting();
    let rate = Rate::from_bits_per_sec(10_240_000);
    assert_eq!(launch.on_ack(&answer(NetworkFeedback::QuickStart(rate)), &path(), &mut window), LaunchStep::Stay);
    assert!((window.cwnd - 128_000.0 * 1448.0 / 1500.0).abs() < 2.0, "{}", window.cwnd);
    let pace = launch.overlay().pace.unwrap();
    assert!((pace.rate.as_bytes_per_sec() as f64 - 1_280_000.0 * 1448.0 / 1500.0).abs() < 2.0);
    for k in 0..segments {
        launch.on_sent(&Sent::new(Time::ZERO, TxId(k), MSS), &path());
    }
    (launch, window)
}

/// RFC 4782, section 4.4: the window is the approved rate times the round trip, paced, and once the first ACK of the flight is there
/// what was sent of it. Then it grows as in Limited Slow-Start.
#[test]
fn the_first_flight_has_the_approved_rate() {
    let (mut launch, mut window) = sending(60);
    assert_eq!(launch.on_ack(&delivered(2, Episode::None), &path(), &mut window), LaunchStep::Stay);
    assert_eq!((window.cwnd, launch.overlay().pace), (62.0 * 1448.0, None), "the ACK clock has taken over");
    for _ in 0..57 {
        assert_eq!(launch.on_ack(&delivered(1, Episode::None), &path(), &mut window), LaunchStep::Stay);
    }
    assert!(window.cwnd < 112.0 * 1448.0, "Limited Slow-Start above 100 segments: {}", window.cwnd / 1448.0);
    assert_eq!(launch.on_ack(&delivered(1, Episode::None), &path(), &mut window), LaunchStep::Done);
    assert!(window.below_threshold());
}

/// A denial, a rate that is less than the initial window, and no grant at all leave the initial window.
#[test]
fn a_denial_leaves_the_initial_window() {
    let slow = Rate::from_bits_per_sec(1_000_000);
    for feedback in [NetworkFeedback::Denied, NetworkFeedback::QuickStart(slow), NetworkFeedback::Rcp(Rate::MAX)] {
        let (mut launch, mut window) = waiting();
        assert_eq!(launch.on_ack(&answer(feedback), &path(), &mut window), LaunchStep::Done, "{feedback:?}");
        assert_eq!((window, launch.overlay()), (Window::new(IW), Overlay::default()));
    }
    let mut refused = QuickStart::new(10_000);
    refused.on_granted(&Granted::basic(), &path()).unwrap();
    let mut window = Window::new(IW);
    assert_eq!(refused.begin(Opening::Connection, Time::ZERO, &path(), &mut window), LaunchStep::Done);
}

/// RFC 4782, section 4.6.2: a loss in the flight is answered as if nothing had been approved.
#[test]
fn a_loss_in_the_flight_takes_all_back() {
    let (mut launch, mut window) = sending(60);
    launch.on_ack(&delivered(20, Episode::None), &path(), &mut window);
    let lost = delivered(10, Episode::Enter);
    let loss = Loss { signal: crate::compose::Signal::Loss, ack: &lost };
    assert_eq!(launch.on_loss(&loss, &path(), &mut window), LaunchVerdict::Handled);
    assert_eq!((window.cwnd, window.ssthresh), (IW, 15.0 * 1448.0), "half of the 30 delivered");
    assert_eq!(launch.on_ack(&delivered(5, Episode::In), &path(), &mut window), LaunchStep::Stay);
    assert_eq!(launch.on_ack(&delivered(5, Episode::Exit), &path(), &mut window), LaunchStep::Done);
    assert_eq!(window.cwnd, IW, "slow start from there");
}

/// An approval is good for a round trip (and three seconds): who sends nothing in it has the initial window.
#[test]
fn an_approval_expires() {
    let (mut launch, mut window) = sending(0);
    let until = launch.next_tick().unwrap();
    assert_eq!(until, Time::ZERO + RTT);
    assert_eq!(launch.on_tick(until, &path(), &mut window), LaunchStep::Done);
    assert_eq!(window.cwnd, IW);
    let (mut launch, mut window) = waiting();
    let mut long = path();
    long.handshake_rtt = Some(Span::from_secs(5));
    let rate = Rate::from_bits_per_sec(10_240_000);
    launch.on_ack(&answer(NetworkFeedback::QuickStart(rate)), &long, &mut window);
    assert_eq!(launch.next_tick(), Some(Time::ZERO + Span::from_secs(3)));
}
