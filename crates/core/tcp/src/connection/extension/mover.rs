//! Moves of a client to another path (`docs/wire.md`, "Move"): claims, and answers to challenges.
//!
//! The client claims its connection when the application says that its address has changed, after a second
//! retransmission timeout, and when a reset shows that the server does not know its address (a NAT has forgotten it).
//! After a change of address or a reset, everything else waits for the challenge, since the server would reset it.

use longhaul_units::{Span, Time};
use longhaul_wire::{Flags, MoveStep};

use super::{Extension, Filled, Outgoing, Turn};
use crate::connection::{Engine, Incoming, Timer};
use crate::mobility::Mobility;
use crate::{ConnectionEvent, RttEstimator, State, seq};

/// Minimum interval between two changes of address.
const INTERVAL: Span = Span::from_millis(100);
/// First interval between claims while the round-trip time is unknown, and the margin that is later added to one and a
/// half round trips.
const FIRST_INTERVAL: Span = Span::from_millis(500);
const MARGIN: Span = Span::from_millis(50);
/// Longest interval between claims, and the number of claims after which the move has failed: about two minutes.
const MAX_INTERVAL: Span = Span::from_secs(8);
const MAX_CLAIMS: u32 = 20;
/// Number of consecutive timeouts that lead to a claim.
const TIMEOUTS: u32 = 2;
/// Number of claims without a challenge after which a reset ends the connection. By then, resets for what was sent before
/// them have left the queues of the path.
const RESET_CLAIMS: u32 = 4;

#[derive(Debug)]
pub(in crate::connection) struct Mover {
    mobility: Mobility,
    counter: u32,
    attempt: Option<Attempt>,
    moved_at: Option<Time>,
    /// Timeouts since the last segment of the server.
    timeouts: u32,
}

/// A move that is in progress.
#[derive(Debug)]
struct Attempt {
    /// Whether nothing but claims is sent now.
    holds: bool,
    /// Times of the next claim and of the last one.
    due: Time,
    claimed_at: Time,
    /// Time of the first claim.
    began_at: Time,
    /// Number of claims since the last challenge, including the one that it answered.
    claims: u32,
    /// The timestamp of the first claim.
    stamp: Option<u32>,
    /// Minimum round-trip time. A segment that arrives sooner after a claim does not answer it.
    trip: Span,
    interval: Span,
}

impl Mover {
    pub(in crate::connection) fn new(mobility: Mobility) -> Self {
        Self { mobility, counter: 0, attempt: None, moved_at: None, timeouts: 0 }
    }

    fn begin(&mut self, due: Time, holds: bool, rtt: &RttEstimator) {
        self.attempt = Some(Attempt {
            holds,
            due,
            claimed_at: due,
            began_at: due,
            claims: 0,
            stamp: None,
            trip: rtt.min.unwrap_or_default(),
            interval: rtt.srtt.map_or(FIRST_INTERVAL, |_| rtt.base_rto()).min(MAX_INTERVAL),
        });
    }
}

/// Returns the time to wait for the answer to a claim on a path with this round-trip time.
fn interval(round_trip: Span) -> Span {
    round_trip + round_trip / 2 + MARGIN
}

impl Extension for Mover {
    fn on_segment(&mut self, segment: &Incoming<'_>, _: State, engine: &mut Engine<'_>) {
        self.timeouts = 0;
        let Some(attempt) = self.attempt.as_mut().filter(|attempt| attempt.claims > 0) else { return };
        let (number, now) = (self.mobility.number, segment.now);
        match segment.header.options.moving.filter(|moving| moving.step == MoveStep::Challenge) {
            // The server sends to our address: the move is complete, unless it sent this before the first claim.
            None if attempt.claims > 1 || now - attempt.claimed_at >= attempt.trip => self.attempt = None,
            None => {}
            Some(challenge) if self.mobility.verifies(&challenge, &number) => {
                engine.observers.report(now, || ConnectionEvent::MoveChallenged { counter: challenge.counter });
                let mut answer = engine.textless_header(now);
                let signed = self.mobility.sign(MoveStep::Answer, number, challenge.counter, &challenge.value);
                answer.options.moving = Some(signed);
                engine.rcv.acks.queue.push_front(answer);
                // Segments sent to a server that does not know our address are lost. Data follows the answer at once.
                if std::mem::take(&mut attempt.holds) {
                    engine.abandon_flight(now);
                }
                (attempt.trip, attempt.claims) = (now - attempt.began_at, 1);
                attempt.interval = interval(attempt.trip);
                attempt.due = now + attempt.interval;
            }
            Some(_) => {}
        }
    }

