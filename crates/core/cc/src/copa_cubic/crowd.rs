//! Many flows with a few segments each. Two queued segments per flow, with the usual oscillation, may exceed the
//! router's buffer, or the queue that its AQM permits.

use super::CopaCubic;

/// Conditions under which losses are attributed to many flows with a few segments each, none of which can end them by a
/// smaller window: minimum current loss rate and loss rate at the last such test, maximum window in segments, and
/// maximum share of the capacity, if known. A flow with more than half of the link is not one of many. The maximum
/// window also applies to flows that keep less in the queue.
const CROWD: Conditions = Conditions { losses: 0.05, lasting: 0.04, segments: 40.0, share: 0.6 };

#[derive(Clone, Copy, Debug)]
struct Conditions {
    losses: f64,
    lasting: f64,
    segments: f64,
    share: f64,
}

/// Factor applied to the kept fraction at a loss in a full queue or at an ECN mark.
const KEEP: f64 = 0.7;
/// Minimum of that fraction after a loss, and after a mark. An AQM that has to mark continuously drops packets that
/// cannot be marked: SYNs and retransmissions (RFC 3168, sections 6.1.1 and 6.1.5).
const LEAST: (f64, f64) = (0.5, 0.1);
/// Increase of the kept fraction per round trip.
const RECOVERY: f64 = 0.01;

/// Fraction of Copa's queued segments that the flow keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crowd {
    kept: f64,
}

impl Default for Crowd {
    fn default() -> Self {
        Self { kept: 1.0 }
    }
}

impl Crowd {
    /// Returns the fraction after a full queue dropped a segment of a flow with a window of `segments`.
    pub(super) fn on_loss(&mut self, segments: f64) -> f64 {
        self.lower(segments, LEAST.0)
    }

    /// Returns the fraction after a mark, the first of a round trip.
    pub(super) fn on_mark(&mut self, segments: f64) -> f64 {
        self.lower(segments, LEAST.1)
    }

    fn lower(&mut self, segments: f64, least: f64) -> f64 {
        if segments < CROWD.segments {
            self.kept = (KEEP * self.kept).max(least).min(self.kept);
        }
        self.kept
    }

    /// Returns the fraction for the next round trip of a flow with a window of `segments`.
    pub(super) fn on_round(&mut self, segments: f64) -> f64 {
        self.kept = if segments < CROWD.segments { (self.kept + RECOVERY).min(1.0) } else { 1.0 };
        self.kept
    }
}

impl CopaCubic {
    /// Returns whether the flow is one of many with high losses, which can reduce these only together.
    pub(super) fn is_crowded(&self, share: Option<f64>) -> bool {
        self.losses.recent() > CROWD.losses
            && self.copa.loss_bound.link > CROWD.lasting
            && self.copa.cwnd < CROWD.segments * self.mss.as_f64()
            && share.is_none_or(|share| share < CROWD.share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0.7, then the minimum of 0.5, or of 0.1 by marks, which a loss does not raise. Fifty or ninety round trips lead
    /// back to all. With 40 segments, two of them are few.
    #[test]
    fn losses_lower_what_is_kept_for_some_time() {
        let mut crowd = Crowd::default();
        assert_eq!((crowd.on_loss(CROWD.segments), crowd.on_round(10.0)), (1.0, 1.0));
        assert_eq!(crowd.on_loss(CROWD.segments - 1.0), 0.7);
        assert_eq!((crowd.on_loss(10.0), crowd.on_round(10.0)), (0.5, 0.51));
        assert_eq!((1..100).find(|_| crowd.on_round(10.0) == 1.0), Some(49));
        assert_eq!((crowd.on_mark(CROWD.segments), crowd.on_mark(10.0)), (1.0, 0.7));
        (0..6).for_each(|_| _ = crowd.on_mark(10.0));
        assert_eq!((crowd.on_mark(10.0), crowd.on_loss(10.0), crowd.on_round(10.0)), (0.1, 0.1, 0.11));
        assert_eq!((1..100).find(|_| crowd.on_round(10.0) >= 1.0 - 1e-9), Some(89));
        assert_eq!((crowd.on_mark(10.0), crowd.on_round(CROWD.segments)), (0.7, 1.0), "not one of many");
    }
}
