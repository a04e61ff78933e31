//! The rounds of SUSS: which ACKs are blue, how long their train is, and whether it leaves room.

use longhaul_units::{Bytes, Span, Time};

use crate::Ack;
use crate::growth::hystart::arrival;

/// The round trip above which the window may be quadrupled (`suss_speedup`).
const LEAST_RTT: Span = Span::from_millis(10);

/// The additional data of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Jump {
    /// How much it is, bytes.
    pub(super) red: f64,
    /// By how much the window has to rise for it, bytes: less than that by what of the last round's red data is acknowledged
    /// meanwhile, more by what of the blue is not acknowledged yet.
    pub(super) room: f64,
    /// How long it takes to leave.
    pub(super) duration: Span,
    /// How long it waits.
    pub(super) guard: Span,
}

/// Refused in the second round: SUSS is not for this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Never;

/// Where the rounds of a connection stand. Round 1 sends the initial window.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    /// The first window, bytes.
    initial: f64,
    most: u32,
    round: u32,
    /// The next round begins when more than this has been delivered in total.
    head: Bytes,
    /// The blue part of what this round acknowledges ends when so much has been delivered in total.
    tail: Bytes,
    /// So much of it was let go by the ACKs of the train before.
    clocked: Bytes,
    /// Where the blue part ended whose train was measured last.
    blue_until: Bytes,
    start: Time,
    blue: bool,
    /// Bytes of blue data acknowledged in this round.
    blue_delivered: Bytes,
    /// How long the blue train of the last jump was.
    before: Option<Span>,
    /// The round that saw the least round trip.
    least_in: u32,
    jumps: u32,
    refused: bool,
    /// The window above which slow start ends, bytes, once a train was too long.
    pub(super) cap: Option<f64>,
}

impl Rounds {
    /// Round 1 of a connection that sends `initial` bytes and may quadruple its window `most` times.
    pub(super) const fn new(initial: f64, most: u32) -> Self {
        Self {
            initial,
            most,
            round: 1,
            head: Bytes::ZERO,
            tail: Bytes::ZERO,
            clocked: Bytes::MAX,
            blue_until: Bytes::ZERO,
            start: Time::ZERO,
            blue: false,
            blue_delivered: Bytes::ZERO,
            before: None,
            least_in: 1,
            jumps: 0,
            refused: false,
            cap: None,
        }
    }

    /// Puts it where a test begins.
    #[cfg(test)]
    pub(super) const fn set(&mut self, round: u32, before: Span, least_in: u32) {
        (self.round, self.before, self.least_in) = (round, Some(before), least_in);
        (self.head, self.tail) = (Bytes::ZERO, Bytes::MAX);
    }

    /// What the blue part of the round delivers that it is in.
    #[cfg(test)]
    pub(super) fn train_bytes(&self) -> Bytes {
        Bytes::from_f64(self.blue_part() / 2.0)
    }

    pub(super) const fn is_blue(&self) -> bool {
        self.blue
    }

    pub(super) const fn jumps(&self) -> u32 {
        self.jumps
    }

    /// A round trip less than all before was seen.
    pub(super) const fn found_less(&mut self) {
        self.least_in = self.round;
    }

    /// What the round still brings after a blue train that is too long: as many times what was acknowledged as the window
    /// was doubled in addition, bytes.
    pub(super) fn still_to_come(&self) -> f64 {
        self.blue_delivered.as_f64() * (f64::from(self.jumps).exp2() - 1.0)
    }

    /// What slow start alone sends in this round, bytes.
    fn blue_part(&self) -> f64 {
        self.initial * f64::from(self.round - 1).exp2()
    }

    /// Begins a round, if this ACK does.
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

    /// The ACKs of the train have let go `sent` bytes in total. What of the blue part leaves later, with an ACK that a receiver
    /// kept back or with the red part, would not come with the next train.
    pub(super) const fn clock(&mut self, sent: Bytes) {
        self.clocked = sent;
    }

    /// Whether what this ACK delivers is beyond the blue part that was measured.
    pub(super) fn is_red(&self, ack: &Ack<'_>) -> bool {
        ack.total_delivered > self.blue_until
    }

    /// Counts what a blue ACK delivers; whether the train ends with it. It ends with the last segment but one: the last may be
    /// alone, so that its ACK waits for the receiver's timer.
    pub(super) fn count(&mut self, ack: &Ack<'_>, mss: Bytes) -> bool {
        let tail = self.blue && ack.total_delivered + mss >= self.tail.min(self.clocked);
        if tail {
            self.blue = false;
        } else if self.blue {
            self.blue_delivered += ack.delivered;
        }
        tail
    }

    /// The blue part has ended with `ack`: how long its train is by what came before the last ACK of it, whether that
    /// leaves room, and for how much.
    ///
    /// # Errors
    /// It is refused in the second round.
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

    /// Whether a blue train of `train` leaves room for the window to be quadrupled.
    pub(super) fn has_room(&self, train: Span, least: Span, round_least: Option<Span>) -> bool {
        if self.round <= 2 {
            return self.most > 0 && least > LEAST_RTT && train < least / 4;
        }
        self.round < self.most + 2 && self.grows_slowly(train, least) && self.is_short(least, round_least)
    }

    /// Whether the train, if it goes on growing as since the last round, is no longer than a round trip in the next.
    fn grows_slowly(&self, train: Span, least: Span) -> bool {
        let nanos = |span: Span, doublings: u32| u128::from(span.as_nanos()) << doublings.min(32);
        let expected = nanos(train, self.round - 2);
        let before = self.before.map_or(0, |before| nanos(before, self.round - 3));
        // 2 mu d with mu = d / (2 dp).
        expected.saturating_mul(expected) <= u128::from(least.as_nanos()).saturating_mul(before)
    }

    /// Whether the round trips don't grow by more than an eighth until the next round but one, if they go on as since the
    /// least was seen.
    fn is_short(&self, least: Span, round_least: Option<Span>) -> bool {
        let k = u128::from(self.round.saturating_sub(self.least_in));
        let least = u128::from(least.as_nanos());
        round_least.is_some_and(|round| (k + 1) * u128::from(round.as_nanos()) <= (k + 1) * least + k * least / 8)
    }

    /// The red part after a train of `train`; `None` if what is left of the round trip is no longer than the train.
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
