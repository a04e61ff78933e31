//! The `adversary` command.

use anyhow::{Result, bail};
use clap::Args;

use super::{concurrent, print};
use crate::adversary::{Goal, Request};

#[derive(Debug, Args)]
pub(super) struct Adversary {
    /// Congestion controller of the flow on whose path the adversary acts.
    #[arg(short = 'C', long = "controller", value_name = "NAME")]
    controller: String,
    /// Congestion controller of the flow that shares the link; the default is the same.
    #[arg(long, value_name = "NAME")]
    against: Option<String>,
    /// Goal of the search.
    #[arg(long, value_enum, default_value_t = Goal::Share)]
    goal: Goal,
    /// Maximum extra delay of a round trip, as a fraction of its propagation time.
    #[arg(long, value_name = "PART", default_value_t = 0.5)]
    delay: f64,
    /// Maximum mean loss of data packets.
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    loss: f64,
    /// Number of sequences that are tried.
    #[arg(long, value_name = "N", default_value_t = 300)]
    evaluations: usize,
    /// Seed of the search.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Number of concurrent runs; the default is the number of processors.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

impl Adversary {
    pub(super) fn execute(self) -> Result<()> {
        let Self { controller, against, goal, delay, loss, evaluations, seed, jobs } = self;
        if goal != Goal::Share && against.is_some() {
            bail!("--against is only for --goal share; otherwise the flow is alone");
        }
        if evaluations == 0 {
            bail!("--evaluations 0 tries nothing");
        }
        let jobs = concurrent(jobs)?;
        let other = against.unwrap_or_else(|| controller.clone());
        let request = Request { victim: controller, other, goal, delay, loss, evaluations, seed, jobs };
        let found = request.search(|tried, value| print::note(&format!("{tried} of {evaluations}: {value:.1}")))?;
        let (what, unit) = match goal {
            Goal::Share => ("goodput of the victim", "% of half of the link"),
            Goal::Utilisation => ("goodput", "% of the link"),
            Goal::Queue => ("queueing delay, 95th percentile", "ms"),
        };
        let told = |[median, least, most]: [f64; 3]| format!("{median:.1} ({least:.1} to {most:.1}) {unit}");
        print::out(&format!("{what}: {}; without the adversary {}", told(found.values), told(found.without)))?;
        print::out(&found.sequence.to_string())
    }
}
