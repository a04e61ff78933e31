//! RTT measurements of Copa.

use longhaul_units::{Span, Time};

use crate::estimate::windowed::{WindowedMax, WindowedMin};

/// RTTmin is the smallest RTT within this time (section 2.1).
pub(crate) const LONG: Span = Span::from_secs(10);
/// RTTstanding is the smallest RTT within the smoothed RTT divided by this number (section 2.1).
const STANDING_PART: u64 = 2;
/// RTTmax is the maximum RTT within this many round trips (section 2.2).
const MAX_ROUNDS: u64 = 4;
/// The window of RTTstanding covers at least one and a half times the silence between ACKs. If a link delivers ACKs in
/// bunches, only the last ones of a bunch show the delay of the path. A silence counts if each of the last round trips
/// had one of its length.
const SILENCES: (u64, u64) = (3, 2);
const SILENT_ROUNDS: usize = 4;
/// The queue is nearly empty below this fraction of the variation of its delay (section 2.2).
pub(crate) const NEARLY: f64 = 0.1;

/// RTTmin, RTTstanding and RTTmax.
#[derive(Clone, Copy, Debug)]
pub struct Delays {
    /// Length of the time window of RTTmin.
    long: Span,
    least: WindowedMin,
    standing: WindowedMin,
    standing_window: Span,
    /// Positions are in nanoseconds, values in seconds.
    most: WindowedMax,
    silences: Silences,
    /// Longest gap between ACKs that occurred in each of the recent round trips.
    pub(crate) silence: Span,
    /// Maximum queueing delay of the reverse path in seconds.
    most_reverse: f64,
    /// Forward delays, if the receiver reports arrival times.
    one_way: Option<OneWay>,
    /// Delay above RTTmin in seconds, as of the newest sample, and whether it is that of the forward path alone.
    raw: f64,
    is_forward: bool,
    /// Delay above RTTmin that no queue causes, in seconds.
    floor: f64,
    /// Jitter, if it is measured, and its upper limit for the forward path in seconds.
    jitter: Option<Jitter>,
    most_jitter: f64,
}

/// Offset added to one-way delays between different clocks, so that they are never negative.
const ORIGIN: i64 = 1 << 60;

/// The smallest one-way delays of the same time windows. The offset of the clocks cancels in their difference.
#[derive(Clone, Copy, Debug)]
struct OneWay {
    first: u64,
    least: WindowedMin,
    standing: WindowedMin,
}

impl OneWay {
    /// Returns the delay above the smallest one.
    fn queueing(&self) -> Option<Span> {
        Some(self.standing.get()? - self.least.get()?)
    }
}

/// Variation of the queueing delay between consecutive windows that is not a trend: the delay rises and falls again.
#[derive(Clone, Copy, Debug, Default)]
struct Jitter {
    began: Time,
    last: f64,
    step: f64,
    /// Moving average of the smaller of two opposite steps, in seconds.
    mean: f64,
}

/// Weight of a larger and of a smaller sample in the average. The average decreases slowly, because steps become rare
/// if many segments wait for a late one.
const JITTER_GAIN: (f64, f64) = (0.125, 0.016);
/// Ratio of the delay that does not count as a queue to the average. For delays that vary evenly in an interval, the
/// average is a sixth of it.
const JITTER_FACTOR: f64 = 4.0;
/// Fraction of the RTT up to which jitter is not limited.
const LEAST_JITTER: f64 = 0.03;

impl Jitter {
    fn on_window(&mut self, queueing: f64) {
        let step = queueing - self.last;
        let turns = step * self.step < 0.0;
        let swing = if turns { step.abs().min(self.step.abs()) } else { 0.0 };
        self.mean += if swing > self.mean { JITTER_GAIN.0 } else { JITTER_GAIN.1 } * (swing - self.mean);
        (self.last, self.step) = (queueing, step);
    }
}

/// The longest silence between ACKs in each of the last round trips.
#[derive(Clone, Copy, Debug, Default)]
struct Silences {
    rounds: [Span; SILENT_ROUNDS],
    /// Longest silence of the round trip that began at `began`.
    longest: Span,
    began: Time,
    last: Option<Time>,
}

