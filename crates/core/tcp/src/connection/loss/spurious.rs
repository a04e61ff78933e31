//! Detection of spurious recovery by Eifel (RFC 3522, RFC 4015), F-RTO (RFC 5682) and D-SACK (RFC 2883).
//!
//! A misbehaving peer could gain by claiming that every retransmission was spurious: it would report duplicates or
//! echo older timestamps. Such claims are accepted only if the retransmitted data was acknowledged sooner than the
//! retransmission can have been answered, which the peer cannot forge. F-RTO needs no such proof, because it relies
//! on the arrival of segments that were not retransmitted.

use longhaul_cc::TxId;
use longhaul_units::{Span, Time};

use super::{AckOutcome, Phase};
use crate::connection::Loss;
use crate::{Record, seq};

/// Per-episode state for detecting that the episode is spurious.
#[derive(Clone, Copy, Debug, Default)]
struct Undo {
    /// SND.UNA when the episode began.
    marker: u64,
    /// Bytes retransmitted in the episode, less those that D-SACKs reported as duplicates.
    retransmitted: u64,
    bytes: u64,
    eifel: Eifel,
    timeout: bool,
    /// Number of retransmitted bytes answered in less than the minimum RTT. Such an answer belongs to the original
    /// transmission (RFC 8985, section 6.2, step 2). A peer cannot forge this by changing fields of its ACKs.
    early: u64,
    /// Whether at least one answer may belong to the retransmission.
    late: bool,
}

/// Eifel detection (RFC 3522). Only the first ACK of new data in an episode is conclusive.
#[derive(Clone, Copy, Debug, Default)]
enum Eifel {
    #[default]
    Unsent,
    /// TSval of the first retransmission; no new data was acknowledged since.
    Sent(u32),
    /// The first ACK of new data has arrived. Its echo, and later ones, may belong to any retransmission.
    Over,
}

/// F-RTO (RFC 5682): the timeout was spurious if data that was sent before it and not retransmitted is acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frto {
    before: TxId,
    /// Whether SND.UNA has advanced once since the timeout.
    second_step: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SpuriousDetection {
    /// Boxed, because most connections are not in recovery.
    undo: Option<Box<Undo>>,
    pub(super) frto: Option<Frto>,
    /// The end of the highest data ever retransmitted.
    pub(crate) retransmitted_to: u64,
    /// Bytes ever retransmitted that no D-SACK has reported.
    unreported: u64,
    /// The minimum RTT before the ACK being processed.
    least_rtt: Option<Span>,
}

impl SpuriousDetection {
    /// Begins an episode. Eifel is disabled while retransmissions of an earlier episode are unacknowledged, because
    /// their answers cannot be distinguished from those of the new episode. Unless the episode `is_first` or begins
    /// with a `timeout`, it is a second reduction, after which the first one can no longer be undone.
    pub(super) fn begin(&mut self, una: u64, timeout: bool, is_first: bool) {
        let is_clear = self.retransmitted_to <= una;
        let may_undo = timeout || (is_first && is_clear);
        let eifel = if is_clear { Eifel::Unsent } else { Eifel::Over };
        let undo = Undo { marker: una, timeout, eifel, ..Undo::default() };
        self.undo = may_undo.then(|| Box::new(undo));
    }

    /// Starts F-RTO on the first of several consecutive timeouts. `last` is the last transmission before it.
    pub(super) fn on_timeout(&mut self, first: bool, last: TxId) {
        self.frto = first.then_some(Frto { before: last, second_step: false });
    }

    pub(super) fn on_retransmit(&mut self, record: &Record, value: u32) {
        self.retransmitted_to = self.retransmitted_to.max(record.end());
        self.unreported += record.sequence_len();
        let Some(undo) = &mut self.undo else { return };
        undo.retransmitted += record.sequence_len();
        undo.bytes += record.sequence_len();
        if let Eifel::Unsent = undo.eifel {
            undo.eifel = Eifel::Sent(value);
        }
    }

