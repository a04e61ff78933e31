//! The table of an experiment's rows.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_cc::registry::{Slot, Spec};
use longhaul_units::Rate;

use super::{Section, prose, row_id, verdict};
use crate::definition::Kind;
use crate::experiment::{Experiment, Row};
use crate::judge::{CLASSES, Judged, Numbers};
use crate::plot::number;
use crate::plot::tag::{Tag, escape};

pub(super) fn table(section: &Section<'_>) -> String {
    let rows: String = section.rows.iter().enumerate().map(|(nth, judged)| line(section, nth, judged)).collect();
    format!(
        "<div class=\"rows\"><table><thead><tr><th scope=\"col\">Row</th><th scope=\"col\">Verdict</th>\
         <th scope=\"col\">Claim</th><th scope=\"col\">Metric</th><th scope=\"col\">Paper</th><th scope=\"col\">Ours (95 % interval)</th>\
         <th scope=\"col\">Rule</th><th scope=\"col\">Note</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

fn line(section: &Section<'_>, nth: usize, judged: &Judged) -> String {
    let row = section.experiment.rows.get(nth);
    let names = row.and_then(|row| row.judged.as_ref()).map(|row| names(section.experiment, &row.cells));
    let names = names.unwrap_or_default();
    let algorithms = row.map(|row| of_row(section.experiment, row)).unwrap_or_default();
    let algorithms: Vec<&str> = algorithms.into_iter().collect();
    let (class, mark, word) = verdict(judged.verdict);
    let metric = [judged.metric.replace('-', " "), judged.unit.clone()];
    let metric: Vec<String> = metric.into_iter().filter(|text| !text.is_empty()).collect();
    let claim = match judged.kind {
        Kind::Claim => judged.claim.clone(),
        kind => format!("({kind}) {}", judged.claim),
    };
    let of = |text: &str| format!("<td>{}</td>", prose(text));
    let (note, command) = (note(judged), command(section.experiment, row));
    let named = if note.is_empty() { "" } else { " class=\"note\"" };
    Tag::new("tr")
        .set("data-verdict", class)
        .set("data-kind", judged.kind.name())
        .set("data-algorithms", &algorithms.join(" "))
        .set("id", &row_id(judged))
        .raw(&format!("<th scope=\"row\">{}</th>", prose(&judged.row)))
        .raw(&format!("<td class=\"verdict {class}\"><span aria-hidden=\"true\">{mark}</span> {word}</td>"))
        .raw(&of(&claim))
        .raw(&of(&metric.join(", ")))
        .raw(&format!("<td class=\"numbers\">{}</td>", values(&judged.paper_value, None, &names)))
        .raw(&format!("<td class=\"numbers\">{}</td>", values(&judged.ours, Some(judged), &names)))
        .raw(&of(&judged.rule))
        .raw(&format!("<td{named}>{note}{command}</td>"))
        .to_string()
        + "\n"
}

/// Returns the note of a row, with the class of its failure emphasized, and a link to the row that isolates the cause.
fn note(judged: &Judged) -> String {
    let of_class = CLASSES.iter().find(|class| judged.reason.starts_with(**class));
    let (class, rest) = judged.reason.split_at(of_class.map_or(0, |class| class.len()));
    let class = if class.is_empty() { String::new() } else { format!("<strong>{class}</strong>") };
    let link = judged.isolated_by.split_once('/').map(|(experiment, row)| {
        let found = Judged { experiment: experiment.into(), row: row.into(), ..judged.clone() };
        format!(" <a href=\"#{}\">The row that isolates it: {}</a>.", row_id(&found), prose(&judged.isolated_by))
    });
    class + &prose(rest) + &link.unwrap_or_default()
}

/// Returns the command that makes the runs of a row, in an element that opens, or nothing if there are none.
fn command(experiment: &Experiment, row: Option<&Row>) -> String {
    let Some(judged) = row.and_then(|row| row.judged.as_ref()) else { return String::new() };
    let bases = experiment.relatives.get(judged.metric).and_then(Option::as_ref);
    let with_base = |cell: &usize| [Some(*cell), bases.map(|relative| relative.bases[*cell])];
    let cells = judged.cells.iter().flat_map(with_base).flatten();
    let choices: BTreeSet<(&str, &str)> = cells.flat_map(|cell| experiment.choices_of(cell)).collect();
    let at = choices.iter().filter(|(axis, _)| experiment.choices(axis).count() > 1);
    let at: String = at.map(|(axis, choice)| format!(" --at '{axis}={choice}'")).collect();
    let command = escape(&format!("longhaul-lab run {}{at}", experiment.id()));
    format!("<details><summary>command</summary><code>{command}</code></details>")
}

/// Returns names that distinguish the cells: their choices on the axes on which they differ.
fn names(experiment: &Experiment, cells: &[usize]) -> Vec<String> {
    let places: Vec<&[usize]> = cells.iter().filter_map(|cell| Some(&*experiment.cells.get(*cell)?.places)).collect();
    let axes = experiment.definition.axes.iter().enumerate();
    let differ: Vec<_> = axes.filter(|(axis, _)| places.iter().any(|cell| cell[*axis] != places[0][*axis])).collect();
    let name = |cell: &&[usize]| {
        let choices = differ.iter().map(|(nth, axis)| axis.choices[cell[*nth]].name.get_ref().as_str());
        choices.collect::<Vec<&str>>().join(", ")
    };
    places.iter().map(name).collect()
}

/// Formats a value, or a list of values with the names of their cells. Our values have their intervals.
fn values(numbers: &Numbers, ours: Option<&Judged>, names: &[String]) -> String {
    let range = |nth: usize| {
        let judged = ours.filter(|judged| judged.seeds > 1)?;
        let [low, high] = judged.interval.list().get(nth).copied().flatten()?;
        (low != high).then(|| format!(" <small>({} to {})</small>", number(low), number(high)))
    };
    let one = |nth: usize, value: Option<f64>| {
        let text = value.map_or_else(|| "\u{2013}".to_owned(), number);
        escape(&text) + &range(nth).unwrap_or_default()
    };
    match numbers {
        Numbers::One(value) => one(0, *value),
        Numbers::Many(values) => {
            let lines = values.iter().enumerate().map(|(nth, value)| {
                let name = names.get(nth).map_or("", String::as_str);
                format!("<li><span class=\"choice\">{}</span> {}</li>", escape(name), one(nth, *value))
            });
            format!("<ol>{}</ol>", lines.collect::<String>())
        }
    }
}

/// Names that stand for the absence of a component.
const NOTHING: [&str; 2] = ["none", "off"];

/// Returns the algorithms of the flows and workloads in some cells, with their slots. Slots that are not named have
/// the registry's default.
fn of_cells(experiment: &Experiment, cells: &[usize]) -> BTreeSet<(Slot, &'static str)> {
    let mut found = BTreeSet::new();
    for nth in cells {
        let Some(setup) = experiment.setups.get(*nth) else { continue };
        let flows = setup.flows.iter().filter(|flow| flow.foreign.is_none()).map(|flow| &flow.config);
        let workloads = setup.workloads.iter().filter(|one| one.rate != Rate::ZERO).map(|one| &one.config);
        for config in flows.chain(workloads) {
            let Ok(spec) = config.congestion.name().parse::<Spec>() else { continue };
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
