//! A metric run by run.

use super::canvas::{Axis, Key, Look};
use super::picture::Picture;
use super::style;
use super::tag::Tag;

pub(super) fn draw(picture: &Picture<'_>) -> String {
    let metric = picture.one();
    let drawn = picture.drawn(metric);
    let (name, unit) = picture.metric(metric);
    let values = drawn.iter().flat_map(|drawn| drawn.runs.values().chain(drawn.paper));
    let y = picture.y_axis(metric, values, !picture.plot.log_y);
    let last = drawn.iter().flat_map(|drawn| drawn.runs.each.iter().map(|(seed, _)| *seed)).max().unwrap_or(1);
    let x = Axis::between((0.5, last as f64 + 0.5), "run", "", 1.0);
    let mut legend = picture.keys(Look::Mark);
    if drawn.iter().any(|drawn| drawn.paper.is_some()) {
        legend.push(Key { look: Look::DashedAndHollow, name: "paper".into() });
    }
    legend.extend(picture.expected_keys());
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
