//! Growth where jitter hides the queue.
//!
//! Copa keeps the window at which the queueing delay has its target. If jitter exceeds that delay, the window is a
//! small fraction of the path's capacity. It is therefore raised for two round trips: if the delivery rate follows and
//! the mean RTT does not, the path holds more. The window is then kept, and raised again; it decays slowly, and Copa
//! determines it again once the mean RTT rises.

use longhaul_units::Bytes;

use super::cruise::OVERSHOOT_ROUNDS;
use super::{CopaCubic, KEPT};
use crate::Ack;

/// Factor of the window.
const RAISE: f64 = 1.25;
/// Fraction of the raise by which the delivery rate must increase, and fraction by which the mean RTT may increase.
const FOLLOWS: f64 = 0.5;
const STAYS: f64 = 0.25;
/// Loss rate that the raise may add.
const LOSSES: f64 = 0.01;
/// Number of round trips until the window is raised: initially, and after many failed attempts.
const WAIT: (u32, u32) = (4, 64);
/// Minimum window in segments. The mean of a few RTT samples is not precise enough.
const LEAST: f64 = 20.0;
/// Factor per round trip applied to the kept window, so that flows with more than their share yield.
const DECAY: f64 = 0.98;
/// A window below this fraction of the window before the ACK indicates a response to losses or marks.
const CUT: f64 = 0.9;
/// Fraction of the RTT above which a queue is not explained by jitter.
const QUEUE: f64 = 0.125;

#[derive(Clone, Copy, Debug)]
struct Round {
    /// Window in bytes.
    window: f64,
    /// Bytes per second.
    rate: f64,
    /// Mean RTT in seconds.
    rtt: f64,
    losses: f64,
    /// Whether the window limited the flow.
    is_limited: bool,
}

impl Round {
    /// Returns whether the path holds the raised window, after `before`, without a queue.
    fn is_held(&self, before: &Self) -> bool {
        self.rate >= before.rate * (1.0 + FOLLOWS * (RAISE - 1.0)) && !self.is_queued(before)
    }

    /// Returns whether more is queued or lost than in `before`.
    fn is_queued(&self, before: &Self) -> bool {
        self.rtt > before.rtt * (1.0 + STAYS * (RAISE - 1.0)) || self.losses > before.losses + LOSSES
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Round trips until the window is raised.
    Wait(u32),
    /// The window is raised. It is judged after this many more round trips.
    Raised { rounds: u32, before: Round },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    step: Step,
    wait: u32,
    /// The round trip of the last window that the path held, decayed since.
    held: Option<Round>,
    /// Sum (in seconds) and number of RTT samples, and number of bytes delivered and lost, in this round trip.
    rtts: (f64, u32),
    delivered: Bytes,
    lost: Bytes,
}

impl Default for Reach {
    fn default() -> Self {
        Self {
            step: Step::Wait(WAIT.0),
            wait: WAIT.0,
            held: None,
            rtts: (0.0, 0),
            delivered: Bytes::ZERO,
            lost: Bytes::ZERO,
        }
    }
}

impl Reach {
    /// Forgets the window that the path held.
    pub(super) fn restart(&mut self) {
        *self = Self { step: Step::Wait(self.wait), wait: self.wait, ..Self::default() };
    }

    fn note(&mut self, ack: &Ack<'_>) {
        if let Some(sample) = ack.rtt {
            self.rtts = (self.rtts.0 + sample.rtt.as_secs_f64(), self.rtts.1 + 1);
        }
        self.delivered += ack.delivered;
        self.lost += ack.newly_lost;
    }

    fn end_round(&mut self, window: f64, rate: f64, is_limited: bool) -> Round {
        let (sum, count) = std::mem::take(&mut self.rtts);
        let (delivered, lost) = (std::mem::take(&mut self.delivered), std::mem::take(&mut self.lost));
        let losses = lost.as_f64() / (delivered + lost).as_f64().max(1.0);
        let rtt = if count > 0 { sum / f64::from(count) } else { f64::INFINITY };
        Round { window, rate, rtt, losses, is_limited }
    }

    /// Returns the minimum and maximum window in bytes.
    fn bounds(&self) -> (f64, f64) {
        match self.step {
            Step::Raised { before, .. } => (before.window * RAISE, before.window * RAISE),
            Step::Wait(_) => (self.held.map_or(0.0, |held| held.window), f64::INFINITY),
        }
    }

    fn raise(&mut self, before: Round) {
        self.step = Step::Raised { rounds: 1, before };
    }

