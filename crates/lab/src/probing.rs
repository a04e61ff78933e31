//! Active measurements of a path within an experiment, by the methods of `longhaul-probe`.
//!
//! A measurement runs over the bottleneck and the cross traffic of a cell, but without its flows: papers measure a path
//! before a transfer, to describe it. Each measurement has its own path, so that measurements do not disturb each
//! other.

use std::collections::BTreeMap;

use longhaul_link::{ConfigError, LinkConfig};
use longhaul_probe::MethodKind;
use longhaul_probe::sim::{ProbedPath, Probing};
use longhaul_units::{Rate, Span, Time};

use crate::experiment::CellSetup;

/// A measurement: its method and its start.
#[derive(Clone, Debug)]
pub(crate) struct ProbeSetup {
    pub(crate) name: String,
    /// Method, with default options.
    pub(crate) method: MethodKind,
    pub(crate) start: Span,
    /// Link from the prober to the bottleneck.
    pub(crate) left: Option<LinkConfig>,
    /// Resolution of the receiver's clock.
    pub(crate) tick: Span,
    /// Rate by which the receiver's clock is fast, in ppm.
    pub(crate) skew: f64,
}

/// Runs all measurements of a cell, each until it is done or the run ends. `stream` is the random sequence of the first cross traffic in
/// forward direction; each cross traffic has two sequences.
pub(crate) fn run(setup: &CellSetup, seed: u64, stream: u64) -> Result<BTreeMap<String, Probing>, ConfigError> {
    let until = Time::ZERO + setup.duration;
    let mut found = BTreeMap::new();
    for probe in &setup.probes {
        let mut path = path(setup, probe, seed, stream)?;
        let probing = path.run(&mut *probe.method.create(), Time::ZERO + probe.start, until);
        found.insert(probe.name.clone(), probing);
    }
    Ok(found)
}

fn path(setup: &CellSetup, probe: &ProbeSetup, seed: u64, stream: u64) -> Result<ProbedPath, ConfigError> {
    let shared = setup.links.iter().map(|link| &link.there);
    let hops: Vec<LinkConfig> = probe.left.iter().chain(shared).cloned().collect();
    let first = hops.len() - setup.links.len();
    let back = setup.links.iter().fold(Span::ZERO, |sum, link| sum + link.back.delay);
    let mut path = ProbedPath::seeded(hops, back, seed)?;
    for (number, traffic) in (0u64..).zip(&setup.traffic) {
        if traffic.ways[0] && traffic.rate > Rate::ZERO {
            path = path.cross(
                first + traffic.hops.start,
                first + traffic.hops.end - 1,
                traffic.source(seed, stream + 2 * number),
            );
        }
    }
    (path.clock.tick, path.clock.skew_ppm) = (probe.tick, probe.skew);
    Ok(path)
}
