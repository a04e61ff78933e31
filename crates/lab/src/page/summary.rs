//! Summary at the top of the page: how many claims of each paper hold.

use std::collections::BTreeMap;

use super::{Section, encoded, total, verdict};
use crate::judge::Counts;
use crate::plot::tag::escape;
use crate::rule::Verdict;

fn by_paper(sections: &[Section<'_>]) -> BTreeMap<String, Counts> {
    Counts::by_paper(sections.iter().map(|section| (section.experiment, section.judged())))
}

const fn measured(counts: &Counts) -> usize {
    counts.reproduced + counts.not_reproduced
}

pub(super) fn sentence(sections: &[Section<'_>]) -> String {
    let (papers, all) = (by_paper(sections), total(sections));
    let sources = if papers.len() == 1 { "1 paper".to_owned() } else { format!("{} papers", papers.len()) };
    let mut text = match measured(&all) {
        0 => format!("No claim of {sources} was measured"),
        measured => format!(
            "Of {measured} claims of {sources} that were measured, {} hold and {} do not",
            all.reproduced, all.not_reproduced
        ),
    };
    let others = [
        (all.not_reproducible, "cannot be reproduced here"),
        (all.incomplete, "belong to experiments with missing runs"),
    ];
    for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
        text += &format!("; {count} more {what}");
    }
    text + "."
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
        "<section id=\"summary\" aria-label=\"Summary\"><table><thead><tr><th scope=\"col\">Paper</th>\
         <th scope=\"col\">claims that hold</th>{heads}<th scope=\"col\">rows</th><th scope=\"col\">not run</th>\
         </tr></thead><tbody>{lines}</tbody><tfoot>{sum}</tfoot></table></section>\n"
    )
}

/// Returns a line of the table. Its numbers are links to the rows.
fn line(cell: &str, name: &str, counts: &Counts, of: Option<&str>) -> String {
    let paper = of.map(|of| format!("paper={}", encoded(of)));
    let none = "<span class=\"none\">0</span>";
    let link = |verdict: Option<&str>, count: usize| {
        let verdict = verdict.map(|verdict| format!("verdict={verdict}"));
        let state: Vec<String> = paper.iter().cloned().chain(verdict).collect();
        match count {
            0 => none.to_owned(),
            _ => format!("<a href=\"#{}\">{count}</a>", state.join("&amp;")),
        }
    };
    let each = Verdict::ALL.map(|of| {
        let class = of.name();
        format!("<{cell} class=\"number {class}\">{}</{cell}>", link(Some(class), counts.with(of)))
    });
    let each = each.concat();
    let rows = link(None, Verdict::ALL.iter().map(|of| counts.with(*of)).sum());
    let not_run = if counts.incomplete == 0 { none.to_owned() } else { counts.incomplete.to_string() };
    let held = match measured(counts) {
        0 => "\u{2013}".to_owned(),
        measured => format!("{} of {measured}", counts.reproduced),
    };
    format!(
        "<tr><th scope=\"row\">{}</th><{cell} class=\"number held\">{}</{cell}>{each}\
         <{cell} class=\"number rows-of\">{rows}</{cell}><{cell} class=\"number not-run\">{not_run}</{cell}></tr>",
        escape(name),
        held
    )
}
