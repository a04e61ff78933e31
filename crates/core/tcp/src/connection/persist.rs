//! Persist timer: zero-window probes (RFC 9293, section 3.8.6.1; RFC 1122, section 4.2.2.17) and the override timeout
//! of silly-window avoidance (RFC 9293, section 3.8.6.2.1).
//!
//! A probe is the next octet of new data, sent beyond the right edge of the window, or the FIN if all data is sent.
//! While it is unacknowledged, it is retransmitted from the scoreboard without being marked lost, because a missing
//! answer does not indicate congestion. The retransmission timer is stopped meanwhile.

use longhaul_units::{Span, Time};

/// Longest interval between probes: the smallest upper bound of the RTO that RFC 6298, section 2.5, permits. A lost
/// window update is not detected before the next probe.
const MAX_INTERVAL: Span = Span::from_secs(60);
/// Time without an answer after which the connection is closed if no user timeout is set. It is well above the 100 s
/// that RFC 9293, section 3.8.3, requires of R2.
const GIVE_UP_AFTER: Span = Span::from_secs(600);
/// Number of unanswered probes required in addition, because a host that was suspended has received nothing for a
/// long time.
const GIVE_UP_PROBES: u32 = 4;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Persist {
    /// Whether one octet of new data, or the FIN, may be sent beyond the window.
    pub(super) due: bool,
    pub(super) in_flight: bool,
    pub(super) sent: u32,
    /// Number of probes since the last segment from the peer.
    pub(super) unanswered: u32,
    /// The time of the last data transmission before the window closed, if the window was probed.
    pub(super) idle_since: Option<Time>,
}

impl Persist {
    /// Records a probe. `is_first` means that no octet is outstanding yet, so the next one of new data is sent.
    pub(super) fn on_probe(&mut self, is_first: bool, last_sent: Option<Time>) {
        if self.sent == 0 {
            self.idle_since = last_sent;
        }
        self.sent = self.sent.saturating_add(1);
        self.unanswered = self.unanswered.saturating_add(1);
        (self.due, self.in_flight) = (is_first, true);
    }

    /// Returns the probe interval: the RTO, doubled for each probe since the window closed, even if the peer answered.
    pub(super) fn interval(&self, base_rto: Span) -> Span {
        Span::from_nanos(base_rto.as_nanos().saturating_mul(1 << self.sent.min(20))).min(MAX_INTERVAL)
    }

    pub(super) fn is_hopeless(&self, silence: Span) -> bool {
        silence >= GIVE_UP_AFTER && self.unanswered >= GIVE_UP_PROBES
    }
}
