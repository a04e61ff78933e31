//! ACK frequency: requests to the peer, and handling of the peer's requests (draft-ietf-tcpm-ack-rate-request;
//! `docs/wire.md`, "ACK rate").
//!
//! A request is sent on a pure ACK before the data that it applies to. It is repeated, because it may be lost. The
//! connection works even if the peer does not honour it.

use longhaul_cc::AckFrequency;
use longhaul_units::{Span, Time};
use longhaul_wire::AckRate;

use super::{AckFacts, Claims, Extension, Filled, Outgoing, Turn};
use crate::connection::ack_schedule::{ACK_REQUEST_SEGMENTS, AckSchedule};
use crate::connection::{Engine, Incoming, Sender};
use crate::{AckRateInfo, Info, State, add};

/// Maximum number of full-sized segments per ACK, for requests sent and received. In RFC 4782, section 4.5, the ratio
/// grows with the window, but so does the damage caused by a lost ACK.
const MAX_RATIO: u8 = 32;
/// Number of data segments after which a request is repeated: half of the segments to which it applies.
const REPEAT: u64 = ACK_REQUEST_SEGMENTS as u64 / 2;
const END_ANNOUNCEMENTS: u8 = 3;
/// Ratio that announces the end of a request: an ACK per two full-sized segments, the default (RFC 5681, section 4.2).
const DEFAULT_RATIO: u8 = 2;

#[derive(Debug, Default)]
pub(super) struct AckRequests {
    initial_request: AckFrequency,
    /// Number of segments per ACK requested from the peer; zero for none.
    requested: u8,
    /// The time of the last request, and the number of data segments sent before it.
    requested_at: Option<Time>,
    requested_after: u64,
    /// Whether the request has to be repeated, because the peer does not appear to honour it.
    again: bool,
    end_announcements: u8,
    info: AckRateInfo,
}

impl AckRequests {
    pub(super) fn new(initial_request: AckFrequency) -> Self {
        Self { initial_request, ..Self::default() }
    }

    fn statistics(&self) -> AckRateInfo {
        AckRateInfo { ratio: self.requested, ..self.info }
    }

    /// Returns the segments per ACK to request, given the controller's `ratio` and the number of data segments sent.
    fn wanted(&self, ratio: u8, sent: u64) -> u8 {
        match self.initial_request {
            _ if ratio > 0 => ratio.min(MAX_RATIO),
            AckFrequency::First(count) if sent < u64::from(count) => 1,
            AckFrequency::All => 1,
            _ => 0,
        }
    }

    fn next(&mut self, now: Time, ratio: u8, sent: u64) -> Option<AckRate> {
        let wanted = self.wanted(ratio, sent);
        let changed = wanted != self.requested;
        if changed {
            self.end_announcements = if wanted == 0 { END_ANNOUNCEMENTS } else { 0 };
            (self.requested, self.again) = (wanted, false);
        }
        let announced = if wanted > 0 {
            let due = changed || std::mem::take(&mut self.again) || sent - self.requested_after >= REPEAT;
            due.then_some(wanted)
        } else {
            // The announcements are spread out, because consecutive ACKs may be lost together.
            let due = changed || sent > self.requested_after;
            self.end_announcements = self.end_announcements.checked_sub(1).filter(|_| due)?;
            Some(DEFAULT_RATIO)
        }?;
        (self.requested_at, self.requested_after) = (Some(now), sent);
        add(&mut self.info.requests, 1);
        Some(AckRate::each(announced))
    }

    fn take_request(&mut self, rate: AckRate, data: bool, acks: &mut AckSchedule) {
        match rate.segments() {
            0 if data => acks.immediate = true,
            0 => {}
            ratio @ 1..=MAX_RATIO => {
                add(&mut self.info.heeded, 1);
                acks.apply_request(ratio);
            }
            _ => add(&mut self.info.refused, 1),
        }
    }

    /// Handles an ACK for `segments` new segments while no hole exists. If it covers several although one ACK per
    /// segment was requested at least one round trip ago, the request is repeated.
    fn on_covered(&mut self, now: Time, segments: u64, round_trip: Span) {
        let is_honoured = self.requested != 1 || segments < 2;
        self.again |= !is_honoured && self.requested_at.is_none_or(|at| now - at >= round_trip);
    }
}

