//! Appearance of elements. Elements that differ in colour also differ in dash pattern, shape or hatching.

use std::collections::BTreeSet;

use crate::tag::{Tag, coordinate};

/// The style of all pictures, contained in each stand-alone file, or once in a page.
pub const CSS: &str = include_str!("style.css");

/// Number of colours before they repeat.
pub const COLOURS: usize = 8;

/// Dash patterns, twice as many as colours, so that lines with the same colour differ.
const DASHES: [&str; 2 * COLOURS] = [
    "",
    "7 3",
    "2 3",
    "10 3 2 3",
    "5 2 1 2 1 2",
    "12 5",
    "1 2",
    "14 3 4 3",
    "18 2",
    "4 1",
    "8 2 2 2 2 2",
    "3 6",
    "12 2 6 2",
    "1 5",
    "6 2 1 2",
    "10 8",
];

/// Dash patterns of values known in advance.
const EXPECTED: [&str; 4] = ["8 4", "2 3", "12 3 2 3", "5 2"];

/// Returns the class of the nth colour.
pub fn class(nth: usize, kind: &str) -> String {
    format!("{kind} s{}", nth % COLOURS)
}

/// Returns a line along a path, in the nth colour and dash pattern.
pub fn line(nth: usize, path: &str) -> Tag {
    dashed((nth, nth), path)
}

/// Returns a line along a path, in the given colour and dash pattern.
pub fn dashed((colour, dash): (usize, usize), path: &str) -> Tag {
    let line = Tag::new("path").set("class", &class(colour, "line")).set("d", path);
    match DASHES[dash % DASHES.len()] {
        "" => line,
        dashes => line.set("stroke-dasharray", dashes),
    }
}

/// Returns a line along a path for the nth value known in advance.
pub fn expected(nth: usize, path: &str) -> Tag {
    let line = Tag::new("path").set("class", "expected").set("d", path);
    line.set("stroke-dasharray", EXPECTED[nth % EXPECTED.len()])
}

/// Returns a mark with the nth shape and colour. When colours repeat, the mark has a hole, or a filled centre if it
/// is hollow.
pub fn mark(nth: usize, kind: &str, place: (f64, f64), radius: f64) -> Tag {
    let mark = shaped(nth, place, radius).set("class", &class(nth, kind));
    if (nth / COLOURS).is_multiple_of(2) {
        return mark;
    }
    let hole = Tag::new("circle").at("cx", place.0).at("cy", place.1).at("r", 0.45 * radius);
    let inside = if kind == "hollow" { class(nth, "solid") } else { "ground".into() };
    Tag::new("g").child(&mark).child(&hole.set("class", &inside))
}

/// Returns a mark with the nth shape.
pub fn shaped(nth: usize, (x, y): (f64, f64), radius: f64) -> Tag {
    let shape = |points: &[(f64, f64)]| {
        let to = |(dx, dy): &(f64, f64)| format!("{} {}", coordinate(x + radius * dx), coordinate(y + radius * dy));
        let path = format!("M{}Z", points.iter().map(to).collect::<Vec<_>>().join("L"));
        Tag::new("path").set("d", &path)
    };
    match nth % COLOURS {
        0 => Tag::new("circle").at("cx", x).at("cy", y).at("r", radius),
        1 => shape(&[(-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)]),
        2 => shape(&[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)]),
        3 => shape(&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)]),
        4 => shape(&[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)]),
        5 => shape(&plus()),
        6 => shape(&plus().map(|(x, y)| ((x - y) * 0.71, (x + y) * 0.71))),
        _ => shape(&[(0.0, -1.2), (1.14, -0.37), (0.7, 0.97), (-0.7, 0.97), (-1.14, -0.37)]),
    }
}

/// Returns light dots, at most one per pixel.
pub fn dots(nth: usize, places: impl Iterator<Item = (f64, f64)>) -> Tag {
    let whole: BTreeSet<(i64, i64)> = places.map(|(x, y)| (x.round() as i64, y.round() as i64)).collect();
    let path: String = whole.into_iter().map(|(x, y)| format!("M{x} {y}h0")).collect();
    Tag::new("path").set("class", &class(nth, "dots")).set("d", &path)
}

fn plus() -> [(f64, f64); 12] {
    const ARM: f64 = 1.2;
    const HALF: f64 = 0.42;
    [
        (-HALF, -ARM),
        (HALF, -ARM),
        (HALF, -HALF),
        (ARM, -HALF),
        (ARM, HALF),
        (HALF, HALF),
        (HALF, ARM),
        (-HALF, ARM),
        (-HALF, HALF),
        (-ARM, HALF),
        (-ARM, -HALF),
        (-HALF, -HALF),
    ]
}

/// Returns the hatch patterns of the first `count` colours for the picture `of`. Ids are unique in a page, so that
/// each picture has its own.
pub fn hatches(of: &str, count: usize) -> Tag {
    let mut defs = Tag::new("defs");
    for nth in 0..count.min(COLOURS) {
        let path = match nth {
            0 => continue,
            1 => "M0 6L6 0M-1.5 1.5L1.5 -1.5M4.5 7.5L7.5 4.5",
            2 => "M0 3H6",
            3 => "M0 0L6 6M0 6L6 0",
            4 => "M3 0V6",
            5 => "M0 0L6 6M-1.5 4.5L1.5 7.5M4.5 -1.5L7.5 1.5",
            6 => "M0 3H6M3 0V6",
            _ => "M2 3H4",
        };
        let tile = Tag::new("pattern")
            .set("id", &format!("{of}-hatch-{nth}"))
            .set("class", &class(nth, "hatch"))
            .set("patternUnits", "userSpaceOnUse")
            .at("width", 6.0)
            .at("height", 6.0)
            .child(&Tag::new("rect").at("width", 6.0).at("height", 6.0).set("class", "ground"))
            .child(&Tag::new("path").set("class", "thick").set("d", path));
        defs.push(&tile);
    }
    defs
}

/// Returns a box with the nth colour and hatching.
pub fn hatched(of: &str, nth: usize, (x, y): (f64, f64), (width, height): (f64, f64)) -> Tag {
    let area = Tag::new("rect").at("x", x).at("y", y).at("width", width).at("height", height);
    if nth.is_multiple_of(COLOURS) {
        return area.set("class", &class(nth, "solid"));
    }
    area.set("class", &class(nth, "outline")).set("fill", &format!("url(#{of}-hatch-{})", nth % COLOURS))
}
