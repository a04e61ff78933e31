//! Series of runs in real time: bytes that applications have read.

use std::collections::BTreeMap;

use longhaul_units::Span;

use crate::experiment::CellSetup;
use crate::series::{SeriesSetup, What};
use crate::world::Outcome;

/// Returns the sampling times of all series.
pub(super) fn times(setup: &CellSetup) -> impl Iterator<Item = Span> {
    setup.series.iter().flat_map(|series| times_of(series, setup.duration))
}

fn times_of(series: &SeriesSetup, duration: Span) -> impl Iterator<Item = Span> + use<> {
    let every = series.every.max(Span::from_nanos(1));
    (0..=duration.as_nanos() / every.as_nanos()).map(move |nth| every * nth)
}

/// Returns the series of a run.
pub(super) fn recorded(setup: &CellSetup, seed: u64, outcome: &Outcome) -> BTreeMap<String, Vec<(f64, f64)>> {
    let wanted = setup.series.iter().filter(|series| seed <= series.runs);
    wanted.map(|series| (series.name.clone(), points(series, outcome))).collect()
}

fn points(series: &SeriesSetup, outcome: &Outcome) -> Vec<(f64, f64)> {
    let flows = outcome.flows.get(&series.flows).cloned().unwrap_or(0..0);
    let read = |time| outcome.at(time).flows.get(flows.clone()).into_iter().flatten().map(|flow| flow.read).sum();
    let read: Vec<(f64, f64)> =
        times_of(series, outcome.duration).map(|time| (time.as_secs_f64(), read(time))).collect();
    if series.what == What::Read {
        return read;
    }
    let rate = |two: &[(f64, f64)]| (two[1].0, (two[1].1 - two[0].1) * 8e-6 / (two[1].0 - two[0].0));
    read.windows(2).map(rate).collect()
}
