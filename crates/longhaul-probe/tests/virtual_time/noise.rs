//! What hosts do to the times of probes: a method between which and its path they stand.

use longhaul_link::Random;
use longhaul_probe::{Estimate, Method, Next, TrainReport};
use longhaul_units::{Span, Time};

/// How late a packet's time of arrival is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Noise {
    /// By a time between the two, evenly.
    Late(Span, Span),
    /// Until the next tick of a timer, with what else has arrived since the last.
    Coalesced(Span),
    /// By what the packet before was, and so much more or less: how deep processors sleep, and who else runs on them.
    Wandering(Span),
}

/// A method that is told of later arrivals. None overtakes another, and they are 2 us apart at least.
pub(crate) struct Noisy<M> {
    method: M,
    noise: Noise,
    random: Random,
}

impl<M> Noisy<M> {
    pub(crate) fn new(method: M, noise: Noise, seed: u64) -> Self {
        Self { method, noise, random: Random::new(seed, 77) }
    }

    /// When a train's packets are said to have arrived that did at these times.
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
                    // Evenly from a range with that standard deviation; there is nothing below zero.
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

impl<M: Method> Method for Noisy<M> {
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
