//! Tools that measure a path with packets of their own: CapProbe, Pathrate, Pathload, pathChirp.
//!
//! They have the bottleneck and the cross traffic of a cell, but none of its flows: papers run them before a transfer, to say what its
//! path was like. Each has a path of its own, so that they don't meet each other.

use std::collections::BTreeMap;

use longhaul_cc::estimate::active::path_chirp::{PathChirp, PathChirpConfig};
use longhaul_cc::estimate::active::pathload::{Pathload, PathloadConfig};
use longhaul_cc::estimate::active::pathrate::{Pathrate, PathrateConfig};
use longhaul_cc::estimate::active::{CapProbeMethod, CapProbeOptions, InvalidOption, Method};
use longhaul_link::{ConfigError, LinkConfig, Random};
use longhaul_sim::probing::{ProbedPath, Probing};
use longhaul_units::{Rate, Span, Time};

use crate::experiment::CellSetup;

/// The methods there are.
pub const METHODS: &[&str] = &["capprobe", "pathrate", "pathload", "pathchirp"];

/// A tool and when it begins.
#[derive(Clone, Debug)]
pub struct ProbeSetup {
    /// By which metrics know it.
    pub name: String,
    /// One of [`METHODS`].
    pub method: String,
    /// When it begins.
    pub start: Span,
    /// The prober's link to the bottleneck.
    pub left: Option<LinkConfig>,
}

/// What a tool found.
#[derive(Clone, Debug)]
pub struct Probed {
    /// What it says itself.
    pub probing: Probing,
    /// From its beginning until its estimate had converged by its own criterion.
    pub converged: Option<Span>,
}

/// A method with its usual settings.
///
/// # Errors
/// If those are none that it takes.
pub fn method(name: &str) -> Result<Box<dyn Method>, InvalidOption> {
    Ok(match name {
        "capprobe" => Box::new(CapProbeMethod::new(CapProbeOptions::default())?),
        "pathrate" => Box::new(Pathrate::new(PathrateConfig::default())?),
        "pathload" => Box::new(Pathload::new(PathloadConfig::default())?),
        _ => Box::new(PathChirp::new(PathChirpConfig::default())?),
    })
}

/// Runs all of a cell's, each until it is done or the run ends. `stream` is the random sequence of the first cross traffic's way there;
/// each has two.
///
/// # Errors
/// If there can be no such link.
pub fn run(setup: &CellSetup, seed: u64, stream: u64) -> Result<BTreeMap<String, Probed>, ConfigError> {
    let until = Time::ZERO + setup.duration;
    let mut found = BTreeMap::new();
    for probe in &setup.probes {
        let mut path = path(setup, probe, seed, stream)?;
        // Their usual settings are within their ranges.
        let Ok(mut method) = method(&probe.method) else { continue };
        let from = Time::ZERO + probe.start;
        let probing = path.run(&mut *method, from, until);
        let converged = probing.converged_at.map(|at| at - from);
        found.insert(probe.name.clone(), Probed { probing, converged });
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
                traffic.source(Random::new(seed, stream + 2 * number)),
            );
        }
    }
    Ok(path)
}
