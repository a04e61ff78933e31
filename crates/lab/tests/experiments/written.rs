//! Experiments with a single cell, written by tests, and their metrics.
use longhaul_lab::experiment::Experiment;
use longhaul_lab::record::Record;
use longhaul_lab::runner;

/// Creates an experiment with these lines, and with a metric for each of these expressions, in order.
pub(crate) fn read(duration: &str, lines: &str, metrics: &[&str]) -> Result<Experiment, String> {
    let mut text = format!(
        "id = 'a'\ntitle = ''\nsource = ''\nruns = 1\nquick-runs = 1\nduration = '{duration}'\nrows = []\n{lines}\n[metrics]\n"
    );
    for (number, metric) in metrics.iter().enumerate() {
        text += &format!("m{number:02} = {{ value = '{metric}', unit = '' }}\n");
    }
    Experiment::read("a.toml", &text).map_err(|fault| fault.to_string())
}

/// Makes this many runs, from seed 1 on.
pub(crate) fn run(experiment: &Experiment, runs: u32) -> Vec<Record> {
    runner::run(experiment, runs, 1).unwrap()
}

/// Returns the values of these metrics in the run with seed 1.
pub(crate) fn measure(duration: &str, lines: &str, metrics: &[&str]) -> Vec<Option<f64>> {
    run(&read(duration, lines, metrics).unwrap(), 1).remove(0).values
}

/// Returns the same values, with NaN for undefined ones.
pub(crate) fn known(duration: &str, lines: &str, metrics: &[&str]) -> Vec<f64> {
    measure(duration, lines, metrics).into_iter().map(|value| value.unwrap_or(f64::NAN)).collect()
}

#[track_caller]
pub(crate) fn near(ours: f64, expected: f64, most: f64) {
    assert!((ours - expected).abs() <= most, "{ours} and not {expected} within {most}");
}
