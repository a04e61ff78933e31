//! Expected computation time of runs, and parts of a sweep of equal cost for several machines.

use std::fmt;
use std::str::FromStr;

use longhaul_link::topology::Duplex;
use longhaul_units::Time;

use crate::experiment::{CellSetup, Experiment};
use crate::runner::Job;

/// Assumed rate of a link without a rate, in bits per second.
const UNLIMITED: f64 = 1e10;
/// Assumed packet size in bits.
const PACKET: f64 = 12_000.0;
/// Cost of an idle flow in packets per second, for timers and samples.
const IDLE: f64 = 10.0;

/// Returns the expected cost of a run: the packets that can cross the shared links, plus a constant per flow and
/// second. All runs of a cell have the same cost. Costs are roughly proportional to computation times.
pub(crate) fn expected(setup: &CellSetup) -> u64 {
    let seconds = setup.duration.as_secs_f64();
    let flows: f64 = setup.flows.iter().map(|flow| f64::from(flow.count)).sum();
    let rate =
        |link: &Duplex| link.there.rate_at(Time::ZERO).map_or(UNLIMITED, |rate| rate.as_bytes_per_sec() as f64 * 8.0);
    let rate: f64 = setup.links.iter().map(rate).sum();
    let asked: f64 = setup.flows.iter().map(|flow| f64::from(flow.count) * flow.bytes as f64 * 8.0).sum();
    // Workloads and cross traffic may fill the link.
    let is_limited = setup.workloads.is_empty() && setup.traffic.is_empty();
    let asked = if is_limited { asked } else { f64::INFINITY };
    ((rate * seconds).min(asked) / PACKET + flows * seconds * IDLE) as u64
}

/// Sorts jobs by decreasing expected cost, so that no long run remains when all others have ended.
pub(crate) fn longest_first(jobs: &mut [Job], experiments: &[Experiment]) {
    jobs.sort_by_cached_key(|job| std::cmp::Reverse(of(*job, experiments)));
}

pub(crate) fn of(job: Job, experiments: &[Experiment]) -> u64 {
    expected(&experiments[job.experiment].setups[job.cell]).max(1)
}

/// One part of a sweep, written `2/5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    number: u32,
    of: u32,
}

impl Shard {
    /// Returns the runs of a sweep that belong to this part. Each run belongs to exactly one part: in order of
    /// decreasing expected cost, runs are assigned to the parts in turn, so that the costs of two parts differ by at
    /// most one run.
    pub(crate) fn of(self, mut jobs: Vec<Job>, experiments: &[Experiment]) -> Vec<Job> {
        longest_first(&mut jobs, experiments);
        jobs.into_iter().skip(self.number as usize - 1).step_by(self.of as usize).collect()
    }

    /// Parses a part whose number counts from 0, as the indices of array jobs do.
    pub(crate) fn from_index(text: &str) -> Result<Self, String> {
        let known = two(text).filter(|(index, of)| index < of);
        let wrong = || format!("{text:?} is not the index of a part; write 0/3, 1/3 or 2/3 for three parts");
        known.map(|(index, of)| Self { number: index + 1, of }).ok_or_else(wrong)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = two(text).filter(|(number, of)| (1..=*of).contains(number));
        let wrong = || format!("{text:?} is not a part of a sweep; write 1/3, 2/3 or 3/3 for three parts");
        known.map(|(number, of)| Self { number, of }).ok_or_else(wrong)
    }
}

/// Returns the numbers before and after a slash.
fn two(text: &str) -> Option<(u32, u32)> {
    let (one, other) = text.split_once('/')?;
    one.parse().ok().zip(other.parse().ok())
}

impl fmt::Display for Shard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.number, self.of)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{library, runner};

    #[test]
    fn a_cell_costs_by_its_rate_and_no_more_than_it_has_to_send() {
        let (file, text) = library::FILES.iter().find(|(file, _)| *file == "westwood-table-5.toml").unwrap();
        let endless = Experiment::read(file, text).unwrap();
        // 155 Mb/s for 60 s in packets of 1500 bytes, plus 60 s of one flow.
        assert_eq!(expected(&endless.setups[0]), 155 * 60 * 1_000_000 / 12_000 + 600);
        let some = text.replace("congestion = \"{congestion}\"", "congestion = \"{congestion}\"\nbytes = \"1500kB\"");
        assert_ne!(some, *text);
        assert_eq!(expected(&Experiment::read(file, &some).unwrap().setups[0]), 1000 + 600);
    }

    #[test]
    fn the_longest_run_is_first() {
        let read = |name: &str| {
            let (file, text) = library::FILES.iter().find(|(file, _)| *file == name).unwrap();
            Experiment::read(file, text).unwrap()
        };
        let experiments = [read("swift-start-table-4.toml"), read("westwood-table-5.toml")];
        let mut jobs = runner::jobs(&experiments, 1, &[2, 2]);
        assert_eq!(jobs[0].experiment, 0);
        longest_first(&mut jobs, &experiments);
        let costs: Vec<u64> = jobs.iter().map(|job| of(*job, &experiments)).collect();
        assert!(costs.is_sorted_by(|a, b| a >= b) && costs[0] > *costs.last().unwrap(), "{costs:?}");
        assert_eq!(jobs[0].experiment, 1);
    }

    /// Every run is in exactly one part, and two parts differ by at most the cost of the longest run.
    #[test]
    fn parts_make_the_whole_and_are_of_one_length() {
        let experiments: Vec<Experiment> =
            library::FILES.iter().map(|(file, text)| Experiment::read(file, text).unwrap()).collect();
        let runs: Vec<u32> = experiments.iter().map(|experiment| experiment.definition.runs).collect();
        let all = runner::jobs(&experiments, 1, &runs);
        let longest = all.iter().map(|job| of(*job, &experiments)).max().unwrap();
        for of in [1, 2, 3, 7] {
            let parts: Vec<Vec<Job>> =
                (1..=of).map(|number| Shard { number, of }.of(all.clone(), &experiments)).collect();
            let union: BTreeSet<Job> = parts.iter().flatten().copied().collect();
            assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), all.len());
            assert_eq!(union, all.iter().copied().collect());
            let loads: Vec<u64> =
                parts.iter().map(|part| part.iter().map(|job| super::of(*job, &experiments)).sum()).collect();
            assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= longest, "{loads:?}");
        }
    }

    #[test]
    fn invalid_shards_are_reported() {
        assert_eq!("2/3".parse::<Shard>().unwrap().to_string(), "2/3");
        assert_eq!(Shard::from_index("0/3").unwrap().to_string(), "1/3");
        assert_eq!(Shard::from_index("2/3").unwrap().to_string(), "3/3");
        for text in ["", "0", "3/3", "0/0", "-1/3"] {
            assert!(Shard::from_index(text).unwrap_err().contains("is not the index of a part"), "{text}");
        }
        for text in ["", "3", "0/3", "4/3", "1/0", "a/b", "1/3/5", "-1/3"] {
            assert!(text.parse::<Shard>().unwrap_err().contains("is not a part of a sweep"), "{text}");
        }
    }
}
