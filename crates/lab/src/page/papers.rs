//! A block for each of the five papers: its main claims, whether they hold, and all of its claims in one picture.

use super::{Section, encoded, prose, row_id, verdict};
use crate::definition::Kind;
use crate::experiment::Row;
use crate::judge::{Judged, Tally, paper};
use crate::papers::{MainClaim, PAPERS, Paper, Part, names};
use crate::plot::tag::{Tag, escape};
use crate::plot::{Compared, forest, short};
use crate::rule::{Rule, Verdict};

/// Returns the blocks of the papers that have experiments on the page, and how many of their main claims hold.
pub(super) fn blocks(sections: &[Section<'_>]) -> (String, String) {
    let (mut answers, mut count) = (Vec::new(), 0);
    let text = PAPERS.iter().filter_map(|of| block(of, sections, &mut answers).inspect(|_| count += 1)).collect();
    let told: Vec<String> = Answer::ALL
        .iter()
        .map(|of| (answers.iter().filter(|answer| *answer == of).count(), of.told().2))
        .filter(|(count, _)| *count > 0)
        .map(|(count, (one, many))| format!("{count} {}", if count == 1 { one } else { many }))
        .collect();
    let papers = if count == 1 { "1 paper".to_owned() } else { format!("{count} papers") };
    let outcome = format!("Of {} main claims of {papers}: {}. ", answers.len(), told.join(", "));
    (text, if answers.is_empty() { String::new() } else { outcome })
}

fn block(of: &Paper, sections: &[Section<'_>], answers: &mut Vec<Answer>) -> Option<String> {
    let own: Vec<&Section<'_>> =
        sections.iter().filter(|section| paper(&section.experiment.definition.source) == of.name).collect();
    if own.is_empty() {
        return None;
    }
    let mut claims = String::new();
    for claim in of.claims {
        let (answer, text) = main_claim(claim, &own);
        answers.push(answer);
        claims += &text;
    }
    let compared: Vec<Compared<'_>> = own.iter().flat_map(|section| compared(section)).collect();
    let picture = if compared.is_empty() {
        String::new()
    } else {
        let summary = "All claims with a number or an order, relative to the paper's value or the next one";
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

/// Whether a main claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Holds,
    InPart,
    Fails,
    Open,
    NotMeasured,
    Missing,
}

impl Answer {
    const ALL: [Self; 6] = [Self::Holds, Self::InPart, Self::Fails, Self::Open, Self::NotMeasured, Self::Missing];

    /// Returns the CSS class, a mark, and the words for one claim and for several.
    const fn told(self) -> (&'static str, &'static str, (&'static str, &'static str)) {
        match self {
            Self::Holds => ("reproduced", "\u{2713}", ("holds", "hold")),
            Self::InPart => ("undecided", "\u{25d0}", ("holds in part", "hold in part")),
            Self::Fails => ("not-reproduced", "\u{2717}", ("does not hold", "do not hold")),
            Self::Open => ("undecided", "?", ("undecided", "undecided")),
            Self::NotMeasured => ("not-reproducible", "\u{25cb}", ("not measured", "not measured")),
            Self::Missing => ("none", "\u{2013}", ("runs are missing", "lack runs")),
        }
    }

    /// Returns the answer that the rows of each part give, of which there are none if runs are missing.
    fn of(claim: &MainClaim, parts: &[Vec<(&Row, &Judged)>]) -> Self {
        let tally = |parts: &[Vec<(&Row, &Judged)>]| {
            let mut tally = Tally::default();
            parts
                .iter()
                .flatten()
                .filter(|(row, _)| row.kind == Kind::Claim)
                .for_each(|(_, row)| tally.add(row.verdict));
            tally
        };
        let point = if claim.point == 0 { parts.len() } else { claim.point };
        let (all, point) = (tally(parts), tally(&parts[..point]));
        match all {
            _ if parts.iter().any(Vec::is_empty) => Self::Missing,
            Tally { reproduced: 0, undecided: 0, not_reproduced: 0, .. } => Self::NotMeasured,
            Tally { undecided: 0, not_reproduced: 0, .. } => Self::Holds,
            Tally { reproduced: 0, not_reproduced: 0, .. } => Self::Open,
            _ if point.reproduced == 0 && point.not_reproduced > 0 => Self::Fails,
            _ => Self::InPart,
        }
    }
}

/// Returns whether a main claim holds, and its text with the numbers of the rows that decide it.
fn main_claim(claim: &MainClaim, sections: &[&Section<'_>]) -> (Answer, String) {
    let rows = |(experiment, pattern, _): &Part| {
        let found = sections.iter().find(|section| section.experiment.id() == *experiment);
        let judged = found.and_then(|section| section.judged()).unwrap_or_default();
        let rows = found.into_iter().flat_map(|section| &section.experiment.rows).zip(judged);
        let mut rows: Vec<_> = rows.filter(|(row, _)| names(pattern, &row.id)).collect();
        if rows.iter().any(|(row, _)| row.kind == Kind::Claim) {
            rows.retain(|(row, _)| row.kind == Kind::Claim);
        }
        rows
    };
    let parts: Vec<_> = claim.parts.iter().map(rows).collect();
    let answer = Answer::of(claim, &parts);
    let (mut text, mut hold, mut fails, mut open) = (String::new(), 0, Vec::new(), Vec::new());
    for ((_, _, what), rows) in claim.parts.iter().zip(&parts).filter(|(_, rows)| !rows.is_empty()) {
        let has = |of: Verdict| rows.iter().any(|(_, row)| row.verdict == of);
        let worst = [Verdict::NotReproduced, Verdict::Undecided, Verdict::Reproduced].into_iter().find(|of| has(*of));
        let short_name = what.split(':').next().unwrap_or_default();
        match worst.filter(|_| rows[0].0.kind == Kind::Claim) {
            Some(Verdict::NotReproduced) => fails.push(short_name),
            Some(Verdict::Undecided) => open.push(short_name),
            Some(Verdict::Reproduced) => hold += 1,
            _ => {}
        }
        let (class, mark, _) = verdict(worst.unwrap_or(Verdict::NotReproducible));
        let row = rows.iter().find(|(_, row)| Some(row.verdict) == worst).unwrap_or(&rows[0]).1;
        let link = Tag::new("a").set("href", &format!("#{}", row_id(row)));
        text += &format!(
            "<li><span class=\"{class}\" aria-hidden=\"true\">{mark}</span>{}: {}</li>",
            link.raw(&prose(what)),
            prose(&numbers(rows))
        );
    }
    let (class, mark, (words, _)) = answer.told();
    let mut words = words.to_owned();
    if answer == Answer::InPart {
        words += &format!(": {hold} of {} parts", hold + fails.len() + open.len());
    }
    let told = [("; not: ", fails), ("; undecided: ", open)];
    for (word, parts) in told.iter().filter(|(_, parts)| answer == Answer::InPart && !parts.is_empty()) {
        words += &format!("{word}{}", parts.join("; "));
    }
    let fitted = |section: &&&Section<'_>| !section.experiment.definition.fitted.is_empty();
    let fitted =
        sections.iter().filter(fitted).any(|section| claim.parts.iter().any(|part| part.0 == section.experiment.id()));
    let fitted = if fitted { " <small>(some settings are fitted)</small>" } else { "" };
    let verdict = format!("<span class=\"{class}\"><span aria-hidden=\"true\">{mark}</span> {}</span>", prose(&words));
    (answer, format!("<li>{} <strong>{verdict}</strong>{fitted}<ul>{text}</ul></li>", prose(claim.text)))
}

/// Maximum number of values beside a main claim.
const VALUES: usize = 7;

/// Returns our values and the paper's of the rows of a part, or how many rows hold if there are too many values.
fn numbers(rows: &[(&Row, &Judged)]) -> String {
    let (first, unit) = (rows[0].1, rows[0].1.unit.as_str());
    // Rows that compare with the same cell repeat its value.
    let list = |of: &dyn Fn(&Judged) -> Vec<Option<f64>>| {
        let lists: Vec<_> = rows.iter().map(|(_, row)| of(row)).collect();
        let is_new =
            |nth: usize, place: usize| nth == 0 || lists[nth].len() < 2 || lists[nth].get(place) != lists[0].get(place);
        let values = lists.iter().enumerate().flat_map(|(nth, list)| {
            list.iter().enumerate().filter(move |(place, _)| is_new(nth, *place)).map(|(_, value)| *value)
        });
        values.map(|value| value.map_or_else(|| "\u{2013}".to_owned(), short)).collect::<Vec<String>>()
    };
    let (ours, papers) = (list(&|row| row.ours.list().to_vec()), list(&|row| row.paper_value.list().to_vec()));
    let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
    if ours.len() > VALUES {
        let hold = rows.iter().filter(|(_, row)| row.verdict == Verdict::Reproduced).count();
        return format!("{hold} of {} rows", rows.len());
    }
    let ours = format!("ours {}", ours.join(", "));
    let known = papers.iter().any(|value| value != "\u{2013}");
    let is_common =
        |place: usize| rows.iter().all(|(_, row)| row.ours.list().get(place) == first.ours.list().get(place));
    let in_pairs = rows.len() > 1 && first.ours.list().len() == 2;
    let common = (0..2).find(|place| in_pairs && is_common(*place));
    let expected = match (common, first.rule.split_once(' ').unwrap_or((&first.rule, ""))) {
        (Some(0), ("decreasing", rest)) => format!("the first above each of the others {rest}"),
        (Some(1), ("decreasing" | "above", rest)) => format!("each of the others above the second {rest}"),
        (Some(1), ("not-increasing", _)) => "none of the others below the second".to_owned(),
        _ => first.rule.clone(),
    };
    let expected = expected.trim_end();
    if known {
        format!("{ours}; paper {}{unit}", papers.join(", "))
    } else {
        format!("{ours}{unit}; expected {expected}")
    }
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
            (Some(ours / paper), interval.map(|interval| interval.map(|end| end / paper)))
        }
        // An order of two values: the margin by which the first exceeds the second, without a mark at their ratio.
        ([first, second], _) => {
            let second = positive(*second)?;
            let margin = rule.margins(&ours).first().copied()?;
            let shift = (first - margin) / second;
            // The margin of an equivalence is not a difference.
            let margins = judged.margins.first().filter(|_| !matches!(rule, Rule::Alike(_) | Rule::NotAhead(_)));
            let ends = margins.copied().unwrap_or([margin; 2]);
            (None, Some(ends.map(|end| end / second + shift)))
        }
        _ => return None,
    };
    let range = rule.range(&ours, &row.paper, &row.deviations)?;
    let (class, mark, word) = verdict(judged.verdict);
    let (name, link) = (&judged.claim, row_id(judged));
    Some(Compared { name, link, about: &judged.row, class, mark, word, ratio, interval, range })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::judge::judge;
    use crate::library;

    /// The claims of the papers' experiments, all of them reproduced.
    fn experiments() -> Vec<(Experiment, Vec<Judged>)> {
        let all = library::FILES.iter().map(|(file, text)| Experiment::read(file, text).unwrap());
        let own = all.filter(|one| PAPERS.iter().any(|known| paper(&one.definition.source) == known.name));
        let hold = |one: Experiment| {
            let mut rows = judge(&one, &[], 1);
            rows.iter_mut().for_each(|row| row.verdict = Verdict::Reproduced);
            (one, rows)
        };
        own.map(hold).collect()
    }

    fn answer(claim: &MainClaim, all: &[(Experiment, Vec<Judged>)]) -> Answer {
        let sections: Vec<Section<'_>> = all.iter().map(section).collect();
        main_claim(claim, &sections.iter().collect::<Vec<_>>()).0
    }

    const fn section((experiment, rows): &(Experiment, Vec<Judged>)) -> Section<'_> {
        Section { experiment, rows: rows.as_slice(), pictures: &[], tables: &[], ended: 1, runs: 1, took: 0.0 }
    }

    /// Each part of a main claim is decided by claims, of which each turns the answer, and no other row does.
    #[test]
    fn deciding_rows_turn_the_answer() {
        let mut all = experiments();
        for claim in PAPERS.iter().flat_map(|paper| paper.claims) {
            assert_eq!(answer(claim, &all), Answer::Holds, "{}", claim.text);
            let mut decide = Vec::new();
            for (nth, (experiment, pattern, _)) in claim.parts.iter().enumerate() {
                let place = all.iter().position(|(one, _)| one.id() == *experiment).unwrap();
                let of = |row: &Row| row.judged.is_some() && names(pattern, &row.id);
                let found: Vec<(usize, &Row)> =
                    all[place].0.rows.iter().enumerate().filter(|(_, row)| of(row)).collect();
                assert!(!found.is_empty(), "{experiment} has no row {pattern}");
                let claims = found.iter().filter(|(_, row)| row.kind == Kind::Claim);
                decide.extend(claims.map(|(row, _)| (nth, place, *row)));
            }
            let fails = if decide.len() == 1 { Answer::Fails } else { Answer::InPart };
            let undecided = if decide.len() == 1 { Answer::Open } else { Answer::InPart };
            for (nth, place, row) in &decide {
                let wanted = if claim.point == 1 && *nth == 0 { Answer::Fails } else { fails };
                for (verdict, wanted) in [(Verdict::NotReproduced, wanted), (Verdict::Undecided, undecided)] {
                    all[*place].1[*row].verdict = verdict;
                    assert_eq!(answer(claim, &all), wanted, "{}: {}", claim.text, all[*place].1[*row].row);
                }
                all[*place].1[*row].verdict = Verdict::Reproduced;
            }
            for verdict in [Verdict::NotReproduced, Verdict::Reproduced] {
                let point = decide.iter().filter(|(nth, ..)| *nth < claim.point);
                point.for_each(|(_, place, row)| all[*place].1[*row].verdict = verdict);
                let fails = verdict == Verdict::NotReproduced && claim.point > 0;
                assert_eq!(answer(claim, &all) == Answer::Fails, fails, "{}", claim.text);
            }
            for (verdict, wanted) in [(Verdict::Undecided, Answer::Open), (Verdict::NotReproduced, Answer::Fails)] {
                decide.iter().for_each(|(_, place, row)| all[*place].1[*row].verdict = verdict);
                assert_eq!(answer(claim, &all), wanted, "{}", claim.text);
            }
            decide.iter().for_each(|(_, place, row)| all[*place].1[*row].verdict = Verdict::Reproduced);
            // All others fail.
            for (place, (experiment, rows)) in all.iter_mut().enumerate() {
                for (nth, row) in rows.iter_mut().enumerate() {
                    let decides = decide.iter().any(|(_, of, row)| (*of, *row) == (place, nth));
                    row.verdict = if decides { Verdict::Reproduced } else { Verdict::NotReproduced };
                }
                assert_eq!(experiment.rows.len(), rows.len());
            }
            assert_eq!(answer(claim, &all), Answer::Holds, "{}", claim.text);
            all.iter_mut().flat_map(|(_, rows)| rows).for_each(|row| row.verdict = Verdict::Reproduced);
        }
    }
}
