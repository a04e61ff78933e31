//! Sequence numbers against time in seconds, as tcptrace draws them.

use std::collections::BTreeMap;

use super::canvas::{Axis, Key, Look};
use super::path::{thinned, through};
use super::picture::Picture;
use super::style;
use super::tag::{Tag, coordinate};

/// Colours of data, retransmissions and acknowledgments.
const SENT: usize = 6;
const AGAIN: usize = 7;
const ACKED: usize = 2;
/// Maximum number of segments that are drawn large.
const FEW: usize = 100;

pub(super) fn draw(picture: &Picture<'_>) -> String {
    let plot = picture.plot;
    let cell = plot.grid.cells.first().and_then(|line| line.first()).copied().unwrap_or(usize::MAX);
    let seed = plot.written.seed.unwrap_or(1);
    let record = picture.records.iter().find(|record| record.cell == cell && record.nth() == seed);
    // The recorded points of the chosen run, by the kind of series.
    let of = |call: &str| -> Vec<(f64, f64)> {
        let named = plot.series.iter().find(|series| series.call == call);
        let series = named.and_then(|named| record?.series.get(&named.name));
        series.map_or(Vec::new(), |series| plot.within(series))
    };
    let (segments, resent, acks) = (of("segments"), of("resent"), of("acks"));
    // Axes, legend and caption.
    let all = || segments.iter().chain(&resent).chain(&acks);
    let end = all().map(|(time, _)| *time).fold(plot.from, f64::max);
    let y = picture.y_of("sequence number", "bytes", all().map(|(_, value)| *value), plot.from == 0.0);
    let x = Axis::between((plot.from, plot.to.unwrap_or(end)), "time", "s", 0.0);
    let keys = [
        (Look::Dashed(SENT, 0), "data", !segments.is_empty()),
        (Look::Mark(AGAIN), "retransmitted", !resent.is_empty()),
        (Look::Dashed(ACKED, 0), "acknowledged", !acks.is_empty()),
    ];
    let is_there = |(look, name, there): (Look, &str, bool)| there.then(|| Key { look, name: name.into() });
    let legend = keys.into_iter().filter_map(is_there).collect();
    let about = "Sequence numbers of segments and acknowledgements against time in seconds.";
    let mut canvas = picture.canvas(picture.around(legend, about, &format!("Run {seed}.")), x, y);
    if all().next().is_none() {
        canvas.nothing();
    }
    // Acknowledgments are a staircase: the acknowledged sequence number holds until the next ACK.
    let steps = acks.windows(2).flat_map(|two| [two[0], (two[1].0, two[0].1)]).chain(acks.last().copied());
    let steps: Vec<(f64, f64)> = steps.collect();
    let path = through(thinned(&steps, 2).iter().map(|(x, y)| canvas.point(*x, *y)));
    canvas.marks.push(&style::dashed((ACKED, 0), &path).set("data-of", "acks"));
    // New data is drawn as vertical strokes, and retransmissions are marks on top of them.
    let places: Vec<(f64, f64)> = segments.iter().filter_map(|(x, y)| canvas.point(*x, *y)).collect();
    let sent = Tag::new("path").set("class", &style::class(SENT, "thick")).set("d", &upright(&places));
    canvas.marks.push(&sent.set("data-of", "segments"));
    let mut again = Tag::new("g").set("data-of", "resent");
    for place in seen(resent.iter().filter_map(|(x, y)| canvas.point(*x, *y))) {
        again.push(&style::mark(AGAIN, "solid", place, 3.0));
    }
    canvas.marks.push(&again);
    canvas.finish()
}

/// Returns vertical strokes of at least two pixels, or six if there are few. Strokes that touch in a column are
/// joined.
fn upright(places: &[(f64, f64)]) -> String {
    let half = if places.len() <= FEW { 3.0 } else { 1.0 };
    let mut columns: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for (x, y) in places {
        columns.entry((x * 2.0).round() as i64).or_default().push(*y);
    }
    let mut path = String::new();
    for (column, mut ys) in columns {
        ys.sort_by(f64::total_cmp);
        for of_stroke in ys.chunk_by(|a, b| b - a <= 2.0 * half + 0.5) {
            let (Some(top), Some(bottom)) = (of_stroke.first(), of_stroke.last()) else { continue };
            path += &format!(
                "M{} {}V{}",
                coordinate(column as f64 / 2.0),
                coordinate(top - half),
                coordinate(bottom + half)
            );
        }
    }
    path
}

/// Removes marks that nearly coincide with others.
fn seen(places: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut all: BTreeMap<(i64, i64), (f64, f64)> = BTreeMap::new();
    for (x, y) in places {
        all.entry(((x / 3.0) as i64, (y / 3.0) as i64)).or_insert((x, y));
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strokes_that_touch_are_one() {
        let few = [(1.0, 10.0), (1.1, 12.0), (1.0, 20.0), (2.0, 10.0)];
        assert_eq!(upright(&few), "M1 7V15M1 17V23M2 7V13");
        let many: Vec<(f64, f64)> = (0..=FEW).map(|nth| (4.0 + nth as f64, 10.0)).chain(few).collect();
        assert!(upright(&many).starts_with("M1 9V13M1 19V21M2 9V11M4 9V11"), "{}", upright(&many));
        assert_eq!(seen([(1.0, 1.0), (1.1, 1.2), (9.0, 9.0)].into_iter()).len(), 2);
    }
}
