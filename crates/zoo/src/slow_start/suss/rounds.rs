//! Rounds of SUSS: which ACKs are blue, how long their train is, and whether it leaves enough time for additional data.

use longhaul_cc::Ack;
use longhaul_units::{Bytes, Span, Time};

use crate::slow_start::hystart::arrival;

/// RTT above which the window may be quadrupled (`suss_speedup`).
const LEAST_RTT: Span = Span::from_millis(10);

/// The additional (red) data of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Jump {
    /// Amount in bytes.
    pub(super) red: f64,
    /// Window increase in bytes that the red part requires. It is less than `red` by the red data of the previous round
    /// that is acknowledged before, and more by the blue data that is not yet acknowledged.
    pub(super) room: f64,
    /// Time over which the red data is sent.
    pub(super) duration: Span,
    /// Delay before the red data is sent.
    pub(super) guard: Span,
}

/// SUSS does not apply to this connection, because the second round did not qualify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Never;

/// State of the rounds of a connection. Round 1 sends the initial window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rounds {
    initial: f64,
    most: u32,
    pub(super) round: u32,
    /// Total of delivered bytes above which the next round begins.
    pub(super) head: Bytes,
    /// Total of delivered bytes at which the blue part of this round's acknowledgments ends.
    pub(super) tail: Bytes,
    /// Total of bytes that the ACKs of the previous train had released.
    clocked: Bytes,
    /// End of the blue part whose train was measured most recently.
    blue_until: Bytes,
    start: Time,
    pub(super) blue: bool,
    /// Bytes of blue data acknowledged in this round.
    blue_delivered: Bytes,
    /// Length of the blue train of the last quadrupled round.
    pub(super) before: Option<Span>,
    /// Round in which the minimum RTT was seen.
    pub(super) least_in: u32,
    pub(super) jumps: u32,
    refused: bool,
    /// Window in bytes above which slow start ends; set when a train is too long.
    pub(super) cap: Option<f64>,
}

impl Rounds {
    /// Starts round 1 of a connection that sends `initial` bytes first and may quadruple its window at most `most`
    /// times.
    pub(super) fn new(initial: f64, most: u32) -> Self {
        Self { initial, most, round: 1, clocked: Bytes::MAX, least_in: 1, ..Self::default() }
    }

    pub(super) const fn found_less(&mut self) {
        self.least_in = self.round;
    }

    /// Returns the bytes by which the window still grows in the round after a blue train that is too long. For each
    /// acknowledged byte of blue data, the whole round acknowledges `2^jumps` bytes.
    pub(super) fn still_to_come(&self) -> f64 {
        self.blue_delivered.as_f64() * (f64::from(self.jumps).exp2() - 1.0)
    }

    /// Returns the bytes that slow start alone sends in this round.
    pub(super) fn blue_part(&self) -> f64 {
        self.initial * f64::from(self.round - 1).exp2()
    }

    /// Starts a round if this ACK belongs to the next one. Returns whether it does.
    pub(super) fn begins(&mut self, ack: &Ack<'_>) -> bool {
        if ack.total_delivered <= self.head {
            return false;
        }
        if self.round == 1 {
            self.tail = Bytes::from_f64(self.initial);
        }
        self.round = self.round.saturating_add(1);
        (self.blue, self.blue_delivered) = (true, Bytes::ZERO);
        self.start = arrival(ack);
        self.head = ack.total_delivered + ack.in_flight;
        true
    }

    /// Records that the ACKs of the train have released `sent` bytes in total. Blue data that is sent later, because of
    /// a delayed ACK or together with the red part, does not belong to the next train.
    pub(super) const fn clock(&mut self, sent: Bytes) {
        self.clocked = sent;
    }

    /// Returns whether this ACK delivers data beyond the blue part that was measured.
    pub(super) fn is_red(&self, ack: &Ack<'_>) -> bool {
        ack.total_delivered > self.blue_until
    }

