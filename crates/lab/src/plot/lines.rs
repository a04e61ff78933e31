//! Line charts: a metric against the choices on an axis.

use super::canvas::{Axis, Key, Look};
use super::picture::Picture;
use super::tag::{Tag, coordinate};
use super::{choices, path, scale, style, ticks};

pub(super) fn draw(picture: &Picture<'_>) -> String {
    let (plot, metric) = (picture.plot, picture.one());
    let drawn = picture.drawn(metric);
    let (name, unit) = picture.metric(metric);
    // The y axis covers our values with their intervals, and the paper's values.
    let values = drawn.iter().flat_map(|drawn| drawn.runs.drawn().chain(drawn.paper));
    let y = picture.y_axis(metric, values, !plot.log_y);
    // Legend, description and caption.
    let mut legend = picture.keys(Look::LineAndMark);
    if drawn.iter().any(|drawn| drawn.paper.is_some()) {
        legend.push(Key { look: Look::HollowMark, name: "paper".into() });
    }
    legend.extend(picture.expected_keys());
    let by = &plot.grid.by;
    let about = format!("Lines of {name} against {}, one per {}.", by.axis, plot.grid.over.axis);
    let around = picture.around(legend, &about, &picture.how(&drawn, "bars"));
    // Choices that are numbers of one unit are drawn to scale, others in slots of equal width.
    let along = choices::numbers(&by.names);
    let mut canvas = picture.canvas(around, x_axis(picture, along.as_ref()), y);
    let place = |canvas: &super::canvas::Canvas, nth: usize| match &along {
        Some((values, _)) => canvas.x(*values.get(nth)?),
        None => {
            let (from, wide) = canvas.slot(nth);
            Some(from + wide / 2.0)
        }
    };
    for over in 0..plot.grid.cells.len() {
        // A line through the values, in the order of their positions.
        let line: Vec<_> = drawn.iter().filter(|drawn| drawn.over == over).collect();
        let mut points: Vec<(f64, Option<f64>)> = line
            .iter()
            .filter_map(|drawn| Some((place(&canvas, drawn.by)?, drawn.runs.value.and_then(|value| canvas.y(value)))))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let through = path::through(points.into_iter().map(|(x, y)| Some((x, y?))));
        let mut group = Tag::new("g").child(&style::line(over, &through));
        // A mark per cell: the paper's value, the interval, and our value on top.
        for one in line {
            let Some(x) = place(&canvas, one.by) else { continue };
            let mut marks = Tag::new("g").child(&Tag::new("title").text(&picture.tell(one, unit)));
            if let Some(y) = one.paper.and_then(|paper| canvas.y(paper)) {
                marks.push(&style::mark(over, "hollow", (x, y), 6.5).set("data-of", "paper"));
            }
            if let Some([low, high]) = one.runs.interval
                && let (Some(low), Some(high)) = (canvas.y(low), canvas.y(high))
            {
                marks.push(&interval(over, x, (low, high)));
            }
            if let Some(y) = one.runs.value.and_then(|value| canvas.y(value)) {
                marks.push(&style::mark(over, "solid", (x, y), 3.6).set("data-of", "ours"));
            }
            group.push(&marks);
        }
        canvas.marks.push(&group);
    }
    canvas.finish()
}

/// Returns the x axis. Choices that are numbers are placed at their values.
fn x_axis(picture: &Picture<'_>, along: Option<&(Vec<f64>, String)>) -> Axis {
    let by = &picture.plot.grid.by;
    let Some((values, unit)) = along else {
        return Axis::names(&by.names, picture.by_label());
    };
    let is_log = picture.plot.log;
    let (low, high) = scale::extent(values.iter().copied(), is_log).unwrap_or((0.0, 1.0));
    let (low, high) = match (is_log, high > low) {
        (true, true) => {
            let room = (high / low).powf(0.04);
            (low / room, high * room)
        }
        (true, false) => (low / 2.0, high * 2.0),
        (false, true) => (low - (high - low) * 0.04, high + (high - low) * 0.04),
        (false, false) => (low - 1.0, high + 1.0),
    };
    let mut ticks: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    ticks.sort_by(f64::total_cmp);
    let ticks = if is_log {
        ticks::decades(ticks)
    } else {
        ticks.into_iter().map(|tick| (tick, ticks::number(tick))).collect()
    };
    let name = picture.by_label();
    let label = if unit.is_empty() { name.into() } else { format!("{name} ({unit})") };
    Axis::Numbers { low, high, is_log, ticks, label }
}

/// Draws an interval in the colour of a line.
fn interval(nth: usize, x: f64, (low, high): (f64, f64)) -> Tag {
    let (left, right, x) = (coordinate(x - 4.0), coordinate(x + 4.0), coordinate(x));
    let (low, high) = (coordinate(low), coordinate(high));
    let path = format!("M{left} {low}H{right}M{x} {low}V{high}M{left} {high}H{right}");
    Tag::new("path").set("class", &style::class(nth, "thin")).set("d", &path)
}