    /// Returns the window to return to if the path did not hold the raised one.
    fn on_round(&mut self, round: Round, may_raise: bool) -> Option<f64> {
        match self.step {
            Step::Raised { rounds: 1.., before } => self.step = Step::Raised { rounds: 0, before },
            Step::Raised { before, .. } if round.is_held(&before) => {
                (self.held, self.wait, self.step) = (Some(round), WAIT.0, Step::Wait(1));
                if may_raise {
                    // The losses of several raises must not add up.
                    self.raise(Round { losses: round.losses.min(before.losses), ..round });
                }
            }
            Step::Raised { before, .. } => {
                if round.is_limited {
                    self.wait = (self.wait * 2).min(WAIT.1);
                }
                // With a queue, the path is full, and Copa shares it with other flows.
                self.held = (!round.is_queued(&before)).then_some(before);
                self.step = Step::Wait(self.wait);
                return Some(before.window);
            }
            Step::Wait(rounds) => {
                self.held.take_if(|held| round.is_queued(held));
                if let Some(held) = &mut self.held {
                    held.window *= DECAY;
                }
                self.step = Step::Wait(rounds.saturating_sub(1));
                if rounds <= 1 && may_raise {
                    self.raise(round);
                }
            }
        }
        None
    }
}

impl CopaCubic {
    /// Returns whether jitter hides the queue that Copa keeps.
    fn is_queue_hidden(&self) -> bool {
        let rate = self.rounds.rate().unwrap_or(f64::INFINITY);
        self.config.reach
            && self.copa.cwnd > LEAST * self.mss.as_f64()
            && self.copa.delays.jitter() > KEPT * self.mss.as_f64() / rate
    }

    /// Raises and holds the window if jitter hides the queue. `before` is the window before this ACK, in bytes: a
    /// response to losses or marks is preserved.
    pub(super) fn on_reach_ack(&mut self, ack: &Ack<'_>, before: f64) {
        let is_cut = self.copa.cwnd < CUT * before;
        if !self.config.reach
            || is_cut
            || self.capacity.rate().is_some()
            || self.copa.slow_start
            || self.copa.loss_bound.is_on()
        {
            return self.reach.restart();
        }
        self.reach.note(ack);
        if ack.round_start {
            let rate = self.rounds.rate().unwrap_or(f64::INFINITY);
            let round = self.reach.end_round(before, rate, ack.cwnd_limited);
            let may_raise = round.is_limited
                && round.rtt.is_finite()
                && self.is_queue_hidden()
                && self.copa.delays.queueing() < QUEUE * self.base().as_secs_f64();
            if let Some(window) = self.reach.on_round(round, may_raise) {
                self.copa.hold(window, window);
            }
            if matches!(self.reach.step, Step::Raised { rounds: 1.., .. }) {
                // Losses of the raised window provide no information about the resulting window.
                self.cruise.overshoot = OVERSHOOT_ROUNDS;
            }
        }
        let (least, most) = self.reach.bounds();
        self.copa.hold(least, most);
    }
}

#[cfg(test)]
mod tests {
    use longhaul_units::Time;

    use super::super::CopaCubicConfig;
    use super::*;
    use crate::BuildParams;

    /// Round trips over a path that holds `held` bytes without a queue. Jitter makes the RTT 20 ms in the mean.
    fn round(window: f64, held: f64) -> Round {
        let rtt = 0.02 * (window / held).max(1.0);
        Round { window, rate: window / rtt, rtt, losses: 0.0, is_limited: true }
    }

    /// Lets `rounds` round trips pass, of which the window follows the bounds, and is otherwise what Copa wants.
    /// Returns the windows.
    fn windows(reach: &mut Reach, rounds: usize, copa: f64, held: f64) -> Vec<f64> {
        let mut window: f64 = copa;
        (0..rounds)
            .map(|_| {
                // The window was used in the round trip that ends.
                let back = reach.on_round(round(window, held), true);
                let (least, most) = reach.bounds();
                window = back.unwrap_or(copa).max(least).min(most);
                window
            })
            .collect()
    }

    /// From a tenth of what the path holds, the window is there after ten raises of two round trips each. It exceeds it
    /// by at most a raise and the RTT that a raise may add.
    #[test]
    fn the_window_grows_to_what_the_path_holds() {
        let (mut reach, held) = (Reach::default(), 100_000.0);
        let windows = windows(&mut reach, 60, 10_000.0, held);
        assert_eq!(windows[..3], [10_000.0; 3]);
        assert_eq!(windows[3..6], [12_500.0, 12_500.0, 15_625.0]);
        let most = windows.iter().copied().fold(0.0, f64::max);
        assert!((0.9..RAISE * 1.0625).contains(&(most / held)), "{most}");
        assert!(windows[..26].contains(&most), "{windows:?}");
        assert_eq!(windows[30], 10_000.0, "the path is full, and Copa has the window");
    }

    /// Each raise that failed doubles the wait, and the window from before returns.
    #[test]
    fn a_full_path_is_tried_rarely() {
        let mut reach = Reach::default();
        let windows = windows(&mut reach, 400, 100_000.0, 100_000.0);
        let raised: Vec<_> = (1..400).filter(|at| windows[*at] > windows[at - 1] * 1.2).collect();
        assert_eq!(raised, [3, 13, 31, 65, 131, 197, 263, 329, 395]);
    }

