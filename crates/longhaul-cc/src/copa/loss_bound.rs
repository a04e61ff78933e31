//! A bound on the losses that Copa causes where no delay warns of them: behind a policer, or a buffer of a few packets.
//!
//! What is lost above the bound calls for a question: would less be lost if less were sent? The window comes down to what arrived, and
//! the round trip that was sent under it answers. Where the losses fell, they were the flow's own, and the window keeps to what arrived
//! for some round trips. Where they did not, they are the link's, and the window is what it was.

use longhaul_units::{Bytes, Span, Time};

use crate::Ack;

/// The part that may be lost unanswered: `BBR.LossThresh` (draft-ietf-ccwg-bbr).
pub(super) const MOST: f64 = 0.02;
/// Fewer segments tell nothing of a loss rate (the authors' code, of its 30 %).
const LEAST_SEGMENTS: f64 = 20.0;
/// A loss rate is taken over at least so many round trips and so many segments.
const ROUNDS: u32 = 2;
const SEGMENTS: f64 = 1000.0;
/// Losses have to exceed the bound by so many standard deviations: what is lost by chance varies, the more the burstier it is.
const DEVIATIONS: f64 = 2.0;
/// The answer counts once so many bursts would have been lost at the rate before: by chance no more than half of 24 are lost in one of
/// 200 cases.
const EXPECTED: f64 = 24.0;
/// Segments of a burst that count at most.
const MOST_BURST: f64 = 16.0;
/// The least that an answer leaves of the window (RFC 5681, section 3.1).
const KEEP: f64 = 0.5;
/// Losses are the link's unless less than this part of them is left when less is sent,
const FELL: f64 = 0.5;
/// and unless they are more than this (the authors' code, whatever their cause).
const MOST_OF_LINK: f64 = 0.3;
/// For how long a link's own losses are taken for granted.
const TRUST: Span = Span::from_secs(30);
/// Round trips for which the window keeps to what arrived: at first, and at most where each trial of more ends alike. BBR tries at least
/// each 63 round trips (draft-ietf-ccwg-bbr, "Time Scale for Bandwidth Probing").
const HOLD: (u32, u32) = (16, 63);
/// For how long it keeps to that at least where trials end alike, over short round trips (ibid.: 2 to 3 s).
const LEAST_HOLD: Span = Span::from_secs(2);
/// A trial ends alike if what arrives differs by less than this part.
const ALIKE: f64 = 0.25;

/// What an ACK changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Answer {
    /// Nothing.
    None,
    /// The window comes down to this, in bytes.
    Lower(f64),
    /// The losses were the flow's own.
    Ours,
    /// They are the link's: the window is this again.
    Back(f64),
    /// More may be tried.
    Try,
}

/// What arrived and what was lost since `began`.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    began: Option<Time>,
    rounds: u32,
    delivered: f64,
    lost: f64,
    /// The squares of what each ACK told lost, summed: the variance of `lost`, if ACKs are independent.
    squares: f64,
}

impl Counts {
    const fn since(now: Time) -> Self {
        Self { began: Some(now), rounds: 0, delivered: 0.0, lost: 0.0, squares: 0.0 }
    }

    fn all(&self) -> f64 {
        self.delivered + self.lost
    }

    /// The part lost; zero where nothing was sent.
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

    /// Segments lost at a time.
    fn burst(&self, mss: f64) -> f64 {
        if self.lost > 0.0 { (self.squares / self.lost / mss).clamp(1.0, MOST_BURST) } else { 1.0 }
    }

    fn are_enough(&self, mss: f64) -> bool {
        self.all() >= LEAST_SEGMENTS * mss
    }

