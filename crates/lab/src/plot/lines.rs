//! Line charts: a metric against the choices on an axis.

use longhaul_link::spec::value;

use super::bars::interval;
use super::canvas::{Axis, Look};
use super::picture::{Picture, has_paper};
use super::tag::Tag;
use super::{path, scale, style, ticks};

pub(super) fn draw(picture: &Picture<'_>) -> String {
    let (plot, metric) = (picture.plot, picture.one());
    let drawn = picture.drawn(metric);
    let (name, unit) = picture.metric(metric);
    // The y axis covers our values with their intervals, and the paper's values.
    let values = drawn.iter().flat_map(|drawn| drawn.runs.drawn().chain(drawn.paper));
    let y = picture.y_axis(metric, values, !plot.written.log_y);
    // Legend, description and caption.
    let legend = picture.legend(Look::LineAndMark, &[(has_paper(&drawn), Look::HollowMark, "paper")]);
    let by = &plot.grid.by;
    let about = format!("Lines of {name} against {}, one per {}.", by.axis, plot.grid.over.axis);
    let around = picture.around(legend, &about, &picture.how(&drawn, "bars"));
    // Choices that are numbers of one unit are drawn to scale, others in slots of equal width.
    let along = numbers(&by.names);
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
                marks.push(&interval(&style::class(over, "thin"), x, (low, high), 4.0));
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
    let is_log = picture.plot.written.log;
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

/// Returns the values of texts and their unit, if all are numbers of one unit, or if all are rates, times or sizes.
pub(super) fn numbers(texts: &[String]) -> Option<(Vec<f64>, String)> {
    alike(texts).or_else(|| measured(texts)).filter(|(values, _)| !values.is_empty())
}

/// Parses numbers that are followed by the same unit.
fn alike(texts: &[String]) -> Option<(Vec<f64>, String)> {
    let mut unit = None;
    let mut values = Vec::new();
    for text in texts {
        let end = text.find(|c: char| !c.is_ascii_digit() && !".-".contains(c)).unwrap_or(text.len());
        let (number, rest) = text.split_at(end);
        values.push(number.parse::<f64>().ok().filter(|value| value.is_finite())?);
        let rest = rest.trim();
        if *unit.get_or_insert(rest) != rest {
            return None;
        }
    }
    let unit = match unit? {
        "kbit" => "kb/s",
        "mbit" => "Mb/s",
        "gbit" => "Gb/s",
        other => other,
    };
    Some((values, unit.into()))
}

fn measured(texts: &[String]) -> Option<(Vec<f64>, String)> {
    let all = |read: &dyn Fn(&str) -> Option<f64>| texts.iter().map(|text| read(text)).collect::<Option<Vec<f64>>>();
    let rate = |text: &str| Some(value::rate(text).ok()?.as_bits_per_sec() as f64 * 1e-6);
    let time = |text: &str| Some(value::span(text).ok()?.as_secs_f64());
    let size = |text: &str| Some(value::size(text).ok()? as f64);
    (all(&rate).map(|values| (values, "Mb/s")))
        .or_else(|| all(&time).map(|values| (values, "s")))
        .or_else(|| all(&size).map(|values| (values, "bytes")))
        .map(|(values, unit)| (values, unit.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_by_a_table() {
        let of = |texts: &[&str]| numbers(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["0.1%", "1%"]), Some((vec![0.1, 1.0], "%".into())));
        assert_eq!(of(&["1", "16"]), Some((vec![1.0, 16.0], String::new())));
        assert_eq!(of(&["5mbit", "20mbit"]), Some((vec![5.0, 20.0], "Mb/s".into())));
        assert_eq!(of(&["500kbit", "20mbit"]), Some((vec![0.5, 20.0], "Mb/s".into())));
        assert_eq!(of(&["500ms", "1s"]), Some((vec![0.5, 1.0], "s".into())));
        assert_eq!(of(&["15kB", "1MB"]), Some((vec![15e3, 1e6], "bytes".into())));
        assert_eq!(of(&["tcp", "1"]), None);
        assert_eq!(of(&["1s", "1mbit"]), None);
        assert_eq!(of(&[]), None);
    }
}
