//! The threshold that a launch leaves behind.

use longhaul_units::Time;

use crate::classify::AllCongestion;
use crate::compose::*;
use crate::growth::SlowStart;
use crate::recovery::Prr;
use crate::steady::NewReno;
use crate::testing::{Sender, segments};
use crate::{BuildParams, Granted, Path};

/// Hands over at once, and says where growth should end.
#[derive(Debug)]
struct Guide(u64);

impl Stage for Guide {
    fn phase(&self) -> &'static str {
        "guide"
    }
}

impl Launch for Guide {
    fn begin(&mut self, _opening: Opening, _now: Time, _path: &Path, _window: &mut Window) -> LaunchStep {
        LaunchStep::Done
    }

    fn threshold(&mut self, _path: &Path) -> Option<f64> {
        Some(segments(self.0).as_f64())
    }
}

fn sender(threshold: u64, known: Option<u64>) -> Sender {
    let stages = Stages {
        name: "guide".to_owned(),
        launch: Box::new(Guide(threshold)),
        growth: Box::new(SlowStart::new(10, 0)),
        steady: Box::new(NewReno::new(0.5, 0.5)),
        classifier: Box::new(AllCongestion),
        recovery: Box::new(Prr::new()),
    };
    let params = BuildParams { initial_ssthresh: known.map(segments), ..BuildParams::default() };
    let mut sender = Sender::with(Box::new(Composed::new(stages, &params)), Granted::basic());
    sender.fill();
    sender
}

/// Growth leads up to it, but not beyond what earlier connections came to.
#[test]
fn growth_leads_up_to_what_the_launch_says() {
    for (known, threshold) in [(None, 35), (Some(25), 25), (Some(50), 35)] {
        let mut sender = sender(35, known);
        sender.round();
        sender.round();
        assert_eq!((sender.ssthresh(), sender.snapshot().phase), (segments(threshold), "congestion-avoidance"));
        assert!(sender.cwnd() >= segments(threshold) && sender.cwnd() < segments(threshold + 1));
    }
}

/// After a loss, and after a timeout's slow start, the threshold is the law's.
#[test]
fn congestion_ends_the_launchs_say() {
    let mut lost = sender(100, None);
    lost.round();
    lost.lose();
    lost.repair();
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
