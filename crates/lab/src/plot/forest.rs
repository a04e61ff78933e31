//! A picture of many rows at once: our values relative to the paper's.

use super::tag::Tag;
use crate::rule::Verdict;

/// A row relative to the paper, or the first of two values relative to the second one.
#[derive(Clone, Debug)]
pub(crate) struct Compared<'a> {
    pub(crate) name: &'a str,
    pub(crate) about: &'a str,
    pub(crate) verdict: Verdict,
    pub(crate) ratio: f64,
    pub(crate) interval: Option<[f64; 2]>,
    /// The range in which the rule holds; an end may be infinite.
    pub(crate) range: [f64; 2],
}

/// The picture's width, that of the names, and the height of a row.
const WIDTH: f64 = 680.0;
const NAMES: f64 = 300.0;
const ROW: f64 = 17.0;
const TOP: f64 = 30.0;
/// Ratios at the ends of the axis; ratios beyond are drawn at its ends.
const LEAST: f64 = 0.1;
const MOST: f64 = 10.0;
const TICKS: [f64; 7] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];
/// Maximum number of characters of a name.
const LETTERS: usize = 44;

fn x(ratio: f64) -> f64 {
    let ratio = if ratio > LEAST { ratio.min(MOST) } else { LEAST };
    let share = (ratio / LEAST).log10() / (MOST / LEAST).log10();
    NAMES + 10.0 + share * (WIDTH - NAMES - 20.0)
}

/// Draws the rows, closest to the paper first.
pub(crate) fn forest(rows: &[Compared<'_>]) -> String {
    let mut rows: Vec<&Compared<'_>> = rows.iter().collect();
    let distance = |row: &Compared<'_>| if row.ratio > 0.0 { row.ratio.ln().abs() } else { f64::INFINITY };
    rows.sort_by(|one, other| distance(one).total_cmp(&distance(other)).then_with(|| one.name.cmp(other.name)));
    let height = TOP + ROW * rows.len() as f64 + 6.0;
    let mut picture = Tag::new("svg")
        .set("viewBox", &format!("0 0 {WIDTH} {height}"))
        .set("role", "img")
        .set("aria-label", "Ours relative to the paper's value, or the first of two values relative to the second");
    for tick in TICKS {
        let class = if (tick - 1.0).abs() < 1e-9 { "unity" } else { "grid" };
        picture.push(
            &Tag::new("line")
                .set("class", class)
                .at("x1", x(tick))
                .at("x2", x(tick))
                .at("y1", TOP - 8.0)
                .at("y2", height),
        );
        let label = Tag::new("text").at("x", x(tick)).at("y", TOP - 13.0).set("text-anchor", "middle");
        picture.push(&label.text(&tick.to_string()));
    }
    for (nth, row) in rows.iter().enumerate() {
        picture.push(&line(row, TOP + ROW * nth as f64));
    }
    picture.to_string()
}

fn line(row: &Compared<'_>, top: f64) -> Tag {
    let middle = top + ROW / 2.0;
    let mut group = Tag::new("g").set("class", row.verdict.name());
    group.push(&Tag::new("title").text(&format!("{} {}: {:.3}", row.about, row.verdict, row.ratio)));
    let mut name: String = row.name.chars().take(LETTERS).collect();
    if row.name.chars().count() > LETTERS {
        name += "\u{2026}";
    }
    group.push(&Tag::new("text").at("x", NAMES).at("y", middle + 4.0).set("text-anchor", "end").text(&name));
    let [low, high] = row.range.map(x);
    let range = Tag::new("rect").set("class", "range").at("x", low).at("width", (high - low).max(1.0));
    group.push(&range.at("y", top + 2.0).at("height", ROW - 4.0));
    if let Some([low, high]) = row.interval {
        group.push(
            &Tag::new("line")
                .set("class", "interval")
                .at("x1", x(low))
                .at("x2", x(high))
                .at("y1", middle)
                .at("y2", middle),
        );
    }
    // The shape of the mark also shows the verdict, in addition to its colour.
    let at = x(row.ratio);
    let points = match row.verdict {
        Verdict::Reproduced => [[-4.0, 0.0], [0.0, -4.0], [4.0, 0.0], [0.0, 4.0]],
        _ => [[-4.0, -4.0], [4.0, -4.0], [0.0, 4.0], [0.0, 4.0]],
    };
    let points = points.map(|[right, down]| format!("{:.1},{:.1}", at + right, middle + down)).join(" ");
    let class = if row.verdict == Verdict::Undecided { "mark open" } else { "mark" };
    group.push(&Tag::new("polygon").set("class", class).set("points", &points));
    group
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_by_their_distance_and_stay_within_the_picture() {
        let row = |name: &'static str, ratio, interval| Compared {
            name,
            about: "A claim.",
            verdict: Verdict::Reproduced,
            ratio,
            interval,
            range: [0.9, f64::INFINITY],
        };
        let rows = [
            row("far", 40.0, Some([0.0, 90.0])),
            row("near", 1.02, None),
            row("none", 0.0, None),
            row("below", 0.5, None),
        ];
        let text = forest(&rows);
        let places: Vec<usize> =
            ["near", "below", "far", "none"].iter().map(|name| text.find(&format!(">{name}<")).unwrap()).collect();
        assert!(places.is_sorted(), "{places:?}");
        let document = roxmltree::Document::parse(&text).unwrap();
        let numbers =
            document.descendants().flat_map(|node| node.attributes()).filter(|one| one.name().starts_with('x'));
        assert!(numbers.map(|one| one.value().parse::<f64>().unwrap()).all(|x| (0.0..=WIDTH).contains(&x)));
        assert!((x(1.0) - f64::midpoint(x(LEAST), x(MOST))).abs() < 1e-9, "a logarithmic axis");
    }
}