    /// A queue of others, which the mean RTT shows, ends what is kept. So do losses.
    #[test]
    fn what_is_kept_ends_with_a_queue() {
        let kept = || {
            let mut reach = Reach::default();
            windows(&mut reach, 20, 10_000.0, 100_000.0);
            while matches!(reach.step, Step::Raised { .. }) {
                let slow = Round { rate: 1.0, ..round(10_000.0, 100_000.0) };
                reach.on_round(slow, false);
            }
            assert!(reach.bounds().0 > 20_000.0);
            reach
        };
        let mut reach = kept();
        let usual = reach.held.expect("kept");
        reach.on_round(Round { rtt: 0.0212, ..usual }, false);
        assert!(reach.bounds().0 > 0.0);
        reach.on_round(Round { rtt: 0.0213, ..usual }, false);
        assert_eq!(reach.bounds(), (0.0, f64::INFINITY));
        let mut reach = kept();
        reach.on_round(Round { losses: 0.01, ..usual }, false);
        assert!(reach.bounds().0 > 0.0);
        reach.on_round(Round { losses: 0.011, ..usual }, false);
        assert_eq!(reach.bounds().0, 0.0);
    }

    /// Where the delivery rate does not follow, as behind a policer, the window is not raised further.
    #[test]
    fn a_rate_that_does_not_follow_ends_the_growth() {
        let (mut reach, before) = (Reach::default(), round(10_000.0, 100_000.0));
        (0..4).for_each(|_| assert_eq!(reach.on_round(before, true), None));
        assert_eq!(reach.bounds(), (12_500.0, 12_500.0));
        assert_eq!(reach.on_round(before, true), None, "the first round trip with the raised window begins");
        assert_eq!(
            reach.on_round(Round { window: 12_500.0, rate: 1.12 * before.rate, ..before }, true),
            Some(10_000.0)
        );
        assert_eq!((reach.wait, reach.bounds().0), (8, 10_000.0));
    }

    /// A raise that only adds a queue leaves the window to Copa.
    #[test]
    fn a_queue_ends_the_growth() {
        let (mut reach, before) = (Reach::default(), round(10_000.0, 10_000.0));
        (0..5).for_each(|_| assert_eq!(reach.on_round(before, true), None));
        assert_eq!(reach.on_round(round(12_500.0, 10_000.0), true), Some(10_000.0));
        assert_eq!((reach.wait, reach.bounds()), (8, (0.0, f64::INFINITY)));
    }

    /// A raise that the flow did not use has not failed.
    #[test]
    fn an_idle_application_does_not_lengthen_the_wait() {
        let (mut reach, before) = (Reach::default(), round(10_000.0, 100_000.0));
        (0..5).for_each(|_| assert_eq!(reach.on_round(before, true), None));
        assert_eq!(reach.on_round(Round { is_limited: false, ..before }, false), Some(10_000.0));
        assert_eq!(reach.wait, 4);
    }

    /// Raises that follow each other may add 1 % of losses together, not 1 % each.
    #[test]
    fn losses_of_several_raises_do_not_add_up() {
        let (mut reach, held) = (Reach::default(), 100_000.0);
        (0..4).for_each(|_| assert_eq!(reach.on_round(round(10_000.0, held), true), None));
        for (window, losses, back) in [(12_500.0, 0.008, None), (15_625.0, 0.012, Some(12_500.0))] {
            assert_eq!(reach.on_round(Round { losses, ..round(window, held) }, true), None);
            assert_eq!(reach.on_round(Round { losses, ..round(window, held) }, true), back);
        }
    }

    /// A restart, as after a timeout, leaves the window to Copa, and the wait as failures have made it.
    #[test]
    fn a_restart_keeps_the_wait() {
        let mut reach = Reach::default();
        windows(&mut reach, 14, 100_000.0, 100_000.0);
        assert_eq!(reach.wait, 8);
        assert!(matches!(reach.step, Step::Raised { .. }), "{reach:?}");
        reach.restart();
        assert_eq!(reach.bounds(), (0.0, f64::INFINITY));
        let next = (1..20).find(|_| {
            reach.on_round(round(50_000.0, 100_000.0), true);
            matches!(reach.step, Step::Raised { .. })
        });
        assert_eq!((next, reach.wait), (Some(8), 8));
    }

    /// The window that is kept bounds Copa's steps, but not a response to losses or marks (RFC 8511: 0.85).
    #[test]
    fn a_response_to_losses_or_marks_stands() {
        let (params, kept) = (BuildParams::default(), 100_000.0);
        for (part, left, bound) in [(0.95, kept, kept), (0.85, 0.85 * kept, 0.0)] {
            let mut controller = CopaCubic::new("copa-cubic".to_owned(), CopaCubicConfig::default(), &params);
            controller.begin_cruise(part * kept, false);
            controller.reach.held = Some(round(kept, kept));
            controller.on_reach_ack(&Ack::new(Time::ZERO), kept);
            assert_eq!((controller.copa.cwnd, controller.reach.bounds().0), (left, bound));
        }
    }
}
