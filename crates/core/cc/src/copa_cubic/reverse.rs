//! Trust in the delay of the reverse path that is derived from the receiver's arrival times.
//!
//! A receiver that reports each segment as arriving a fixed time after its transmission makes the queue of the forward
//! path look like one of the reverse path. With honest receivers, such a queue lasts for a few round trips, until fewer
//! ACKs are requested.

use super::acks::LONG;

/// Number of round trips for which a long queue of the reverse path is trusted.
const CREDIT: f64 = 20.0;
/// Number of round trips as which one with a loss counts.
const LOSSY: f64 = 5.0;
/// Number of consecutive round trips without a long queue after which one is trusted again.
const RESTORED: u32 = 200;

/// Fraction of the RTT above which jitter and bunches of ACKs conceal a queue, if they also conceal the capacity.
const DISTURBED: f64 = 0.3;

/// Minimum RTT, in seconds, below which a long delay is attributed to a busy host rather than a queue, and maximum time
/// that an ACK waits on such a host, until one of a thousand connections is served.
const NEAR: f64 = 0.005;
const BUSY_HOST: f64 = 0.05;

/// Decides whether a long queue of the reverse path is trusted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reverse {
    /// Remaining round trips for which the queue is trusted.
    credit: f64,
    /// Number of consecutive round trips without a long queue.
    without: u32,
    /// Delay of the reverse path, in seconds, that is not a queue because it did not respond to a trial.
    floor: f64,
    has_lost: bool,
}

impl Default for Reverse {
    fn default() -> Self {
        Self { credit: CREDIT, without: 0, floor: 0.0, has_lost: false }
    }
}

/// Delays of a path as measured with arrival times, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// Delay of the reverse path above the minimum, and the part of it that is queueing delay.
    pub(super) delay: f64,
    pub(super) queueing: f64,
    /// RTT without a queue of the forward path, and minimum RTT.
    pub(super) base: f64,
    pub(super) least: f64,
    /// Silence between bunches of ACKs.
    pub(super) silence: f64,
    pub(super) jitter: f64,
    /// Whether arrival times disagree about the capacity.
    pub(super) is_scattered: bool,
}

impl Claim {
    /// Returns the queueing delay that can be explained by bunches of ACKs, jitter and hosts.
    fn short(&self) -> f64 {
        let always = if self.least < NEAR { BUSY_HOST } else { LONG.1 };
        always.max(LONG.0 * self.base) + self.silence
    }

    /// Returns whether the queue is longer.
    pub(super) fn is_long(&self) -> bool {
        self.queueing > self.short()
    }

    /// Returns whether the delays of the two directions cannot be distinguished: jitter and bunches of ACKs are long
    /// compared with the RTT, and arrival times also disagree about the capacity.
    fn is_disturbed(&self) -> bool {
        self.is_scattered && self.silence + self.jitter > DISTURBED * self.base
    }
}

impl Reverse {
    /// Returns the part of a reverse-path delay of `delay` seconds that is caused by a queue.
    pub(super) fn queueing(&self, delay: f64) -> f64 {
        (delay - self.floor).max(0.0)
    }

    /// Counts a delay of `delay` seconds, which did not respond to a trial, as part of the route, which has become
    /// longer.
    pub(super) const fn raise_floor(&mut self, delay: f64) {
        self.floor = delay;
    }

    /// Processes a timeout, after which the route may have changed.
    pub(super) fn on_timeout(&mut self) {
        *self = Self { floor: self.floor, ..Self::default() };
    }

    /// Processes a loss. If a queue of the forward path is concealed, it overflows.
    pub(super) const fn on_loss(&mut self) {
        self.has_lost = true;
    }

