//! Bar charts: a bar per cell, with a hollow bar for the paper's value next to it.

use super::canvas::{Axis, Canvas, Look, upright, words};
use super::picture::{Drawn, Picture, has_paper};
use super::tag::{Tag, coordinate};
use super::{style, text, ticks};

/// Fraction of a group's width that separates groups, and fraction of a pair's width for the paper's bar.
const GAP: f64 = 0.2;
const PAPER: f64 = 0.44;
/// Font size of values, their distance from each other and from their bar, and the minimum width of a bar with an
/// upright value.
const VALUE: f64 = 11.0;
const APART: f64 = 3.0;
const ABOVE: f64 = 4.0;
const NARROWEST: f64 = 10.0;

pub(super) fn draw(picture: &Picture<'_>) -> String {
    let metric = picture.one();
    let drawn = picture.drawn_in_all();
    let (own, unit) = picture.metric(metric);
    let name = picture.plot.written.label.as_ref().unwrap_or(&own);
    let values = drawn.iter().flat_map(|drawn| drawn.runs.drawn().chain(drawn.paper));
    let y = picture.y_axis(metric, values, !picture.plot.written.log_y);
    let grid = &picture.plot.grid;
    let x = Axis::names(&grid.by.names, picture.by_label());
    let legend = picture.legend(Look::Box, &[(has_paper(&drawn), Look::HollowBox, "paper")]);
    let along = if grid.by.axis.is_empty() { "the metric" } else { &grid.by.axis };
    let about = format!("Bars of {name} by {along}, one per {}.", grid.over.axis);
    let around = picture.around(legend, &about, &picture.how(&drawn, "whiskers"));
    let id = around.id.clone();
    let mut canvas = Canvas::new(around, x, y);
    let bars = Bars::of(&canvas, &id, grid.over.names.len().max(1), &drawn);
    canvas.lower(bars.room(&canvas, &drawn));
    picture.expected(&mut canvas);
    for one in &drawn {
        bars.draw(&mut canvas, one, &picture.tell(one, unit));
    }
    canvas.finish()
}

/// Orientation of the values above bars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    /// Horizontal, if all values fit side by side.
    Level,
    Upright,
    /// Values are omitted, because the bars are narrower than a line of text.
    Not,
}

impl Stand {
    fn of(values: impl Iterator<Item = f64>, bar: f64) -> Self {
        let widest = values.map(|value| text::width(&ticks::short(value), VALUE)).fold(0.0, f64::max);
        match bar {
            bar if widest + APART <= bar => Self::Level,
            bar if bar >= NARROWEST => Self::Upright,
            _ => Self::Not,
        }
    }

    fn height(self, value: f64) -> f64 {
        match self {
            Self::Level => ABOVE + VALUE,
            Self::Upright => ABOVE + text::width(&ticks::short(value), VALUE),
            Self::Not => 0.0,
        }
    }

    fn write(self, group: &mut Tag, (x, y): (f64, f64), value: f64) {
        let label = ticks::short(value);
        match self {
            Self::Level => group.push(&words(x, y - ABOVE, "middle", "value", &label)),
            Self::Upright => group.push(&upright((x + 0.36 * VALUE, y - ABOVE), "start", "value", &label)),
            Self::Not => {}
        }
    }
}

struct Bars<'a> {
    id: &'a str,
    /// Number of bars per group.
    over: usize,
    /// Width of our bars and of the paper's.
    own: f64,
    paper: f64,
    /// Orientation of their values.
    ours: Stand,
    papers: Stand,
}

impl<'a> Bars<'a> {
    fn of(canvas: &Canvas, id: &'a str, over: usize, drawn: &[Drawn]) -> Self {
        let each = (canvas.slot(0).1 * (1.0 - GAP) / over as f64).min(110.0);
        let has_paper = has_paper(drawn);
        let own = if has_paper { each * (1.0 - PAPER) } else { each } - 1.5;
        let paper = if has_paper { (each * PAPER - 1.5).max(1.0) } else { 0.0 };
        let ours = Stand::of(drawn.iter().filter_map(|drawn| drawn.runs.value), own);
        let papers = Stand::of(drawn.iter().filter_map(|drawn| drawn.paper), paper);
        let is_upright = ours == Stand::Upright || has_paper && papers == Stand::Upright;
        let alike = |stand| if is_upright && stand == Stand::Level { Stand::Upright } else { stand };
        Self { id, over, own, paper, ours: alike(ours), papers: alike(papers) }
    }

