//! Timing noise of hosts, added to the arrival times that a method gets.

use longhaul_link::Random;
use longhaul_probe::{Estimate, Method, Next, TrainReport};
use longhaul_units::{Span, Time};

/// Delay of the arrival timestamp of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Noise {
    /// Uniformly distributed between two times.
    Late(Span, Span),
    /// Until the next tick of a timer, together with all packets since the last tick.
    Coalesced(Span),
    /// Random walk with steps of this standard deviation, as sleep states and other processes cause it.
    Wandering(Span),
}

/// A method whose reports have later arrival times. Packets stay in order and at least 2 us apart.
pub(crate) struct Noisy {
    method: Box<dyn Method>,
    noise: Noise,
    random: Random,
}

impl Noisy {
    pub(crate) fn new(method: Box<dyn Method>, noise: Noise, seed: u64) -> Self {
        Self { method, noise, random: Random::new(seed, 77) }
    }

    /// Timestamps of the packets of a train with these arrival times.
    fn arrivals(&mut self, arrived: &[Time]) -> Vec<Time> {
        let phase = self.random.unit();
        let (mut wandering, mut before) = (0.0_f64, Time::ZERO);
        let mut late = |at: &Time| {
            let heard = match self.noise {
                Noise::Late(least, most) => *at + least + self.random.span(most - least),
                Noise::Coalesced(tick) => {
                    let shift = tick.mul_f64(phase);
                    Time::from_nanos((*at + shift).as_nanos().next_multiple_of(tick.as_nanos())) - shift
                }
                Noise::Wandering(step) => {
                    // A uniform distribution with this standard deviation, reflected at zero.
                    wandering = (wandering + step.as_secs_f64() * 12.0_f64.sqrt() * (self.random.unit() - 0.5)).abs();
                    *at + Span::from_secs_f64(wandering)
                }
            };
            before = heard.max(before + Span::from_micros(2));
            before
        };
        arrived.iter().map(&mut late).collect()
    }
}

impl Method for Noisy {
    fn name(&self) -> &'static str {
        self.method.name()
    }

    fn poll(&mut self, now: Time) -> Next {
        self.method.poll(now)
    }

    fn on_report(&mut self, now: Time, report: &TrainReport) {
        let mut report = report.clone();
        let times: Vec<Time> = report.packets.iter().flatten().map(|packet| packet.arrived_at).collect();
        for (packet, time) in report.packets.iter_mut().flatten().zip(self.arrivals(&times)) {
            packet.arrived_at = time;
        }
        self.method.on_report(now, &report);
    }

    fn estimate(&self) -> Estimate {
        self.method.estimate()
    }
}
