//! A congestion-avoidance algorithm of another crate in an experiment. Once registered, its name is valid like those
//! of the registry.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use longhaul_cc::compose::{AvoidanceStep, CongestionAvoidance, CongestionEvent, Stage, Target, Window};
use longhaul_cc::compose::{ECN_BETA, additive};
use longhaul_cc::registry::{Entry, OptionSpec, register};
use longhaul_cc::{Ack, Path, options};
use longhaul_lab::experiment::Experiment;
use longhaul_lab::judge::judge;
use longhaul_lab::page::{self, Section};
use longhaul_lab::rule::Verdict;
use longhaul_lab::runner;
use longhaul_units::Bytes;

options! {
    /// Keeps a fraction of the window at a loss, and grows by one segment per round trip.
    struct Keeper {
        keep: f64 = OptionSpec::float("keep", 0.1, 0.95, 0.5, "share kept at a loss"),
        _ = ECN_BETA,
    }
}

impl Stage for Keeper {}

impl CongestionAvoidance for Keeper {
    fn on_ack(&mut self, _: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
        additive(window, 1.0, grow, path.mss);
        AvoidanceStep::Stay
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        Target::multiplicative(event, self.keep, path.mss)
    }
}

static KEEPER: Entry = Entry::avoidance("keeper", |values| Box::new(Keeper::from_values(values)))
    .described("keeps a part of the window", "nobody")
    .with_options(Keeper::OPTIONS)
    .internet_safe();

/// If it keeps half of the window, it behaves like NewReno (RFC 5681, section 3.1); if it keeps nine tenths, a loss
/// costs less.
const EXPERIMENT: &str = r#"id = "foreign"
title = "An algorithm of another crate"
source = "RFC 5681"
runs = 1
quick-runs = 1
duration = "20s"
bottleneck = "--rate 20mbit --rtt 50ms --queue 100p --loss 0.2%"
rows = [
    { id = "half", metric = "goodput", over = "algorithm", order = ["slow-start+new-reno", "slow-start+keeper"], rule = "alike within 5%" },
    { id = "more", metric = "goodput", over = "algorithm", order = ["slow-start+keeper(keep=0.9)", "slow-start+keeper"], rule = "decreasing" },
]

[[axes]]
name = "algorithm"
choices = ["slow-start+new-reno", "slow-start+keeper", "slow-start+keeper(keep=0.9)"]
[[flows]]
name = "x"
congestion = "{algorithm}"
[metrics]
goodput = { value = "goodput(x)", unit = "Mb/s" }"#;

#[test]
fn an_experiment_names_an_algorithm_of_another_crate() {
    let error = Experiment::read("foreign.toml", EXPERIMENT).unwrap_err().to_string();
    assert!(error.contains("keeper"), "{error}");
    register(&[&KEEPER], &[]).unwrap();
    let experiment = Experiment::read("foreign.toml", EXPERIMENT).unwrap();
    let records = runner::run(&experiment, 1, 1).unwrap();
    let rows = judge(&experiment, &records, 1);
    assert!(rows.iter().all(|row| row.verdict == Verdict::Reproduced), "{rows:#?}");
    let section =
        Section { experiment: &experiment, rows: &rows, pictures: &[], tables: &[], ended: 3, runs: 3, took: 1.0 };
    assert!(page::html(&[section], &[]).contains("<option value=\"keeper\">keeper</option>"));
}
