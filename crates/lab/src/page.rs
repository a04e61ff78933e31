//! The page of all experiments: a single self-contained HTML file that is readable without its script.

mod papers;
mod rows;
mod summary;

use crate::definition::Kind;
use crate::experiment::Experiment;
use crate::judge::{Counts, Judged, paper};
use crate::origin::Origin;
use crate::papers::{PAPERS, place};
use crate::plot::tag::{Tag, escape};
use crate::plot::{self, CSS};
use crate::rule::Verdict;
use crate::table::Grid;

/// An experiment on the page.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    /// Experiment of this section.
    pub experiment: &'a Experiment,
    /// Judged rows of the experiment.
    pub rows: &'a [Judged],
    /// Pictures of the experiment, as returned by [`plot::draw`]. Files other than SVG are ignored.
    pub pictures: &'a [(String, String)],
    /// Tables of the experiment to show, with their headings.
    pub tables: &'a [(&'a str, Grid)],
    /// Number of existing runs. If it is less than `runs`, rows are not judged.
    pub ended: usize,
    /// Number of requested runs.
    pub runs: usize,
    /// Processor seconds of the runs.
    pub took: f64,
}

/// Returns the page of these experiments, whose runs were made by these executions of the program.
#[must_use]
pub fn html(sections: &[Section<'_>], origins: &[Origin]) -> String {
    let mut sections = sections.to_vec();
    sections.sort_by_cached_key(order);
    let sections = &sections;
    let option = |value: &str, text: &str| Tag::new("option").set("value", value).text(text).to_string();
    let mut papers: Vec<String> = sections.iter().map(|section| paper(&section.experiment.definition.source)).collect();
    papers.dedup();
    let (blocks, outcome) = papers::blocks(sections);
    let [own, others] = summary::sentences(sections);
    let verdict = |of: Verdict| {
        let (class, mark, word) = verdict(of);
        option(class, &format!("{mark} {word}"))
    };
    let algorithms = |(slot, names): (&str, std::collections::BTreeSet<&str>)| {
        let names: String = names.iter().map(|name| option(name, name)).collect();
        Tag::new("optgroup").set("label", slot).raw(&names).to_string()
    };
    format!(
        include_str!("page/page.html"),
        style = include_str!("page/page.css"),
        css = CSS,
        outcome = outcome + &own,
        others = others,
        experiments = sections.len(),
        runs = sections.iter().map(|section| section.ended).sum::<usize>(),
        took = duration(sections.iter().map(|section| section.took).sum()),
        summary = blocks + &summary::table(sections),
        papers = papers.iter().map(|paper| option(paper, title(paper))).collect::<String>(),
        algorithms = rows::by_slot(sections).into_iter().map(algorithms).collect::<String>(),
        verdicts = Verdict::ALL.map(verdict).concat(),
        sections = sections.iter().map(section).collect::<String>(),
        origins = self::origins(origins),
        script = include_str!("page/page.js"),
    )
}

impl<'a> Section<'a> {
    /// Returns the judged rows, or `None` if runs are missing.
    fn judged(&self) -> Option<&'a [Judged]> {
        (self.ended >= self.runs).then_some(self.rows)
    }
}

/// Returns the place of a section on the page: by paper, and then by name, figures and tables first, in their order.
fn order(section: &Section<'_>) -> (usize, String, bool, Vec<(String, u64)>) {
    let (paper, id) = (paper(&section.experiment.definition.source), section.experiment.id());
    let part = |part: &str| match part.parse() {
        Ok(number) => (String::new(), number),
        Err(_) => (part.trim_end_matches('s').to_owned(), 0),
    };
    let is_other = !id.contains(|letter: char| letter.is_ascii_digit());
    (place(&paper), paper, is_other, id.split('-').map(part).collect())
}

/// Returns the title of one of the five papers, or the name of another source.
fn title(source: &str) -> &str {
    PAPERS.get(place(source)).map_or(source, |paper| paper.title)
}

/// Returns the fragment of the page's address with a row.
fn row_id(row: &Judged) -> String {
    let of = |letter: char| if letter.is_ascii_alphanumeric() || "-.".contains(letter) { letter } else { '_' };
    format!("row={}.{}", row.experiment, row.row.chars().map(of).collect::<String>())
}

/// Escapes a text whose lines may break, but not before a percent sign.
fn prose(text: &str) -> String {
    escape(text).replace(" %", "\u{a0}%")
}

fn total<'a, 'b: 'a>(sections: impl IntoIterator<Item = &'a Section<'b>>) -> Counts {
    let mut all = Counts::default();
    sections.into_iter().for_each(|section| all.add(section.experiment, section.judged()));
    all
}

/// Returns the CSS class and the name of a verdict, and a mark that distinguishes it without colour.
const fn verdict(verdict: Verdict) -> (&'static str, &'static str, &'static str) {
    let (mark, word) = match verdict {
        Verdict::Reproduced => ("\u{2713}", "reproduced"),
        Verdict::Undecided => ("?", "undecided"),
        Verdict::NotReproduced => ("\u{2717}", "not reproduced"),
        Verdict::NotReproducible => ("\u{25cb}", "not reproducible"),
    };
    (verdict.name(), mark, word)
}

