//! Resource usage of a run in real time, as it is printed.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::super::print;
use super::name;
use crate::experiment::Experiment;
use crate::real::Effort;

/// A run and its resource usage.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Took {
    /// The choice on each axis.
    cell: BTreeMap<String, String>,
    seed: u64,
    #[serde(flatten)]
    effort: Effort,
    ends_processor_seconds_per_gb: Option<f64>,
    kept_up: bool,
    /// Index of the cell in the experiment.
    #[serde(skip)]
    pub(super) place: usize,
    #[serde(skip)]
    name: String,
}

impl Took {
    pub(super) fn new(experiment: &Experiment, cell: usize, seed: u64, effort: Effort) -> Self {
        let axes = experiment.definition.axes.iter().zip(&experiment.cells[cell].places);
        let choice = |place: usize, axis: &crate::definition::Axis| axis.choices[place].name.get_ref().clone();
        Self {
            cell: axes.map(|(axis, place)| (axis.name.get_ref().clone(), choice(*place, axis))).collect(),
            seed,
            ends_processor_seconds_per_gb: effort.ends_per_gigabyte(),
            kept_up: effort.kept_up(),
            effort,
            place: cell,
            name: format!("{}, seed {seed}", name(experiment, cell)),
        }
    }

    /// Prints the resource usage, and whether the machine was fast enough for the run to be valid.
    pub(super) fn tell(&self) {
        let Self { name, effort, .. } = self;
        let Effort { seconds, processor_seconds, ends_processor_seconds, lateness_seconds, failures, .. } = effort;
        let each = self.ends_processor_seconds_per_gb.map_or_else(String::new, |each| format!(" ({each:.1} s/GB)"));
        let memory = effort
            .memory_bytes
            .map_or_else(String::new, |bytes| format!("; peak memory {:.0} MB", bytes as f64 * 1e-6));
        let late = lateness_seconds * 1e3;
        print::note(&format!(
            "{name}: {seconds:.1} s; processor time {processor_seconds:.2} s for both ends and the relay, \
             {ends_processor_seconds:.2} s{each} for both ends; p99 lateness of the relay {late:.2} ms{memory}"
        ));
        if !self.kept_up {
            let Effort { lost_datagrams, starved_seconds, .. } = effort;
            print::note(&format!(
                "{name}: the machine was too slow for valid results: {late:.2} ms late, {lost_datagrams} datagrams lost \
                 outside the link, a sender without a processor for {starved_seconds:.2} s"
            ));
        }
        for failure in failures {
            print::note(&format!("{name}: a connection failed: {failure}"));
        }
    }
}
