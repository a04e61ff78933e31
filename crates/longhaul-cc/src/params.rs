//! What a controller is built from.

use longhaul_units::{Bytes, Rate, Span};

/// The transport's part of a controller's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildParams {
    /// The segment size to assume until the first [`Path`](crate::Path) is seen, bytes.
    pub mss: Bytes,
    /// The largest congestion window, bytes.
    pub max_cwnd: Bytes,
    /// Where the first slow start is to end at the latest, bytes: what earlier connections to the same host came to
    /// (RFC 9040, section 6.1). `None` is RFC 5681's "arbitrarily high". It never raises the initial window; below that
    /// there is no slow start. Controllers without a threshold (BBR, Copa, UDT) ignore it.
    pub initial_ssthresh: Option<Bytes>,
    /// What an earlier connection to the same host came to, for launches that begin there
    /// ([`Demands::saved_path`](crate::Demands::saved_path)).
    pub saved_path: Option<SavedPath>,
    /// Whether windows grow by the bytes that ACKs deliver (RFC 3465; RFC 5681, section 3.1, recommends it). If not, an ACK is worth a
    /// segment at most, however much it covers, as on hosts before that: a window grows half as fast where a receiver acknowledges
    /// every second segment. What is estimated from ACKs has the bytes in either case. Controllers that are not
    /// [`Composed`](crate::Composed) ignore it.
    pub byte_counting: bool,
}

/// What a connection came to, kept for a later one over the same path (RFC 9959: saved congestion control parameters).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedPath {
    /// The most bytes that were acknowledged in one round trip, whatever part of that was queueing (RFC 9959, section 3.1).
    pub window: Bytes,
    /// The greatest delivery rate.
    pub rate: Rate,
    /// The least round trip.
    pub rtt: Span,
}

impl SavedPath {
    /// No connection has a larger [`window`](Self::window), bytes: twice the largest that TCP's header can tell (RFC 7323, section
    /// 2.3).
    pub const MAX_WINDOW: Bytes = Bytes(1 << 31);

    /// A round trip so many times the saved one is another path's, as is half of it or less.
    const LONGER: u64 = 10;

    /// Whether a connection can have come to this: a window from a byte to [`MAX_WINDOW`](Self::MAX_WINDOW), a rate that is not
    /// zero, and a round trip of a microsecond at least.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        let window = self.window > Bytes::ZERO && self.window <= Self::MAX_WINDOW;
        window && self.rate > Rate::ZERO && self.rtt >= Span::from_micros(1)
    }

    /// Whether a path with this least round trip may be the same: it is more than half of the saved one, and ten times that at most
    /// (RFC 9959, section 3.2).
    #[must_use]
    pub fn may_be(&self, rtt: Span) -> bool {
        rtt > self.rtt / 2 && rtt <= self.rtt * Self::LONGER
    }
}

/// What a controller made of [`BuildParams::saved_path`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SavedPathUse {
    /// Nothing, or nothing yet: there was none, or it has no use for one, or it came to as much without.
    #[default]
    Unused,
    /// It sent what the memory says.
    Used,
    /// It refused: the round trip is another path's ([`SavedPath::may_be`]).
    OtherPath,
}

impl Default for BuildParams {
    /// 536-byte segments (RFC 9293, section 3.7.1) and no practical limit: 1 TiB, a thousand times what RFC 7323's
    /// window scale can advertise. Nothing is known of the path.
    fn default() -> Self {
        Self {
            mss: Bytes(536),
            max_cwnd: Bytes(1 << 40),
            initial_ssthresh: None,
            saved_path: None,
            byte_counting: true,
        }
    }
}