impl Silences {
    /// Records an ACK, and returns the longest silence that occurred in each of the last round trips.
    fn heard(&mut self, now: Time, srtt: Span) -> Span {
        self.longest = self.longest.max(now.since(self.last.unwrap_or(now)));
        self.last = Some(now);
        if now.since(self.began) >= srtt {
            self.rounds.rotate_right(1);
            self.rounds[0] = self.longest;
            (self.longest, self.began) = (Span::ZERO, now);
        }
        self.rounds.into_iter().min().unwrap_or_default()
    }
}

impl Delays {
    /// Estimators in which RTTmin is the smallest RTT of the last `long`.
    pub const fn new(long: Span) -> Self {
        Self {
            long,
            least: WindowedMin::new(long),
            standing: WindowedMin::new(long),
            standing_window: long,
            most: WindowedMax::new(0),
            silences: Silences {
                rounds: [Span::ZERO; SILENT_ROUNDS],
                longest: Span::ZERO,
                began: Time::ZERO,
                last: None,
            },
            silence: Span::ZERO,
            most_reverse: f64::INFINITY,
            one_way: None,
            raw: 0.0,
            is_forward: false,
            floor: 0.0,
            jitter: None,
            most_jitter: f64::INFINITY,
        }
    }

    /// Measures the variation of the delay, which then does not count as a queue.
    pub fn with_jitter(mut self) -> Self {
        self.jitter = Some(Jitter::default());
        self
    }

    /// Returns RTTstanding without the queueing delay of the forward path. At the delivery rate, this is the RTT of a
    /// path that is full and has no queue.
    pub fn base(&self) -> Option<Span> {
        self.standing.get().map(|standing| standing - Span::from_secs_f64(self.raw - self.floor))
    }

    /// Returns RTTmin, or zero while it is unknown.
    pub fn least(&self) -> Span {
        self.least.get().unwrap_or_default()
    }

    /// Returns the delay above RTTmin in seconds, or the delay of the forward path if it is known and lower.
    pub const fn raw(&self) -> f64 {
        self.raw
    }

    /// Returns the delay above RTTmin, both directions together.
    fn of_both_ways(&self) -> Span {
        self.standing.get().zip(self.least.get()).map_or(Span::ZERO, |(standing, least)| standing - least)
    }

    /// Takes the delay above RTTmin, or that of the forward path if it is known and lower. Delay of the reverse path
    /// above its limit counts as delay of the forward path.
    fn update_raw(&mut self) {
        let both = self.of_both_ways().as_secs_f64();
        let forward = self.one_way.and_then(|one_way| one_way.queueing()).map(Span::as_secs_f64);
        let excess = both - self.most_reverse;
        self.is_forward = forward.is_some_and(|forward| forward >= excess);
        self.raw = forward.map_or(both, |forward| forward.max(excess).min(both));
    }

    /// Returns the queueing delay of the reverse path in seconds, as indicated by arrival times, or zero if it is
    /// unknown.
    pub(crate) fn reverse(&self) -> f64 {
        let forward = self.one_way.and_then(|one_way| one_way.queueing());
        forward.map_or(0.0, |forward| self.of_both_ways().as_secs_f64() - forward.as_secs_f64()).max(0.0)
    }

    /// Limits the queueing delay of the reverse path to `most` seconds.
    pub(crate) fn limit_reverse(&mut self, most: f64) {
        self.most_reverse = most;
        self.update_raw();
    }

    /// Limits the jitter of the forward path to `most` seconds, or a small part of the RTT. Variation above the limit
    /// counts as a queue that grows and shrinks again.
    pub const fn limit_jitter(&mut self, most: f64) {
        self.most_jitter = most;
    }

    /// Records the newest arrival time that an ACK reports.
    pub fn sample_one_way(&mut self, now: Time, sent_at: Time, arrival: Time) {
        let ahead = arrival.as_nanos().wrapping_sub(sent_at.as_nanos());
        let window = self.standing_window;
        let one_way = self.one_way.get_or_insert(OneWay {
            first: ahead,
            least: WindowedMin::new(self.long),
            standing: WindowedMin::new(window),
        });
        let delay = ORIGIN.saturating_add(ahead.wrapping_sub(one_way.first).cast_signed()).max(0);
        let delay = Span::from_nanos(delay.cast_unsigned());
        one_way.standing.set_window(window);
        one_way.least.update(now, delay);
        one_way.standing.update(now, delay);
        self.update_raw();
    }

