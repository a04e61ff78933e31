//! Delivery rate and loss rate per round trip.

use longhaul_units::{Bytes, Time};

use crate::Ack;

/// Complete round trips whose deliveries count after an idle period: the last round trips of a message may carry only
/// its end.
const KEPT_ROUNDS: usize = 4;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounds {
    began: Option<(Time, Bytes)>,
    rate: Option<f64>,
    /// Bytes delivered in each of the last complete round trips, and in total as of the newest ACK.
    delivered: [Bytes; KEPT_ROUNDS],
    total: Bytes,
    /// Whether the window limited the flow.
    is_limited: bool,
}

impl Rounds {
    pub(super) fn on_ack(&mut self, ack: &Ack<'_>) {
        self.total = ack.total_delivered;
        if !ack.round_start {
            return;
        }
        if let Some((began, delivered)) = self.began {
            self.delivered.rotate_right(1);
            self.delivered[0] = ack.total_delivered - delivered;
            let took = ack.now.since(began).as_secs_f64();
            if took > 0.0 {
                self.rate = Some(self.delivered[0].as_f64() / took);
            }
        }
        (self.began, self.is_limited) = (Some((ack.now, ack.total_delivered)), ack.cwnd_limited);
    }

    /// Returns the most bytes delivered in one of the last round trips, including the current one.
    pub(super) fn most_delivered(&self) -> Bytes {
        let present = self.began.map_or(Bytes::ZERO, |(_, delivered)| self.total - delivered);
        self.delivered.into_iter().fold(present, Bytes::max)
    }

    /// Returns the rate in bytes per second.
    pub(super) fn rate(&self) -> Option<f64> {
        self.rate.filter(|rate| *rate > 0.0)
    }

    /// Returns the rate as a share of `capacity`, if that is known and the window limited the flow.
    pub(super) fn share(&self, capacity: Option<f64>) -> Option<f64> {
        Some(self.rate? / capacity.filter(|_| self.is_limited)?)
    }
}

/// Weight of the counts of earlier round trips in the recent loss rate.
const MEMORY: f64 = 0.95;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossRate {
    delivered: f64,
    lost: f64,
    pub(super) clean: f64,
    /// Bytes delivered and lost in the last round trips.
    recent: (f64, f64),
}

impl LossRate {
    pub(super) fn on_ack(&mut self, ack: &Ack<'_>) {
        self.delivered += ack.delivered.as_f64();
        self.lost += ack.newly_lost.as_f64();
        self.clean = if ack.newly_lost > Bytes::ZERO { 0.0 } else { self.clean + ack.delivered.as_f64() };
        if ack.round_start && self.delivered > 0.0 {
            let (delivered, lost) = self.recent;
            self.recent = (MEMORY * delivered + self.delivered, MEMORY * lost + self.lost);
            (self.delivered, self.lost) = (0.0, 0.0);
        }
    }

    /// Returns the loss rate of about the last twenty round trips.
    pub(super) fn recent(&self) -> f64 {
        let (delivered, lost) = self.recent;
        if lost > 0.0 { lost / (delivered + lost) } else { 0.0 }
    }
}
