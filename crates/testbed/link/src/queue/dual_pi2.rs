//! Dual-queue coupled PI2 (RFC 9332, appendix A, including its edge cases).

use longhaul_units::{Span, Time};

use super::config::{DualPi2Config, Limit};
use super::fifo::Fifo;
use super::{Sink, Verdict};
use crate::Ecn;
use crate::packet::Packet;
use crate::stats::Cause;

const CLASSIC: u8 = 0;
const L4S: u8 = 1;

/// If the two queues hold fewer bytes than this in total, the controller's probabilities are not applied (RFC 9332,
/// appendix A.1: 2 MTU).
const FEW_BYTES: u64 = 2 * 1500;

#[derive(Debug)]
pub(crate) struct Pi2 {
    config: DualPi2Config,
    base: f64,
    last_delay: Span,
    next_update: Time,
}

impl Pi2 {
    pub(crate) fn new(config: DualPi2Config) -> Self {
        Self { config, base: 0.0, last_delay: Span::ZERO, next_update: Time::ZERO + config.update }
    }

    /// Performs the updates due by `now`; `head` is the arrival time of the older packet at the heads of the two
    /// queues.
    fn update(&mut self, now: Time, head: Option<Time>) {
        while self.next_update <= now {
            let at = self.next_update;
            self.next_update += self.config.update;
            let delay = head.map_or(Span::ZERO, |head| at - head);
            if delay.is_zero() && self.last_delay.is_zero() && self.base == 0.0 {
                // While the controller is at rest, skip the missed updates: they change nothing.
                let missed = (now - at).as_nanos() / self.config.update.as_nanos().max(1);
                self.next_update += self.config.update * missed;
            }
            self.step(delay);
        }
    }

    fn step(&mut self, delay: Span) {
        let DualPi2Config { target, alpha, beta, .. } = self.config;
        let error = delay.as_secs_f64() - target.as_secs_f64();
        let trend = delay.as_secs_f64() - self.last_delay.as_secs_f64();
        self.base = (self.base + alpha * error + beta * trend).clamp(0.0, 1.0);
        self.last_delay = delay;
    }

    /// Returns p_C, the probability for Classic packets.
    fn classic(&self) -> f64 {
        self.base * self.base
    }

    /// Returns p_CL, the probability for L4S packets due to the Classic queue.
    fn coupled(&self) -> f64 {
        self.base * self.config.coupling
    }

    /// Returns p'_L, the probability for L4S packets due to their own queue.
    fn native(&self, sojourn: Span) -> f64 {
        let above = sojourn - self.config.ramp_from;
        if above >= self.config.ramp_range {
            // This also covers a ramp of zero range, which is a step.
            return if sojourn >= self.config.ramp_from { 1.0 } else { 0.0 };
        }
        above.as_nanos() as f64 / self.config.ramp_range.as_nanos() as f64
    }

    /// Returns whether p_C has reached p_Cmax, at which ECN-capable packets are dropped.
    fn is_overloaded(&self) -> bool {
        self.classic() >= (1.0 / (self.config.coupling * self.config.coupling)).min(1.0)
    }
}

#[derive(Debug)]
pub(crate) struct DualPi2<T> {
    pi2: Pi2,
    classic: Fifo<T>,
    l4s: Fifo<T>,
    /// Sums of probabilities. They replace random draws: every 1/p-th packet is marked or dropped.
    classic_count: f64,
    l4s_count: f64,
    /// Deficit of the scheduler, in bytes weighted by the other queue's share. Above zero, the Classic queue is
    /// served next.
    credit: f64,
}

impl<T> DualPi2<T> {
    pub(crate) fn new(config: DualPi2Config) -> Self {
        Self {
            pi2: Pi2::new(config),
            classic: Fifo::new(),
            l4s: Fifo::new(),
            classic_count: 0.0,
            l4s_count: 0.0,
            credit: 0.0,
        }
    }

    pub(crate) fn class(ecn: Ecn) -> u8 {
        if matches!(ecn, Ecn::Ect1 | Ecn::Ce) { L4S } else { CLASSIC }
    }

    pub(crate) fn len(&self) -> u64 {
        self.classic.len() + self.l4s.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.classic.bytes() + self.l4s.bytes()
    }

    pub(crate) fn update(&mut self, now: Time) {
        let head = [self.classic.head_since(), self.l4s.head_since()].into_iter().flatten().min();
        self.pi2.update(now, head);
    }

    pub(crate) fn enqueue(&mut self, packet: Packet<T>, limit: Limit, sink: &mut impl Sink<T>) -> bool {
        let class = Self::class(packet.ecn);
        if !limit.admits(self.len(), self.bytes(), packet.size) {
            sink.dropped(class, Cause::QueueFull, packet);
            return false;
        }
        if class == L4S {
            self.l4s.push(packet)
        } else {
            self.classic.push(packet)
        }
        true
    }

    pub(crate) fn pop(&mut self, now: Time) -> Option<(u8, Packet<T>, Verdict)> {
        let few = self.bytes() < FEW_BYTES;
        let (class, packet) = self.schedule()?;
        let sojourn = now - packet.enqueued;
        let verdict = if class == L4S { self.judge_l4s(sojourn, few) } else { self.judge_classic(packet.ecn, few) };
        Some((class, packet, verdict))
    }