    pub(super) fn on_delivered(&mut self, record: &Record, sent_at: Time, at: Time) {
        let Some(undo) = self.undo.as_mut().filter(|_| record.is_retransmitted()) else { return };
        match self.least_rtt {
            Some(least) if at - sent_at < least && !record.is_copied() => undo.early += record.sequence_len(),
            _ => undo.late = true,
        }
    }

    /// Returns whether the delivery of `record` shows that the timeout was spurious (RFC 5682, section 3.1, step 3b).
    pub(crate) fn proves(&self, record: &Record) -> bool {
        self.frto.is_some_and(|f| !record.is_retransmitted() && !record.is_copied() && record.tx <= f.before)
    }

    /// Processes a D-SACK of `left..right` (RFC 2883). Returns whether a retransmission can have caused it. If the data
    /// was not retransmitted, or less often than reported, the network duplicated it or the report is false (RFC 3708,
    /// section 3).
    pub(super) fn on_dsack(&mut self, (left, right): (u64, u64)) -> bool {
        let Some(unreported) = self.unreported.checked_sub(right - left) else { return false };
        if right > self.retransmitted_to {
            return false;
        }
        self.unreported = unreported;
        if let Some(undo) = self.undo.as_mut().filter(|u| left >= u.marker) {
            undo.retransmitted = undo.retransmitted.saturating_sub(right - left);
        }
        true
    }

    /// If `ack` proves that the episode was spurious, clears the episode and returns whether it began with a timeout.
    /// `min_rtt` is the bound for the answers in the next ACK.
    pub(super) fn check(&mut self, ack: &AckOutcome, min_rtt: Option<Span>) -> Option<bool> {
        self.least_rtt = min_rtt;
        let undo = self.undo.as_mut()?;
        let Undo { early, late, .. } = **undo;
        // D-SACK: the peer has reported every retransmission as a duplicate.
        let reported = undo.bytes > 0 && undo.retransmitted == 0 && early >= undo.bytes && !late;
        // Eifel: the first ACK of new data echoes a timestamp older than that of the first retransmission.
        let echoes_older =
            matches!((ack.echo, undo.eifel), (Some(echo), Eifel::Sent(first)) if seq::later(first, echo));
        let original = ack.una_advanced > 0 && echoes_older && early > 0 && !late;
        // F-RTO: a segment sent before the timeout and not retransmitted was delivered.
        let forward = undo.timeout && ack.proves_spurious;
        if ack.una_advanced > 0
            && let Eifel::Sent(_) = undo.eifel
        {
            undo.eifel = Eifel::Over;
        }
        let timeout = undo.timeout;
        if !(reported || original || forward) {
            return None;
        }
        (self.undo, self.frto) = (None, None);
        Some(timeout)
    }
}

#[expect(clippy::multiple_inherent_impl, reason = "one file per mechanism")]
impl Loss {
    /// Ends recovery at once, because the episode was spurious.
    pub(super) fn on_spurious(&mut self) {
        self.phase = Phase::Open;
        (self.grant.forced, self.grant.extra) = (false, 0);
        self.duplicates.emulated = 0;
        self.timeouts = 0;
    }

    /// Advances F-RTO (RFC 5682, section 3.1): the first advance of SND.UNA leads to the second step if `may_probe`,
    /// with up to two segments in excess of cwnd (step 2b). Any other end of a step ends the test, and any remaining
    /// segments are no longer permitted.
    pub(super) fn advance_frto(&mut self, ack: &AckOutcome, may_probe: bool) {
        let Some(frto) = self.spurious.frto else { return };
        let advances = ack.una_advanced > 0 && !frto.second_step;
        if advances || frto.second_step || ack.duplicate {
            let probes = advances && may_probe;
            self.spurious.frto = probes.then_some(Frto { second_step: true, ..frto });
            self.grant.extra = if probes { 2 } else { 0 };
        }
    }

    /// Returns whether retransmissions wait for F-RTO's second ACK. Without SACK only that ACK is conclusive, and
    /// only if nothing is retransmitted before it (RFC 5682, section 2.1, steps 2b and 3b).
    pub(crate) fn awaits_second_ack(&self, sack: bool) -> bool {
        !sack && self.spurious.frto.is_some_and(|frto| frto.second_step)
    }
}
