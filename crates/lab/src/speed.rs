//! Simulation speed by number of flows, link rate and number of processors.

use std::thread;

use anyhow::{Result, anyhow};
use serde::Serialize;

use crate::experiment::{CellSetup, Experiment};
use crate::stopwatch::{ProcessorTime, Stopwatch};
use crate::world;

pub(crate) const FLOWS: [u32; 3] = [1, 10, 100];
/// Link rates in Mb/s.
pub(crate) const RATES: [u32; 4] = [1, 10, 100, 1000];
/// Maximum simulated seconds. Without it, a slow link, which costs almost nothing to simulate, would be simulated for
/// too long.
const LONGEST: f64 = 100_000.0;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Point {
    pub(crate) flows: u32,
    /// Link rate in Mb/s.
    pub(crate) mbps: u32,
    /// Number of concurrent runs, each on its own processor if there are enough processors.
    pub(crate) at_a_time: usize,
    pub(crate) simulated: f64,
    pub(crate) took: f64,
    pub(crate) processor: f64,
    /// Simulated flow seconds of all concurrent runs per processor second of one run. The value does not depend on other
    /// load on the computer.
    pub(crate) speed: f64,
}

/// Measures all [`FLOWS`] at all [`RATES`] with 1 to `most` concurrent runs, each of which takes about `seconds` of
/// processor time.
pub(crate) fn measure(seconds: f64, most: usize) -> Result<Vec<Point>> {
    let mut points = Vec::new();
    for (flows, mbps) in FLOWS.into_iter().flat_map(|flows| RATES.map(|mbps| (flows, mbps))) {
        let simulated = long_enough(flows, mbps, seconds)?;
        for at_a_time in 1..=most {
            let (took, processor) = time(&setup(flows, mbps, simulated)?, at_a_time)?;
            let speed = simulated * f64::from(flows) * at_a_time as f64 / processor;
            points.push(Point { flows, mbps, at_a_time, simulated, took, processor, speed });
        }
    }
    Ok(points)
}

/// Returns the simulated time for which a run takes about `seconds`.
fn long_enough(flows: u32, mbps: u32, seconds: f64) -> Result<f64> {
    let mut simulated = 0.1_f64;
    loop {
        let (_, processor) = time(&setup(flows, mbps, simulated)?, 1)?;
        let factor = seconds / processor.max(1e-6);
        if factor <= 2.0 || simulated >= LONGEST {
            return Ok(simulated);
        }
        // Short runs mostly measure the beginning of the connection, so the extrapolation is limited to a factor of
        // 10.
        simulated = (simulated * factor.min(10.0)).min(LONGEST).ceil();
    }
}

/// Returns the wall-clock seconds that all runs take together, and their mean processor seconds.
fn time(setup: &CellSetup, at_a_time: usize) -> Result<(f64, f64)> {
    let clock = Stopwatch::start();
    let run = |seed| {
        let processor = ProcessorTime::start();
        world::run(setup, 0, seed).map(|_| processor.seconds())
    };
    let all: Vec<Option<Result<f64>>> = thread::scope(|scope| {
        let threads: Vec<_> = (1..=at_a_time as u64).map(|seed| scope.spawn(move || run(seed))).collect();
        threads.into_iter().map(|thread| thread.join().ok()).collect()
    });
    let took = clock.seconds();
    let mut processor = 0.0;
    for one in all {
        processor += one.ok_or_else(|| anyhow!("the program panicked in a run"))??;
    }
    Ok((took, processor / at_a_time as f64))
}

/// Unlimited CUBIC flows over a link with an RTT of 20 ms and a queue of one bandwidth-delay product, but at least
/// ten packets.
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

    /// The measured link is in use: at 10 Mb/s, any number of flows reads most of what the link can carry.
    #[test]
    fn the_measured_flows_fill_the_link() {
        for flows in FLOWS {
            let record = world::run(&setup(flows, 10, 20.0).unwrap(), 0, 1).unwrap();
            let goodput = record.values[0].unwrap();
            assert!(goodput > 8.0 && goodput < 10.0, "{flows}: {goodput}");
            assert_eq!(record.flow_seconds, 20.0 * f64::from(flows));
        }
    }
}
