//! The table of an experiment's rows.

use super::{Section, algorithms, verdict};
use crate::definition;
use crate::judge::{Judged, Numbers};
use crate::plot::number;
use crate::plot::tag::{Tag, escape};

pub(super) fn table(section: &Section<'_>) -> String {
    let rows: String = section.rows.iter().map(|judged| line(section, judged)).collect();
    format!(
        "<div class=\"rows\"><table><thead><tr><th scope=\"col\">Row</th><th scope=\"col\">Verdict</th>\
         <th scope=\"col\">Metric</th><th scope=\"col\">Paper</th><th scope=\"col\">Ours (95 % interval)</th>\
         <th scope=\"col\">Rule</th><th scope=\"col\">Remark</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

fn line(section: &Section<'_>, judged: &Judged) -> String {
    let nth = section.experiment.rows.iter().position(|row| row.id == judged.row);
    let row = nth.and_then(|nth| section.experiment.rows.get(nth));
    let written = nth.and_then(|nth| section.experiment.definition.rows.get(nth));
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
        .raw(&format!("<td class=\"numbers\">{}</td>", values(&judged.paper, None, written)))
        .raw(&format!("<td class=\"numbers\">{}</td>", values(&judged.ours, Some(judged), written)))
        .raw(&of(&judged.rule))
        .raw(&of(&judged.reason))
        .to_string()
        + "\n"
}

/// A value or a list of them with the choices' names; with the range of ours.
fn values(numbers: &Numbers, ours: Option<&Judged>, row: Option<&definition::Row>) -> String {
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
                let name = row.and_then(|row| row.order.get(nth)).map_or("", |name| name.get_ref());
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
