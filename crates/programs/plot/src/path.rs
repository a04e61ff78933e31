//! Paths through points, reduced to a visible resolution.

/// Total number of pixel columns of all lines in a picture. With four points per column, the file stays below 300 kB.
const COLUMNS: usize = 4500;
/// Maximum number of columns of a line.
const ACROSS: usize = 600;

/// Returns a path through points, interrupted where a point is missing.
pub fn through(places: impl Iterator<Item = Option<(f64, f64)>>) -> String {
    let mut path = String::new();
    let mut is_down = false;
    for place in places {
        let Some((x, y)) = place else {
            is_down = false;
            continue;
        };
        path.push(if is_down { 'L' } else { 'M' });
        path += &tenths(x);
        path.push(' ');
        path += &tenths(y);
        is_down = true;
    }
    path
}

fn tenths(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".into(),
        Some(whole) => whole.into(),
        None => text,
    }
}

/// Reduces points, sorted by x, to the first, minimum, maximum and last point of each column, for a picture with this
/// many lines.
pub fn thinned(points: &[(f64, f64)], lines: usize) -> Vec<(f64, f64)> {
    let columns = (COLUMNS / lines.max(1)).clamp(50, ACROSS);
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let wide = (last.0 - first.0) / columns as f64;
    if points.len() <= 4 * columns || !(wide > 0.0 && wide.is_finite()) {
        return points.iter().copied().take(4 * ACROSS).collect();
    }
    let column = |point: &(f64, f64)| ((point.0 - first.0) / wide) as usize;
    let mut kept = Vec::new();
    for of_column in points.chunk_by(|a, b| column(a) == column(b)) {
        let places = 0..of_column.len();
        let least = places.clone().min_by(|a, b| of_column[*a].1.total_cmp(&of_column[*b].1));
        let most = places.max_by(|a, b| of_column[*a].1.total_cmp(&of_column[*b].1));
        let mut wanted: Vec<usize> =
            [Some(0), least, most, of_column.len().checked_sub(1)].into_iter().flatten().collect();
        wanted.sort_unstable();
        wanted.dedup();
        kept.extend(wanted.into_iter().map(|at| of_column[at]));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_extremes_and_the_ends() {
        let mut points: Vec<(f64, f64)> = (0..200_000).map(|n| (f64::from(n) * 1e-3, f64::from(n % 7))).collect();
        points[77_777].1 = 1e6;
        points[123_456].1 = -1e6;
        let kept = thinned(&points, 1);
        assert!(kept.len() <= 4 * (ACROSS + 1), "{}", kept.len());
        assert!(kept.contains(&points[77_777]) && kept.contains(&points[123_456]));
        assert_eq!((kept.first(), kept.last()), (points.first(), points.last()));
        assert!(kept.is_sorted_by(|a, b| a.0 <= b.0));
        assert_eq!(thinned(&points[..9], 1), points[..9]);
        assert!(thinned(&points, 30).len() <= 4 * 151);
    }

    #[test]
    fn a_path_ends_where_there_is_nothing() {
        let places = [Some((0.0, 1.0)), Some((2.0, 3.25)), None, Some((4.0, 5.0))];
        assert_eq!(through(places.into_iter()), "M0 1L2 3.2M4 5");
    }
}
