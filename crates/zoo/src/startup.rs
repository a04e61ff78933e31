//! Start-up schemes: they open the window before slow start.

pub(crate) mod first_flight;
pub(crate) mod initial_burst;
pub(crate) mod paced_start;
pub(crate) mod pacing_only;
pub(crate) mod probing_start;
pub(crate) mod quick_start;
pub(crate) mod rc3;
pub(crate) mod swift_start_bbn;

use longhaul_units::{Bytes, Rate, Span, Time};

/// Series of segments or ACKs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Series {
    /// Times of the first and the last one.
    ends: Option<(Time, Time)>,
    /// Bytes after the first one.
    bytes: Bytes,
}

impl Series {
    fn note(&mut self, at: Time, bytes: Bytes) {
        self.ends = match self.ends {
            None => Some((at, at)),
            Some((first, last)) => {
                self.bytes += bytes;
                Some((first.min(at), last.max(at)))
            }
        };
    }

    /// Returns the mean time per segment of `mss`, or `None` if all came at once.
    fn gap(&self, mss: Bytes) -> Option<Span> {
        let (first, last) = self.ends?;
        let gap = last.since(first).mul_f64(mss.as_f64() / self.bytes.as_f64().max(1.0));
        (gap > Span::ZERO && self.bytes > Bytes::ZERO).then_some(gap)
    }

    /// Returns the rate after the first one.
    fn rate(&self) -> Option<Rate> {
        let (first, last) = self.ends?;
        (last > first).then(|| Rate::from_bytes_over(self.bytes, last.since(first)))
    }
}
