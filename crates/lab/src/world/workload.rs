//! Workloads of short-lived connections.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use longhaul_link::Random;
use longhaul_link::topology::Duplex;
use longhaul_sim::{Epoch, PopulationId, Setup, Sim};
use longhaul_units::{Rate, Time};

use crate::experiment::CellSetup;

/// Random streams of workloads: one for arrival times and one for hosts each.
const WORKLOAD_STREAMS: u64 = (1 << 63) + (1 << 33);

/// Returns the host pairs of all workloads: the shared links that they use, and their access links.
pub(super) fn pairs(setup: &CellSetup) -> impl Iterator<Item = (&Range<usize>, &(Duplex, Duplex))> + Clone {
    setup.workloads.iter().flat_map(|workload| workload.pairs.iter().map(|pair| (&workload.hops, pair)))
}

/// Configures the hosts of workloads, which are the last of these nodes.
pub(super) fn configure(setup: &CellSetup, hosts: &mut Setup, nodes: &[u32]) {
    let configs = setup.workloads.iter().flat_map(|workload| workload.pairs.iter().map(|_| &workload.config));
    let of_workloads = nodes.iter().skip(nodes.len() - pairs(setup).count());
    for (config, node) in configs.zip(of_workloads) {
        hosts.hosts[*node as usize].config = Arc::clone(config);
    }
}

/// Schedules the connections of the workloads between the last of these host pairs.
pub(super) fn add(sim: &mut Sim, setup: &CellSetup, pairs: &[[usize; 2]], seed: u64) -> BTreeMap<String, PopulationId> {
    let mut rest = pairs;
    let streams = (WORKLOAD_STREAMS..).step_by(2);
    let mut populations = BTreeMap::new();
    for (workload, stream) in setup.workloads.iter().zip(streams) {
        let (own, others) = rest.split_at(workload.pairs.len());
        rest = others;
        if workload.rate == Rate::ZERO {
            continue;
        }
        let random = [stream, stream + 1].map(|stream| Random::new(seed, stream));
        let population = sim.add_population(workload.visits(own.to_vec(), random), Time::ZERO + workload.stop);
        populations.insert(workload.name.clone(), population);
    }
    populations
}

/// Returns the requests and responses of each workload.
pub(super) fn epochs(sim: &Sim, populations: &BTreeMap<String, PopulationId>) -> BTreeMap<String, Vec<Epoch>> {
    populations.iter().map(|(name, population)| (name.clone(), sim.epochs(*population))).collect()
}
