//! Summary at the top of the page: how many claims of each paper hold.

use super::{Section, encoded, prose, title, total, verdict};
use crate::definition::Kind;
use crate::judge::{Counts, Tally, paper};
use crate::papers::{PAPERS, place};
use crate::rule::Verdict;

/// The numbers of rows of several sources, and their sum.
struct Sources {
    each: Vec<(String, Counts)>,
    sum: Counts,
}

/// Returns the five papers, in their order, and the other sources.
fn sources(sections: &[Section<'_>]) -> [Sources; 2] {
    [true, false].map(|is_paper| {
        let is_of =
            |section: &&Section<'_>| (place(&paper(&section.experiment.definition.source)) < PAPERS.len()) == is_paper;
        let own = || sections.iter().filter(is_of);
        let each = Counts::by_paper(own().map(|section| (section.experiment, section.judged())));
        let mut each: Vec<(String, Counts)> = each.into_iter().collect();
        each.sort_by_key(|(name, _)| place(name));
        Sources { each, sum: total(own()) }
    })
}

/// Returns how many rows of the papers hold, and apart from them those of other sources.
pub(super) fn sentences(sections: &[Section<'_>]) -> [String; 2] {
    sources(sections).map(|Sources { each, sum }| {
        let names: Vec<&str> = each.iter().map(|(name, _)| name.as_str()).collect();
        match names.first() {
            None => String::new(),
            Some(name) if place(name) < PAPERS.len() => counted(&sum, "of the papers"),
            Some(_) => counted(&sum, &format!("of other sources ({})", prose(&names.join("; ")))),
        }
    })
}

fn counted(all: &Counts, whose: &str) -> String {
    let Tally { reproduced, undecided, not_reproduced, not_reproducible, incomplete } = all.claims;
    let mut text = match all.claims.measured() {
        0 => format!("No row {whose} was measured"),
        measured => format!(
            "{reproduced} of {measured} measured rows {whose} are reproduced, {undecided} undecided, {not_reproduced} not"
        ),
    };
    let others =
        [(not_reproducible, "cannot be reproduced here"), (incomplete, "belong to experiments with missing runs")];
    for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
        text += &format!("; {count} more {what}");
    }
    text + "."
}

pub(super) fn table(sections: &[Section<'_>]) -> String {
    let body = |Sources { each, sum }: &Sources, all: &str| {
        let lines: String = each.iter().map(|(name, counts)| line("td", title(name), counts, Some(name))).collect();
        let sum = if each.len() > 1 { line("th", all, sum, None) } else { String::new() };
        format!("<tbody>{lines}{sum}</tbody>")
    };
    let [papers, others] = sources(sections);
    let bodies = body(&papers, "All of these papers") + &body(&others, "All other sources");
    let heads: String = Verdict::ALL
        .iter()
        .map(|of| {
            let (class, mark, word) = verdict(*of);
            format!("<th scope=\"col\" class=\"{class}\">{mark} {word}</th>")
        })
        .collect();
    format!(
        "<section id=\"summary\" aria-label=\"Summary\"><table><thead><tr><th scope=\"col\">Source</th>\
         <th scope=\"col\">claims reproduced</th>{heads}<th scope=\"col\">not run</th>\
         <th scope=\"col\">robustness rows that hold</th><th scope=\"col\">model rows that hold</th>\
         </tr></thead>{bodies}</table></section>\n"
    )
}

/// Returns a line of the table. Its numbers are links to the rows.
fn line(cell: &str, name: &str, counts: &Counts, of: Option<&str>) -> String {
    let paper = of.map(|of| format!("paper={}", encoded(of)));
    let none = "<span class=\"none\">0</span>";
    let link = |kind: Kind, verdict: Option<&str>, text: &str| {
        let verdict = verdict.map(|verdict| format!("verdict={verdict}"));
        let state: Vec<String> = paper.iter().cloned().chain([format!("kind={kind}")]).chain(verdict).collect();
        if paper.is_none() { text.into() } else { format!("<a href=\"#{}\">{text}</a>", state.join("&amp;")) }
    };
    let claims = &counts.claims;
    let each = Verdict::ALL.map(|of| {
        let class = of.name();
        let number = match claims.with(of) {
            0 => none.to_owned(),
            count => link(Kind::Claim, Some(class), &count.to_string()),
        };
        format!("<{cell} class=\"number {class}\">{number}</{cell}>")
    });
    let each = each.concat();
    let others = [Kind::Robustness, Kind::Model].map(|kind| {
        let tally = counts.of(kind);
        let told = format!("{} of {}", tally.reproduced, tally.all());
        let told = if tally.all() == 0 { none.to_owned() } else { link(kind, None, &told) };
        format!("<{cell} class=\"number {kind}\">{told}</{cell}>")
    });
    let others = others.concat();
    let not_run = if claims.incomplete == 0 { none.to_owned() } else { claims.incomplete.to_string() };
    let held = match claims.measured() {
        0 => "\u{2013}".to_owned(),
        measured => format!("{} of {measured}", claims.reproduced),
    };
    format!(
        "<tr><th scope=\"row\">{}</th><{cell} class=\"number held\">{held}</{cell}>{each}\
         <{cell} class=\"number not-run\">{not_run}</{cell}>{others}</tr>",
        prose(name),
    )
}