impl Extension for AckRequests {
    fn on_segment(&mut self, segment: &Incoming<'_>, _: State, engine: &mut Engine<'_>) {
        if let Some(rate) = segment.header.options.ack_rate {
            self.take_request(rate, !segment.payload.is_empty(), &mut engine.rcv.acks);
        }
        // When a hole is filled, one ACK covers all data above it.
        if let Some(round_trip) = engine.rtt.srtt.filter(|_| engine.snd.board.sacked_bytes == 0) {
            let acked = segment.ack.saturating_sub(engine.snd.una);
            let covered = acked.checked_div(u64::from(engine.pmtu.mss())).unwrap_or(0);
            self.on_covered(segment.now, covered, round_trip);
        }
    }

    fn on_ack(&mut self, ack: &AckFacts<'_>, _: &mut Sender, claims: &mut Claims) {
        claims.has_own_cause |= ack.segment.header.options.ack_rate.is_some();
    }

    fn send(&mut self, turn: Turn, engine: &mut Engine<'_>, out: &mut Outgoing<'_>) -> Filled {
        // A request that is not followed by data may reach a peer that has closed the connection and answers with a
        // RST.
        if turn == Turn::First && engine.life.state.is_synchronized() && engine.snd.una < engine.snd.buffer.end() {
            let (ratio, sent) = (engine.cc.control.ack_ratio, engine.stats.data_segments_out);
            if let Some(rate) = self.next(out.now, ratio, sent) {
                let mut header = engine.textless_header(out.now);
                header.options.ack_rate = Some(rate);
                engine.rcv.acks.queue.push_back(header);
            }
        }
        Filled::Nothing(None)
    }

    fn info(&self, _: &Sender, info: &mut Info) {
        info.ack_rate = Some(self.statistics());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(100);

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// Returns the requests sent, with the number of data segments sent before each.
    fn requests(ack_frequency: &mut AckRequests, ratio: u8, segments: std::ops::Range<u64>) -> Vec<(u64, u8)> {
        segments
            .filter_map(|sent| ack_frequency.next(at(sent), ratio, sent).map(|rate| (sent, rate.segments())))
            .collect()
    }

    /// A request for 300 segments is sent at the start, repeated every 128 segments, and its end is announced three
    /// times.
    #[test]
    fn a_request_for_the_first_segments_is_repeated_and_ended() {
        let mut ack_frequency = AckRequests::new(AckFrequency::First(300));
        let expected = [(0, 1), (128, 1), (256, 1), (300, 2), (301, 2), (302, 2)];
        assert_eq!(requests(&mut ack_frequency, 0, 0..1000), expected);
        assert_eq!((ack_frequency.statistics().requests, ack_frequency.statistics().ratio), (6, 0));
        let mut ack_frequency = AckRequests::new(AckFrequency::All);
        assert_eq!(requests(&mut ack_frequency, 0, 0..500), [(0, 1), (128, 1), (256, 1), (384, 1)]);
    }

    /// The controller's current ratio takes precedence and is limited to 32. Without any wish nothing is requested.
    #[test]
    fn the_current_ratio_takes_precedence() {
        let mut ack_frequency = AckRequests::new(AckFrequency::Varied);
        assert!(requests(&mut ack_frequency, 0, 0..10).is_empty());
        assert_eq!(requests(&mut ack_frequency, 200, 10..20), [(10, 32)]);
        assert_eq!(requests(&mut ack_frequency, 16, 20..30), [(20, 16)]);
        assert_eq!(requests(&mut ack_frequency, 0, 30..40), [(30, 2), (31, 2), (32, 2)]);
        let mut ack_frequency = AckRequests::new(AckFrequency::First(20));
        assert_eq!(requests(&mut ack_frequency, 0, 0..10), [(0, 1)]);
        assert_eq!(requests(&mut ack_frequency, 8, 10..15), [(10, 8)]);
        assert_eq!(requests(&mut ack_frequency, 0, 15..19), [(15, 1)]);
    }

    /// If the peer still acknowledges every second segment, the request is repeated once per round trip.
    #[test]
    fn an_ignored_request_is_repeated() {
        let mut ack_frequency = AckRequests::new(AckFrequency::First(1000));
        assert!(ack_frequency.next(at(0), 0, 0).is_some());
        for millis in 0..350 {
            ack_frequency.on_covered(at(millis), 2, RTT);
            assert_eq!(ack_frequency.next(at(millis), 0, 1).is_some(), millis > 0 && millis % 100 == 0, "{millis}");
        }
        ack_frequency.on_covered(at(1000), 1, RTT);
        assert_eq!(ack_frequency.next(at(1000), 0, 1), None, "the request is honoured");
        assert!(ack_frequency.next(at(1000), 4, 1).is_some());
        ack_frequency.on_covered(at(2000), 2, RTT);
        assert_eq!(
            ack_frequency.next(at(2000), 4, 1),
            None,
            "an ACK for two segments does not contradict a request for four"
        );
    }
}
