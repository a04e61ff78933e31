use super::*;
use crate::TxId;
use crate::testing::Sender;

const MSS: Bytes = Bytes(1000);

fn path() -> Path {
    Path::new(MSS)
}

fn at(micros: u64) -> Time {
    Time::ZERO + Span::from_micros(micros)
}

fn start(change: impl Fn(&mut Rc3Config)) -> Rc3 {
    let mut config = Rc3Config {
        rate: Rate::from_bits_per_sec(1_000_000_000),
        by_arrivals: true,
        burst: 256,
        budget: u32::MAX,
        levels: 1,
        slots: 4,
        dscp: 1,
    };
    change(&mut config);
    let mut launch = Rc3::new(config);
    launch.on_granted(&Granted { probes: true, ..Granted::basic() }, &path()).unwrap();
    let mut window = Window::new(10_000.0);
    assert_eq!(launch.begin(Opening::Connection, at(0), &path(), &mut window), LaunchStep::Done);
    assert_eq!(window, Window::new(10_000.0), "the window is not its business");
    launch
}

fn plan(launch: &Rc3) -> ProbePlan {
    launch.beside().unwrap()
}

fn send(launch: &mut Rc3, segments: u32) {
    for k in 0..segments {
        let sent = Sent { kind: SegmentKind::Probe, ..Sent::new(at(0), TxId(u64::from(k)), MSS) };
        launch.on_sent(&sent, &path());
    }
}

/// Reports `segments` arrivals, `gap` microseconds apart.
fn arrive(launch: &mut Rc3, from: u64, gap: u64, segments: u64) {
    for k in 0..segments {
        launch.on_ahead(at(from + k * gap), MSS, &path());
    }
}

/// 1000 bytes take 8 us at 1 Gb/s. As in the paper, that is the pace, without a limit of segments.
#[test]
fn at_the_line_rate_nothing_is_waited_for() {
    let mut launch = start(|config| config.by_arrivals = false);
    assert_eq!((plan(&launch).segments, plan(&launch).gap, plan(&launch).dscp), (u32::MAX, Span::from_micros(8), 1));
    arrive(&mut launch, 0, 400, 100);
    assert_eq!((plan(&launch).segments, plan(&launch).gap), (u32::MAX, Span::from_micros(8)));
}

/// 256 segments are sent before any arrival is known; then the pace is the arrival rate plus a tenth, at most the rate
/// of the line.
#[test]
fn what_arrives_is_the_pace() {
    let mut launch = start(|_| ());
    assert_eq!((plan(&launch).segments, plan(&launch).gap), (256, Span::from_micros(8)));
    // Too few arrivals do not yield a rate.
    arrive(&mut launch, 0, 400, 4);
    assert_eq!((plan(&launch).segments, plan(&launch).gap), (256, Span::from_micros(8)));
    arrive(&mut launch, 1600, 400, 1);
    let near = |launch: &Rc3, micros: f64| (plan(launch).gap.as_secs_f64() * 1e6 - micros).abs() < 0.01;
    assert!(near(&launch, 400.0 / 1.1) && plan(&launch).segments == u32::MAX, "{:?}", plan(&launch));
    // A pause of a round trip is in one sample; the other one counts.
    arrive(&mut launch, 100_000, 400, 16);
    assert!(near(&launch, 400.0 / 1.1), "{:?}", plan(&launch));
    // From then on, arrivals are half as fast.
    arrive(&mut launch, 110_000, 800, 64);
    assert!(near(&launch, 800.0 / 1.1), "{:?}", plan(&launch));
    arrive(&mut launch, 200_000, 1, 64);
    assert_eq!(plan(&launch).gap, Span::from_micros(8), "no faster than the line");
    // Arrivals at the same time do not yield a rate.
    let mut launch = start(|_| ());
    arrive(&mut launch, 7, 0, 100);
    assert_eq!(plan(&launch).segments, 256);
}

/// The budget is for the whole connection. An idle period or a timeout discards measurements, but segments sent before
/// still count.
#[test]
fn a_budget_is_kept() {
    let mut launch = start(|config| config.budget = 300);
    assert_eq!(plan(&launch).segments, 256);
    send(&mut launch, 256);
    arrive(&mut launch, 0, 400, 50);
    assert_eq!(plan(&launch).segments, 300);
    send(&mut launch, 14);
    let id = plan(&launch).id;
    launch.begin(Opening::Timeout, at(0), &path(), &mut Window::new(1000.0));
    assert!(plan(&launch).id != id && plan(&launch).segments == 30, "{:?}", plan(&launch));
    send(&mut launch, 30);
    launch.begin(Opening::Idle, at(0), &path(), &mut Window::new(1000.0));
    assert_eq!((plan(&launch).segments, plan(&launch).gap), (0, Span::from_micros(8)));
    let id = plan(&launch).id;
    launch.begin(Opening::Asked, at(0), &path(), &mut Window::new(1000.0));
    assert_eq!(plan(&launch).id, id, "a law's wish begins nothing");
}

/// Without SACK there is no plan.
#[test]
fn without_the_grant_it_is_none() {
    let mut launch = start(|_| ());
    launch.on_granted(&Granted::basic(), &path()).unwrap();
    assert_eq!(launch.beside(), None);
}

/// The plan is active in slow start, in recovery, in congestion avoidance and after a timeout, and the window is the
/// same as without RC3.
#[test]
fn the_plan_stands_beside_everything() {
    let granted = Granted { probes: true, ..Granted::basic() };
    let sender = |text: &str| {
        let congestion: crate::Congestion = text.parse().unwrap();
        Sender::with(congestion.build(&crate::BuildParams::default()), granted)
    };
    let mut pair = ["rc3+new-reno", "new-reno"].map(sender);
    let mut both = |act: fn(&mut Sender)| {
        pair.iter_mut().for_each(act);
        let [with, without] = &pair;
        assert_eq!((with.cwnd(), with.snapshot()), (without.cwnd(), without.snapshot()));
        assert_eq!(with.control().probe.map(|plan| plan.from_tail()), Some(Some(Levels { slots: 4, count: 1 })));
        assert_eq!(without.control().probe, None);
    };
    both(|sender| _ = sender.fill());
    both(Sender::round);
    both(|sender| sender.event(&crate::PathEvent::Ahead { at: sender.now, bytes: Bytes(1 << 20) }));
    both(Sender::round);
    both(Sender::lose);
    both(Sender::repair);
    both(|sender| _ = sender.fill());
    both(Sender::round);
    both(|sender| sender.time_out(1));
    both(|sender| _ = sender.fill());
    both(Sender::round);
}
