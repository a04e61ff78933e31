//! The threshold that a start-up scheme leaves.

use longhaul_cc::compose::*;
use longhaul_conformance::testing::{Sender, segments};
use longhaul_units::{Span, Time};

use crate::stages;
use longhaul_cc::{Ack, BuildParams, Granted, Path, PathEvent, update};

/// Hands over at once. The fields are the threshold for slow start, and the room that it reports during congestion
/// avoidance, in segments.
#[derive(Clone, Debug)]
struct Guide(u64, Option<u64>);

impl Stage for Guide {
    fn observe(&mut self, _ack: &Ack<'_>, _path: &Path) -> bool {
        true
    }

    fn phase(&self) -> &'static str {
        "guide"
    }
}

impl Startup for Guide {
    fn begin(&mut self, _opening: Opening, _now: Time, _path: &Path, _window: &mut Window) -> Step {
        Step::Done
    }

    fn threshold(&mut self, in_slow_start: bool, _path: &Path, window: &Window) -> Option<f64> {
        if in_slow_start {
            return Some(segments(self.0).as_f64());
        }
        let room = segments(self.1?).as_f64();
        self.0 = self.1?;
        (room > window.cwnd).then_some(room)
    }
}

fn sender(threshold: u64, known: Option<u64>) -> Sender {
    guided(Guide(threshold, None), known)
}

fn guided(guide: Guide, known: Option<u64>) -> Sender {
    let mut stages = stages("slow-start+new-reno");
    stages.startup = Box::new(guide);
    let params = update!(BuildParams { initial_ssthresh: known.map(segments), ..BuildParams::default() });
    let mut sender = Sender::with(Box::new(Composed::new(stages, &params)), Granted::basic());
    sender.fill();
    sender
}

/// Slow start continues up to the threshold, but not above the cached one.
#[test]
fn slow_start_leads_up_to_what_the_startup_says() {
    for (known, threshold) in [(None, 35), (Some(25), 25), (Some(50), 35)] {
        let mut sender = sender(35, known);
        sender.round();
        sender.round();
        assert_eq!((sender.ssthresh(), sender.snapshot().phase), (segments(threshold), "congestion-avoidance"));
        assert!(sender.cwnd() >= segments(threshold) && sender.cwnd() < segments(threshold + 1));
    }
}

/// After a loss, and after a timeout's slow start, the threshold is that of congestion avoidance.
#[test]
fn congestion_ends_the_startups_say() {
    let mut lost = sender(100, None);
    lost.round();
    lost.lose();
    lost.recover();
    lost.fill();
    lost.round();
    assert_eq!(lost.ssthresh(), segments(10));
    let mut silent = sender(100, None);
    silent.round();
    silent.time_out(1);
    silent.fill();
    silent.round();
    assert_eq!((silent.ssthresh(), silent.snapshot().phase), (segments(10), "slow-start"));
}

/// If the scheme finds room during congestion avoidance, slow start resumes up to the cached threshold at most; then
/// congestion avoidance continues.
#[test]
fn slow_start_goes_on_where_there_is_room() {
    for (known, room) in [(None, 200), (Some(100), 100)] {
        let mut sender = guided(Guide(35, Some(200)), known);
        sender.round();
        assert_eq!((sender.ssthresh(), sender.snapshot().phase), (segments(35), "slow-start"));
        sender.round();
        assert_eq!(
            (sender.ssthresh(), sender.snapshot().phase),
            (segments(room), "slow-start"),
            "congestion avoidance found room"
        );
        for _ in 0..4 {
            sender.round();
        }
        assert_eq!((sender.ssthresh(), sender.snapshot().phase), (segments(room), "congestion-avoidance"));
        assert!(sender.cwnd() >= segments(room) && sender.cwnd() < segments(room + 5), "{}", sender.cwnd());
    }
}

/// After a loss, a mark, a timeout or an idle period, the scheme is not asked for room.
#[test]
fn congestion_ends_the_search_for_room() {
    for what in ["loss", "mark", "timeout", "idleness"] {
        let mut sender = guided(Guide(35, Some(50)), None);
        for _ in 0..5 {
            sender.round();
        }
        assert_eq!((sender.ssthresh(), sender.snapshot().phase), (segments(50), "congestion-avoidance"));
        match what {
            "loss" => sender.lose(),
            "mark" => sender.mark(),
            "timeout" => sender.time_out(1),
            _ => sender.event(&PathEvent::IdleRestart { now: sender.now, idle: Span::from_secs(9) }),
        }
        if what != "timeout" && what != "idleness" {
            sender.recover();
        }
        sender.fill();
        let ssthresh = sender.ssthresh();
        for _ in 0..8 {
            sender.round();
        }
        assert_eq!((sender.ssthresh(), sender.snapshot().phase), (ssthresh, "congestion-avoidance"), "{what}");
    }
}
