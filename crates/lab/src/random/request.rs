//! Requests for scenarios: a set, its seeds and the controllers.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};
use longhaul_cc::Congestion;

use super::draw::Scenario;
use crate::stack;

/// Maximum number of cells of an experiment.
const MOST_CELLS: u64 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Set {
    name: &'static str,
    /// Seeds of the set; `None` stands for all.
    pub(super) seeds: Option<Seeds>,
    /// Whether the scenarios of the set are changing paths.
    changes: bool,
}

/// Constants may be chosen using the scenarios of the sets `training` and `changing`, and must not be chosen by those
/// of `test` and `changing-test`.
const SETS: [Set; 5] = [
    Set { name: "training", seeds: Some(Seeds { first: 1, last: 300 }), changes: false },
    Set { name: "test", seeds: Some(Seeds { first: 1001, last: 1300 }), changes: false },
    Set { name: "any", seeds: None, changes: false },
    Set { name: "changing", seeds: Some(Seeds { first: 2001, last: 2300 }), changes: true },
    Set { name: "changing-test", seeds: Some(Seeds { first: 3001, last: 3300 }), changes: true },
];

impl Set {
    pub(super) fn draw(self, seed: u64) -> Scenario {
        if self.changes { Scenario::draw_changing(seed) } else { Scenario::draw(seed) }
    }
}

impl FromStr for Set {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let set = SETS.into_iter().find(|set| set.name == text);
        let known = SETS.map(|set| set.name).join(", ");
        set.with_context(|| format!("{text:?} is not a set of scenarios; there are: {known}"))
    }
}

impl fmt::Display for Set {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name)
    }
}

/// A range of seeds that is not empty. Both ends are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seeds {
    first: u64,
    last: u64,
}

impl Seeds {
    pub(crate) fn each(self) -> impl Iterator<Item = u64> {
        self.first..=self.last
    }

    const fn contains(self, other: Self) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    const fn count(self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }
}

impl FromStr for Seeds {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = |text: &str| text.parse::<u64>().ok();
        let ends = text.split_once("..").and_then(|(first, last)| Some((number(first)?, number(last)?)));
        let (first, last) = ends.with_context(|| {
            format!("{text:?} is not a range of seeds; write the first and the last one, as in 1..300")
        })?;
        if first > last {
            bail!("the range of seeds {first}..{last} is empty, because its end is before its start");
        }
        Ok(Self { first, last })
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}..{}", self.first, self.last)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(super) set: Set,
    pub(super) seeds: Seeds,
    pub(super) controllers: Vec<String>,
    /// Number of runs per scenario and controller. If there are several, flows start at random times.
    pub(super) runs: u32,
}

impl Request {
    /// Checks a request. Without `seeds`, it covers the whole set.
    pub(crate) fn new(set: Set, seeds: Option<Seeds>, controllers: Vec<String>) -> Result<Self> {
        let seeds = match (set.seeds, seeds) {
            (Some(all), Some(seeds)) if !all.contains(seeds) => {
                bail!("the seeds {seeds} are not within the set {set}, which has {all}; `any` has all seeds");
            }
            (all, seeds) => seeds.or(all).context("the set any needs --seeds, as in --seeds 1..10")?,
        };
        if controllers.is_empty() {
            bail!("no congestion controller is given; name one with -C, as in -C cubic");
        }
        let mut known = BTreeSet::new();
        for name in &controllers {
            let checked = match stack::split(name) {
                Some((stack, own)) => stack.check(own),
                None => name.parse::<Congestion>().map(drop).map_err(|error| error.to_string()),
            };
            checked.map_err(|error| anyhow!("-C {name}: {error}"))?;
            if !known.insert(name) {
                bail!("-C {name} is given twice");
            }
        }
        // One more controller for the runs without any controller.
        if seeds.count().saturating_mul(controllers.len() as u64 + 1) > MOST_CELLS {
            let (scenarios, controllers) = (seeds.count(), controllers.len());
            bail!("{scenarios} scenarios with {controllers} controllers are more than {MOST_CELLS} runs");
        }
        Ok(Self { set, seeds, controllers, runs: 1 })
    }

    /// Returns the request with this number of runs.
    pub(crate) fn repeated(self, runs: u32) -> Self {
        Self { runs, ..self }
    }

    /// Returns the identifier of the experiment.
    pub(crate) fn id(&self) -> String {
        format!("random-{}", self.set)
    }
}

/// Splits a list of controllers at its commas. Commas in parentheses belong to a name, and so do all commas of a text
/// that is the name of a composition.
pub(crate) fn names(text: &str) -> Vec<String> {
    if text.parse::<Congestion>().is_ok() {
        return vec![text.to_owned()];
    }
    let (mut names, mut depth) = (vec![String::new()], 0_usize);
    for letter in text.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                names.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(name) = names.last_mut() {
            name.push(letter);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_split_between_names() {
        longhaul_zoo::register().unwrap();
        assert_eq!(names("cubic,copa(delta=0.1,iw=2),bbr"), ["cubic", "copa(delta=0.1,iw=2)", "bbr"]);
        let composition = "slow-start=slow-start(iw=3),avoidance=westwood,recovery=new-reno";
        assert_eq!(names(composition), [composition]);
        assert_eq!(names("cubic,"), ["cubic", ""]);
    }

    #[test]
    fn wrong_requests_are_refused_with_their_reason() {
        let told = |set: &str, seeds: &str, controllers: &str| {
            let seeds = if seeds.is_empty() { Ok(None) } else { seeds.parse().map(Some) };
            let controllers = if controllers.is_empty() { Vec::new() } else { names(controllers) };
            let request = set.parse().and_then(|set| Request::new(set, seeds?, controllers));
            request.map_or_else(|error| error.to_string(), |request| request.seeds.to_string())
        };
        assert_eq!(told("training", "", "cubic"), "1..300");
        assert_eq!(told("test", "1001..1002", "cubic,copa"), "1001..1002");
        assert_eq!(told("any", "7..7", "cubic"), "7..7");
        assert_eq!(
            told("sealed", "", "cubic"),
            "\"sealed\" is not a set of scenarios; there are: training, test, any, changing, changing-test"
        );
        let form = "is not a range of seeds; write the first and the last one, as in 1..300";
        for wrong in ["5", "1-3", "1..", "a..3", "1..=3", "-1..3"] {
            assert_eq!(told("training", wrong, "cubic"), format!("{wrong:?} {form}"));
        }
        let empty = "the range of seeds 3..2 is empty, because its end is before its start";
        assert_eq!(told("training", "3..2", "cubic"), empty);
        let outside = "the seeds 300..301 are not within the set training, which has 1..300; `any` has all seeds";
        assert_eq!(told("training", "300..301", "cubic"), outside);
        assert!(told("test", "1..300", "cubic").ends_with("the set test, which has 1001..1300; `any` has all seeds"));
        assert_eq!(told("any", "", "cubic"), "the set any needs --seeds, as in --seeds 1..10");
        assert!(told("training", "", "").starts_with("no congestion controller is given"));
        assert!(told("training", "", "cubic,cubik").starts_with("-C cubik: "));
        assert_eq!(told("training", "", "cubic,copa,cubic"), "-C cubic is given twice");
        let many = "18446744073709551615 scenarios with 1 controllers are more than 10000 runs";
        assert_eq!(told("any", "0..18446744073709551615", "cubic"), many);
    }
}
