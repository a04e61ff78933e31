//! Scatter plots: one metric against another, or run by run.

use super::canvas::{Axis, Look, Wish};
use super::picture::{Picture, has_paper, joined};
use super::tag::Tag;
use super::{style, ticks};

pub(super) fn draw(picture: &Picture<'_>) -> String {
    let plot = picture.plot;
    let [along, up] = [0, 1].map(|nth| plot.metrics.get(nth).copied().unwrap_or(usize::MAX));
    let (x_drawn, y_drawn) = (picture.drawn(along), picture.drawn(up));
    let (x_name, x_unit) = picture.metric(along);
    let (y_name, y_unit) = picture.metric(up);
    // Both axes cover all runs and the paper's values.
    let wish = Wish { name: &x_name, unit: x_unit, is_log: plot.written.log, zero: false, about: 7 };
    let x = Axis::of(x_drawn.iter().flat_map(|drawn| drawn.runs.values().chain(drawn.paper)), wish);
    let y = picture.y_axis(up, y_drawn.iter().flat_map(|drawn| drawn.runs.values().chain(drawn.paper)), false);
    // Legend, description and caption.
    let papers = || x_drawn.iter().zip(&y_drawn).filter_map(|(x, y)| Some((x.over, x.paper?, y.paper?)));
    let has_more = x_drawn.iter().any(|drawn| drawn.runs.each.len() > 1);
    let others = [(papers().next().is_some(), Look::HollowMark, "paper"), (has_more, Look::Dots, "single runs")];
    let legend = picture.legend(Look::Mark, &others);
    let about = format!("{y_name} against {x_name}, one mark per cell and one dot per run.");
    let how = if has_more { format!("Marks: {}.", picture.statistic().to_lowercase()) } else { String::new() };
    let mut canvas = picture.canvas(picture.around(legend, &about, &how), x, y);
    // Per choice on `over`: dots for single runs, a mark per cell, and hollow marks for the paper's values.
    for over in 0..plot.grid.cells.len() {
        let of_line = || x_drawn.iter().zip(&y_drawn).filter(move |(x, _)| x.over == over);
        let mut group = Tag::new("g");
        if has_more {
            let runs = of_line().flat_map(|(x, y)| x.runs.each.iter().zip(&y.runs.each));
            let places: Vec<_> = runs.filter_map(|((_, x), (_, y))| canvas.point((*x)?, (*y)?)).collect();
            group.push(&style::dots(over, places.into_iter()));
        }
        for (x, y) in of_line() {
            let (Some(value), Some(other)) = (x.runs.value, y.runs.value) else { continue };
            let Some(place) = canvas.point(value, other) else { continue };
            let title = format!(
                "{}: {x_name} {} {x_unit}, {y_name} {} {y_unit}",
                joined([picture.over(x.over), picture.by(x.by)]),
                ticks::number(value),
                ticks::number(other)
            );
            let mark = style::mark(over, "solid", place, 5.0).set("data-of", "ours");
            group.push(&mark.child(&Tag::new("title").text(title.trim_start_matches(": ").trim_end())));
        }
        for (_, x, y) in papers().filter(|(line, ..)| *line == over) {
            if let Some(place) = canvas.point(x, y) {
                group.push(&style::mark(over, "hollow", place, 6.5).set("data-of", "paper"));
            }
        }
        canvas.marks.push(&group);
    }
    canvas.finish()
}

pub(super) fn draw_runs(picture: &Picture<'_>) -> String {
    let metric = picture.one();
    let drawn = picture.drawn(metric);
    let (name, unit) = picture.metric(metric);
    let values = drawn.iter().flat_map(|drawn| drawn.runs.values().chain(drawn.paper));
    let y = picture.y_axis(metric, values, !picture.plot.written.log_y);
    let last = drawn.iter().flat_map(|drawn| drawn.runs.each.iter().map(|(seed, _)| *seed)).max().unwrap_or(1);
    let x = Axis::between((0.5, last as f64 + 0.5), "run", "", 1.0);
    let legend = picture.legend(Look::Mark, &[(has_paper(&drawn), Look::DashedAndHollow, "paper")]);
    let about = format!("Marks of {name}, one per run and {}.", picture.plot.grid.over.axis);
    let around = picture.around(legend, &about, "");
    let mut canvas = picture.canvas(around, x, y);
    for one in &drawn {
        let mut group = Tag::new("g");
        if let Some(y) = one.paper.and_then(|paper| canvas.y(paper)) {
            let path = super::path::through([Some((canvas.left, y)), Some((canvas.right, y))].into_iter());
            group.push(&style::dashed((one.over, 1), &path).set("data-of", "paper"));
            group.push(&style::mark(one.over, "hollow", (canvas.right - 12.0, y), 5.5));
        }
        for (seed, value) in &one.runs.each {
            let Some(place) = value.and_then(|value| canvas.point(*seed as f64, value)) else { continue };
            let title =
                format!("run {seed} {}: {} {unit}", picture.over(one.over), super::number(value.unwrap_or(0.0)));
            let mark = style::mark(one.over, "solid", place, 3.6).set("data-of", "ours");
            group.push(&mark.child(&Tag::new("title").text(title.trim_end())));
        }
        canvas.marks.push(&group);
    }
    canvas.finish()
}
