//! Restart after an idle period with the window that the path held before (in the spirit of RFC 7661).

use longhaul_units::{Span, Time};

use super::{CopaCubic, Crowd, Mode, Reach};
use crate::{Path, initial_window};

/// Maximum idle period after which the path is assumed to hold as much as before.
const LONGEST: Span = Span::from_secs(60);
/// Minimum RTT for which this saves a significant amount of time: idle periods are longer than the retransmission
/// timeout.
const LEAST_RTT: Span = Span::from_millis(10);
/// Minimum fraction of the path's capacity. From a smaller window, slow start fills the path no sooner than a new
/// start, which measures the path in one round trip.
const LEAST: f64 = 1.0 / 3.0;

impl CopaCubic {
    /// Returns the window in bytes with which to resume after an idle period: the bytes delivered in a round trip
    /// before it, if that is a large part of the path's capacity and no other flow filled the queue.
    pub(super) fn kept_window(&self, idle: Span) -> Option<f64> {
        let held = self.held().filter(|_| idle < LONGEST && self.base() >= LEAST_RTT)?;
        let most = match self.mode {
            Mode::Start => held,
            Mode::Cruise => self.copa.cwnd,
            Mode::Trial(_) | Mode::Compete(_) => return None,
        };
        let window = self.rounds.most_delivered().as_f64().min(most);
        (window >= LEAST * held).then_some(window)
    }

    /// Returns whether a new controller would behave identically after an idle period: this one would start with the
    /// same window, and has learned nothing about the path since it started, or only outdated information. Without
    /// pacing, CUBIC keeps its threshold.
    pub(super) fn is_like_new_after(&self, idle: Span) -> bool {
        let initial = initial_window::rfc6928(self.mss, initial_window::DEFAULT_SEGMENTS);
        let has_found = match self.mode {
            Mode::Start => self.rounds.most_delivered() > initial,
            Mode::Cruise => true,
            Mode::Trial(_) | Mode::Compete(_) => return false,
        };
        self.paced && self.window() >= initial.as_f64() && (!has_found || idle >= LONGEST)
    }

