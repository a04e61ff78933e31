//! Summary at the top of the page: how many claims of each paper hold.

use std::collections::BTreeMap;

use super::{Section, VERDICTS, encoded, verdict};
use crate::plot::tag::escape;
use crate::results::paper;
use crate::rule::Verdict;

/// The rows of a paper, or of all papers, by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Number of rows with each verdict in [`VERDICTS`].
    judged: [usize; VERDICTS.len()],
    /// Rows of experiments with missing runs, which have no verdict.
    pub(super) not_run: usize,
}

impl Counts {
    pub(super) fn of(section: &Section<'_>) -> Self {
        if section.ended < section.runs {
            return Self { not_run: section.experiment.rows.len(), ..Self::default() };
        }
        let count = |verdict| section.rows.iter().filter(|row| row.verdict == verdict).count();
        Self { judged: VERDICTS.map(count), not_run: 0 }
    }

    fn add(&mut self, other: Self) {
        for (sum, count) in self.judged.iter_mut().zip(other.judged) {
            *sum += count;
        }
        self.not_run += other.not_run;
    }

    pub(super) fn with(&self, verdict: Verdict) -> usize {
        VERDICTS.iter().zip(self.judged).filter(|(of, _)| **of == verdict).map(|(_, count)| count).sum()
    }

    fn rows(&self) -> usize {
        self.judged.iter().sum()
    }

    fn measured(&self) -> usize {
        self.with(Verdict::Reproduced) + self.with(Verdict::NotReproduced)
    }

    /// Returns how many of the measured rows hold, as text.
    fn held(&self) -> String {
        match self.measured() {
            0 => "\u{2013}".to_owned(),
            measured => format!("{} of {measured}", self.with(Verdict::Reproduced)),
        }
    }
}

fn by_paper(sections: &[Section<'_>]) -> BTreeMap<String, Counts> {
    let mut papers: BTreeMap<String, Counts> = BTreeMap::new();
    for section in sections {
        papers.entry(paper(&section.experiment.definition.source)).or_default().add(Counts::of(section));
    }
    papers
}

fn total(papers: &BTreeMap<String, Counts>) -> Counts {
    let mut all = Counts::default();
    papers.values().for_each(|counts| all.add(*counts));
    all
}

pub(super) fn sentence(sections: &[Section<'_>]) -> String {
    let papers = by_paper(sections);
    let all = total(&papers);
    let sources = if papers.len() == 1 { "1 paper".to_owned() } else { format!("{} papers", papers.len()) };
    let mut text = match all.measured() {
        0 => format!("No claim of {sources} was measured"),
        measured => format!(
            "Of {measured} claims of {sources} that were measured, {} hold and {} do not",
            all.with(Verdict::Reproduced),
            all.with(Verdict::NotReproduced)
        ),
    };
    let others = [
        (all.with(Verdict::NotReproducible), "cannot be reproduced here"),
        (all.not_run, "belong to experiments with missing runs"),
    ];
    for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
        text += &format!("; {count} more {what}");
    }
    text + "."
}

pub(super) fn table(sections: &[Section<'_>]) -> String {
    let papers = by_paper(sections);
    let lines: String = papers.iter().map(|(name, counts)| line("td", name, counts, Some(name))).collect();
    let sum = line("th", "All", &total(&papers), None);
    let heads: String = VERDICTS
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
    let each: String = VERDICTS
        .iter()
        .zip(counts.judged)
        .map(|(of, count)| {
            let (class, ..) = verdict(*of);
            format!("<{cell} class=\"number {class}\">{}</{cell}>", link(Some(class), count))
        })
        .collect();
    let rows = link(None, counts.rows());
    let not_run = if counts.not_run == 0 { none.to_owned() } else { counts.not_run.to_string() };
    format!(
        "<tr><th scope=\"row\">{}</th><{cell} class=\"number held\">{}</{cell}>{each}\
         <{cell} class=\"number rows-of\">{rows}</{cell}><{cell} class=\"number not-run\">{not_run}</{cell}></tr>",
        escape(name),
        counts.held()
    )
}
