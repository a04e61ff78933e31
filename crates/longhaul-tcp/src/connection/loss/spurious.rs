//! Which episodes had no loss as their cause: Eifel (RFC 3522, RFC 4015), F-RTO (RFC 5682), D-SACK (RFC 2883).
//!
//! A peer that wants more than its share says that each retransmission was needless: it reports a duplicate, or echoes an
//! older timestamp. Neither is believed without what it cannot write: that what was retransmitted was acknowledged before
//! the retransmission can have been answered. F-RTO needs no such proof: its sign is the arrival of what was not sent again.

use longhaul_cc::{PathEvent, TxId};
use longhaul_units::{Bytes, Time};

use super::super::Connection;
use super::{AckOutcome, Phase, REO_WND_PERSIST};
use crate::seq;

/// What it takes to notice that an episode was spurious.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    /// SND.UNA when the episode began.
    pub(super) marker: u64,
    /// Bytes retransmitted since, less those the peer reported as duplicates.
    pub(super) retransmitted: u64,
    /// Bytes retransmitted since.
    pub(super) bytes: u64,
    pub(super) any: bool,
    pub(super) eifel: Eifel,
    pub(super) timeout: bool,
    pub(super) answers: Answers,
}

/// How soon what was retransmitted in an episode turned out to have arrived. An answer that comes before the least round
/// trip after the retransmission is the original's (RFC 8985, section 6.2, step 2): the one sign of a spurious
/// retransmission that a peer cannot give by writing other numbers into its ACKs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answers {
    /// Bytes whose answer came so soon.
    pub(super) early: u64,
    /// An answer came that may be the retransmission's.
    pub(super) late: bool,
}

/// The Eifel detection (RFC 3522): one ACK of an episode can tell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Eifel {
    /// Nothing was retransmitted yet.
    #[default]
    Unsent,
    /// The TSval of the first retransmission; new data was not acknowledged since.
    Sent(u32),
    /// The first ACK of new data since has come. What it or later ones echo may be any retransmission.
    Over,
}

/// F-RTO (RFC 5682): what was sent before the timeout and is acknowledged without retransmission shows that the
/// timeout was spurious.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frto {
    /// Transmissions up to this one were sent before the timeout.
    pub(super) before: TxId,
    /// SND.UNA has advanced once since.
    pub(super) second_step: bool,
}

impl Connection {
    /// Looks for proof that the episode's cause was no loss: before the controller hears of the ACK. Whether it was.
    pub(in crate::connection) fn check_spurious(&mut self, now: Time, ack: &AckOutcome) -> bool {
        self.digest_dsack(ack);
        self.loss.least_rtt = self.rtt.min();
        let Some(undo) = self.loss.undo else { return false };
        let Answers { early, late } = undo.answers;
        let reported = undo.any && undo.retransmitted == 0 && early >= undo.bytes && !late;
        // Eifel (RFC 3522): the first ACK of new data echoes a timestamp older than the first retransmission's.
        let original = ack.una_advanced > 0
            && matches!((ack.echo, undo.eifel), (Some(echo), Eifel::Sent(first)) if seq::later(first, echo))
            && early > 0
            && !late;
        let forward = undo.timeout && ack.proves_spurious;
        if ack.una_advanced > 0
            && let Some(Undo { eifel: eifel @ Eifel::Sent(_), .. }) = &mut self.loss.undo
        {
            *eifel = Eifel::Over;
        }
        if !(reported || original || forward) {
            self.advance_frto(ack);
            return false;
        }
        self.loss.undo = None;
        self.loss.frto = None;
        self.snd.board.forgive();
        self.loss.phase = Phase::Open;
        self.loss.forced = false;
        self.loss.emulated = 0;
        self.loss.timeouts = 0;
        self.stats.spurious_recoveries += 1;
        if !undo.timeout {
            // What Eifel tells comes before the D-SACK does; without it, the next ACK would hold the same lost again.
            self.widen_reordering();
        }
        let event = PathEvent::Spurious { now, timeout: undo.timeout, in_flight: Bytes(self.pipe()) };
        let path = self.path();
        self.cc.controller.on_event(&event, &path);
        true
    }

    /// RFC 5682, section 3.1: after the first advance, two new segments probe; a duplicate ACK ends the suspicion.
    pub(super) fn advance_frto(&mut self, ack: &AckOutcome) {
        let Some(frto) = self.loss.frto else { return };
        if ack.una_advanced > 0 && !frto.second_step {
            let may_probe = self.negotiated.sack || self.can_send_full_segment();
            self.loss.frto = may_probe.then_some(Frto { second_step: true, ..frto });
            if self.snd.unsent() > 0 {
                self.loss.extra = 2;
            }
        } else if frto.second_step || ack.duplicate {
            self.loss.frto = None;
        }
    }

    fn can_send_full_segment(&self) -> bool {
        let window = self.snd.window_edge().saturating_sub(self.snd.nxt);
        self.snd.unsent().min(window) >= u64::from(self.mss())
    }

    /// Whether what is held lost waits for F-RTO's second ACK. Without SACK that is the first to tell, and tells nothing of
    /// what was sent again (RFC 5682, section 2.1, steps 2b and 3b).
    pub(in crate::connection) fn awaits_second_ack(&self) -> bool {
        !self.negotiated.sack && self.loss.frto.is_some_and(|frto| frto.second_step)
    }

    /// Something was held lost that was only late: once a round trip RACK's window of reordering grows (RFC 8985, section
    /// 6.2, step 4).
    fn widen_reordering(&mut self) {
        let rack = &mut self.loss.rack;
        if rack.dsack_round.is_none_or(|round| self.snd.una >= round) {
            rack.dsack_round = Some(self.snd.nxt);
            rack.reo_wnd_mult = (rack.reo_wnd_mult + 1).min(64);
            rack.reo_wnd_persist = REO_WND_PERSIST;
        }
    }

    /// D-SACK (RFC 2883): an unnecessary retransmission, and a sign of reordering to RACK (RFC 8985, section 6.2). What was
    /// never sent again, or not so often, was duplicated by the network, if it was at all (RFC 3708, section 3).
    pub(super) fn digest_dsack(&mut self, ack: &AckOutcome) {
        let Some((left, right)) = ack.dsack else { return };
        self.stats.dsacks += 1;
        let Some(unreported) = self.loss.unreported.checked_sub(right - left) else { return };
        if right > self.loss.retransmitted_to {
            return;
        }
        self.loss.unreported = unreported;
        if !self.ext.pairs.as_ref().is_some_and(|pairs| pairs.holds(left, right)) {
            self.widen_reordering();
        }
        if let Some(undo) = self.loss.undo.as_mut().filter(|u| left >= u.marker) {
            undo.retransmitted = undo.retransmitted.saturating_sub(right - left);
        }
    }
}
