//! A block for each of the five papers: its claims, whether they hold, and all of its rows in one picture.

use super::{Section, encoded, verdict};
use crate::definition::Kind;
use crate::experiment::Row;
use crate::judge::{Judged, Tally, paper};
use crate::papers::{MainClaim, PAPERS, Paper};
use crate::plot::tag::{Tag, escape};
use crate::plot::{Compared, forest};
use crate::rule::{Rule, Verdict};

/// Returns the blocks of the papers that have experiments on the page.
pub(super) fn blocks(sections: &[Section<'_>]) -> String {
    PAPERS.iter().filter_map(|of| block(of, sections)).collect()
}

fn block(of: &Paper, sections: &[Section<'_>]) -> Option<String> {
    let own: Vec<&Section<'_>> =
        sections.iter().filter(|section| paper(&section.experiment.definition.source) == of.name).collect();
    if own.is_empty() {
        return None;
    }
    let claims: String = of.claims.iter().map(|claim| main_claim(claim, &own)).collect();
    let compared: Vec<Compared<'_>> = own.iter().flat_map(|section| compared(section)).collect();
    let picture = if compared.is_empty() {
        String::new()
    } else {
        let summary = "Each claim with a number or an order: ours relative to the paper's, with the rule's range";
        format!("<details class=\"forest\"><summary>{summary}</summary>{}</details>", forest(&compared))
    };
    let all = Tag::new("a").set("href", &format!("#paper={}", encoded(of.name))).text("all of its rows");
    let block = Tag::new("section").set("class", "paper").raw(&format!(
        "<h2>{}</h2><p class=\"about\">{}, {}; {all}</p><ul class=\"claims\">{claims}</ul>{picture}",
        escape(of.title),
        escape(of.authors),
        of.year
    ));
    Some(format!("{block}\n"))
}

/// Returns a main claim with the verdicts of its rows.
fn main_claim(claim: &MainClaim, sections: &[&Section<'_>]) -> String {
    let (mut tally, mut missing) = (Tally::default(), false);
    for section in sections {
        let is_of = |row: &str| {
            claim
                .rows
                .iter()
                .any(|(experiment, start)| *experiment == section.experiment.id() && row.starts_with(start))
        };
        match section.judged() {
            Some(rows) => rows
                .iter()
                .filter(|row| row.kind == Kind::Claim && is_of(&row.row))
                .for_each(|row| tally.add(row.verdict)),
            None => missing |= section.experiment.rows.iter().any(|row| is_of(&row.id)),
        }
    }
    let told = |of: Verdict, words: &str| {
        let (class, mark, _) = verdict(of);
        format!("<span class=\"verdict {class}\"><span aria-hidden=\"true\">{mark}</span> {words}</span>")
    };
    let verdict = match tally {
        _ if missing => "<span class=\"verdict\">runs are missing</span>".to_owned(),
        Tally { reproduced: 0, undecided: 0, not_reproduced: 0, .. } => told(Verdict::NotReproducible, "not measured"),
        Tally { undecided: 0, not_reproduced: 0, reproduced, .. } => {
            told(Verdict::Reproduced, &format!("holds ({})", rows(reproduced)))
        }
        Tally { reproduced: 0, undecided: 0, not_reproduced, .. } => {
            told(Verdict::NotReproduced, &format!("does not hold ({})", rows(not_reproduced)))
        }
        Tally { reproduced: 0, not_reproduced: 0, undecided, .. } => {
            told(Verdict::Undecided, &format!("undecided ({})", rows(undecided)))
        }
        Tally { reproduced, undecided, .. } => {
            let open = if undecided == 0 { String::new() } else { format!(", {undecided} are undecided") };
            let words = format!("in part: {reproduced} of {} rows hold{open}", tally.measured());
            format!("<span class=\"verdict undecided\"><span aria-hidden=\"true\">\u{25d0}</span> {words}</span>")
        }
    };
    format!("<li>{} {verdict}</li>", escape(claim.text))
}

fn rows(count: usize) -> String {
    if count == 1 { "1 row".into() } else { format!("{count} rows") }
}

/// Returns the claims of a section that can be compared in one picture.
fn compared<'a>(section: &Section<'a>) -> Vec<Compared<'a>> {
    let rows = section.experiment.rows.iter().zip(section.judged().unwrap_or_default());
    rows.filter(|(row, _)| row.kind == Kind::Claim).filter_map(|(row, judged)| one(row, judged)).collect()
}

fn one<'a>(row: &Row, judged: &'a Judged) -> Option<Compared<'a>> {
    let rule = &row.judged.as_ref()?.rule;
    let ours: Vec<f64> = judged.ours.list().iter().copied().collect::<Option<_>>()?;
    let positive = |value: f64| (value > 0.0 && value.is_finite()).then_some(value);
    let (ratio, interval) = match (&ours[..], &row.paper[..]) {
        ([ours], [paper]) if !rule.compares() => {
            let paper = positive(*paper)?;
            let interval = judged.interval.list().first().copied().flatten().filter(|_| judged.seeds > 1);
            (ours / paper, interval.map(|interval| interval.map(|end| end / paper)))
        }
        // An order of two values: the first relative to the second.
        ([first, second], _) => {
            let second = positive(*second)?;
            let shift = (first - rule.margins(&ours).first()?) / second;
            // The margin of an equivalence is not a difference.
            let margin = judged.margins.first().filter(|_| !matches!(rule, Rule::Alike(_)));
            (first / second, margin.map(|margin| margin.map(|end| end / second + shift)))
        }
        _ => return None,
    };
    let range = rule.range(&ours, &row.paper, &row.deviations)?;
    Some(Compared { name: &judged.row, about: &judged.claim, verdict: judged.verdict, ratio, interval, range })
}
