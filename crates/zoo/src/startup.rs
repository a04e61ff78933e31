//! Start-up schemes: how a connection opens its window before slow start.

pub(crate) mod first_flight;
pub(crate) mod initial_burst;
pub(crate) mod paced_start;
pub(crate) mod pacing_only;
pub(crate) mod probing_start;
pub(crate) mod quick_start;
pub(crate) mod rc3;
pub(crate) mod swift_start_bbn;

use longhaul_units::Bytes;

/// Converts a bound in KiB to bytes; zero means no bound.
const fn bound(kib: u64) -> Bytes {
    if kib == 0 { Bytes::MAX } else { Bytes(kib.saturating_mul(1024)) }
}
