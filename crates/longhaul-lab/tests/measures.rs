//! What is measured, against what follows from rates, sizes and delays.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use longhaul_lab::experiment::Experiment;
use longhaul_lab::record::Record;
use longhaul_lab::runner::{self, Effort};

/// An experiment with these lines, and a metric by each of these expressions.
fn experiment(duration: &str, lines: &str, metrics: &[&str]) -> Experiment {
    let mut text = format!(
        "id = 'a'\ntitle = ''\nsource = ''\nruns = 1\nquick-runs = 1\nduration = '{duration}'\nrows = []\n{lines}\n[metrics]\n"
    );
    for (number, metric) in metrics.iter().enumerate() {
        text += &format!("m{number} = {{ value = '{metric}', unit = '' }}\n");
    }
    Experiment::read("a.toml", &text).unwrap_or_else(|fault| panic!("{fault}\n{text}"))
}

fn run(experiment: &Experiment, runs: u32) -> Vec<Record> {
    runner::run(experiment, Effort { runs, jobs: 1 }, |_, _| ()).unwrap()
}

/// The values of these metrics in the run of seed 1.
fn measure(duration: &str, lines: &str, metrics: &[&str]) -> Vec<Option<f64>> {
    run(&experiment(duration, lines, metrics), 1).remove(0).values
}

#[track_caller]
fn near(ours: Option<f64>, expected: f64, most: f64) {
    assert!(ours.is_some_and(|ours| (ours - expected).abs() <= most), "{ours:?} and not {expected} within {most}");
}

/// 4 Mb/s of 1250-byte packets, at a constant rate to the packet, and at random within four standard deviations: of 4000 Poisson
/// arrivals, and of a hundred pairs of an exponential burst and pause.
#[test]
fn cross_traffic_has_its_rate_and_its_way() {
    const BOTTLENECK: &str = "bottleneck = '--rate 20mbit --rtt 10ms'";
    for (kind, most) in [
        ("kind = 'cbr', rate = '4mbit'", 0.0011),
        ("kind = 'poisson', rate = '4mbit'", 0.25),
        ("kind = 'on-off', rate = '8mbit', on = '50ms', off = '50ms'", 4.0 * 4.0 / 10.0),
    ] {
        for (way, carried) in [("there", 4.0), ("back", 0.0), ("both", 4.0)] {
            let lines = format!("{BOTTLENECK}\ntraffic = [{{ name = 'c', {kind}, packet = '1250B', way = '{way}' }}]");
            near(measure("11s", &lines, &["carried(1s, 11s)"])[0], carried, if carried > 0.0 { most } else { 0.0 });
        }
    }
    // From 2 s to 3 s alone, and on its access link no faster than that.
    let line = "name = 'c', kind = 'cbr', rate = '4mbit', packet = '1250B', start = '2s', stop = '3s'";
    let narrow = format!("{BOTTLENECK}\ntraffic = [{{ {line}, left = '--rate 1mbit --queue 1p' }}]");
    let values = measure("5s", &format!("{BOTTLENECK}\ntraffic = [{{ {line} }}]"), &["carried(2s)", "carried(2s, 3s)"]);
    assert_eq!(values[0], Some(0.0));
    near(values[1], 4.0, 0.011);
    near(measure("5s", &narrow, &["carried(2.1s, 2.9s)"])[0], 1.0, 0.013);
}

/// What has no fixed beginning has another one with each seed, and the same with the same one.
#[test]
fn phases_differ_by_seed() {
    const SPREAD: &str = "flows = [{ name = 'x', congestion = 'cubic', bytes = '100kB', start-spread = '50ms' }]";
    const BESIDE: &str = "flows = [{ name = 'x', congestion = 'cubic', bytes = '100kB' }]\n\
        traffic = [{ name = 'c', kind = 'cbr', rate = '4mbit', packet = '1250B' }]";
    let times = |records: Vec<Record>| records.iter().map(|record| record.values[0].unwrap()).collect::<Vec<_>>();
    let back = BESIDE.replace("packet", "way = 'back', packet");
    for (rate, lines, metric) in
        [("1mbit", SPREAD, "sent(x, 130ms)"), ("10mbit", BESIDE, "completion(x)"), ("10mbit", &back, "completion(x)")]
    {
        let experiment = experiment("5s", &format!("bottleneck = '--rate {rate} --rtt 100ms'\n{lines}"), &[metric]);
        let (first, again) = (times(run(&experiment, 8)), times(run(&experiment, 8)));
        assert_eq!(first, again);
        let is_other = |n: &usize| first[*n] != first[0];
        assert!((1..8).any(|n| is_other(&n)), "{metric}: {first:?}");
    }
}