    fn on_timeout(&mut self, rtt: &RttEstimator) {
        self.timeouts += 1;
        if self.timeouts == TIMEOUTS && self.attempt.is_none() {
            self.begin(Time::ZERO, false, rtt);
        }
    }

    fn on_reset(&mut self, now: Time, echo: Option<u32>, rtt: &RttEstimator) -> bool {
        let Some(attempt) = &mut self.attempt else {
            self.begin(now, true, rtt);
            return true;
        };
        if !attempt.holds {
            // The server has not received the answer, or no longer knows our address.
            (attempt.due, attempt.holds, attempt.claims, attempt.stamp) = (now, true, 0, None);
            return true;
        }
        // The server has received a claim, and does not know the number of the connection.
        if echo.zip(attempt.stamp).is_some_and(|(echo, first)| !seq::later(first, echo)) {
            return false;
        }
        // A reset that arrives sooner answers a segment sent before the last claim.
        attempt.claims < RESET_CLAIMS || now - attempt.claimed_at < attempt.trip
    }

    fn on_new_address(&mut self, now: Time, rtt: &RttEstimator) -> bool {
        let may = self.moved_at.is_none_or(|at| now - at >= INTERVAL);
        if may {
            self.moved_at = Some(now);
            self.begin(now, true, rtt);
        }
        may
    }

    fn send(&mut self, turn: Turn, engine: &mut Engine<'_>, out: &mut Outgoing<'_>) -> Filled {
        let Some(attempt) = &mut self.attempt else { return Filled::Nothing(None) };
        if turn == Turn::Last {
            return Filled::Nothing(Some(attempt.due));
        }
        let is_due = attempt.due <= out.now;
        if is_due && attempt.claims == MAX_CLAIMS {
            self.attempt = None;
            engine.observers.report(out.now, || ConnectionEvent::MoveFailed);
            return Filled::Nothing(None);
        }
        if is_due {
            // A claim that is repeated because its answer was lost waits for another one.
            attempt.holds |= attempt.claims > 0 && self.timeouts < TIMEOUTS;
            if attempt.claims == 0 {
                attempt.began_at = out.now;
            }
            attempt.claims += 1;
            attempt.claimed_at = out.now;
            attempt.due = out.now + attempt.interval;
            attempt.interval = (attempt.interval * 2).min(MAX_INTERVAL);
            self.counter += 1;
            let (counter, claims) = (self.counter, attempt.claims);
            engine.observers.report(out.now, || ConnectionEvent::MoveClaimed { counter, claims });
            let una = engine.snd.una;
            let mut claim = engine.headers().header(out.now, una);
            (claim.flags, claim.seq) = (Flags::ACK, claim.seq.wrapping_sub(1));
            let covered = claim.seq.to_be_bytes();
            let signed = self.mobility.sign(MoveStep::Claim, self.mobility.number, self.counter, &covered);
            claim.options.moving = Some(signed);
            attempt.stamp = attempt.stamp.or(claim.options.timestamps.map(|stamps| stamps.value));
            out.batch.push(&claim, 0, 0);
        }
        if is_due || attempt.holds {
            engine.timers.arm(Timer::Extension, attempt.due);
        }
        match (is_due, attempt.holds) {
            (true, _) => Filled::Beside,
            (false, true) => Filled::Held,
            (false, false) => Filled::Nothing(None),
        }
    }
}
