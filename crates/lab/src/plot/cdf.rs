//! Cumulative distributions.

use super::canvas::{Axis, Key, Look, Wish};
use super::path::through;
use super::picture::{Drawn, Picture};
use super::tag::Tag;
use super::{histogram, style};

/// Maximum number of steps in a line.
const STEPS: usize = 500;

pub(super) fn draw(picture: &Picture<'_>) -> String {
    let plot = picture.plot;
    let (name, unit, all) = match plot.metrics.first() {
        Some(metric) => {
            let (name, unit) = picture.metric(*metric);
            let drawn = picture.drawn(*metric);
            (name, unit, pooled(picture, &drawn))
        }
        None => {
            let first = plot.series.first();
            let name = first.filter(|_| plot.series.len() == 1).map_or(String::new(), |one| one.name.replace('-', " "));
            (name, first.map_or("", |one| one.unit.as_str()), histogram::values(picture))
        }
    };
    let all: Vec<(String, Vec<f64>)> = all;
    let name = plot.label.clone().unwrap_or(name);
    let values = all.iter().flat_map(|(_, values)| values.iter().copied());
    let x = Axis::of(values, Wish { name: &name, unit, is_log: plot.log, zero: false, about: 8 });
    let y = Axis::of([0.0, 1.0].into_iter(), Wish { name: "share", unit: "", is_log: false, zero: true, about: 5 });
    let named = all.iter().enumerate().filter(|(_, (name, _))| !name.is_empty());
    let legend = named.map(|(nth, (name, _))| Key { look: Look::Line(nth), name: name.clone() }).collect();
    let around = picture.around(legend, &format!("Cumulative distribution of {name}."), &picture.which());
    let mut canvas = picture.canvas(around, x, y);
    if all.iter().all(|(_, values)| values.is_empty()) {
        canvas.nothing();
    }
    for (nth, (name, values)) in all.iter().enumerate() {
        let path = through(steps(values).into_iter().map(|(x, y)| canvas.point(x, y)));
        let line = style::line(nth, &path).set("data-of", "ours");
        canvas.marks.push(&line.child(&Tag::new("title").text(name)));
    }
    canvas.finish()
}

/// Returns the values of each line, over all of its cells.
fn pooled(picture: &Picture<'_>, drawn: &[Drawn]) -> Vec<(String, Vec<f64>)> {
    let lines = 0..picture.plot.grid.cells.len();
    let values = |line: usize| drawn.iter().filter(move |one| one.over == line).flat_map(|one| one.runs.values());
    lines.map(|line| (picture.over(line).to_owned(), values(line).collect())).collect()
}

/// Returns the corners of the steps.
fn steps(values: &[f64]) -> Vec<(f64, f64)> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let mut corners = Vec::new();
    let mut share = 0.0;
    let every = count.div_ceil(STEPS).max(1);
    for (nth, value) in values.iter().enumerate() {
        let is_last = nth + 1 == count;
        if nth % every != 0 && !is_last {
            continue;
        }
        corners.push((*value, share));
        share = (nth + 1) as f64 / count as f64;
        corners.push((*value, share));
    }
    corners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_by_hand() {
        assert_eq!(steps(&[3.0, 1.0]), [(1.0, 0.0), (1.0, 0.5), (3.0, 0.5), (3.0, 1.0)]);
        assert!(steps(&[]).is_empty());
        let many: Vec<f64> = (0..100_000).map(f64::from).collect();
        let few = steps(&many);
        assert!(few.len() <= 2 * (STEPS + 1));
        assert_eq!(few.last(), Some(&(99_999.0, 1.0)));
    }
}
