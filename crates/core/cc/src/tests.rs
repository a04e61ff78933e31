//! The segments of all tests.

use longhaul_units::Bytes;

/// Segment size of the tests.
pub(crate) const MSS: Bytes = Bytes(1460);

pub(crate) fn segments(n: u64) -> Bytes {
    MSS * n
}
