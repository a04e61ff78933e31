//! How often data is acknowledged: what this side asks of its peer, and what it heeds of the peer's wishes
//! (draft-ietf-tcpm-ack-rate-request; `docs/wire.md`, "ACK rate").
//!
//! A request leaves on an ACK of its own, in front of the data that it is for, and may be lost like any: it is repeated. Nothing
//! depends on its being heeded.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use longhaul_cc::{AckCadence, Needs};
use longhaul_units::{Span, Time};
use longhaul_wire::{AckRate, Flags};

use super::Connection;
use crate::info::{AckRateInfo, add};

/// The most full-sized segments for one ACK that this side asks for, and heeds. RFC 4782, section 4.5, has the ratio grow with the
/// window; what a lost ACK costs grows with it as well.
const MAX_RATIO: u8 = 32;
/// A request that still stands is made again after so many segments: half of what one holds for.
const REPEAT: u64 = super::receiver::HEEDED as u64 / 2;
/// How often a peer is told that a wish is over.
const FAREWELLS: u8 = 3;
/// What it is told then: an ACK for two full-sized segments, as without any wish (RFC 5681, section 4.2).
const USUAL: u8 = 2;

/// Both directions of the option, while it is in force.
#[derive(Debug, Default)]
pub(super) struct Cadence {
    /// What the controller wants from the beginning.
    wish: AckCadence,
    /// Segments for an ACK that the peer is asked for; zero for none.
    asked: u8,
    /// When it was asked last, and how many data segments had left by then.
    asked_at: Option<Time>,
    asked_after: u64,
    /// The peer does not seem to have heard.
    again: bool,
    /// How often the end of a wish is still to be told.
    farewells: u8,
    info: AckRateInfo,
}

/// The cadence that a controller wants.
pub(super) fn wanted(needs: &Needs) -> AckCadence {
    needs.required.ack_cadence.max(needs.preferred.ack_cadence)
}

impl Cadence {
    pub(super) fn new(wish: AckCadence) -> Self {
        Self { wish, ..Self::default() }
    }

    pub(super) fn info(&self) -> AckRateInfo {
        AckRateInfo { ratio: self.asked, ..self.info }
    }

    /// Segments for an ACK that are wanted now, where the controller says `ratio` and so many segments of data have left.
    fn wanted(&self, ratio: u8, sent: u64) -> u8 {
        match self.wish {
            _ if ratio > 0 => ratio.min(MAX_RATIO),
            AckCadence::First(count) if sent < u64::from(count) => 1,
            AckCadence::All => 1,
            _ => 0,
        }
    }

    /// What is to be told the peer now, if anything is.
    fn next(&mut self, now: Time, ratio: u8, sent: u64) -> Option<AckRate> {
        let wanted = self.wanted(ratio, sent);
        let changed = wanted != self.asked;
        if changed {
            self.farewells = if wanted == 0 { FAREWELLS } else { 0 };
            (self.asked, self.again) = (wanted, false);
        }
        let told = if wanted > 0 {
            let due = changed || std::mem::take(&mut self.again) || sent - self.asked_after >= REPEAT;
            due.then_some(wanted)
        } else {
            // Not all of them at once: what loses one may lose the next.
            let due = changed || sent > self.asked_after;
            self.farewells = self.farewells.checked_sub(1).filter(|_| due)?;
            Some(USUAL)
        }?;
        (self.asked_at, self.asked_after) = (Some(now), sent);
        add(&mut self.info.requests, 1);
        Some(AckRate::each(told))
    }

    /// An ACK covers so many segments for the first time, with nothing missing, a round trip or more after the last request.
    fn on_covered(&mut self, now: Time, segments: u64, round_trip: Span) {
        let heard = self.asked != 1 || segments < 2;
        self.again |= !heard && self.asked_at.is_none_or(|at| now - at >= round_trip);
    }
}

impl Connection {
    /// Whether our controller has a use for ACKs at another cadence.
    pub(super) fn offers_ack_rate(&self) -> bool {
        self.config.extensions && wanted(&self.cc.controller.needs()) != AckCadence::Usual
    }

