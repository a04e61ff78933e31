//! Bound on the losses that Copa causes if no delay indicates them: at a policer, or a buffer of a few packets.
//!
//! If losses exceed the bound, the sender tests whether it causes them. It reduces the window to the amount delivered,
//! and observes the data sent with the smaller window. If the losses decrease, the flow caused them, and the window is
//! kept at the delivered amount for some round trips. If not, the link causes them, and the window is restored.

use longhaul_units::{Bytes, Span, Time};

use crate::Ack;

/// Fraction that may be lost without a response: `BBR.LossThresh` (draft-ietf-ccwg-bbr).
pub(super) const MOST: f64 = 0.02;
/// Minimum number of segments that determine a loss rate (the authors' code, for its 30 %).
const LEAST_SEGMENTS: f64 = 20.0;
/// A loss rate is calculated over at least this many round trips and this many segments.
const ROUNDS: u32 = 2;
const SEGMENTS: f64 = 1000.0;
/// Losses must exceed the bound by this many standard deviations. The number of random losses varies, and more so if
/// they come in bursts.
const DEVIATIONS: f64 = 2.0;
/// The test ends once this many bursts would have been lost at the previous rate. If the rate is unchanged, at most
/// half of 24 bursts are lost in one of 200 cases.
const EXPECTED: f64 = 24.0;
/// Maximum number of segments per burst that counts.
const MOST_BURST: f64 = 16.0;
/// Minimum fraction of the window that remains in a test (RFC 5681, section 3.1).
const KEEP: f64 = 0.5;
/// The link causes the losses unless less than this fraction of them remains with the smaller window.
const FELL: f64 = 0.5;
/// Losses above this rate do not count as the link's (the authors' code, for any cause).
const MOST_OF_LINK: f64 = 0.3;
/// Time for which a link's own loss rate is valid.
const TRUST: Span = Span::from_secs(30);
/// Hold time of the window at the delivered amount, in round trips: the initial value, and the upper bound, which it
/// approaches while trials of a larger window give the same result. BBR probes at least every 63 round trips (draft-ietf-ccwg-bbr, "Time Scale
/// for Bandwidth Probing").
const HOLD: (u32, u32) = (16, 63);
/// Minimum hold time if trials have the same result, for short RTTs (ibid.: 2 to 3 s).
const LEAST_HOLD: Span = Span::from_secs(2);
/// Two trials have the same result if the delivered amounts differ by less than this fraction.
const ALIKE: f64 = 0.25;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Answer {
    None,
    /// The window decreases to this number of bytes.
    Lower(f64),
    /// The flow caused the losses.
    Ours,
    /// The link causes the losses, and the window returns to this number of bytes.
    Back(f64),
    /// A larger window may be tried.
    Try,
}

/// Delivered and lost data since `began`.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    began: Option<Time>,
    rounds: u32,
    delivered: f64,
    lost: f64,
    /// Sum of the squares of the losses per ACK: the variance of `lost`, if ACKs are independent.
    squares: f64,
}

impl Counts {
    const fn since(now: Time) -> Self {
        Self { began: Some(now), rounds: 0, delivered: 0.0, lost: 0.0, squares: 0.0 }
    }

    fn all(&self) -> f64 {
        self.delivered + self.lost
    }

    /// Returns the loss rate, or zero if nothing was sent.
    fn rate(&self) -> f64 {
        if self.all() > 0.0 { self.lost / self.all() } else { 0.0 }
    }

    fn add(&mut self, ack: &Ack<'_>) {
        self.began.get_or_insert(ack.now);
        self.delivered += ack.delivered.as_f64();
        let lost = ack.newly_lost.as_f64();
        self.lost += lost;
        self.squares += lost * lost;
    }

    /// Returns the number of segments lost at a time.
    fn burst(&self, mss: f64) -> f64 {
        if self.lost > 0.0 { (self.squares / self.lost / mss).clamp(1.0, MOST_BURST) } else { 1.0 }
    }

    fn are_enough(&self, mss: f64) -> bool {
        self.all() >= LEAST_SEGMENTS * mss
    }

    /// Returns whether more than `most` of the data is lost, and not by chance.
    fn exceed(&self, most: f64, mss: f64) -> bool {
        self.are_enough(mss) && self.lost - DEVIATIONS * self.squares.sqrt() > most * self.all()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Free,
    /// The window was reduced for a test. The data acknowledged in the first round trip was sent before; then the
    /// test is `settled`.
    Asking {
        question: Question,
        settled: bool,
    },
    /// The window is limited to `ceiling` for this many round trips, and at least until this time.
    Held {
        ceiling: f64,
        rounds: u32,
        until: Time,
    },
}

/// The baseline of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Question {
    /// Window before and after the reduction.
    before: f64,
    lowered: f64,
    /// The loss rate before it was reduced, and the number of segments lost at a time.
    rate: f64,
    burst: f64,
    /// Whether the test is repeated.
    again: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LossBound {
    most: f64,
    state: State,
    counts: Counts,
    round: Counts,
    /// The link's own loss rate, which does not depend on the flow, and when it was measured.
    pub(crate) link: f64,
    asked: Time,
    /// The last limit of the window, and the number of round trips for which it applied.
    ceiling: f64,
    hold: u32,
}

impl LossBound {
    /// A bound of the fraction `most`; 1 means no bound.
    pub(super) fn new(most: f64) -> Self {
        let counts = Counts::default();
        let state = State::Free;
        Self { most, state, counts, round: counts, link: 0.0, asked: Time::ZERO, ceiling: 0.0, hold: HOLD.0 }
    }

    pub(super) const fn ceiling(&self) -> f64 {
        match self.state {
            State::Held { ceiling, .. } => ceiling,
            State::Free | State::Asking { .. } => f64::INFINITY,
        }
    }

