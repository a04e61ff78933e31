//! Parameters from which a controller is built.

use longhaul_units::{Bytes, Rate, Span};

/// Configuration of a controller that the transport provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildParams {
    /// The segment size to assume until the first [`Path`](crate::Path) is known, bytes.
    pub mss: Bytes,
    /// The largest congestion window, bytes.
    pub max_cwnd: Bytes,
    /// Upper limit of the first slow start, bytes: the cached threshold of earlier connections to the same host (RFC
    /// 9040, section 6.1). `None` is RFC 5681's "arbitrarily high". It does not change the initial window; if it is
    /// smaller, slow start is skipped. Controllers without a threshold (BBR, Copa, UDT) ignore it.
    pub initial_ssthresh: Option<Bytes>,
    /// The saved path of an earlier connection to the same host, for start-up schemes that use it
    /// ([`Demands::saved_path`](crate::Demands::saved_path)).
    pub saved_path: Option<SavedPath>,
    /// Whether windows grow by the bytes that ACKs deliver, as RFC 5681, section 3.1, recommends (RFC 3465). If not,
    /// an ACK counts as at most one segment, as on hosts without byte counting: if the receiver acknowledges every
    /// second segment, a window grows half as fast. Estimators count bytes in either case. Controllers that are not
    /// [`Composed`](crate::compose::Composed) ignore it.
    pub byte_counting: bool,
    /// Offset of a clock that hosts share, such as UTC, relative to the clock of [`Ack::now`](crate::Ack::now); `None`
    /// if it is unknown. With it, flows of one algorithm can act at the same time.
    pub shared_clock: Option<Span>,
}

/// The saved path: measurements of one connection for use by a later one over the same path (saved congestion control
/// parameters of RFC 9959).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SavedPath {
    /// Maximum number of bytes acknowledged in one round trip, including those that were queued (RFC 9959,
    /// section 3.1).
    pub window: Bytes,
    /// Maximum delivery rate.
    pub rate: Rate,
    /// The smallest RTT.
    pub rtt: Span,
}

impl SavedPath {
    /// Upper limit of [`window`](Self::window), bytes: twice the largest window that TCP's header can express (RFC
    /// 7323, section 2.3).
    pub const MAX_WINDOW: Bytes = Bytes(1 << 31);

    /// Factor on the saved RTT above which an RTT belongs to another path.
    const LONGER: u64 = 10;

    /// A connection's largest window, largest rate and smallest RTT.
    #[must_use]
    pub const fn new(window: Bytes, rate: Rate, rtt: Span) -> Self {
        Self { window, rate, rtt }
    }

    /// Returns whether these values are plausible: a window from one byte to [`MAX_WINDOW`](Self::MAX_WINDOW), a rate
    /// above zero, and an RTT of at least 1 us.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        let window = self.window > Bytes::ZERO && self.window <= Self::MAX_WINDOW;
        window && self.rate > Rate::ZERO && self.rtt >= Span::from_micros(1)
    }

    /// Returns whether a path with this smallest RTT may be the saved one: the RTT is more than half of the saved
    /// one, and at most ten times as long (RFC 9959, section 3.2).
    #[must_use]
    pub fn may_be(&self, rtt: Span) -> bool {
        rtt > self.rtt / 2 && rtt <= self.rtt * Self::LONGER
    }
}

/// How a controller has used [`BuildParams::saved_path`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SavedPathUse {
    /// Not used so far: there was no saved path, the controller does not use saved paths, or it reached the same window
    /// without it.
    #[default]
    Unused,
    /// The saved window or rate was used.
    Used,
    /// The saved path was rejected because the RTT belongs to another path ([`SavedPath::may_be`]).
    OtherPath,
}

impl Default for BuildParams {
    /// Returns 536-byte segments (RFC 9293, section 3.7.1) and no practical limit: 1 TiB, a thousand times what RFC
    /// 7323's window scale can advertise. The path is unknown.
    fn default() -> Self {
        Self {
            mss: Bytes(536),
            max_cwnd: Bytes(1 << 40),
            initial_ssthresh: None,
            saved_path: None,
            byte_counting: true,
            shared_clock: None,
        }
    }
}
