//! Proportional Rate Reduction (RFC 9937).

use longhaul_units::Bytes;

use crate::compose::{Recovery, Stage, Step, Window};
use crate::describe::Entry;
use crate::{Ack, Episode, Path, SegmentKind, SendLimit, Sent};

pub(crate) static ENTRY: Entry = Entry::recovery("prr", |_| Box::new(Prr::default()))
    .described("spreads the decrease over the RTT of the recovery", "RFC 9937")
    .tested_in(&["cubic", "new-reno", "hystart-pp+new-reno"])
    .internet_safe();

/// PRR. Per byte delivered in recovery, `ssthresh / RecoverFS` bytes may be sent, until the bytes in flight reach the
/// target. Below the target they grow towards it at most as fast as in slow start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prr {
    /// Target of congestion avoidance in bytes: `ssthresh` in RFC 9937.
    target: u64,
    /// Bytes in flight at the start of the episode (`RecoverFS`), at least one.
    recover_flight: u64,
    /// Bytes delivered in the episode.
    delivered: u64,
    /// Bytes sent in the episode, retransmissions included.
    out: u64,
    /// Bytes allowed beyond those delivered, for the window to grow. The allowance includes bytes that the pacer
    /// holds back.
    grown: u64,
}

impl Prr {
    /// Returns `SndCnt` of RFC 9937, section 6.2, for an ACK that delivered data.
    ///
    /// The RFC assumes that the allowed bytes are sent before the next ACK. With pacing they are not. If ACKs arrive
    /// in a bunch, each would replace the allowance of the previous one, and the window would grow by only one or two
    /// segments per round trip. The bytes that the pacer holds back are therefore still allowed.
    fn allowance(&mut self, ack: &Ack<'_>, mss: Bytes) -> u64 {
        let in_flight = ack.in_flight.0;
        if in_flight > self.target {
            // Proportional part: the delivered bytes count up to RecoverFS, which segments that became larger during
            // the episode could exceed.
            let delivered = u128::from(self.delivered.min(self.recover_flight));
            let due = (delivered * u128::from(self.target)).div_ceil(u128::from(self.recover_flight));
            return u64::try_from(due).unwrap_or(u64::MAX).saturating_sub(self.out);
        }
        // At or below the target: the delivered bytes, and a segment more if the ACK is safe, which means that it
        // advances SND.UNA without new losses (SafeACK of RFC 9937).
        let safe = ack.cumulative > Bytes::ZERO && ack.newly_lost == Bytes::ZERO;
        if ack.limit != SendLimit::Pacing {
            let used = self.out.saturating_sub(self.delivered.saturating_sub(ack.delivered.0));
            self.grown = self.grown.min(used);
        }
        let slow_start = if safe { mss.0 } else { 0 };
        self.grown = self.grown.saturating_add(slow_start);
        let kept = self.delivered.saturating_add(self.grown).saturating_sub(self.out);
        kept.max(ack.delivered.0.saturating_add(slow_start)).min(self.target - in_flight)
    }

    /// Sets the window for what may be sent now. An ACK that delivered nothing keeps the remaining allowance, so that
    /// a loss detected by a timer allows nothing by itself.
    fn step(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) {
        let mut allowed = if ack.delivered == Bytes::ZERO {
            (Bytes::from_f64(window.cwnd) - ack.prior_in_flight).0
        } else {
            self.delivered = self.delivered.saturating_add(ack.delivered.0);
            if !path.sack {
                self.delivered = self.delivered.min(self.recover_flight);
            }
            self.allowance(ack, path.mss)
        };
        if self.out == 0 && ack.episode != Episode::None {
            // The first retransmission is sent at once, for which the window has to allow a full segment. A
            // congestion mark requires no retransmission.
            allowed = allowed.max(path.mss.0);
        }
        window.cwnd = ack.in_flight.as_f64() + allowed as f64;
    }
}

impl Default for Prr {
    fn default() -> Self {
        Self { target: 0, recover_flight: 1, delivered: 0, out: 0, grown: 0 }
    }
}

impl Stage for Prr {
    fn on_sent(&mut self, sent: &Sent, _path: &Path) {
        if sent.kind != SegmentKind::Probe {
            self.out = self.out.saturating_add(sent.bytes.0);
        }
    }
}

impl Recovery for Prr {
    fn enter(&mut self, target: f64, ack: &Ack<'_>, path: &Path, window: &mut Window) {
        // For a loss, the transport reports RecoverFS. For an ECN mark, it is the amount in flight.
        let flight = ack.recover_flight.max(ack.in_flight + ack.delivered);
        *self = Self { target: Bytes::from_f64(target).0, recover_flight: flight.0.max(1), ..Self::default() };
        if ack.delivered == Bytes::ZERO {
            window.cwnd = ack.prior_in_flight.as_f64(); // discards the allowance from before the decrease
        }
        self.step(ack, path, window);
    }

    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        self.step(ack, path, window);
        Step::Stay
    }

    fn exit(&mut self, _ack: &Ack<'_>, _path: &Path, window: &mut Window) -> Step {
        window.cwnd = self.target as f64;
        Step::Done
    }
}

#[cfg(test)]
mod tests;
