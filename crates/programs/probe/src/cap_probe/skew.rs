//! Drift of the receiver's clock relative to the sender's, from one-way delays.

/// A one-way delay with an arbitrary offset, and its time, both in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) at: f64,
    pub(super) delay: f64,
}

/// Returns the slope, in seconds per second, of the line that lies below all points and is closest to them. It is the
/// growth of the delay without queueing: queues only add to delays, so that the line is determined by packets that did
/// not wait. (Moon, Skelly, Towsley, Estimation and removal of clock skew from network delay measurements, INFOCOM
/// 1999.)
///
/// The line is the edge of the lower convex hull at the mean time. `points` must be sorted by time. If all of them have
/// the same time, the result is `None`.
pub(super) fn slope(points: &[Point]) -> Option<f64> {
    let mean = points.iter().map(|point| point.at).sum::<f64>() / points.len().max(1) as f64;
    let hull = lower_hull(points);
    let mut edges = hull.iter().zip(hull.iter().skip(1)).filter(|(from, to)| from.at < to.at);
    let over = |(from, to): (&Point, &Point)| (to.delay - from.delay) / (to.at - from.at);
    edges.clone().find(|(_, to)| to.at >= mean).or_else(|| edges.next_back()).map(over)
}

/// Returns the vertices of the lower convex hull from left to right (Andrew's monotone chain).
fn lower_hull(points: &[Point]) -> Vec<Point> {
    let mut hull: Vec<Point> = Vec::new();
    for point in points {
        while let [.., before, last] = hull.as_slice()
            && !turns_left(*before, *last, *point)
        {
            hull.pop();
        }
        hull.push(*point);
    }
    hull
}

fn turns_left(from: Point, over: Point, to: Point) -> bool {
    (over.at - from.at) * (to.delay - from.delay) > (over.delay - from.delay) * (to.at - from.at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn points(delays: impl IntoIterator<Item = f64>) -> Vec<Point> {
        delays.into_iter().enumerate().map(|(k, delay)| Point { at: k as f64, delay }).collect()
    }

    #[test]
    fn a_drift_below_queues_is_found() {
        // A drift of 50 ppm below a sawtooth of up to 6 ms that is zero every 7 s.
        let drifting = points((0..60).map(|k| f64::from(k) * 50e-6 + f64::from(k % 7) * 1e-3));
        assert!((slope(&drifting).unwrap() - 50e-6).abs() < 1e-12);
        let back = points((0..60).map(|k| 1.0 - f64::from(k) * 50e-6 + f64::from(k % 7) * 1e-3));
        assert!((slope(&back).unwrap() + 50e-6).abs() < 1e-12);
    }

    #[test]
    fn without_two_times_there_is_none() {
        assert_eq!(slope(&[]), None);
        assert_eq!(slope(&[Point { at: 1.0, delay: 2.0 }]), None);
        assert_eq!(slope(&[Point { at: 1.0, delay: 2.0 }, Point { at: 1.0, delay: 1.0 }]), None);
    }

    proptest! {
        /// Reference: of the lines through any two points, shifted below all points, none is closer to them.
        #[test]
        fn it_is_the_nearest_line_below(delays in prop::collection::vec(0_u32..1000, 2..30)) {
            let points = points(delays.into_iter().map(f64::from));
            let distance = |slope: f64| {
                // The highest line with this slope below all points.
                let base = points.iter().map(|p| p.delay - slope * p.at).fold(f64::MAX, f64::min);
                points.iter().map(|p| p.delay - slope * p.at - base).sum::<f64>()
            };
            let found = distance(slope(&points).unwrap());
            for (k, one) in points.iter().enumerate() {
                for other in &points[k + 1..] {
                    prop_assert!(found <= distance((other.delay - one.delay) / (other.at - one.at)) + 1e-6);
                }
            }
        }
    }
}
