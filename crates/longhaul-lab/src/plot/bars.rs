//! A bar for each cell, the paper's hollow beside it.

use super::canvas::{Axis, Canvas, Key, Look, words};
use super::picture::{Drawn, Picture};
use super::tag::{Tag, coordinate};
use super::{style, text, ticks};

/// Of a group's width what is between groups, and of a pair's what is the paper's.
const GAP: f64 = 0.2;
const PAPER: f64 = 0.44;
const VALUE: f64 = 11.0;

pub(super) fn draw(picture: &Picture<'_>) -> String {
    let metric = picture.one();
    let drawn = picture.drawn_in_all();
    let (own, unit) = picture.metric(metric);
    let name = picture.plot.label.as_ref().unwrap_or(&own);
    let has_paper = drawn.iter().any(|drawn| drawn.paper.is_some());
    let values = drawn.iter().flat_map(|drawn| drawn.runs.drawn().chain(drawn.paper));
    let y = picture.y_axis(metric, values, !picture.plot.log_y);
    let grid = &picture.plot.grid;
    let x = Axis::Names { names: grid.by.names.clone(), label: grid.by.axis.clone() };
    let mut legend = picture.keys(Look::Box);
    if has_paper {
        legend.push(Key { look: Look::HollowBox, name: "paper".into() });
    }
    legend.extend(picture.expected_keys());
    let along = if grid.by.axis.is_empty() { "what stands along x" } else { &grid.by.axis };
    let about = format!("Bars of {name} by {along}, a bar for each {}.", grid.over.axis);
    let around = picture.around(legend, &about, &picture.how(&drawn, "whiskers"));
    let id = around.id.clone();
    let mut canvas = picture.canvas(around, x, y);
    for one in &drawn {
        let bar = Bar { id: &id, over: grid.over.names.len().max(1), has_paper, title: picture.tell(one, unit) };
        bar.draw(&mut canvas, one);
    }
    canvas.finish()
}

struct Bar<'a> {
    id: &'a str,
    /// Bars of a group.
    over: usize,
    has_paper: bool,
    title: String,
}

impl Bar<'_> {
    fn draw(&self, canvas: &mut Canvas, drawn: &Drawn) {
        let (from, slot) = canvas.slot(drawn.by);
        let each = (slot * (1.0 - GAP) / self.over as f64).min(110.0);
        let left = from + (slot - each * self.over as f64) / 2.0 + each * drawn.over as f64;
        let own = if self.has_paper { each * (1.0 - PAPER) } else { each } - 1.5;
        let mut group = Tag::new("g").child(&Tag::new("title").text(&self.title));
        let mut above = None;
        if let Some((top, high)) = drawn.runs.value.and_then(|value| extent(canvas, value)) {
            let bar = style::hatched(self.id, drawn.over, (left, top), (own, high)).set("data-of", "ours");
            group.push(&bar);
            above = Some(top);
        } else {
            group.push(&words(left + own / 2.0, canvas.ground() - 4.0, "middle", "value", "\u{2013}"));
        }
        if let Some([low, high]) = drawn.runs.interval
            && let (Some(low), Some(high)) = (canvas.y(low), canvas.y(high))
        {
            whisker(&mut group, left + own / 2.0, (low, high), (own / 2.0 - 1.0).clamp(1.5, 4.0));
            above = above.map(|above| above.min(high));
        }
        if let (Some(value), Some(above)) = (drawn.runs.value, above) {
            let label = ticks::short(value);
            if text::width(&label, VALUE) <= own + 2.0 {
                group.push(&words(left + own / 2.0, above - 4.0, "middle", "value", &label));
            }
        }
        if let Some(paper) = drawn.paper
            && let Some((top, high)) = extent(canvas, paper)
        {
            let wide = (each * PAPER - 1.5).max(1.0);
            let x = left + own + 1.0;
            let bar = Tag::new("rect").at("x", x).at("y", top).at("width", wide).at("height", high);
            group.push(&bar.set("class", &style::class(drawn.over, "hollow")).set("data-of", "paper"));
            let label = ticks::short(paper);
            if text::width(&label, VALUE) <= wide + 4.0 {
                group.push(&words(x + wide / 2.0, top - 4.0, "middle", "value", &label));
            }
        }
        canvas.marks.push(&group);
    }
}

/// Where a bar begins, from above, and how high it is.
fn extent(canvas: &Canvas, value: f64) -> Option<(f64, f64)> {
    let (value, ground) = (canvas.y(value)?, canvas.ground());
    Some((value.min(ground), (value - ground).abs()))
}

/// An interval, with a light edge so that it is seen on what is dark.
pub(super) fn whisker(group: &mut Tag, x: f64, (low, high): (f64, f64), half: f64) {
    let (left, right) = (coordinate(x - half), coordinate(x + half));
    let (x, low, high) = (coordinate(x), coordinate(low), coordinate(high));
    let path = format!("M{left} {low}H{right}M{x} {low}V{high}M{left} {high}H{right}");
    group.push(&Tag::new("path").set("class", "halo").set("d", &path));
    group.push(&Tag::new("path").set("class", "whisker").set("d", &path));
}
