//! Congestion-avoidance algorithms: how the window follows the available bandwidth after slow start.

pub(crate) mod cubic;
pub(crate) mod new_reno;

pub(crate) use cubic::Cubic;
pub use new_reno::NewReno;

use longhaul_units::Bytes;

use crate::compose::Window;
use crate::describe::OptionSpec;

/// Smaller decrease on ECN marks (RFC 8511), for each algorithm that responds to marks as it does to losses. The
/// composition applies it ([`Composed::keeping_at_marks`](crate::compose::Composed::keeping_at_marks)), so that an
/// algorithm whose [`Entry`](crate::registry::Entry) lists this option needs no code for it.
pub const ECN_BETA: OptionSpec = OptionSpec::float(
    "ecn-beta",
    0.0,
    0.95,
    0.0,
    "fraction kept on an ECN mark; 0: as on a loss (RFC 8511 proposes 0.8)",
);

/// Increases the window by `alpha` segments per window acknowledged, of which `grow` bytes are a part. This is byte
/// counting (RFC 5681, section 3.1) in fractions, so that delayed and merged ACKs count in full. An `alpha` of 1 is
/// NewReno's increase per round trip. `grow` counts as one window at most, and `window.cwnd` has to be positive.
///
/// ```
/// use longhaul_cc::compose::Window;
/// use longhaul_cc::compose::additive;
/// use longhaul_units::Bytes;
///
/// let mut window = Window::new(10_000.0);
/// additive(&mut window, 1.0, Bytes(5_000), Bytes(1_000));
/// assert_eq!(window.cwnd, 10_500.0, "half of a window was acknowledged: half a segment");
/// ```
pub fn additive(window: &mut Window, alpha: f64, grow: Bytes, mss: Bytes) {
    window.cwnd += alpha * mss.as_f64() * (grow.as_f64() / window.cwnd).min(1.0);
}
