//! The goodput that a link allows.

use super::draw::{Competition, Scenario};

/// Payload in an IP packet, of 1500 bytes.
const PAYLOAD: f64 = 1448.0 / 1500.0;
/// Smallest share of the link that traffic without congestion control leaves.
const LEFT: f64 = 0.1;

impl Scenario {
    /// Returns the limit of the goodput of all flows with congestion control, except short flows, in Mb/s, between
    /// two times in milliseconds: the mean of the rate or of the policer's rate over this time, without silences,
    /// other traffic, headers and random losses.
    pub(super) fn limit(&self, from: u64, to: u64) -> f64 {
        let mut edges = vec![from, to];
        edges.extend(self.steps.iter().map(|step| step.at));
        edges.extend(self.silences().flat_map(|(at, length)| [at, at + length]));
        edges.retain(|edge| (from..=to).contains(edge));
        edges.sort_unstable();
        let bits: f64 = edges.windows(2).map(|pair| (pair[1] - pair[0]) as f64 * self.left_at(pair[0])).sum();
        let arrives = 1.0 - self.loss.map_or(0.0, |loss| loss.ppm as f64 / 1e6);
        bits / (to - from) as f64 / 1e3 * PAYLOAD * arrives
    }

    /// Returns the rate that is left for flows from a time on, in kb/s.
    fn left_at(&self, at: u64) -> f64 {
        if self.silences().any(|(from, length)| (from..from + length).contains(&at)) {
            return 0.0;
        }
        let rate = self.steps.iter().rev().find(|step| step.at <= at).map_or(self.rate, |step| step.rate);
        let rate = self.policer.map_or(rate, |policer| rate.min(policer.rate)) as f64;
        let percent = match self.competition {
            Competition::Traffic(traffic) => traffic.percent,
            Competition::Short(load) => load,
            _ => 0,
        };
        (rate - self.rate as f64 * percent as f64 / 100.0).max(LEFT * rate)
    }

    pub(super) fn silences(&self) -> impl Iterator<Item = (u64, u64)> {
        self.handovers.iter().copied().chain(self.outage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Loss, Policer, Step, Traffic};

    #[test]
    fn limits_by_hand() {
        let plain = Scenario { rate: 10_000, steps: Vec::new(), handovers: Vec::new(), ..Scenario::draw(1) };
        let plain = Scenario { outage: None, policer: None, loss: None, competition: Competition::Alone, ..plain };
        let near = |scenario: &Scenario, from: u64, expected: f64| {
            let limit = scenario.limit(from, 10_000);
            assert!((limit - expected * PAYLOAD).abs() < 1e-9, "{limit} {expected}");
        };
        near(&plain, 0, 10.0);
        // 4 s at 10 Mb/s, and 6 s at 20 Mb/s, of which one second is silent and half a second lost.
        let step = Step { at: 4_000, rate: 20_000, rtt: 1_000 };
        let steps = Scenario { steps: vec![step], handovers: vec![(5_000, 1_000)], ..plain.clone() };
        let steps = Scenario { outage: Some((8_000, 500)), ..steps };
        near(&steps, 0, (4.0 * 10.0 + 4.5 * 20.0) / 10.0);
        near(&steps, 5_500, (4.0 * 20.0 - 0.5 * 20.0) / 4.5);
        near(&Scenario { loss: Some(Loss { ppm: 30_000, burst: None }), ..plain.clone() }, 0, 9.7);
        let policer = Policer { rate: 6_000, burst: 9_000 };
        near(&Scenario { policer: Some(policer), ..plain.clone() }, 0, 6.0);
        let traffic = |percent| Competition::Traffic(Traffic { percent, is_poisson: true });
        near(&Scenario { competition: traffic(30), ..plain.clone() }, 0, 7.0);
        near(&Scenario { competition: traffic(80), policer: Some(policer), ..plain.clone() }, 0, 0.6);
        near(&Scenario { competition: Competition::Short(25), ..plain }, 0, 7.5);
    }
}
