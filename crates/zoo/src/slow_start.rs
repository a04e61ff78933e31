//! Slow-start variants: algorithms that raise the window until the capacity of the path is found.

pub(crate) mod astart;
pub(crate) mod fast_start;
pub(crate) mod hybla_start;
pub(crate) mod hystart;
pub(crate) mod rapid_start;
pub(crate) mod search;
pub(crate) mod suss;
pub(crate) mod vegas_start;

use longhaul_cc::compose::Window;
use longhaul_cc::{Pace, Path};
use longhaul_units::{Bytes, Rate};

/// Returns a pace of `gain` windows per round trip.
fn pace(gain: f64, window: &Window, path: &Path) -> Option<Pace> {
    let rtt = path.srtt.or(path.handshake_rtt).filter(|rtt| !rtt.is_zero())?;
    let rate = Rate::from_bytes_over(Bytes::from_f64(window.cwnd), rtt).mul_f64(gain);
    (rate > Rate::ZERO).then_some(Pace::new(rate))
}
