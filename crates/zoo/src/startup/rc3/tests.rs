use longhaul_cc::{TxId, update};

use super::*;
use crate::tests::Sender;

const MSS: Bytes = Bytes(1000);

fn path() -> Path {
    Path::new(MSS)
}

fn at(micros: u64) -> Time {
    Time::ZERO + Span::from_micros(micros)
}

fn start(change: impl Fn(&mut Rc3)) -> Rc3 {
    let mut startup = Rc3 {
        rate: Rate::from_bits_per_sec(1_000_000_000),
        by_arrivals: true,
        burst: 256,
        budget: u32::MAX,
        levels: 1,
        slots: 4,
        dscp: 1,
        ..Rc3::default()
    };
    change(&mut startup);
    startup.on_granted(&update!(Granted { probes: true, ..Granted::basic() }), &path()).unwrap();
    let mut window = Window::new(10_000.0);
    assert_eq!(startup.begin(Opening::Connection, at(0), &path(), &mut window), Step::Done);
    assert_eq!(window, Window::new(10_000.0), "the window is not its business");
    startup
}

fn plan(startup: &Rc3) -> ProbePlan {
    startup.overlay().background.unwrap()
}

fn send(startup: &mut Rc3, segments: u32) {
    for k in 0..segments {
        let sent = update!(Sent { kind: SegmentKind::Probe, ..Sent::new(at(0), TxId(u64::from(k)), MSS) });
        startup.on_sent(&sent, &path());
    }
}

/// Reports `segments` arrivals, `gap` microseconds apart.
fn arrive(startup: &mut Rc3, from: u64, gap: u64, segments: u64) {
    for k in 0..segments {
        startup.on_event(&StageEvent::Ahead { at: at(from + k * gap), bytes: MSS }, &path());
    }
}

/// 1000 bytes take 8 us at 1 Gb/s. As in the paper, that is the pace, without a limit of segments.
#[test]
fn at_the_line_rate_nothing_is_waited_for() {
    let mut startup = start(|startup| startup.by_arrivals = false);
    assert_eq!((plan(&startup).segments, plan(&startup).gap, plan(&startup).dscp), (u32::MAX, Span::from_micros(8), 1));
    arrive(&mut startup, 0, 400, 100);
    assert_eq!((plan(&startup).segments, plan(&startup).gap), (u32::MAX, Span::from_micros(8)));
}

/// 256 segments are sent before any arrival is known; then the pace is the arrival rate plus a tenth, at most the rate
/// of the line.
#[test]
fn what_arrives_is_the_pace() {
    let mut startup = start(|_| ());
    assert_eq!((plan(&startup).segments, plan(&startup).gap), (256, Span::from_micros(8)));
    // Too few arrivals do not yield a rate.
    arrive(&mut startup, 0, 400, 4);
    assert_eq!((plan(&startup).segments, plan(&startup).gap), (256, Span::from_micros(8)));
    arrive(&mut startup, 1600, 400, 1);
    let near = |startup: &Rc3, micros: f64| (plan(startup).gap.as_secs_f64() * 1e6 - micros).abs() < 0.01;
    assert!(near(&startup, 400.0 / 1.1) && plan(&startup).segments == u32::MAX, "{:?}", plan(&startup));
    // A pause of a round trip is in one sample; the other one counts.
    arrive(&mut startup, 100_000, 400, 16);
    assert!(near(&startup, 400.0 / 1.1), "{:?}", plan(&startup));
    // From then on, arrivals are half as fast.
    arrive(&mut startup, 110_000, 800, 64);
    assert!(near(&startup, 800.0 / 1.1), "{:?}", plan(&startup));
    arrive(&mut startup, 200_000, 1, 64);
    assert_eq!(plan(&startup).gap, Span::from_micros(8), "no faster than the line");
    // Arrivals at the same time do not yield a rate.
    let mut startup = start(|_| ());
    arrive(&mut startup, 7, 0, 100);
    assert_eq!(plan(&startup).segments, 256);
}

/// The budget is for the whole connection. An idle period or a timeout discards measurements, but segments sent before
/// still count.
#[test]
fn a_budget_is_kept() {
    let mut startup = start(|startup| startup.budget = 300);
    assert_eq!(plan(&startup).segments, 256);
    send(&mut startup, 256);
    arrive(&mut startup, 0, 400, 50);
    assert_eq!(plan(&startup).segments, 300);
    send(&mut startup, 14);
    let id = plan(&startup).id;
    startup.begin(Opening::Timeout, at(0), &path(), &mut Window::new(1000.0));
    assert!(plan(&startup).id != id && plan(&startup).segments == 30, "{:?}", plan(&startup));
    send(&mut startup, 30);
    startup.begin(Opening::Idle, at(0), &path(), &mut Window::new(1000.0));
    assert_eq!((plan(&startup).segments, plan(&startup).gap), (0, Span::from_micros(8)));
}

/// Without SACK there is no plan.
#[test]
fn without_the_grant_it_is_none() {
    let mut startup = start(|_| ());
    startup.on_granted(&Granted::basic(), &path()).unwrap();
    assert_eq!(startup.overlay().background, None);
}

/// The plan is active in slow start, in recovery, in congestion avoidance and after a timeout, and the window is the
/// same as without RC3.
#[test]
fn the_plan_stands_beside_everything() {
    let granted = update!(Granted { probes: true, ..Granted::basic() });
    let sender = |text: &str| {
        let congestion = crate::tests::spec(text);
        Sender::with(congestion.build(&longhaul_cc::BuildParams::default()), granted)
    };
    let mut pair = ["rc3+new-reno", "new-reno"].map(sender);
    let mut both = |act: fn(&mut Sender)| {
        pair.iter_mut().for_each(act);
        let [with, without] = &pair;
        assert_eq!((with.cwnd(), with.snapshot().phase), (without.cwnd(), without.snapshot().phase));
        assert_eq!(with.control().probe.map(|plan| plan.from_tail()), Some(Some(Levels::new(4, 1))));
        assert_eq!(without.control().probe, None);
    };
    both(|sender| _ = sender.fill());
    both(Sender::round);
    both(|sender| sender.event(&longhaul_cc::PathEvent::Ahead { at: sender.now, bytes: Bytes(1 << 20) }));
    both(Sender::round);
    both(Sender::lose);
    both(Sender::recover);
    both(|sender| _ = sender.fill());
    both(Sender::round);
    both(|sender| sender.time_out(1));
    both(|sender| _ = sender.fill());
    both(Sender::round);
}