    /// Counts the bytes that a blue ACK delivers. Returns whether the train ends at this ACK. It ends with the
    /// second-to-last segment, because a last segment that arrives alone is acknowledged only when the receiver's
    /// delayed-ACK timer expires.
    pub(super) fn count(&mut self, ack: &Ack<'_>, mss: Bytes) -> bool {
        let tail = self.blue && ack.total_delivered + mss >= self.tail.min(self.clocked);
        if tail {
            self.blue = false;
        } else if self.blue {
            self.blue_delivered += ack.delivered;
        }
        tail
    }

    /// Evaluates the blue train that ended with `ack`: extrapolates its length from the bytes before its last ACK, and
    /// returns the red part if the train leaves enough time for one.
    ///
    /// # Errors
    /// SUSS is refused in the second round.
    pub(super) fn judge(
        &mut self,
        ack: &Ack<'_>,
        least: Option<Span>,
        round_least: Option<Span>,
    ) -> Result<Option<Jump>, Never> {
        let missing = (self.tail - ack.total_delivered).as_f64();
        self.blue_until = self.tail;
        self.tail = self.head + Bytes::from_f64(self.blue_part());
        let (counted, whole) = (self.blue_delivered.as_f64(), self.blue_part() / 2.0);
        self.blue_delivered += ack.delivered;
        let train = (counted > 0.0).then(|| arrival(ack).since(self.start).mul_f64(whole / counted));
        let room = train.zip(least).filter(|_| ack.cwnd_limited && !self.refused);
        let room = room.filter(|(train, least)| self.has_room(*train, *least, round_least));
        let Some((train, least)) = room else {
            self.refused = true;
            return if self.round <= 2 { Err(Never) } else { Ok(None) };
        };
        self.before = Some(train);
        let jump = self.plan(train, least).map(|jump| Jump {
            room: missing + jump.room,
            guard: jump.guard + train.mul_f64(missing / whole),
            ..jump
        });
        self.jumps += u32::from(jump.is_some());
        Ok(jump)
    }

    /// Returns whether a blue train of length `train` leaves enough time to quadruple the window.
    pub(super) fn has_room(&self, train: Span, least: Span, round_least: Option<Span>) -> bool {
        if self.round <= 2 {
            return self.most > 0 && least > LEAST_RTT && train < least / 4;
        }
        self.round < self.most + 2 && self.grows_slowly(train, least) && self.is_short(least, round_least)
    }

    /// Extrapolates from the growth of the train since the last quadrupled round. Returns whether the train of the next
    /// round will be at most one RTT long.
    fn grows_slowly(&self, train: Span, least: Span) -> bool {
        let nanos = |span: Span, doublings: u32| u128::from(span.as_nanos()) << doublings.min(32);
        let expected = nanos(train, self.round - 2);
        let before = self.before.map_or(0, |before| nanos(before, self.round - 3));
        // The expected length is 2 mu d with mu = d / (2 dp), where dp is the train of the last quadrupled round.
        expected.saturating_mul(expected) <= u128::from(least.as_nanos()).saturating_mul(before)
    }

    /// Extrapolates from the growth of the RTT since the minimum was measured. Returns whether the RTT of the next
    /// round will exceed the minimum by at most an eighth.
    fn is_short(&self, least: Span, round_least: Option<Span>) -> bool {
        let k = u128::from(self.round.saturating_sub(self.least_in));
        let least = u128::from(least.as_nanos());
        round_least.is_some_and(|round| (k + 1) * u128::from(round.as_nanos()) <= (k + 1) * least + k * least / 8)
    }

    /// Plans the red part after a train of length `train`. Returns `None` if the rest of the round trip is not longer
    /// than the train.
    fn plan(&self, train: Span, least: Span) -> Option<Jump> {
        let doublings = f64::from(self.round - 1);
        let duration = least.mul_f64(1.0 - (-doublings).exp2());
        let rest = least - duration;
        if rest <= train {
            return None;
        }
        let blue = self.blue_part();
        let red = blue * (doublings.exp2() - 1.0);
        let acknowledged = blue / 2.0 * ((doublings - 1.0).exp2() - 1.0);
        Some(Jump { red, room: red - acknowledged, duration, guard: (rest - train) / 2 })
    }
}
