//! How much faster the receiver's clock runs than the sender's, from one-way delays.

/// A one-way delay, whose origin does not matter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// When, in seconds.
    pub(super) at: f64,
    /// The delay, in seconds.
    pub(super) delay: f64,
}

/// The slope in seconds a second of the line below all points that is nearest to them: what the delay grows by though no
/// packet waits longer. Queues only add, so that the line rests on packets that did not wait. (Moon, Skelly, Towsley,
/// Estimation and removal of clock skew from network delay measurements, INFOCOM 1999.)
///
/// That line is the edge of the lower convex hull which lies over the mean time. `points` are in the order of time; `None` if
/// they are all of one time.
pub(super) fn slope(points: &[Point]) -> Option<f64> {
    let mean = points.iter().map(|point| point.at).sum::<f64>() / points.len().max(1) as f64;
    let hull = lower_hull(points);
    let mut edges = hull.iter().zip(hull.iter().skip(1)).filter(|(from, to)| from.at < to.at);
    let over = |(from, to): (&Point, &Point)| (to.delay - from.delay) / (to.at - from.at);
    edges.clone().find(|(_, to)| to.at >= mean).or_else(|| edges.next_back()).map(over)
}

/// The corners of the lower convex hull, from left to right (Andrew's monotone chain).
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
        // 50 ppm under a sawtooth of a millisecond that is at zero every seventh second.
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
        /// Against trying the line through each two points: none that is below all points is nearer to them.
        #[test]
        fn it_is_the_nearest_line_below(delays in prop::collection::vec(0_u32..1000, 2..30)) {
            let points = points(delays.into_iter().map(f64::from));
            let distance = |slope: f64| {
                // The highest line of that slope that is below all.
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