    /// Dequeues by weighted round robin in bytes. The credit changes only while both queues are backlogged; after an
    /// idle period, the L4S queue is favoured.
    fn schedule(&mut self) -> Option<(u8, Packet<T>)> {
        let both = !self.l4s.is_empty() && !self.classic.is_empty();
        let share = self.pi2.config.classic_share;
        if self.classic.is_empty() || (both && self.credit <= 0.0) {
            let packet = self.l4s.pop()?;
            self.credit = if both { self.credit + share * f64::from(packet.size) } else { self.credit.min(0.0) };
            return Some((L4S, packet));
        }
        let packet = self.classic.pop()?;
        self.credit = if both { self.credit - (1.0 - share) * f64::from(packet.size) } else { self.credit.min(0.0) };
        Some((CLASSIC, packet))
    }

    fn judge_l4s(&mut self, sojourn: Span, few: bool) -> Verdict {
        // A single packet is not a queue on a slow link, whatever its sojourn time.
        let native = if self.l4s.is_empty() { 0.0 } else { self.pi2.native(sojourn) };
        if few {
            return mark_if(recur(&mut self.l4s_count, native));
        }
        let coupled = self.pi2.coupled();
        if coupled < 1.0 {
            return mark_if(recur(&mut self.l4s_count, native.max(coupled)));
        }
        // Overload: drop as in the Classic queue, and mark every packet that passes.
        if recur(&mut self.l4s_count, self.pi2.classic()) { Verdict::Drop } else { Verdict::Mark }
    }

    fn judge_classic(&mut self, ecn: Ecn, few: bool) -> Verdict {
        if few || !recur(&mut self.classic_count, self.pi2.classic()) {
            return Verdict::Pass;
        }
        if ecn.is_capable() && !self.pi2.is_overloaded() { Verdict::Mark } else { Verdict::Drop }
    }
}

fn mark_if(marked: bool) -> Verdict {
    if marked { Verdict::Mark } else { Verdict::Pass }
}

/// Returns `true` every 1 / `likelihood` calls.
fn recur(count: &mut f64, likelihood: f64) -> bool {
    *count += likelihood;
    let hit = *count > 1.0;
    if hit {
        *count -= 1.0;
    }
    hit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_step_is_the_control_law_and_the_square_and_the_coupling_follow() {
        let mut pi2 = Pi2::new(DualPi2Config::default());
        (pi2.base, pi2.last_delay) = (0.2, Span::from_millis(20));
        pi2.step(Span::from_millis(30));
        let base = 0.2 + 0.15 * 0.015 + 3.0 * 0.010;
        assert!((pi2.base - base).abs() < 1e-12);
        assert!((pi2.classic() - base * base).abs() < 1e-12 && (pi2.coupled() - 2.0 * base).abs() < 1e-12);
        assert!(!pi2.is_overloaded());
        pi2.base = 0.5;
        assert!(pi2.is_overloaded() && pi2.coupled() >= 1.0);
    }

    #[test]
    fn the_ramp_goes_from_none_to_all_or_is_a_step() {
        let pi2 = Pi2::new(DualPi2Config::default());
        let at = |micros| pi2.native(Span::from_micros(micros));
        assert_eq!([0, 800, 900, 1_000, 1_199, 1_200, 9_000].map(at), [0.0, 0.0, 0.25, 0.5, 0.9975, 1.0, 1.0]);
        let step = Pi2::new(DualPi2Config { ramp_range: Span::ZERO, ..DualPi2Config::default() });
        assert_eq!([799, 800].map(|micros| step.native(Span::from_micros(micros))), [0.0, 1.0]);
    }

    #[test]
    fn likelihoods_recur_evenly() {
        let mut count = 0.0;
        let hits: Vec<usize> = (1..=20).filter(|_| recur(&mut count, 0.25)).collect();
        assert_eq!(hits, [5, 9, 13, 17]);
    }

    #[test]
    fn a_classic_queue_marks_l4s_packets_that_do_not_wait() {
        let mut queue = DualPi2::<()>::new(DualPi2Config::default());
        queue.pi2.base = 0.2;
        let mut share = |sojourn, few| {
            queue.l4s.push(Packet::new(100, ()));
            (0..1_000).filter(|_| queue.judge_l4s(sojourn, few) == Verdict::Mark).count()
        };
        // k p' = 0.4 applies; then the native ramp, which is higher; without enough bytes queued, no coupled marking.
        assert!(share(Span::ZERO, false).abs_diff(400) <= 1);
        assert!(share(Span::from_micros(1_040), false).abs_diff(600) <= 1);
        assert!(share(Span::ZERO, true) <= 1);
        // Classic packets are marked or dropped with the square of p'.
        let classic = (0..1_000).filter(|_| queue.judge_classic(Ecn::Ect0, false) == Verdict::Mark);
        assert!(classic.count().abs_diff(40) <= 1);
    }
}