    /// Handles the end of a round trip. Returns the maximum trusted delay of the reverse path, in seconds.
    pub(super) fn on_round(&mut self, claim: Claim) -> f64 {
        let cost = if std::mem::take(&mut self.has_lost) { LOSSY } else { 1.0 };
        if claim.is_long() {
            (self.credit, self.without) = ((self.credit - cost).max(0.0), 0);
        } else {
            self.without = self.without.saturating_add(1);
        }
        if self.without >= RESTORED {
            self.credit = CREDIT;
        }
        self.floor = self.floor.min(claim.delay);
        if self.credit > 0.0 && !claim.is_disturbed() { f64::INFINITY } else { self.floor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue of `queueing` seconds on a path with an RTT of 80 ms and a silence of 2 ms.
    fn claim(queueing: f64) -> Claim {
        Claim { delay: queueing, queueing, base: 0.08, least: 0.08, silence: 0.002, jitter: 0.0, is_scattered: false }
    }

    /// Returns the limits after each of `rounds` round trips that claim a queue of `queueing` seconds.
    fn limits(reverse: &mut Reverse, queueing: f64, rounds: usize) -> Vec<f64> {
        (0..rounds).map(|_| reverse.on_round(claim(queueing))).collect()
    }

    const NOTHING: f64 = 0.0;
    const ALL: f64 = f64::INFINITY;

    /// A queue above an eighth of the RTT and a silence of 2 ms, 12 ms, is believed for twenty round trips.
    #[test]
    fn a_long_queue_is_believed_for_a_while() {
        let mut reverse = Reverse::default();
        assert_eq!(limits(&mut reverse, 0.0121, 19), [ALL; 19]);
        assert_eq!(limits(&mut reverse, 0.0121, 100), [NOTHING; 100]);
    }

    /// A queue of 12 ms is no longer than bunches of ACKs and jitter explain.
    #[test]
    fn a_short_queue_is_believed() {
        assert_eq!(limits(&mut Reverse::default(), 0.012, 1000), [ALL; 1000]);
        let short = Claim { base: 0.008, least: 0.008, silence: 0.0, ..claim(0.005) };
        let mut reverse = Reverse::default();
        assert!((0..1000).all(|_| reverse.on_round(short) == ALL), "5 ms on a path of 8 ms");
    }

    /// Where the minimum RTT is less than 5 ms, hosts explain 50 ms.
    #[test]
    fn busy_hosts_are_believed_on_short_paths() {
        let near = |queueing, least| Claim { base: queueing + least, least, silence: 0.0, ..claim(queueing) };
        for (queueing, least, is_long) in
            [(0.05, 0.0001, false), (0.0501, 0.0001, true), (0.05, 0.0049, false), (0.05, 0.005, true)]
        {
            assert_eq!(near(queueing, least).is_long(), is_long, "{queueing} s, {least} s");
        }
    }

    /// A round trip with a loss counts as five.
    #[test]
    fn losses_cost_trust() {
        let mut reverse = Reverse::default();
        let mut lossy = || {
            reverse.on_loss();
            limits(&mut reverse, 0.0121, 1)[0]
        };
        assert_eq!([lossy(), lossy(), lossy(), lossy()], [ALL, ALL, ALL, NOTHING]);
        let mut reverse = Reverse::default();
        reverse.on_loss();
        assert_eq!(limits(&mut reverse, 0.012, 1), [ALL], "without a long queue, losses do not matter");
        assert_eq!(limits(&mut reverse, 0.0121, 19), [ALL; 19]);
    }

    /// Two hundred consecutive round trips without a long queue restore belief.
    #[test]
    fn trust_is_restored() {
        let mut reverse = Reverse::default();
        limits(&mut reverse, 1.0, 20);
        assert_eq!(limits(&mut reverse, 0.0, 199), [NOTHING; 199]);
        limits(&mut reverse, 1.0, 1);
        assert_eq!(limits(&mut reverse, 0.0, 199), [NOTHING; 199]);
        assert_eq!(limits(&mut reverse, 0.0, 1), [ALL]);
        assert_eq!(limits(&mut reverse, 1.0, 19), [ALL; 19]);
    }

    /// A delay that did not respond to a trial is not a queue, until it falls.
    #[test]
    fn a_longer_route_is_believed() {
        let mut reverse = Reverse::default();
        reverse.raise_floor(0.02);
        let round = |reverse: &mut Reverse, delay: f64| {
            let claim = Claim { queueing: reverse.queueing(delay), ..claim(delay) };
            (claim.is_long(), reverse.on_round(claim))
        };
        assert_eq!(round(&mut reverse, 0.032), (false, ALL));
        for _ in 0..20 {
            round(&mut reverse, 0.0321);
        }
        assert_eq!(round(&mut reverse, 0.0321), (true, 0.02));
        assert_eq!(round(&mut reverse, 0.01), (false, 0.01));
        reverse.on_timeout();
        assert_eq!(round(&mut reverse, 0.0321), (true, ALL));
    }

    /// Jitter of 23 ms and a silence of 2 ms are more than 0.3 of an RTT of 80 ms. The RTT then decides at once, unless
    /// arrival times agree about the capacity.
    #[test]
    fn disturbed_delays_are_not_believed() {
        for (jitter, is_scattered, most) in [(0.023, true, NOTHING), (0.0219, true, ALL), (0.023, false, ALL)] {
            let claim = Claim { jitter, is_scattered, ..claim(0.001) };
            assert_eq!(Reverse::default().on_round(claim), most, "{jitter} s, {is_scattered}");
        }
        let mut reverse = Reverse::default();
        reverse.raise_floor(0.0005);
        let claim = Claim { jitter: 0.023, is_scattered: true, ..claim(0.001) };
        assert_eq!(reverse.on_round(claim), 0.0005, "a longer route is no queue");
    }
}
