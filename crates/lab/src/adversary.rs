//! Search for path behaviour that starves a flow or fills its queue, within a budget of delay and loss.
//!
//! The adversary acts on the access link of one flow, after the bottleneck, as the non-congestive delay of Arun, Alizadeh
//! and Balakrishnan (Starvation in End-to-End Congestion Control, SIGCOMM 2022). It never reorders packets.

mod search;
mod sequence;

use anyhow::{Result, anyhow, bail};
use clap::ValueEnum;
use longhaul_cc::Congestion;

use crate::experiment::Experiment;
use crate::record::Record;
use crate::runner;
use search::search;
use sequence::Budget;
pub(crate) use sequence::Sequence;

/// Round-trip propagation time of the bottleneck in microseconds. Delays are relative to it.
const RTT: u64 = 40_000;
/// Duration of a run in milliseconds. Values are taken from its second half.
const DURATION: u64 = 24_000;
/// Number of runs per sequence in the search, with seeds starting at 1, so that a sequence is not fitted to a single
/// seed.
const RUNS: u32 = 2;
/// Number of runs of the sequences found by the search.
const FINAL_RUNS: u32 = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Goal {
    /// A low goodput of one of two flows, in percent of half of the link.
    Share,
    /// A low goodput of a single flow, in percent of the link.
    Utilisation,
    /// A high 95th percentile of the queueing delay of a single flow, in milliseconds.
    Queue,
}

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) victim: String,
    /// Controller of the flow that shares the link with the victim.
    pub(crate) other: String,
    pub(crate) goal: Goal,
    /// Maximum extra delay of a round trip, as a fraction of its propagation time.
    pub(crate) delay: f64,
    /// Maximum loss of data packets, in percent.
    pub(crate) loss: f64,
    /// Number of sequences to try.
    pub(crate) evaluations: usize,
    pub(crate) seed: u64,
    pub(crate) jobs: usize,
}

/// The worst sequence found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) sequence: Sequence,
    /// Median, minimum and maximum of the goal's value over the final runs.
    pub(crate) values: [f64; 3],
    /// Median, minimum and maximum without the adversary.
    pub(crate) without: [f64; 3],
}

impl Request {
    /// Runs the search. After each generation, reports the number of sequences tried, and the best value so far.
    pub(crate) fn search(&self, mut tell: impl FnMut(usize, f64)) -> Result<Found> {
        for name in [&self.victim, &self.other] {
            name.parse::<Congestion>().map_err(|error| anyhow!("{name}: {error}"))?;
        }
        let budget = Budget::new(self.delay, self.loss)?;
        // The search minimises.
        let sign = if self.goal == Goal::Queue { -1.0 } else { 1.0 };
        let mut best = search(
            budget,
            self.evaluations,
            self.seed,
            |sequences| {
                let values = self.values(sequences, RUNS)?;
                Ok(values.iter().map(|runs| sign * runs.iter().sum::<f64>() / runs.len() as f64).collect())
            },
            |tried, value| tell(tried, sign * value),
        )?;
        // Some of the best sequences are best only by chance in the runs of the search.
        best.push(Sequence::default());
        let mut summaries: Vec<_> = self.values(&best, FINAL_RUNS)?.into_iter().map(summary).collect();
        let (_, Some(without)) = (best.pop(), summaries.pop()) else { bail!("no run has ended") };
        let worst = best.into_iter().zip(summaries).min_by(|(_, a), (_, b)| (sign * a[0]).total_cmp(&(sign * b[0])));
        let Some((sequence, values)) = worst else { bail!("no sequence was tried") };
        Ok(Found { sequence, values, without })
    }

    /// Returns the values of the goal in each run of each sequence.
    fn values(&self, sequences: &[Sequence], runs: u32) -> Result<Vec<Vec<f64>>> {
        let experiment = Experiment::read("adversary", &self.text(sequences))?;
        let records = runner::run(&experiment, runs, self.jobs)?;
        let value = |record: &Record| record.values.first().copied().flatten().unwrap_or(0.0);
        Ok(records.chunks(runs as usize).map(|runs| runs.iter().map(value).collect()).collect())
    }

    /// Returns an experiment with a cell per sequence.
    fn text(&self, sequences: &[Sequence]) -> String {
        let choice =
            |(number, sequence): (usize, &Sequence)| format!("    {{ name = \"{number}\", path = \"{sequence}\" }},\n");
        let choices: String = sequences.iter().enumerate().map(choice).collect();
        let late = format!("{}ms, {DURATION}ms", DURATION / 2);
        let (metric, is_alone) = match self.goal {
            Goal::Share => (format!("100 * goodput(victim, {late}) / 25"), false),
            Goal::Utilisation => (format!("100 * goodput(victim, {late}) / 50"), true),
            Goal::Queue => (format!("delay(p95, {late})"), true),
        };
        let flow = |name: &str, congestion: &str, right: &str| {
            format!(
                "[[flows]]\nname = {name:?}\ncongestion = {congestion:?}\nstart-spread = \"100ms\"\nright = {right:?}\n"
            )
        };
        let victim = flow("victim", &self.victim, "{path}");
        let other = if is_alone { String::new() } else { flow("other", &self.other, "--delay 0ms") };
        format!(
            r#"id = "adversary"
title = "Search"
source = "longhaul"
runs = 1
quick-runs = 1
duration = "{DURATION}ms"
bottleneck = "--rate-up 50mbit --rtt {RTT}us --queue-up 1bdp"
rows = []

[[axes]]
name = "sequence"
choices = [
{choices}]

{victim}
{other}
[metrics]
goal = {{ value = "{metric}", unit = "" }}
"#
        )
    }
}

/// Returns median, minimum and maximum.
fn summary(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [values[values.len() / 2], values[0], values[values.len() - 1]]
}