    /// Returns the additional space that values need above the plot area, so that they do not overlap other elements.
    fn room(&self, canvas: &Canvas, drawn: &[Drawn]) -> f64 {
        let need = |stand: Stand, value: Option<f64>, above: f64| {
            let (value, y) = (value?, canvas.y(above)?);
            Some(canvas.top - (y - stand.height(value)))
        };
        let of = |drawn: &Drawn| {
            let own = drawn.runs.drawn().fold(f64::NEG_INFINITY, f64::max);
            [need(self.ours, drawn.runs.value, own), need(self.papers, drawn.paper, drawn.paper.unwrap_or(0.0))]
        };
        drawn.iter().flat_map(of).flatten().fold(0.0, f64::max)
    }

    fn draw(&self, canvas: &mut Canvas, drawn: &Drawn, title: &str) {
        let (from, slot) = canvas.slot(drawn.by);
        let each = (slot * (1.0 - GAP) / self.over as f64).min(110.0);
        let left = from + (slot - each * self.over as f64) / 2.0 + each * drawn.over as f64;
        let middle = left + self.own / 2.0;
        let mut group = Tag::new("g").child(&Tag::new("title").text(title));
        let mut above = None;
        if let Some((top, high)) = drawn.runs.value.and_then(|value| extent(canvas, value)) {
            let bar = style::hatched(self.id, drawn.over, (left, top), (self.own, high)).set("data-of", "ours");
            group.push(&bar);
            above = Some(top);
        } else {
            group.push(&words(middle, canvas.ground() - ABOVE, "middle", "value", "\u{2013}"));
        }
        if let Some([low, high]) = drawn.runs.interval
            && let (Some(low), Some(high)) = (canvas.y(low), canvas.y(high))
        {
            whisker(&mut group, middle, (low, high), (self.own / 2.0 - 1.0).clamp(1.5, 4.0));
            above = above.map(|above| above.min(high));
        }
        if let (Some(value), Some(above)) = (drawn.runs.value, above) {
            self.ours.write(&mut group, (middle, above), value);
        }
        if let Some(paper) = drawn.paper
            && let Some((top, high)) = extent(canvas, paper)
        {
            let x = left + self.own + 1.0;
            let bar = Tag::new("rect").at("x", x).at("y", top).at("width", self.paper).at("height", high);
            group.push(&bar.set("class", &style::class(drawn.over, "hollow")).set("data-of", "paper"));
            self.papers.write(&mut group, (x + self.paper / 2.0, top), paper);
        }
        canvas.marks.push(&group);
    }
}

fn extent(canvas: &Canvas, value: f64) -> Option<(f64, f64)> {
    let (value, ground) = (canvas.y(value)?, canvas.ground());
    Some((value.min(ground), (value - ground).abs()))
}

/// Draws an interval, with a light edge to make it visible on dark bars.
fn whisker(group: &mut Tag, x: f64, ends: (f64, f64), half: f64) {
    for class in ["halo", "whisker"] {
        group.push(&interval(class, x, ends, half));
    }
}

/// Returns an interval from one height to another, with bars of this half width at its ends.
pub(super) fn interval(class: &str, x: f64, (low, high): (f64, f64), half: f64) -> Tag {
    let (left, right) = (coordinate(x - half), coordinate(x + half));
    let (x, low, high) = (coordinate(x), coordinate(low), coordinate(high));
    let path = format!("M{left} {low}H{right}M{x} {low}V{high}M{left} {high}H{right}");
    Tag::new("path").set("class", class).set("d", &path)
}
