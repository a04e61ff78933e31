//! Checks of a whole file, and limits on all of its cells together.

use std::collections::{BTreeMap, BTreeSet};

use super::{CellSetup, Source, prepare};
use crate::cell::Cell;
use crate::definition::{Definition, Fault, Text};
use crate::real;

/// Limits that catch typing mistakes, which would otherwise cause runs of several days.
const MOST_CELLS: usize = 10_000;
const MOST_RUNS: u32 = 10_000;
/// Maximum number of runs over all cells.
const MOST_RUNS_OF_ALL: u64 = 10_000_000;
/// Maximum number of cross-traffic sources and workload host pairs over all cells. Each has two access links.
const MOST_HOSTS: usize = 200_000;

/// Checks everything that does not depend on the cell.
pub(super) fn definition(definition: &Definition, source: Source<'_>) -> Result<(), Fault> {
    let id = definition.id.get_ref();
    if id.is_empty() || !id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        return Err(source.fault(&definition.id, "id", format!("{id:?} must consist of a to z, 0 to 9 and dashes")));
    }
    axes(definition, source)?;
    let card = definition.card_runs.unwrap_or(definition.runs);
    for (field, runs) in [("runs", definition.runs), ("quick-runs", definition.quick_runs), ("card-runs", card)] {
        can_run(definition, runs).map_err(|what| source.beside(&definition.id, field, what))?;
    }
    if definition.quick_runs > definition.runs {
        let what = format!("{} are more than the {} of `runs`", definition.quick_runs, definition.runs);
        return Err(source.beside(&definition.id, "quick-runs", what));
    }
    unique(source, "traffic.name", definition.traffic.iter().map(|traffic| &traffic.name))?;
    unique(source, "workloads.name", definition.workloads.iter().map(|workload| &workload.name))?;
    unique(source, "flows.name", definition.flows.iter().map(|flow| &flow.name))?;
    unique(source, "probes.name", definition.probes.iter().map(|probe| &probe.name))
}

/// Checks that each cell can have this many runs, and describes the fault otherwise.
pub(crate) fn can_run(definition: &Definition, runs: u32) -> Result<(), String> {
    if runs == 0 || runs > MOST_RUNS {
        return Err(format!("{runs} is not within 1 to {MOST_RUNS}"));
    }
    let cells = cells(definition);
    if cells as u64 * u64::from(runs) > MOST_RUNS_OF_ALL {
        return Err(format!("{runs} runs in each of {cells} cells are more than {MOST_RUNS_OF_ALL}"));
    }
    Ok(())
}

fn cells(definition: &Definition) -> usize {
    definition.axes.iter().map(|axis| axis.choices.len()).fold(1, usize::saturating_mul)
}

fn axes(definition: &Definition, source: Source<'_>) -> Result<(), Fault> {
    for axis in &definition.axes {
        if axis.choices.is_empty() {
            return Err(source.beside(&axis.name, "axes.choices", "the axis has no choices"));
        }
        unique(source, "axes.choices", axis.choices.iter().map(|choice| &choice.name))?;
    }
    let count = cells(definition);
    if count > MOST_CELLS {
        let what = format!("more than {MOST_CELLS} combinations of choices");
        return Err(source.beside(&definition.id, "axes", what));
    }
    unique(source, "axes.name", definition.axes.iter().map(|axis| &axis.name))?;
    variables(definition, source)
}

/// Checks that no variable is set on two axes. A choice may set the variable with the name of its own axis.
fn variables(definition: &Definition, source: Source<'_>) -> Result<(), Fault> {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for (place, axis) in definition.axes.iter().enumerate() {
        known.insert(axis.name.get_ref(), place);
    }
    for (place, axis) in definition.axes.iter().enumerate() {
        for choice in &axis.choices {
            for name in choice.variables.keys() {
                let first = *known.entry(name).or_insert(place);
                if first != place {
                    let other = definition.axes[first].name.get_ref();
                    let what = format!("the variable {name:?} is also set on the axis {other:?}");
                    return Err(source.fault(&choice.name, "axes.choices", what));
                }
            }
        }
    }
    Ok(())
}

pub(super) fn unique<'a>(source: Source<'_>, field: &str, names: impl Iterator<Item = &'a Text>) -> Result<(), Fault> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name.get_ref()) {
            return Err(source.fault(name, field, format!("{:?} occurs twice", name.get_ref())));
        }
    }
    Ok(())
}

/// Creates the setup of each cell, and stops if they would take too much memory.
pub(super) fn setups(definition: &Definition, cells: &[Cell], source: Source<'_>) -> Result<Vec<CellSetup>, Fault> {
    let (mut setups, mut hosts) = (Vec::new(), 0);
    for cell in cells {
        let setup = prepare::cell(definition, cell, source)?;
        if setup.real_time {
            real::fits(&setup).map_err(|misfit| source.beside(&definition.id, "real-time", misfit))?;
        }
        let pairs: usize = setup.workloads.iter().map(|workload| workload.pairs.len()).sum();
        hosts += pairs + setup.traffic.len();
        if hosts > MOST_HOSTS {
            return Err(too_many(definition, pairs > setup.traffic.len(), source));
        }
        setups.push(setup);
    }
    never_begin(definition, &setups, source)?;
    never_exist(definition, &setups, source)?;
    Ok(setups)
}

fn too_many(definition: &Definition, are_pairs: bool, source: Source<'_>) -> Fault {
    let what = format!("more than {MOST_HOSTS} sources of traffic and pairs of hosts in all cells together");
    match (definition.workloads.first(), definition.traffic.first()) {
        (Some(workload), _) if are_pairs => source.beside(&workload.name, "workloads.pairs", what),
        (_, Some(traffic)) => source.beside(&traffic.name, "traffic.count", what),
        _ => source.fault(&definition.id, "axes", what),
    }
}

/// Rejects flows without connections in all cells.
fn never_exist(definition: &Definition, setups: &[CellSetup], source: Source<'_>) -> Result<(), Fault> {
    for (place, flow) in definition.flows.iter().enumerate() {
        if setups.iter().all(|setup| setup.flows[place].count == 0) {
            return Err(source.beside(&flow.name, "flows.count", "0 is not within 1 to 1000"));
        }
    }
    Ok(())
}

/// Rejects flows that begin after the end of the run in all cells. They may in some cells, which then run without them.
fn never_begin(definition: &Definition, setups: &[CellSetup], source: Source<'_>) -> Result<(), Fault> {
    for (place, flow) in definition.flows.iter().enumerate() {
        let Some(start) = &flow.start else { continue };
        let is_late =
            |setup: &CellSetup| setup.flows[place].after.is_none() && setup.flows[place].start >= setup.duration;
        if setups.iter().all(is_late) {
            return Err(source.fault(start, "flows.start", "all runs end before this time"));
        }
    }
    Ok(())
}
