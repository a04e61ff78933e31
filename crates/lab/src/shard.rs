//! Parts of a sweep for several machines.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::cost;
use crate::experiment::Experiment;
use crate::runner::Job;

/// One part of a sweep, written `2/5`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    number: u32,
    of: u32,
}

impl Shard {
    /// Returns the runs of a sweep that belong to this part. Each run belongs to exactly one part, and all parts have
    /// about the same expected cost: in order of decreasing cost, each run is assigned to the part with the least
    /// cost so far (Graham 1969). The assignment depends only on the definitions.
    #[must_use]
    pub fn of(self, mut jobs: Vec<Job>, experiments: &[Experiment]) -> Vec<Job> {
        cost::longest_first(&mut jobs, experiments);
        let mut loads = vec![0_u64; self.of as usize];
        jobs.retain(|job| {
            let least = (0..loads.len()).min_by_key(|part| loads[*part]).unwrap_or(0);
            loads[least] += cost::of(*job, experiments).max(1);
            least + 1 == self.number as usize
        });
        jobs
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a part of a sweep; write 1/3, 2/3 or 3/3 for three parts");
        let (number, of) = text.split_once('/').ok_or_else(wrong)?;
        let (number, of) = (number.parse().map_err(|_| wrong())?, of.parse().map_err(|_| wrong())?);
        if (1..=of).contains(&number) { Ok(Self { number, of }) } else { Err(wrong()) }
    }
}

impl TryFrom<String> for Shard {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> Self {
        shard.to_string()
    }
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
    use crate::library;
    use crate::runner;

    /// Every run is in exactly one part, and two parts differ by at most the cost of the longest run.
    #[test]
    fn parts_make_the_whole_and_are_of_one_length() {
        let experiments: Vec<Experiment> =
            library::FILES.iter().map(|(file, text)| Experiment::read(file, text).unwrap()).collect();
        let runs: Vec<u32> = experiments.iter().map(|experiment| experiment.definition.runs).collect();
        let all = runner::jobs(&experiments, &runs);
        let longest = all.iter().map(|job| cost::of(*job, &experiments)).max().unwrap();
        for of in [1, 2, 3, 7] {
            let parts: Vec<Vec<Job>> =
                (1..=of).map(|number| Shard { number, of }.of(all.clone(), &experiments)).collect();
            let union: BTreeSet<Job> = parts.iter().flatten().copied().collect();
            assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), all.len());
            assert_eq!(union, all.iter().copied().collect());
            let loads: Vec<u64> =
                parts.iter().map(|part| part.iter().map(|job| cost::of(*job, &experiments)).sum()).collect();
            assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= longest, "{loads:?}");
        }
    }

    #[test]
    fn invalid_shards_are_reported() {
        assert_eq!("2/3".parse::<Shard>().unwrap().to_string(), "2/3");
        for text in ["", "3", "0/3", "4/3", "1/0", "a/b", "1/3/5", "-1/3"] {
            assert!(text.parse::<Shard>().unwrap_err().contains("is not a part of a sweep"), "{text}");
        }
    }
}
