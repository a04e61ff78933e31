//! The bench `kernel`: its rows, their runs and their verdicts. What it measures is said in `benches/kernel.rs`.

mod table;

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

use anyhow::{Context, Result, anyhow};
use serde::Serialize;

use crate::behind::transfer::Load;
use crate::behind::{self, Files, Link, Outcome};
use crate::report::{setting, write_json};
use crate::stats::quartiles;
use crate::transport::{Transport, kernel_congestion};
use crate::worker::Workers;

/// Who competes.
const RIVALS: [Transport; 2] = [Transport::Tcp, Transport::Longhaul];
/// The links: Mb/s, and milliseconds of round trip.
const LINKS: [(u32, u32); 2] = [(20, 100), (50, 60)];
/// Drop-tail queues of the clean links, in BDP.
const QUEUES: [f64; 3] = [0.5, 1.0, 2.0];
/// Random loss on the first of the links, percent.
const LOSSES: [f64; 2] = [0.1, 0.5];
/// Bytes of which the completion is timed.
const SIZE: u64 = 1_000_000;
/// On clean links, medians may differ by this share.
const TOLERANCE: f64 = 0.1;
/// How the kernel's CUBIC ends its slow start: 1 ACK trains, 2 delays, 3 either (its default).
const HYSTART: &str = "/sys/module/tcp_cubic/parameters/hystart_detect";

/// What is compared: one metric on one link.
#[derive(Clone, Copy, Debug)]
struct Case {
    link: Link,
    load: Load,
    runs: usize,
}

/// One transfer of one rival.
#[derive(Clone, Copy, Debug)]
struct Run {
    case: usize,
    rival: Transport,
    /// From 1; of the links' chance as well.
    number: usize,
}

/// All runs of one rival in one case.
#[derive(Debug, Serialize)]
struct Side {
    p25: f64,
    median: f64,
    p75: f64,
    /// Runs that count though they were disturbed, for want of others.
    disturbed: usize,
    runs: Vec<Outcome>,
}

/// One line of the table.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    link: Link,
    metric: &'static str,
    /// What [`HYSTART`] said; not there without it.
    hystart_detect: Option<u32>,
    kernel: Side,
    longhaul: Side,
    /// Longhaul's median over the kernel's.
    ratio: f64,
    agrees: bool,
}

/// Runs the bench; or the emulator, or one side of a transfer, when this process is one. `target_tmpdir`: see
/// [`write_json`].
///
/// # Errors
/// A transfer failed.
pub fn main(target_tmpdir: &str) -> Result<ExitCode> {
    behind::run(|| bench(target_tmpdir))
}

fn bench(target_tmpdir: &str) -> Result<()> {
    if let Some(reason) = obstacle() {
        println!("{reason}");
        return Ok(());
    }
    if let Some(detect) = hystart_detect() {
        println!("the kernel's hystart_detect is {detect}");
    }
    let cases = cases()?;
    let outcomes = run_all(&cases)?;
    let rows: Vec<Row> = cases.iter().enumerate().map(|(index, case)| row(index, case, &outcomes)).collect();
    table::print(&rows);
    write_json(target_tmpdir, "kernel.json", &rows)?;
    Ok(())
}

/// Why nothing can be measured here.
fn obstacle() -> Option<String> {
    if let Some(reason) = behind::obstacle() {
        return Some(format!("kernel: {reason}"));
    }
    match kernel_congestion() {
        Ok(name) if name == "cubic" => None,
        Ok(name) => Some(format!("kernel: skipped: the kernel has no CUBIC, but {name}; load it (modprobe tcp_cubic)")),
        Err(error) => Some(format!("kernel: skipped: {error:#}")),
    }
}

fn hystart_detect() -> Option<u32> {
    fs::read_to_string(HYSTART).ok()?.trim().parse().ok()
}

fn cases() -> Result<Vec<Case>> {
    let seconds: f64 = setting("LONGHAUL_BENCH_SECONDS", 60.0)?;
    let runs = setting("LONGHAUL_BENCH_RUNS", 1)?.max(1);
    let completions = setting("LONGHAUL_BENCH_COMPLETIONS", 5)?.max(1);
    let seeds = setting("LONGHAUL_BENCH_SEEDS", 10)?.max(1);
    let clean = |load, runs| {
        LINKS.into_iter().flat_map(move |(mbps, rtt_ms)| {
            QUEUES.map(|queue_bdp| Case {
                link: Link { mbps, rtt_ms, queue_bdp, loss_percent: 0.0, router: None },
                load,
                runs,
            })
        })
    };
    let lossy = LOSSES.map(|loss_percent| {
        let (mbps, rtt_ms) = LINKS[0];
        let link = Link { mbps, rtt_ms, queue_bdp: 1.0, loss_percent, router: None };
        Case { link, load: Load::Seconds(seconds / 2.0), runs: seeds }
    });
    Ok(clean(Load::Seconds(seconds), runs).chain(clean(Load::Bytes(SIZE), completions)).chain(lossy).collect())
}

