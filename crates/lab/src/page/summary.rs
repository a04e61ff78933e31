//! Summary at the top of the page: how many claims of each paper hold.

use std::collections::BTreeMap;

use super::{Section, encoded, total, verdict};
use crate::definition::Kind;
use crate::judge::{Counts, Tally};
use crate::plot::tag::escape;
use crate::rule::Verdict;

fn by_paper(sections: &[Section<'_>]) -> BTreeMap<String, Counts> {
    Counts::by_paper(sections.iter().map(|section| (section.experiment, section.judged())))
}

pub(super) fn sentence(sections: &[Section<'_>]) -> String {
    let (papers, all) = (by_paper(sections), total(sections));
    let sources = if papers.len() == 1 { "1 source".to_owned() } else { format!("{} sources", papers.len()) };
    let Tally { reproduced, undecided, not_reproduced, not_reproducible, incomplete } = all.claims;
    let mut text = match all.claims.measured() {
        0 => format!("No claim of {sources} was measured"),
        measured => format!(
            "Of {measured} claims of {sources} that were measured, {reproduced} are reproduced, {undecided} undecided and \
             {not_reproduced} not reproduced"
        ),
    };
    let others =
        [(not_reproducible, "cannot be reproduced here"), (incomplete, "belong to experiments with missing runs")];
    for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
        text += &format!("; {count} more {what}");
    }
    text += ".";
    for (kind, what) in
        [(Kind::Robustness, "under other conditions"), (Kind::Model, "that follow from the configuration")]
    {
        let tally = all.of(kind);
        if tally.all() > 0 {
            text += &format!(" Of {} rows {what}, {} hold.", tally.all(), tally.reproduced);
        }
    }
    text
}

pub(super) fn table(sections: &[Section<'_>]) -> String {
    let papers = by_paper(sections);
    let lines: String = papers.iter().map(|(name, counts)| line("td", name, counts, Some(name))).collect();
    let sum = line("th", "All", &total(sections), None);
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
         </tr></thead><tbody>{lines}</tbody><tfoot>{sum}</tfoot></table></section>\n"
    )
}

/// Returns a line of the table. Its numbers are links to the rows.
fn line(cell: &str, name: &str, counts: &Counts, of: Option<&str>) -> String {
    let paper = of.map(|of| format!("paper={}", encoded(of)));
    let none = "<span class=\"none\">0</span>";
    let link = |kind: Kind, verdict: Option<&str>, text: &str| {
        let verdict = verdict.map(|verdict| format!("verdict={verdict}"));
        let state: Vec<String> = paper.iter().cloned().chain([format!("kind={kind}")]).chain(verdict).collect();
        format!("<a href=\"#{}\">{text}</a>", state.join("&amp;"))
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
        escape(name),
    )
}