    /// Returns the delay above RTTmin that no queue causes.
    pub fn floor(&self) -> Span {
        Span::from_secs_f64(self.floor)
    }

    /// Sets the delay above RTTmin that no queue causes.
    pub fn set_floor(&mut self, floor: Span) {
        self.floor = floor.as_secs_f64();
    }

    /// Adds a queueing delay of `queueing` seconds to the floor, and the jitter, which is measured again, because a
    /// delay that has changed once initially looks like jitter.
    pub fn raise_floor(&mut self, queueing: f64) {
        self.floor += queueing + self.jitter();
        self.jitter = self.jitter.map(|jitter| Jitter { mean: 0.0, ..jitter });
    }

    /// Sets the time for which the minimum RTT is valid.
    pub fn set_lifetime(&mut self, lifetime: Span) {
        self.long = lifetime;
        self.least.set_window(lifetime);
        if let Some(one_way) = &mut self.one_way {
            one_way.least.set_window(lifetime);
        }
    }

    /// Records a sample `rtt`, with the smoothed RTT `srtt`.
    pub fn sample(&mut self, now: Time, rtt: Span, srtt: Span) {
        self.silence = self.silences.heard(now, srtt);
        let silence = self.silence * SILENCES.0 / SILENCES.1;
        self.standing_window = (srtt / STANDING_PART).max(silence.min(srtt)).min(self.long);
        self.standing.set_window(self.standing_window);
        self.most.set_window((srtt * MAX_ROUNDS).min(self.long).as_nanos());
        self.least.update(now, rtt);
        self.standing.update(now, rtt);
        self.most.update(now.as_nanos(), rtt.as_secs_f64());
        self.update_raw();
        if let Some(jitter) = self.jitter.as_mut().filter(|jitter| now.since(jitter.began) >= self.standing_window) {
            jitter.began = now;
            jitter.on_window(self.raw);
        }
    }

    /// Returns the mean variation of the delay between windows, in seconds.
    pub(crate) fn variation(&self) -> f64 {
        self.jitter.map_or(0.0, |jitter| jitter.mean)
    }

    /// Returns the part of the delay that varies like jitter, in seconds.
    pub(crate) fn measured_jitter(&self) -> f64 {
        self.jitter.map_or(0.0, |jitter| JITTER_FACTOR * jitter.mean)
    }

    /// Returns the part of the delay that is jitter, in seconds.
    pub fn jitter(&self) -> f64 {
        let most =
            if self.is_forward { self.most_jitter.max(LEAST_JITTER * self.standing_secs()) } else { f64::INFINITY };
        self.measured_jitter().min(most)
    }

    pub(crate) fn is_known(&self) -> bool {
        self.least.get().is_some()
    }

    /// Returns RTTstanding: the smallest RTT of half a round trip or, if ACKs arrive in bunches, of up to a round trip,
    /// so that the samples at the beginning of a bunch do not count.
    pub fn standing(&self) -> Option<Span> {
        self.standing.get()
    }

    pub(crate) fn standing_secs(&self) -> f64 {
        self.standing.get().map_or(0.0, Span::as_secs_f64)
    }

    /// Returns the queueing delay `dq = RTTstanding - RTTmin` in seconds, or zero while it is unknown.
    pub fn queueing(&self) -> f64 {
        (self.raw - self.floor - self.jitter()).max(0.0)
    }

    /// Returns the delay above RTTmin and the floor that is present in both directions, including jitter, in seconds,
    /// or zero if it is unknown.
    pub(crate) fn of_each_way(&self) -> f64 {
        let reverse = self.reverse();
        let forward = self.of_both_ways().as_secs_f64() - reverse;
        (forward.min(reverse) - self.floor).max(0.0)
    }

    /// Returns whether the queue is nearly empty: `dq < nearly (RTTmax - RTTmin)`, or at most `noise` seconds. A
    /// queue that was never filled is empty.
    pub(crate) fn is_nearly_empty(&self, noise: f64, nearly: f64) -> bool {
        let least = self.least.get().map_or(0.0, Span::as_secs_f64);
        let swing = self.most.get().unwrap_or(0.0) - least - self.floor;
        self.queueing() <= nearly * swing.max(0.0) + noise
    }
}
