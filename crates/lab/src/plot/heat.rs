//! Heat maps: a metric over two axes, as shades with numbers.

use super::canvas::{Axis, words};
use super::picture::{Picture, has_paper};
use super::scale::{Scale, extent};
use super::tag::Tag;
use super::text::width;
use super::{style, ticks};

/// Opacity of the largest value, on which text is still legible.
const DARKEST: f64 = 0.5;
/// Font size of numbers, and the minimum distance between those of adjacent fields.
const NUMBER: f64 = 12.0;
const APART: f64 = 4.0;

pub(super) fn draw(picture: &Picture<'_>) -> String {
    let (metric, grid) = (picture.one(), &picture.plot.grid);
    let drawn = picture.drawn(metric);
    let (name, unit) = picture.metric(metric);
    let name = picture.plot.written.label.clone().unwrap_or(name);
    let is_log = picture.plot.written.log_y;
    // The shade of a field encodes its value, between the extremes of all fields.
    let (low, high) = extent(drawn.iter().filter_map(|drawn| drawn.runs.value), is_log).unwrap_or((0.0, 1.0));
    let shade = Scale { low, high, is_log, from: 0.0, to: DARKEST };
    // Columns are wide enough for the longest number.
    let texts = drawn.iter().flat_map(|drawn| drawn.runs.value.into_iter().chain(drawn.paper)).map(ticks::short);
    let least = texts.map(|text| width(&text, NUMBER)).fold(0.0, f64::max) + APART;
    let x = Axis::Names { names: grid.by.names.clone(), label: picture.by_label().into(), least };
    let y = Axis::names(&grid.over.names, &grid.over.axis);
    // Description and caption.
    let measured = if unit.is_empty() { name.clone() } else { format!("{name} ({unit})") };
    let about = format!("{measured} by {} and {}; darker is more.", grid.over.axis, grid.by.axis);
    let small = if has_paper(&drawn) { " Small: the paper's value." } else { "" };
    let runs = drawn.iter().map(|drawn| drawn.runs.each.len()).max().unwrap_or(0);
    let of = if runs > 1 { format!("{} of {runs} runs", picture.statistic()) } else { "One run each".into() };
    let how = format!("{measured}. {of}; darker is more.{small}");
    let mut canvas = picture.canvas(picture.around(Vec::new(), &about, &how), x, y);
    // One rectangle per cell with our value, and the paper's value below it.
    for one in &drawn {
        let ((left, wide), (top, high)) = (canvas.slot(one.by), canvas.row(one.over));
        let mut group = Tag::new("g").child(&Tag::new("title").text(&picture.tell(one, unit)));
        let area = Tag::new("rect")
            .at("x", left + 1.0)
            .at("y", top + 1.0)
            .at("width", (wide - 2.0).max(1.0))
            .at("height", (high - 2.0).max(1.0))
            .set("class", &style::class(0, "solid shade"));
        let dark = one.runs.value.map(|value| shade.place(value).unwrap_or(DARKEST / 2.0));
        group.push(&area.at("fill-opacity", dark.unwrap_or(0.0)).set("data-of", "ours"));
        let middle = (left + wide / 2.0, top + high / 2.0 + 4.0);
        let value = one.runs.value.map_or_else(|| "\u{2013}".into(), ticks::short);
        let shift = if one.paper.is_some() { 7.0 } else { 0.0 };
        group.push(&words(middle.0, middle.1 - shift, "middle", "cell", &value));
        if let Some(paper) = one.paper {
            group.push(&words(middle.0, middle.1 + 7.0, "middle", "cell below", &ticks::short(paper)));
        }
        canvas.marks.push(&group);
    }
    canvas.finish()
}
