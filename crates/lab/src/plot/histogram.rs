//! Histograms and cumulative distributions.

use super::canvas::{Axis, Look, Wish};
use super::path::through;
use super::picture::{Drawn, Picture, keys};
use super::style;
use super::tag::Tag;

/// Maximum number of bins; more could not be resolved in pixels.
const MOST_BINS: f64 = 400.0;

pub(super) fn draw(picture: &Picture<'_>) -> String {
    let all = values(picture);
    // Bins cover the range of all samples, so that the histograms are comparable.
    let everything = || all.iter().flat_map(|(_, values)| values.iter().copied());
    let low = everything().fold(f64::INFINITY, f64::min);
    let high = everything().fold(f64::NEG_INFINITY, f64::max);
    let bin = width(picture.plot.written.bin.unwrap_or(1.0), high - low);
    let first = if low.is_finite() { (low / bin).floor() } else { 0.0 };
    let shares: Vec<(String, Vec<f64>)> =
        all.iter().map(|(name, values)| (name.clone(), shares(values, first, bin))).collect();
    // The x axis has the series' unit, and the y axis percentages.
    let (name, unit) =
        picture.plot.series.first().map_or(("", ""), |series| (series.name.as_str(), series.unit.as_str()));
    let name = picture.plot.written.label.clone().unwrap_or_else(|| super::spoken(name));
    let last = first + shares.iter().map(|(_, shares)| shares.len()).max().unwrap_or(0) as f64;
    let x = Axis::of(
        [first * bin, last * bin].into_iter(),
        Wish { name: &name, unit, is_log: false, zero: false, about: 8 },
    );
    let y = shares.iter().flat_map(|(_, shares)| shares.iter().copied());
    let y = Axis::of(y, Wish { name: "share of the samples", unit: "%", is_log: false, zero: true, about: 6 });
    // Legend and caption.
    let legend = keys(all.iter().enumerate().map(|(nth, (name, _))| (Look::Line(nth), name.as_str())));
    let how = format!("{} Bins of {} {unit}; each adds up to 100 %.", picture.which(), super::number(bin));
    let mut canvas = picture.canvas(picture.around(legend, "Histogram of the samples.", &how), x, y);
    if shares.iter().all(|(_, shares)| shares.is_empty()) {
        canvas.nothing();
    }
    // One outline per histogram, from the x axis over all bins and back to the x axis.
    for (nth, (name, shares)) in shares.iter().enumerate() {
        let mut corners = vec![(first * bin, 0.0)];
        for (place, share) in shares.iter().enumerate() {
            let from = first + place as f64;
            corners.extend([(from * bin, *share), ((from + 1.0) * bin, *share)]);
        }
        corners.push(((first + shares.len() as f64) * bin, 0.0));
        let path = through(corners.into_iter().map(|(x, y)| canvas.point(x, y)));
        let group = Tag::new("g")
            .child(&Tag::new("title").text(name))
            .child(&Tag::new("path").set("class", &style::class(nth, "band")).set("d", &path))
            .child(&style::line(nth, &path).set("data-of", "ours"));
        canvas.marks.push(&group);
    }
    canvas.finish()
}

/// Returns the values of each series and choice, with the names that distinguish them.
pub(super) fn values(picture: &Picture<'_>) -> Vec<(String, Vec<f64>)> {
    let plot = picture.plot;
    let mut all = Vec::new();
    for (over, cells) in plot.grid.cells.iter().enumerate() {
        for series in &plot.series {
            let runs = cells.iter().flat_map(|cell| picture.recorded(*cell, &series.name));
            let values = runs.flatten().map(|(_, value)| *value).filter(|value| value.is_finite()).collect();
            all.push((picture.line(over, &series.name), values));
        }
    }
    all
}

/// Returns the width of bins: the requested width, or a multiple of it if there would be too many bins.
fn width(wished: f64, range: f64) -> f64 {
    if !range.is_finite() {
        return wished;
    }
    wished * (range / wished / MOST_BINS).ceil().max(1.0)
}

/// Returns the percentage of values in each bin. The first bin starts at `first` times the width.
fn shares(values: &[f64], first: f64, bin: f64) -> Vec<f64> {
    let mut counts: Vec<f64> = Vec::new();
    for value in values {
        // Values on a boundary belong to the upper bin, despite rounding errors.
        let place = ((value / bin + 1e-9).floor() - first).clamp(0.0, 2.0 * MOST_BINS) as usize;
        if counts.len() <= place {
            counts.resize(place + 1, 0.0);
        }
        counts[place] += 1.0;
    }
    counts.into_iter().map(|count| count * 100.0 / values.len() as f64).collect()
}

/// Maximum number of steps in a line.
const STEPS: usize = 500;

pub(super) fn draw_cdf(picture: &Picture<'_>) -> String {
    let plot = picture.plot;
    let (name, unit, all) = match plot.metrics.first() {
        Some(metric) => {
            let (name, unit) = picture.metric(*metric);
            let drawn = picture.drawn(*metric);
            (name, unit, pooled(picture, &drawn))
        }
        None => {
            let first = plot.series.first();
            let name = first.filter(|_| plot.series.len() == 1).map_or(String::new(), |one| super::spoken(&one.name));
            (name, first.map_or("", |one| one.unit.as_str()), values(picture))
        }
    };
    let all: Vec<(String, Vec<f64>)> = all;
    let name = plot.written.label.clone().unwrap_or(name);
    let values = all.iter().flat_map(|(_, values)| values.iter().copied());
    let x = Axis::of(values, Wish { name: &name, unit, is_log: plot.written.log, zero: false, about: 8 });
    let y = Axis::of([0.0, 1.0].into_iter(), Wish { name: "share", unit: "", is_log: false, zero: true, about: 5 });
    let legend = keys(all.iter().enumerate().map(|(nth, (name, _))| (Look::Line(nth), name.as_str())));
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
    fn shares_by_hand() {
        assert_eq!(shares(&[1.0, 1.9, 2.0, 4.5], 1.0, 1.0), [50.0, 25.0, 0.0, 25.0]);
        assert_eq!(shares(&[0.3], 0.0, 0.1), [0.0, 0.0, 0.0, 100.0]);
        assert!(shares(&[], 0.0, 0.1).is_empty());
    }

    #[test]
    fn bins_are_no_more_than_pixels() {
        assert_eq!(width(1.0, 100.0), 1.0);
        assert_eq!(width(1.0, 1000.0), 3.0);
        assert_eq!(width(1.0, f64::NEG_INFINITY), 1.0);
    }

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
