//! The table of an experiment's rows.

use super::{Section, algorithms, verdict};
use crate::experiment::Experiment;
use crate::judge::{Judged, Numbers};
use crate::plot::number;
use crate::plot::tag::{Tag, escape};

pub(super) fn table(section: &Section<'_>) -> String {
    let rows: String = section.rows.iter().enumerate().map(|(nth, judged)| line(section, nth, judged)).collect();
    format!(
        "<div class=\"rows\"><table><thead><tr><th scope=\"col\">Row</th><th scope=\"col\">Verdict</th>\
         <th scope=\"col\">Metric</th><th scope=\"col\">Paper</th><th scope=\"col\">Ours (95 % interval)</th>\
         <th scope=\"col\">Rule</th><th scope=\"col\">Note</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

/// Returns the line of the experiment's nth row.
fn line(section: &Section<'_>, nth: usize, judged: &Judged) -> String {
    let row = section.experiment.rows.get(nth);
    let names = row.and_then(|row| row.judged.as_ref()).map(|row| names(section.experiment, &row.cells));
    let names = names.unwrap_or_default();
    let algorithms = row.map(|row| algorithms::of_row(section.experiment, row)).unwrap_or_default();
    let algorithms: Vec<&str> = algorithms.into_iter().collect();
    let (class, mark, word) = verdict(judged.verdict);
    let metric = [judged.metric.replace('-', " "), judged.unit.clone()];
    let metric: Vec<String> = metric.into_iter().filter(|text| !text.is_empty()).collect();
    let of = |text: &str| format!("<td>{}</td>", escape(text));
    Tag::new("tr")
        .set("data-verdict", class)
        .set("data-algorithms", &algorithms.join(" "))
        .raw(&format!("<th scope=\"row\">{}</th>", escape(&judged.row)))
        .raw(&format!("<td class=\"verdict {class}\"><span aria-hidden=\"true\">{mark}</span> {word}</td>"))
        .raw(&of(&metric.join(", ")))
        .raw(&format!("<td class=\"numbers\">{}</td>", values(&judged.paper, None, &names)))
        .raw(&format!("<td class=\"numbers\">{}</td>", values(&judged.ours, Some(judged), &names)))
        .raw(&of(&judged.rule))
        .raw(&of(&judged.reason))
        .to_string()
        + "\n"
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
        let (low, high) = (nth_of(&judged.low, nth)?, nth_of(&judged.high, nth)?);
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

fn nth_of(numbers: &Numbers, nth: usize) -> Option<f64> {
    match numbers {
        Numbers::One(value) => *value,
        Numbers::Many(values) => values.get(nth).copied().flatten(),
    }
}
