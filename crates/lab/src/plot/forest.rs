//! A picture of many rows at once: our values relative to the paper's.

use super::tag::Tag;

/// A row relative to the paper, or the first of two values relative to the second one.
#[derive(Clone, Debug)]
pub(crate) struct Compared<'a> {
    pub(crate) name: &'a str,
    pub(crate) about: &'a str,
    /// Fragment of the page's address with the row.
    pub(crate) link: String,
    /// CSS class, mark and name of its verdict.
    pub(crate) class: &'a str,
    pub(crate) mark: &'a str,
    pub(crate) word: &'a str,
    /// `None` for an order, which has an interval only.
    pub(crate) ratio: Option<f64>,
    pub(crate) interval: Option<[f64; 2]>,
    /// The range in which the rule holds; an end may be infinite.
    pub(crate) range: [f64; 2],
}

/// Size of the drawing of a row.
const WIDTH: f64 = 340.0;
const ROW: f64 = 16.0;
/// Ratios at the ends of the axis; ratios beyond are drawn as arrows at its ends.
const LEAST: f64 = 0.1;
const MOST: f64 = 10.0;
const TICKS: [f64; 7] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];

fn x(ratio: f64) -> f64 {
    let ratio = if ratio > LEAST { ratio.min(MOST) } else { LEAST };
    let share = (ratio / LEAST).log10() / (MOST / LEAST).log10();
    10.0 + share * (WIDTH - 20.0)
}

/// Draws the rows, one below the other with its name: those with a ratio first, the closest to the paper first.
pub(crate) fn forest(rows: &[Compared<'_>]) -> String {
    let mut rows: Vec<&Compared<'_>> = rows.iter().collect();
    let distance = |row: &Compared<'_>| match row.ratio {
        Some(ratio) if ratio > 0.0 => ratio.ln().abs(),
        Some(_) => f64::MAX,
        None => f64::INFINITY,
    };
    rows.sort_by(|one, other| distance(one).total_cmp(&distance(other)).then_with(|| one.name.cmp(other.name)));
    let mut axis = drawing();
    for tick in TICKS {
        let label = Tag::new("text").at("x", x(tick)).at("y", ROW - 4.0).set("text-anchor", "middle");
        axis.push(&label.text(&tick.to_string()));
    }
    let about = "\u{25c6}: ours relative to the paper's; bar: interval, of an order that of the first value relative to \
                 the second; grey: where the rule holds; arrow: beyond the axis";
    let lines: String = rows.into_iter().map(line).collect();
    format!("<p class=\"about\">{about}</p><div class=\"line axis\"><span></span>{axis}</div>{lines}")
}

fn drawing() -> Tag {
    Tag::new("svg").set("viewBox", &format!("0 0 {WIDTH} {ROW}")).set("aria-hidden", "true")
}

fn line(row: &Compared<'_>) -> String {
    let mut picture = drawing();
    let upright = |class: &str, at: f64| {
        Tag::new("line").set("class", class).at("x1", at).at("x2", at).at("y1", 0.0).at("y2", ROW)
    };
    for tick in TICKS {
        picture.push(&upright(if (tick - 1.0).abs() < 1e-9 { "unity" } else { "grid" }, x(tick)));
    }
    let [low, high] = row.range.map(x);
    let range = Tag::new("rect").set("class", "range").at("x", low).at("width", (high - low).max(1.0));
    picture.push(&range.at("y", 2.0).at("height", ROW - 4.0));
    let middle = ROW / 2.0;
    if let Some([low, high]) = row.interval.map(|ends| ends.map(x)) {
        let bar = Tag::new("line").set("class", "interval").at("x1", low - 0.5).at("x2", high + 0.5);
        picture.push(&bar.at("y1", middle).at("y2", middle));
    }
    if let Some(ratio) = row.ratio {
        let points = match ratio {
            ratio if ratio > MOST => [[-4.0, -4.0], [4.0, 0.0], [-4.0, 4.0]].as_slice(),
            ratio if ratio < LEAST => &[[4.0, -4.0], [-4.0, 0.0], [4.0, 4.0]],
            _ => &[[-4.0, 0.0], [0.0, -4.0], [4.0, 0.0], [0.0, 4.0]],
        };
        let at = |[right, down]: &[f64; 2]| format!("{:.1},{:.1}", x(ratio) + right, middle + down);
        let points: Vec<String> = points.iter().map(at).collect();
        picture.push(&Tag::new("polygon").set("class", "mark").set("points", &points.join(" ")));
    }
    let name = Tag::new("a").set("href", &format!("#{}", row.link)).set("title", row.about).text(row.name);
    let mark = Tag::new("span").set("role", "img").set("aria-label", row.word).text(row.mark);
    let line = Tag::new("div").set("class", &format!("line {}", row.class));
    line.raw(&format!("<span>{mark} {name}</span>{picture}")).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_by_their_distance_and_stay_within_the_picture() {
        let row = |name: &'static str, ratio, interval| Compared {
            name,
            about: "A claim.",
            link: "row=x".into(),
            class: "reproduced",
            mark: "\u{2713}",
            word: "reproduced",
            ratio,
            interval,
            range: [0.9, f64::INFINITY],
        };
        let rows = [
            row("order", None, Some([1.0, 1.1])),
            row("far", Some(40.0), Some([0.0, 90.0])),
            row("near", Some(1.02), None),
            row("none", Some(0.0), None),
            row("below", Some(0.5), None),
        ];
        let text = format!("<div>{}</div>", forest(&rows));
        let names = ["near", "below", "far", "none", "order"];
        let places: Vec<usize> = names.iter().map(|name| text.find(&format!(">{name}<")).unwrap()).collect();
        assert!(places.is_sorted(), "{places:?}");
        let document = roxmltree::Document::parse(&text).unwrap();
        let numbers =
            document.descendants().flat_map(|node| node.attributes()).filter(|one| one.name().starts_with('x'));
        assert!(numbers.map(|one| one.value().parse::<f64>().unwrap()).all(|x| (0.0..=WIDTH).contains(&x)));
        assert!((x(1.0) - f64::midpoint(x(LEAST), x(MOST))).abs() < 1e-9, "a logarithmic axis");
        // Corners of the marks: an order has none, and a ratio beyond the axis has an arrow.
        let marks = document.descendants().filter_map(|node| node.attribute("points"));
        let corners: Vec<usize> = marks.map(|points| points.split(' ').count()).collect();
        assert_eq!(corners, [4, 4, 3, 3]);
    }
}
