//! How fast the computer simulates, by flows, rates and processors.

use std::sync::Mutex;
use std::thread;

use anyhow::{Result, anyhow};
use serde::Serialize;

use crate::experiment::{CellSetup, Experiment};
use crate::stopwatch::Stopwatch;
use crate::world;

/// How many flows share the link.
pub const FLOWS: [u32; 3] = [1, 10, 100];
/// The link's rates, Mb/s.
pub const RATES: [u32; 4] = [1, 10, 100, 1000];
/// No longer than this is simulated: a slow link may take a computer no time at all.
const LONGEST: f64 = 100_000.0;

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Flows that share a link.
    pub flows: u32,
    /// Its rate, Mb/s.
    pub mbps: u32,
    /// Runs at a time, each on a processor if there are so many.
    pub at_a_time: usize,
    /// Seconds that a run simulates.
    pub simulated: f64,
    /// Seconds that all of them took.
    pub took: f64,
    /// Seconds of flows that were simulated in a second.
    pub speed: f64,
}

/// Measures all [`FLOWS`] at all [`RATES`], with one run at a time up to `most`, of which each takes about so many `seconds`.
///
/// # Errors
/// If there can be no such network.
pub fn measure(seconds: f64, most: usize) -> Result<Vec<Point>> {
    let mut points = Vec::new();
    for (flows, mbps) in FLOWS.into_iter().flat_map(|flows| RATES.map(|mbps| (flows, mbps))) {
        let simulated = long_enough(flows, mbps, seconds)?;
        for at_a_time in 1..=most {
            let took = time(&setup(flows, mbps, simulated)?, at_a_time)?;
            let flow_seconds = simulated * f64::from(flows) * at_a_time as f64;
            points.push(Point { flows, mbps, at_a_time, simulated, took, speed: flow_seconds / took });
        }
    }
    Ok(points)
}

/// How much a run has to simulate to take so long.
fn long_enough(flows: u32, mbps: u32, seconds: f64) -> Result<f64> {
    let mut simulated = 0.1_f64;
    loop {
        let took = time(&setup(flows, mbps, simulated)?, 1)?;
        let factor = seconds / took.max(1e-6);
        if (0.5..=2.0).contains(&factor) || simulated >= LONGEST || factor < 0.5 {
            return Ok(simulated);
        }
        // What was measured is mostly the beginning, which is not like the rest.
        simulated = (simulated * factor.min(10.0)).min(LONGEST).ceil();
    }
}

/// Seconds that so many runs take together.
fn time(setup: &CellSetup, at_a_time: usize) -> Result<f64> {
    let failed = Mutex::new(None);
    let clock = Stopwatch::start();
    thread::scope(|scope| {
        for seed in 1..=at_a_time as u64 {
            let failed = &failed;
            scope.spawn(move || {
                if let (Err(error), Ok(mut failed)) = (world::run(setup, 0, seed), failed.lock()) {
                    *failed = Some(error);
                }
            });
        }
    });
    let took = clock.seconds();
    match failed.into_inner() {
        Ok(Some(error)) => Err(error.into()),
        _ => Ok(took),
    }
}

/// CUBIC without an end over a link of 20 ms with a queue of a bandwidth-delay product, but of ten packets at least.
fn setup(flows: u32, mbps: u32, simulated: f64) -> Result<CellSetup> {
    let queue = (f64::from(mbps) * 0.02 * 1e6 / 12_000.0).max(10.0).ceil();
    let text = format!(
        r#"id = "speed"
title = "Speed"
source = "nobody"
runs = 1
quick-runs = 1
duration = "{simulated}s"
bottleneck = "--rate {mbps}mbit --rtt 20ms --queue {queue}p"

[[flows]]
name = "x"
count = {flows}
congestion = "cubic"

[metrics]
goodput = {{ value = "goodput(x)", unit = "Mb/s" }}

[[rows]]
id = "1"
metric = "goodput"
rule = "at least 0"
"#
    );
    let mut experiment = Experiment::read("speed", &text)?;
    experiment.setups.pop().ok_or_else(|| anyhow!("an experiment without a cell"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is measured is a link that is in use: each flow count at the slowest rates reads most of what the link can carry.
    #[test]
    fn what_is_measured_fills_its_link() {
        for flows in FLOWS {
            let record = world::run(&setup(flows, 10, 20.0).unwrap(), 0, 1).unwrap();
            let goodput = record.values[0].unwrap();
            assert!(goodput > 8.0 && goodput < 10.0, "{flows}: {goodput}");
            assert_eq!(record.flow_seconds, 20.0 * f64::from(flows));
        }
    }
}
