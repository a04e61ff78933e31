//! Exclusion of rate samples for which BBR itself limited the sender.

use longhaul_units::Bytes;

/// Data sent during ProbeRTT, identified by the total delivered when it was sent. The transport marks data that the
/// application limited; this mark is the controller's own (draft-ietf-ccwg-bbr, `MarkConnectionAppLimited`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AppLimit(Option<(Bytes, Bytes)>);

impl AppLimit {
    /// Marks data sent from this point on as limited, until all data currently in flight has been delivered.
    pub(super) fn mark(&mut self, delivered: Bytes, in_flight: Bytes) {
        let from = match self.0 {
            Some((from, until)) if delivered <= until => from,
            _ => delivered,
        };
        self.0 = Some((from, delivered + in_flight));
    }

    /// Returns whether a segment sent when `prior_delivered` bytes had been delivered is marked.
    pub(super) fn covers(&self, prior_delivered: Bytes) -> bool {
        self.0.is_some_and(|(from, until)| (from..=until).contains(&prior_delivered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_lasts_until_what_was_in_flight_is_delivered() {
        let mut limit = AppLimit::default();
        assert!(!limit.covers(Bytes(0)));
        limit.mark(Bytes(100), Bytes(50));
        limit.mark(Bytes(120), Bytes(40));
        let covered = [99, 100, 160, 161].map(|delivered| limit.covers(Bytes(delivered)));
        assert_eq!(covered, [false, true, true, false]);
        limit.mark(Bytes(500), Bytes(10));
        assert_eq!([120, 500, 510].map(|delivered| limit.covers(Bytes(delivered))), [false, true, true]);
    }
}