    /// Asks the peer for what the controller wants by now. Who has sent nothing, and is not about to, asks nothing.
    pub(super) fn follow_cadence(&mut self) {
        if self.ext.cadence.is_none() {
            return;
        }
        let (now, ratio, sent) = (self.now, self.cc.control.ack_ratio, self.stats.data_segments_out);
        let speaks = self.life.state.is_synchronized() && (sent > 0 || self.snd.unsent() > 0);
        let Some(cadence) = self.ext.cadence.as_deref_mut().filter(|_| speaks) else { return };
        let Some(rate) = cadence.next(now, ratio, sent) else { return };
        let mut header = self.header(now, Flags::ACK | self.echo_flag(), self.snd.sent_to());
        header.options.ack_rate = Some(rate);
        self.rcv.ack_queue.push_back(header);
    }

    /// An acceptable segment acknowledges up to `ack`: does the peer do as it was asked?
    pub(super) fn watch_cadence(&mut self, now: Time, ack: u64) {
        if self.ext.cadence.is_none() {
            return;
        }
        let segments = ack.saturating_sub(self.snd.una).checked_div(u64::from(self.mss())).unwrap_or(0);
        let Some(cadence) = &mut self.ext.cadence else { return };
        // What a hole kept back is acknowledged all at once, as soon as it is filled.
        if let Some(round_trip) = self.rtt.srtt().filter(|_| self.snd.board.sacked_bytes() == 0) {
            cadence.on_covered(now, segments, round_trip);
        }
    }

    /// Heeds what the peer asks for on an acceptable segment, with data or without.
    pub(super) fn take_ack_rate(&mut self, rate: Option<AckRate>, data: bool) {
        let (Some(rate), Some(cadence)) = (rate, &mut self.ext.cadence) else { return };
        match rate.segments() {
            0 => self.rcv.at_once |= data,
            ratio @ 1..=MAX_RATIO => {
                add(&mut cadence.info.heeded, 1);
                self.rcv.heed(ratio);
            }
            _ => add(&mut cadence.info.refused, 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(100);

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// What is told, segment by segment.
    fn told(cadence: &mut Cadence, ratio: u8, segments: std::ops::Range<u64>) -> Vec<(u64, u8)> {
        segments.filter_map(|sent| cadence.next(at(sent), ratio, sent).map(|rate| (sent, rate.segments()))).collect()
    }

    /// Of the first 300: at the beginning, again each 128, and three times that it is over.
    #[test]
    fn the_first_so_many() {
        let mut cadence = Cadence::new(AckCadence::First(300));
        let expected = [(0, 1), (128, 1), (256, 1), (300, 2), (301, 2), (302, 2)];
        assert_eq!(told(&mut cadence, 0, 0..1000), expected);
        assert_eq!((cadence.info().requests, cadence.info().ratio), (6, 0));
        let mut cadence = Cadence::new(AckCadence::All);
        assert_eq!(told(&mut cadence, 0, 0..500), [(0, 1), (128, 1), (256, 1), (384, 1)]);
    }

    /// The controller's word of the moment comes first; above 32 it is 32. Nobody who wants nothing asks anything.
    #[test]
    fn the_word_of_the_moment() {
        let mut cadence = Cadence::new(AckCadence::Varied);
        assert!(told(&mut cadence, 0, 0..10).is_empty());
        assert_eq!(told(&mut cadence, 200, 10..20), [(10, 32)]);
        assert_eq!(told(&mut cadence, 16, 20..30), [(20, 16)]);
        assert_eq!(told(&mut cadence, 0, 30..40), [(30, 2), (31, 2), (32, 2)]);
        let mut cadence = Cadence::new(AckCadence::First(20));
        assert_eq!(told(&mut cadence, 0, 0..10), [(0, 1)]);
        assert_eq!(told(&mut cadence, 8, 10..15), [(10, 8)]);
        assert_eq!(told(&mut cadence, 0, 15..19), [(15, 1)]);
    }

    /// A peer that goes on acknowledging two by two is asked again, once a round trip.
    #[test]
    fn who_does_not_hear_is_asked_again() {
        let mut cadence = Cadence::new(AckCadence::First(1000));
        assert!(cadence.next(at(0), 0, 0).is_some());
        for millis in 0..350 {
            cadence.on_covered(at(millis), 2, RTT);
            assert_eq!(cadence.next(at(millis), 0, 1).is_some(), millis > 0 && millis % 100 == 0, "{millis}");
        }
        cadence.on_covered(at(1000), 1, RTT);
        assert_eq!(cadence.next(at(1000), 0, 1), None, "it has heard");
        assert!(cadence.next(at(1000), 4, 1).is_some());
        cadence.on_covered(at(2000), 2, RTT);
        assert_eq!(cadence.next(at(2000), 4, 1), None, "one for two is no sign that it has not");
    }
}