    /// Returns whether a test is running, during which the window must not change.
    pub(super) const fn is_asking(&self) -> bool {
        matches!(self.state, State::Asking { .. })
    }

    /// Returns whether the window is reduced because of losses.
    pub(crate) const fn is_on(&self) -> bool {
        !matches!(self.state, State::Free)
    }

    /// Ends tests and limits, because other flows fill the queue and also cause losses.
    pub(crate) fn rest(&mut self) {
        (self.state, self.counts, self.round) = (State::Free, Counts::default(), Counts::default());
    }

    /// Processes a timeout. During a test, it shows that the flow causes the losses, since even retransmissions were
    /// lost. A limit remains in force in the slow start that follows.
    pub(super) fn on_timeout(&mut self, now: Time) {
        if let State::Asking { question, .. } = self.state {
            self.hold(now, question.lowered);
        }
    }

    /// Processes an ACK with a window of `cwnd` bytes, segments of `mss`, and the RTT `standing` in seconds.
    pub(super) fn on_ack(&mut self, ack: &Ack<'_>, mss: Bytes, cwnd: f64, standing: f64) -> Answer {
        let mss = mss.as_f64().max(1.0);
        let answer = if ack.round_start { self.on_round(ack.now, mss, cwnd, standing) } else { Answer::None };
        self.counts.add(ack);
        self.round.add(ack);
        answer
    }

    fn on_round(&mut self, now: Time, mss: f64, cwnd: f64, standing: f64) -> Answer {
        let round = std::mem::replace(&mut self.round, Counts::since(now));
        self.counts.rounds = self.counts.rounds.saturating_add(1);
        let link = if now.since(self.asked) < TRUST { self.link } else { 0.0 };
        let most = self.most + 2.0 * link;
        let exceeds = self.counts.exceed(most, mss);
        match self.state {
            State::Free if exceeds => self.ask(now, &round, mss, cwnd, standing),
            State::Free => {
                if self.counts.rounds >= ROUNDS && self.counts.all() >= SEGMENTS * mss {
                    self.counts = Counts::since(now);
                }
                Answer::None
            }
            // The data sent before the reduction has been acknowledged, so the test begins.
            State::Asking { question, settled: false } => {
                self.state = State::Asking { question, settled: true };
                self.counts = Counts::since(now);
                Answer::None
            }
            // The test ends once enough data has been sent; until then, nothing changes.
            State::Asking { question, .. } => {
                let Question { before, rate, burst, again, .. } = question;
                let expected = rate * self.counts.all() / (burst * mss);
                if self.counts.rounds < HOLD.1 && (expected < EXPECTED || !self.counts.are_enough(mss)) {
                    return Answer::None;
                }
                let left = self.counts.rate();
                let fell = left < FELL * rate;
                // If too much is still lost, reduce further. If the losses fell, keep the limit. If two tests had no
                // effect, restore the window.
                if exceeds && (fell || left > MOST_OF_LINK) {
                    self.ask(now, &round, mss, cwnd, standing)
                } else if fell {
                    self.hold(now, cwnd)
                } else if again {
                    (self.link, self.asked) = (left, now);
                    (self.state, self.counts) = (State::Free, Counts::since(now));
                    Answer::Back(before)
                } else {
                    self.lower(now, Question { again: true, ..question }, &round, cwnd, standing)
                }
            }
            State::Held { .. } if exceeds => self.ask(now, &round, mss, cwnd, standing),
            // The limit ends after its round trips and its time, and a larger window is tried.
            State::Held { ceiling, rounds, until } => {
                if self.counts.rounds >= ROUNDS && self.counts.all() >= SEGMENTS * mss {
                    self.counts = Counts::since(now);
                }
                if rounds > 1 || now < until {
                    self.state = State::Held { ceiling, rounds: rounds.saturating_sub(1), until };
                    return Answer::None;
                }
                (self.state, self.counts) = (State::Free, Counts::since(now));
                Answer::Try
            }
        }
    }

    fn ask(&mut self, now: Time, round: &Counts, mss: f64, cwnd: f64, standing: f64) -> Answer {
        let rate = if round.are_enough(mss) { round.rate().max(self.counts.rate()) } else { self.counts.rate() };
        let question = Question { before: cwnd, lowered: cwnd, rate, burst: self.counts.burst(mss), again: false };
        self.lower(now, question, round, cwnd, standing)
    }

    /// Reduces the window to the amount delivered in a round trip. Since the bucket of a policer may have passed more
    /// than its rate, one reduction may not be sufficient.
    fn lower(&mut self, now: Time, question: Question, round: &Counts, cwnd: f64, standing: f64) -> Answer {
        let took = now.since(round.began.unwrap_or(now)).as_secs_f64();
        let arrived = if took > 0.0 { round.delivered * standing / took } else { cwnd };
        let lowered = arrived.clamp(KEEP * cwnd, cwnd);
        self.state = State::Asking { question: Question { lowered, ..question }, settled: false };
        self.counts = Counts::since(now);
        Answer::Lower(lowered)
    }

    /// Limits the window to `ceiling`, because a larger one caused losses; for longer if the last trial had the same
    /// result.
    fn hold(&mut self, now: Time, ceiling: f64) -> Answer {
        let alike = (ceiling / self.ceiling - 1.0).abs() < ALIKE;
        self.hold = if alike { (self.hold * 2).min(HOLD.1) } else { HOLD.0 };
        (self.ceiling, self.counts) = (ceiling, Counts::since(now));
        let until = if alike { now + LEAST_HOLD } else { now };
        self.state = State::Held { ceiling, rounds: self.hold, until };
        Answer::Ours
    }
}

#[cfg(test)]
mod tests;