    /// Resumes with a window of `window` bytes, which is sent within a round trip, and continues in slow start.
    pub(super) fn resume(&mut self, window: f64, now: Time, path: &Path) {
        (self.reach, self.crowd) = (Reach::default(), Crowd::default());
        self.begin_cruise(window, true);
        self.cubic.take_over(window, now, path);
        self.resumed = Some(window / self.base().as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use longhaul_units::{Bytes, Rate};

    use super::super::competition::{Competition, GAP};
    use super::super::rounds::Rounds;
    use super::super::tests::{MSS, cruising, pairs, without_a_queue};
    use super::super::trial::Trial;
    use super::*;
    use crate::{Ack, Controller, PathEvent, RttSample, Timeout};

    /// A flow that delivers 100 segments in 40 ms over a path that holds `held`.
    fn flow(held: u64) -> (CopaCubic, Time) {
        let (mut controller, mut now) = cruising(100.0, false);
        without_a_queue(&mut controller, &mut now, 1, false);
        pairs(&mut controller.capacity, now, 0, &[Span::from_millis(40) / held; 32]);
        (controller, now)
    }

    /// Returns window, in segments, and pacing rate after an idle period.
    fn after(controller: &mut CopaCubic, now: Time, idle: u64) -> (u64, Rate) {
        controller.on_event(&PathEvent::IdleRestart { now, idle: Span::from_millis(idle) }, &Path::new(MSS));
        let control = controller.control();
        (control.cwnd.0 / MSS.0, control.pace.unwrap().rate)
    }

    /// The window leaves in one round trip. Its first ACK, or a timeout, ends this limit, and slow start continues.
    #[test]
    fn the_window_of_a_path_in_use_is_kept() {
        let (mut controller, mut now) = flow(120);
        let (cwnd, pace) = after(&mut controller, now, 5000);
        let usual = Rate::from_bytes_per_sec(MSS.0 * 100 * 25);
        assert!((98..=101).contains(&cwnd), "{cwnd} segments");
        assert!(pace <= usual && pace >= usual.mul_f64(0.98), "{pace} for {usual}");
        let mut timed_out = flow(120).0;
        after(&mut timed_out, now, 5000);
        timed_out.on_timeout(&Timeout::new(now, 1, MSS), &Path::new(MSS));
        assert_eq!(timed_out.resumed, None);
        let most = without_a_queue(&mut controller, &mut now, 1, false);
        assert!(controller.control().pace.unwrap().rate > usual.mul_f64(1.05));
        assert!(most > 105.0, "{most} segments");
    }

    /// A third of what the path holds is worth it, on a path of 10 ms or more, after up to a minute. A queue that others
    /// may have filled says nothing.
    #[test]
    fn other_idle_periods_begin_another_start() {
        let window = |held, idle| {
            let (mut controller, now) = flow(held);
            after(&mut controller, now, idle).0
        };
        assert!(window(290, 59_999) > 90 && window(310, 59_999) == 10 && window(290, 60_000) == 10);
        let (mut controller, now) = flow(120);
        for (mode, is_kept) in [
            (Mode::Start, true),
            (Mode::Cruise, true),
            (Mode::Trial(Trial::new(100.0 * MSS.as_f64(), 1e6, 0.04, 0.04, true)), false),
            (Mode::Compete(Competition::new(now, GAP.0)), false),
        ] {
            controller.mode = mode;
            assert_eq!(controller.kept_window(Span::from_secs(5)).is_some(), is_kept, "{mode:?}");
        }
        let (mut controller, now) = flow(120);
        for (rtt, is_kept) in [(11, true), (9, false)] {
            let mut ack = Ack::new(now);
            ack.total_delivered = MSS * 100;
            ack.rtt = Some(RttSample::new(Span::from_millis(rtt), now));
            controller.on_ack(&ack, &Path::new(MSS));
            assert_eq!(controller.kept_window(Span::from_secs(5)).is_some(), is_kept, "{rtt} ms");
        }
    }

    /// A controller that has delivered no more than an initial window per round trip has found nothing, and none has what
    /// is worth keeping for more than a minute, except that others fill the queue, or that the window is small.
    #[test]
    fn what_is_like_new_is_dispensable() {
        let dispensable =
            |controller: &CopaCubic| [0, 59_999, 60_000].map(|idle| controller.is_dispensable(Span::from_millis(idle)));
        let (mut controller, now) = flow(120);
        assert_eq!(dispensable(&controller), [false, false, true]);
        controller.mode = Mode::Start;
        assert_eq!(dispensable(&controller), [false, false, true]);
        let mut deliver = |segments| {
            controller.rounds = Rounds::default();
            for total_delivered in [Bytes(5), Bytes(5) + MSS * segments] {
                let mut ack = Ack::new(now);
                (ack.round_start, ack.total_delivered) = (true, total_delivered);
                controller.rounds.on_ack(&ack);
            }
            dispensable(&controller)
        };
        assert_eq!([deliver(10), deliver(11)], [[true; 3], [false, false, true]]);
        for mode in [
            Mode::Trial(Trial::new(100.0 * MSS.as_f64(), 1e6, 0.04, 0.04, true)),
            Mode::Compete(Competition::new(now, GAP.0)),
        ] {
            controller.mode = mode;
            assert_eq!(dispensable(&controller), [false; 3], "{mode:?}");
        }
        controller.begin_cruise(10.0 * MSS.as_f64(), false);
        assert_eq!(dispensable(&controller), [false, false, true]);
        controller.paced = false;
        assert_eq!(dispensable(&controller), [false; 3]);
        controller.paced = true;
        controller.begin_cruise(9.0 * MSS.as_f64(), false);
        assert_eq!(dispensable(&controller), [false; 3]);
    }

    /// Four round trips with less, and the present one, are remembered.
    #[test]
    fn what_was_delivered_before_the_end_of_a_message_counts() {
        let (mut rounds, mut total) = (Rounds::default(), Bytes::ZERO);
        let mut deliver = |bytes, round_start| {
            let mut ack = Ack::new(Time::ZERO);
            total += Bytes(bytes);
            (ack.round_start, ack.delivered, ack.total_delivered) = (round_start, Bytes(bytes), total);
            rounds.on_ack(&ack);
            rounds.most_delivered().0
        };
        assert_eq!([10, 100, 10, 20, 5].map(|bytes| deliver(bytes, true)), [0, 100, 100, 100, 100]);
        assert_eq!([20, 90].map(|bytes| deliver(bytes, false)), [100, 110]);
        assert_eq!([20, 10, 10].map(|bytes| deliver(bytes, true)), [130, 130, 130]);
        assert_eq!([10, 10].map(|bytes| deliver(bytes, true)), [130, 10]);
    }
}