    /// Whether more than `most` of it is lost, and not by chance.
    fn exceed(&self, most: f64, mss: f64) -> bool {
        self.are_enough(mss) && self.lost - DEVIATIONS * self.squares.sqrt() > most * self.all()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// The window is as Copa has it.
    Free,
    /// It was lowered, and the answer is awaited. What is acknowledged in the first round trip was sent before; then it is `settled`.
    Asking { question: Question, settled: bool },
    /// It keeps to `ceiling` for so many round trips, and until then.
    Held { ceiling: f64, rounds: u32, until: Time },
}

/// What losses are to be compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Question {
    /// The window before it was lowered, and after.
    before: f64,
    lowered: f64,
    /// The part that was lost of it, and the segments lost at a time.
    rate: f64,
    burst: f64,
    /// Whether it is asked a second time.
    again: bool,
}

/// The bound, and what it made of the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossBound {
    most: f64,
    state: State,
    counts: Counts,
    round: Counts,
    /// What the link loses, whoever sends how much, and since when that is known.
    link: f64,
    asked: Time,
    /// The last ceiling, and for how long it held.
    ceiling: f64,
    hold: u32,
}

impl LossBound {
    /// A bound of the part `most`; 1 is none.
    pub(super) fn new(most: f64) -> Self {
        let counts = Counts::default();
        let state = State::Free;
        Self { most, state, counts, round: counts, link: 0.0, asked: Time::ZERO, ceiling: 0.0, hold: HOLD.0 }
    }

    /// The most that the window may be.
    pub(super) const fn ceiling(&self) -> f64 {
        match self.state {
            State::Held { ceiling, .. } => ceiling,
            State::Free | State::Asking { .. } => f64::INFINITY,
        }
    }

    /// Whether the window has to stay until the link has answered.
    pub(super) const fn is_asking(&self) -> bool {
        matches!(self.state, State::Asking { .. })
    }

    /// Whether the window is lower for the losses.
    pub(super) const fn is_on(&self) -> bool {
        !matches!(self.state, State::Free)
    }

    /// Forgets what was asked and held, because others fill the queue and have a part in the losses.
    pub(super) fn rest(&mut self) {
        (self.state, self.counts, self.round) = (State::Free, Counts::default(), Counts::default());
    }

    /// A timeout. If the answer is still awaited, it is one: even retransmissions were lost. A ceiling stays for the slow start that follows.
    pub(super) fn on_timeout(&mut self, now: Time) {
        if let State::Asking { question, .. } = self.state {
            self.hold(now, question.lowered);
        }
    }

    /// An ACK to a window of `cwnd` bytes in segments of `mss`, where `standing` is the round trip.
    pub(super) fn on_ack(&mut self, ack: &Ack<'_>, mss: Bytes, cwnd: f64, standing: f64) -> Answer {
        let mss = mss.as_f64().max(1.0);
        let answer = if ack.round_start { self.on_round(ack.now, mss, cwnd, standing) } else { Answer::None };
        self.counts.add(ack);
        self.round.add(ack);
        answer
    }

    /// A round trip ends.
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
            State::Asking { question, settled: false } => {
                self.state = State::Asking { question, settled: true };
                self.counts = Counts::since(now);
                Answer::None
            }
            State::Asking { question, .. } => {
                let Question { before, rate, burst, again, .. } = question;
                let expected = rate * self.counts.all() / (burst * mss);
                if self.counts.rounds < HOLD.1 && (expected < EXPECTED || !self.counts.are_enough(mss)) {
                    return Answer::None;
                }
                let left = self.counts.rate();
                let fell = left < FELL * rate;
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

    /// The window becomes what arrived in a round trip. A policer's bucket may have let more pass than it will, so that one answer is not
    /// enough.
    fn lower(&mut self, now: Time, question: Question, round: &Counts, cwnd: f64, standing: f64) -> Answer {
        let took = now.since(round.began.unwrap_or(now)).as_secs_f64();
        let arrived = if took > 0.0 { round.delivered * standing / took } else { cwnd };
        let lowered = arrived.clamp(KEEP * cwnd, cwnd);
        self.state = State::Asking { question: Question { lowered, ..question }, settled: false };
        self.counts = Counts::since(now);
        Answer::Lower(lowered)
    }

    /// It was too much: the window keeps to `ceiling`, for longer where that is what the last trial found.
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