/// The outcomes of a case's runs, by rival.
type Outcomes = BTreeMap<(usize, &'static str), Vec<Outcome>>;

/// Makes all runs, those at the same rate together.
fn run_all(cases: &[Case]) -> Result<Outcomes> {
    let logs = env::var_os("LONGHAUL_BENCH_LOGS").map(PathBuf::from);
    if let Some(directory) = &logs {
        fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    }
    let budget: u32 = setting("LONGHAUL_BENCH_MBPS", 160)?;
    let mut outcomes = Outcomes::new();
    for (mbps, _) in LINKS {
        let runs = |(index, case): (usize, &Case)| (case.link.mbps == mbps).then(|| runs_of(index, case));
        let runs: Vec<Run> = cases.iter().enumerate().filter_map(runs).flatten().collect();
        let parallel = usize::try_from(budget / mbps)?.max(1);
        println!("{} transfers at {mbps} Mb/s, {parallel} at a time", runs.len());
        outcomes.extend(run_in_parallel(cases, &runs, parallel, logs.as_deref())?);
    }
    Ok(outcomes)
}

/// Makes `runs`, so many at a time.
fn run_in_parallel(cases: &[Case], runs: &[Run], parallel: usize, logs: Option<&Path>) -> Result<Outcomes> {
    let workers = Workers::new()?;
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Ok(Outcomes::new())));
    let take_runs = || {
        while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = one(&workers, cases[run.case], *run, logs);
            let Ok(mut outcomes) = outcomes.lock() else { return };
            match (outcomes.as_mut(), outcome) {
                (Ok(all), Ok(outcome)) => all.entry((run.case, run.rival.name())).or_default().push(outcome),
                (Ok(_), Err(error)) => *outcomes = Err(error),
                (Err(_), _) => {}
            }
            if outcomes.is_err() {
                return;
            }
        }
    };
    thread::scope(|scope| (0..parallel).for_each(|_| drop(scope.spawn(take_runs))));
    outcomes.into_inner().map_err(|_| anyhow!("a run has panicked"))?
}

/// The rivals one after the other, so that they meet the same load of the machine.
fn runs_of(index: usize, case: &Case) -> impl Iterator<Item = Run> + use<> {
    (1..=case.runs).flat_map(move |number| RIVALS.map(|rival| Run { case: index, rival, number }))
}

/// One run.
fn one(workers: &Workers, case: Case, run: Run, logs: Option<&Path>) -> Result<Outcome> {
    let name = format!("{}-{}-{}-{}", case.link.name(), case.load.metric(), run.rival.name(), run.number);
    let log = logs.map(|directory| directory.join(format!("{name}.log")));
    let files = Files { log: log.as_deref(), memory: None };
    let make = || behind::transfer(workers, &run.rival.into(), case.link, case.load, run.number, files);
    behind::least_disturbed(make).context(name)
}

fn row(index: usize, case: &Case, outcomes: &Outcomes) -> Row {
    let [kernel, longhaul] = RIVALS.map(|rival| side(outcomes.get(&(index, rival.name())).map_or(&[], Vec::as_slice)));
    let ratio = longhaul.median / kernel.median;
    let agrees = if case.link.loss_percent > 0.0 { overlap(&kernel, &longhaul) } else { is_close(ratio) };
    let (link, metric) = (case.link, case.load.metric());
    Row { link, metric, hystart_detect: hystart_detect(), kernel, longhaul, ratio, agrees }
}

fn side(runs: &[Outcome]) -> Side {
    let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
    let [p25, median, p75] = quartiles(&values);
    Side { p25, median, p75, disturbed: runs.iter().filter(|run| run.is_disturbed()).count(), runs: runs.to_vec() }
}

fn is_close(ratio: f64) -> bool {
    (ratio - 1.0).abs() <= TOLERANCE
}

/// Whether the intervals between the quartiles have a value in common.
fn overlap(a: &Side, b: &Side) -> bool {
    a.p25 <= b.p75 && b.p25 <= a.p75
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Side {
        let runs: Vec<_> = values.iter().map(|&value| Outcome { value, ..Outcome::default() }).collect();
        side(&runs)
    }

    #[test]
    fn intervals_overlap_if_they_share_a_value() {
        let low = of(&[1.0, 2.0, 3.0]);
        assert_eq!((low.p25, low.median, low.p75), (1.5, 2.0, 2.5));
        for (other, expected) in [([2.0, 3.0, 4.0], true), ([3.0, 4.0, 5.0], false), ([1.0, 2.0, 9.0], true)] {
            let other = of(&other);
            assert_eq!((overlap(&low, &other), overlap(&other, &low)), (expected, expected), "{other:?}");
        }
    }

    #[test]
    fn a_tenth_is_close_in_both_directions() {
        let verdicts = [0.89, 0.91, 1.0, 1.09, 1.11, f64::NAN].map(is_close);
        assert_eq!(verdicts, [false, true, true, true, false, false]);
    }
}
