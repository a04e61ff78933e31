//! Algorithms that a row refers to.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_cc::registry::{Slot, Spec};
use longhaul_units::Rate;

use super::Section;
use crate::experiment::{Experiment, Row};

/// Names that stand for the absence of a component.
const NOTHING: [&str; 2] = ["none", "off"];

/// Returns the algorithms of the flows and workloads in some cells, with their slots. Slots that are not named have
/// the registry's default.
fn of_cells(experiment: &Experiment, cells: &[usize]) -> BTreeSet<(Slot, &'static str)> {
    let mut found = BTreeSet::new();
    for nth in cells {
        let (Some(cell), Some(setup)) = (experiment.cells.get(*nth), experiment.setups.get(*nth)) else { continue };
        let definition = &experiment.definition;
        let flows = definition.flows.iter().zip(&setup.flows);
        let flows = flows.filter(|(_, setup)| setup.kernel.is_none()).map(|(written, _)| &written.congestion);
        let workloads = definition.workloads.iter().zip(&setup.workloads);
        let workloads = workloads.filter(|(_, setup)| setup.rate != Rate::ZERO).map(|(written, _)| &written.congestion);
        for congestion in flows.chain(workloads) {
            let Ok(text) = cell.fill(congestion.get_ref()) else { continue };
            let Ok(spec) = text.parse::<Spec>() else { continue };
            let parts = spec.entries().map(|entry| (entry.slot(), entry.name));
            found.extend(parts.filter(|(_, name)| !NOTHING.contains(name)));
        }
    }
    found
}

/// Returns the algorithms of a row: those in its cells, or in all cells if it is not measured.
pub(super) fn of_row(experiment: &Experiment, row: &Row) -> BTreeSet<&'static str> {
    let all: Vec<usize> = (0..experiment.cells.len()).collect();
    let cells = row.judged.as_ref().map_or(&all, |judged| &judged.cells);
    of_cells(experiment, cells).into_iter().map(|(_, name)| name).collect()
}

/// Returns all algorithms, by slot.
pub(super) fn by_slot(sections: &[Section<'_>]) -> Vec<(&'static str, BTreeSet<&'static str>)> {
    let mut all: BTreeMap<Slot, BTreeSet<&'static str>> = BTreeMap::new();
    for section in sections {
        let cells: Vec<usize> = (0..section.experiment.cells.len()).collect();
        for (slot, name) in of_cells(section.experiment, &cells) {
            all.entry(slot).or_default().insert(name);
        }
    }
    all.into_iter().map(|(slot, names)| (role(slot), names)).collect()
}

const fn role(slot: Slot) -> &'static str {
    match slot {
        Slot::Startup => "start-up scheme",
        Slot::SlowStart => "slow-start variant",
        Slot::Avoidance => "congestion avoidance",
        Slot::Loss => "loss classification",
        Slot::Recovery => "recovery",
        Slot::Monolithic => "monolithic controller",
    }
}
