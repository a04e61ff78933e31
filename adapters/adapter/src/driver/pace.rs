//! Pacing rate for stacks that pace at the rate of the controller.

use longhaul_cc::{Pace, Pacer};
use longhaul_units::{Bytes, Rate, Span};

use super::Driver;

/// Maximum rate. noq's pacer computes the wait for a missing byte in whole nanoseconds: above 16 Gb/s the wait would be
/// zero, and the pacer would query again at the same instant.
const FASTEST: Rate = Rate::from_bits_per_sec(15_000_000_000);
/// Number of datagrams in flight below which the rate does not limit transmission.
const UNPACED: u64 = 2;

impl Driver {
    /// Returns the rate in bytes per second, and the burst in bytes: those of the controller, or twice a window per
    /// round trip before the first congestion event and 1.2 windows after it, as longhaul does. Returns `None` before
    /// the first RTT.
    ///
    /// With fewer than two datagrams in flight, the rate does not limit transmission: noq paces packets that contain only
    /// ACKs, too (contrary to RFC 9002, section 7.7), and waits for the credit of a full-sized datagram before each. A
    /// receiver, whose window is the initial one, would hold back ACKs for milliseconds and merge them.
    #[must_use]
    pub fn pace(&self) -> Option<(u64, u64)> {
        let pace = self.control.pace.or_else(|| self.default_rate().map(Pace::new))?;
        let is_idle = self.in_flight < self.path.mss * UNPACED;
        let rate = if is_idle { FASTEST } else { pace.rate.min(FASTEST) };
        let quantum = pace.quantum.unwrap_or_else(|| Pacer::default_quantum(rate, self.path.mss));
        let quantum = quantum.max(self.path.mss).min(Bytes(self.window()).max(self.path.mss));
        Some((rate.as_bytes_per_sec().max(1), quantum.0))
    }

    fn default_rate(&self) -> Option<Rate> {
        let srtt = self.path.srtt?.max(Span::from_micros(1));
        let cwnd = Bytes(self.window());
        let threshold = self.control.ssthresh.filter(|ssthresh| cwnd < *ssthresh);
        let (window, gain) = match threshold {
            _ if !self.congestion_seen => (cwnd, 2.0),
            // In recovery, the window is the bytes in flight plus the bytes that the last ACK released.
            Some(ssthresh) if self.recovery.is_some() && !self.after_timeout => (ssthresh, 1.2),
            Some(_) => (cwnd, 2.0),
            None => (cwnd, 1.2),
        };
        Some(Rate::from_bytes_over(window, srtt).mul_f64(gain))
    }
}