fn duration(seconds: f64) -> String {
    match seconds {
        seconds if !seconds.is_finite() || seconds < 0.0 => "no time".into(),
        seconds if seconds < 1.0 => format!("{:.0} ms", seconds * 1000.0),
        seconds if seconds < 120.0 => format!("{seconds:.1} s"),
        seconds if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    }
}

/// Returns the list of the executions of the program, or nothing without any.
fn origins(origins: &[Origin]) -> String {
    if origins.is_empty() {
        return String::new();
    }
    let line = |origin: &Origin| {
        let Origin { program, executable, compiler, target, host, date, command, seeds, .. } = origin;
        let seeds = seeds.join(", ");
        format!(
            "<li>{} on {}: <code>{}</code><br>{}; executable {}; {} for {}; seeds {}</li>",
            escape(date),
            escape(host),
            escape(&command.join(" ")),
            escape(program),
            escape(executable),
            escape(compiler),
            escape(target),
            escape(&seeds)
        )
    };
    let lines: String = origins.iter().map(line).collect();
    format!("<details id=\"origins\"><summary>Where the runs come from</summary><ul>{lines}</ul></details>\n")
}

/// Encodes a text for the fragment of a URL.
fn encoded(text: &str) -> String {
    let of = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(of).collect()
}

fn section(section: &Section<'_>) -> String {
    let (definition, id) = (&section.experiment.definition, section.experiment.id());
    let counts = total([section]);
    let tally: String = Verdict::ALL
        .iter()
        .filter_map(|of| {
            let (count, (class, mark, word)) = (counts.claims.with(*of), verdict(*of));
            (count > 0).then(|| format!(" <span class=\"{class}\">{mark} {count} {word}</span>"))
        })
        .collect();
    let others: String = [(Kind::Robustness, "robustness"), (Kind::Model, "model")]
        .map(|(kind, word)| (counts.of(kind), word))
        .into_iter()
        .filter(|(tally, _)| tally.all() > 0)
        .map(|(tally, word)| format!("; {word} rows that hold: {} of {}", tally.reproduced, tally.all()))
        .collect();
    let runs = if section.ended == section.runs {
        format!("{} runs", section.runs)
    } else {
        format!("<strong>{} of {} runs: not judged yet</strong>", section.ended, section.runs)
    };
    let pictures: String = section.pictures.iter().filter_map(|(file, svg)| picture(id, file, svg)).collect();
    let pictures = if pictures.is_empty() { pictures } else { format!("<div class=\"pictures\">{pictures}</div>") };
    Tag::new("section")
        .set("id", id)
        .set("class", "experiment")
        .set("data-paper", &paper(&definition.source))
        .raw(&format!(
            "<h2>{}</h2><p class=\"about\">{}{tally}{others}</p><p class=\"about\"><code>{id}</code>: {runs}, {} of computing.</p>",
            escape(&definition.title),
            Tag::new("cite").text(&definition.source),
            duration(section.took)
        ))
        .raw(&fitted(&definition.fitted))
        .raw(&pictures)
        .raw(&section.tables.iter().map(table).collect::<String>())
        .raw(&if section.rows.is_empty() { String::new() } else { rows::table(section) })
        .raw("<details><summary>The experiment's file</summary>")
        .raw(&format!("<pre>{}</pre></details>", escape(&section.experiment.text)))
        .to_string()
        + "\n"
}

/// Returns the settings that were fitted to the results.
fn fitted(settings: &[String]) -> String {
    if settings.is_empty() {
        return String::new();
    }
    let told = format!("Fitted to these results ({}): {}.", settings.len(), escape(&settings.join("; ")));
    format!("<p class=\"about\">{told}</p>")
}

fn table((title, grid): &(&str, Grid)) -> String {
    let heads: String = grid.heads.iter().map(|head| format!("<th scope=\"col\">{}</th>", escape(head))).collect();
    let line = |(label, cells): &(String, Vec<Option<String>>)| {
        let cell = |cell: &Option<String>| {
            format!("<td class=\"numbers\">{}</td>", escape(cell.as_deref().unwrap_or("\u{2013}")))
        };
        let cells: String = cells.iter().map(cell).collect();
        format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", escape(label))
    };
    let lines: String = grid.lines.iter().map(line).collect();
    format!(
        "<div class=\"metrics\"><h3>{}</h3><table><thead><tr><td></td>{heads}</tr></thead><tbody>{lines}</tbody></table></div>",
        escape(title)
    )
}

/// Returns a picture that can be enlarged: by the script in a dialog, without the script in place.
fn picture(id: &str, file: &str, svg: &str) -> Option<String> {
    let name = format!("plot={id}.{}", file.strip_suffix(".svg")?);
    let figure = Tag::new("figure").set("id", &name).raw(
        &Tag::new("a")
            .set("href", &format!("#{name}"))
            .set("class", "picture")
            .raw(&plot::without_style(svg))
            .to_string(),
    );
    Some(figure.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_are_encoded() {
        assert_eq!(encoded("a/b & \"c\""), "a%2Fb%20%26%20%22c%22");
    }

    #[test]
    fn durations_by_a_table() {
        for (seconds, wanted) in [(0.25, "250 ms"), (90.0, "90.0 s"), (600.0, "10 min"), (9000.0, "2.5 h")] {
            assert_eq!(duration(seconds), wanted);
        }
    }
}
