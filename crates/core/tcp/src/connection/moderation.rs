//! Moderation: while data streams, several segments are sent or received per wake-up, as network cards do with
//! interrupts (`docs/decisions/0049-moderation.md`).

use longhaul_units::{Span, Time};

/// Number of round-trip times at the start of a stream, and after a silence of one round-trip time, in which moderation
/// is reduced to a quarter. Senders measure the path during this time.
const CAREFUL_ROUNDS: u64 = 4;
/// Divisor of the round-trip time: segments are joined for at most this fraction of it.
pub(super) const PART: u64 = 64;
/// Maximum time for which segments are joined.
const MAX: Span = Span::from_millis(10);

/// Flow of data segments in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    /// Times of the first segment since the last silence, and of the last segment.
    span: Option<(Time, Time)>,
}

impl Flow {
    pub(super) fn last(&self) -> Option<Time> {
        self.span.map(|(_, last)| last)
    }

    pub(super) fn note(&mut self, now: Time, round_trip: Option<Span>) {
        let since = self.span.filter(|(_, last)| round_trip.is_some_and(|round_trip| now - *last < round_trip));
        self.span = Some((since.map_or(now, |(since, _)| since), now));
    }

    pub(super) fn patience(&self, now: Time, round_trip: Option<Span>) -> Span {
        let (Some((since, last)), Some(round_trip)) = (self.span, round_trip) else { return Span::ZERO };
        let rounds = (last - since).as_nanos() / round_trip.as_nanos().max(1);
        let part = if rounds < CAREFUL_ROUNDS { PART * 4 } else { PART };
        if now - last < round_trip { (round_trip / part).min(MAX) } else { Span::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Option<Span> = Some(Span::from_millis(64));

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// Records segments every 10 ms from the start to `millis`. Returns what is permitted `later` milliseconds after.
    fn patience_after(millis: u64, later: u64, round_trip: Option<Span>) -> Span {
        let mut flow = Flow::default();
        (0..=millis / 10).for_each(|i| flow.note(at(i * 10), round_trip));
        flow.patience(at(millis + later), round_trip)
    }

    #[test]
    fn a_steady_stream_may_wait_for_a_64th_of_the_round_trip() {
        let milli = Span::from_millis(1);
        let patience = [0, 250, 260].map(|millis| patience_after(millis, 0, ROUND_TRIP));
        assert_eq!(patience, [milli / 4, milli / 4, milli]);
        assert_eq!([63, 64].map(|later| patience_after(260, later, ROUND_TRIP)), [milli, Span::ZERO], "the end");
        assert_eq!(patience_after(10_000, 0, Some(Span::from_millis(800))), MAX);
        assert_eq!(patience_after(10_000, 0, None), Span::ZERO);
    }

    #[test]
    fn a_stream_begins_again_after_a_pause_of_one_round_trip() {
        let mut flow = Flow::default();
        let mut patience = |millis| {
            flow.note(at(millis), ROUND_TRIP);
            flow.patience(at(millis), ROUND_TRIP)
        };
        assert_eq!([0, 63, 126, 189, 252].map(&mut patience), [Span::from_micros(250); 5]);
        assert_eq!([patience(256), patience(256 + 63)], [Span::from_millis(1); 2]);
        assert_eq!(patience(256 + 63 + 64), Span::from_micros(250));
    }
}
