//! Runs of a cell in real time: sockets at both ends of the emulated link, in this process.
//!
//! The link is a UDP relay, or, in experiments with `real-time = true`, a network namespace behind two devices, which
//! the kernel's TCP can also cross. Two runs with the same seed differ, because they depend on the real clock and on
//! the load of the computer. [`check`] returns whether a cell can be run in real time, and [`untold`] which metrics
//! cannot be measured with real sockets.

#[cfg(target_os = "linux")]
mod flow;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod picoquic;
#[cfg(target_os = "linux")]
mod traffic;
#[cfg(target_os = "linux")]
mod transfer;

use std::env;
use std::path::PathBuf;

use anyhow::{Error, Result, bail};
use longhaul_link::topology::Duplex;
use longhaul_link::{LinkConfig, LinkRate};
use longhaul_units::{Rate, Span};
use serde::Serialize;

use crate::experiment::{CellSetup, FlowSetup, Foreign, TrafficSetup};
use crate::expression::{Call, Expression};
use crate::measure::{Asked, Watch, mbps};
use crate::record::Record;
use crate::series::{SeriesSetup, What};

#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The record, as of a run in virtual time, but without series.
    pub(crate) record: Record,
    pub(crate) effort: Effort,
}

/// Resources that a run used. Both ends, the relay between them and cross traffic are one process. Field names are
/// those of the JSON.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Effort {
    pub(crate) seconds: f64,
    /// Processor seconds of all threads.
    pub(crate) processor_seconds: f64,
    /// Processor seconds of both ends of all flows, which share a thread.
    pub(crate) ends_processor_seconds: f64,
    /// Total number of bytes that the receiving applications of all flows read.
    pub(crate) read_bytes: u64,
    /// Peak memory of the process in bytes, or `None` if the system does not report it.
    pub(crate) memory_bytes: Option<u64>,
    /// 99th percentile of the lateness, in seconds, of the relay or of cross traffic, whichever is larger.
    pub(crate) lateness_seconds: f64,
    /// Number of datagrams that sockets dropped outside the emulated link.
    pub(crate) lost_datagrams: u64,
    /// Seconds for which a sender had data to send but was not scheduled; the maximum over the senders.
    pub(crate) starved_seconds: f64,
    /// Seconds for which the thread of both ends was ready to run, but was not scheduled.
    pub(crate) waited_seconds: f64,
    pub(crate) failures: Vec<String>,
}

impl Effort {
    /// Maximum lateness of the relay at the 99th percentile, in seconds.
    const TOO_LATE: f64 = 0.001;
    /// Maximum fraction of the run for which a sender may be ready but not scheduled.
    const STARVED: f64 = 0.01;
    /// Maximum fraction of the run for which the thread of both ends may wait for a processor.
    const WAITED: f64 = 0.25;

    /// Returns whether the machine was fast enough for the results to be valid.
    pub(crate) fn kept_up(&self) -> bool {
        self.disturbance() <= 1.0
    }

    /// Returns the largest ratio of a disturbance to its maximum, which is infinite if datagrams were lost outside the
    /// link.
    fn disturbance(&self) -> f64 {
        let of_run = |seconds: f64, most: f64| if seconds > 0.0 { seconds / (most * self.seconds) } else { 0.0 };
        let lost = if self.lost_datagrams > 0 { f64::INFINITY } else { 0.0 };
        let late = self.lateness_seconds / Self::TOO_LATE;
        let kept = of_run(self.starved_seconds, Self::STARVED).max(of_run(self.waited_seconds, Self::WAITED));
        late.max(kept).max(lost)
    }

    /// Returns the processor seconds of both ends per gigabyte (10^9 bytes) read, or `None` if nothing was read.
    pub(crate) fn ends_per_gigabyte(&self) -> Option<f64> {
        (self.read_bytes > 0).then(|| self.ends_processor_seconds / (self.read_bytes as f64 * 1e-9))
    }
}

/// Maximum number of repetitions of a disturbed run.
const REPEATS: usize = 2;

/// Runs the cell with this index, and repeats the run if the machine was too slow for it. The record is that of the
/// least disturbed run, and states whether that run was also disturbed.
pub(crate) fn record(setup: &CellSetup, cell: usize, seed: u64) -> Result<Record> {
    let best = least_disturbed(|| run(setup, cell, seed))?;
    if let Some(failure) = best.effort.failures.first() {
        bail!("a connection failed: {failure}");
    }
    let disturbed = !best.effort.kept_up();
    Ok(Record { disturbed, ..best.record })
}

/// Executes a run, at most [`REPEATS`] times more until it is undisturbed, and returns the least disturbed one.
fn least_disturbed(mut make: impl FnMut() -> Result<Run>) -> Result<Run> {
    let mut best = make()?;
    for _ in 0..REPEATS {
        if best.effort.kept_up() {
            break;
        }
        let again = make()?;
        if again.effort.disturbance() < best.effort.disturbance() {
            best = again;
        }
    }
    Ok(best)
}

/// Runs the cell with this index, if it can be run in real time.
#[cfg(target_os = "linux")]
pub(crate) fn run(setup: &CellSetup, cell: usize, seed: u64) -> Result<Run> {
    check(setup).map_err(Error::msg)?;
    transfer::run(setup, cell, seed)
}

/// Fails, because the relay needs Linux.
#[cfg(not(target_os = "linux"))]
pub(crate) fn run(setup: &CellSetup, _: usize, _: u64) -> Result<Run> {
    check(setup).map_err(Error::msg)?;
    bail!(NO_SYSTEM)
}

/// Maximum rate in Mb/s at which one process can reliably serve as both ends and the relay.
const MOST_RATE: f64 = 200.0;
/// Maximum number of flows. Each has four sockets.
const MOST_FLOWS: u32 = 100;
/// Estimates that connections report independently of their controllers.
const ESTIMATES: [&str; 7] = ["bandwidth", "delivery-rate", "pacing-rate", "capacity", "srtt", "latest-rtt", "min-rtt"];

/// Measures of flows that are taken from the receiving applications only.
const OF_RECEIVERS: [&str; 5] = ["completion", "goodput", "message-delay", "share", "time-to"];

/// Advice if picoquic's demo program is not found.
pub(crate) const NO_PICOQUIC: &str = "picoquicdemo is not found: `.ci/picoquic FOLDER` builds it, and LONGHAUL_PICOQUIC \
                                      names the program if it is not on the PATH";

/// Returns the path of picoquic's demo program, with its certificate in the adjacent directory `certs`.
pub(crate) fn picoquic_program() -> Option<PathBuf> {
    let on_path = || {
        let folders = env::var_os("PATH")?;
        env::split_paths(&folders).map(|folder| folder.join("picoquicdemo")).find(|path| path.is_file())
    };
    let named = env::var_os("LONGHAUL_PICOQUIC").map(PathBuf::from);
    let program = named.or_else(on_path)?.canonicalize().ok()?;
    program.with_file_name("certs/cert.pem").is_file().then_some(program)
}

/// Returns whether a cell has flows of picoquic whose program is not found.
pub(crate) fn lacks_picoquic(setup: &CellSetup) -> bool {
    setup.flows.iter().any(|flow| flow.count > 0 && is_of_picoquic(flow)) && picoquic_program().is_none()
}

fn is_of_picoquic(flow: &FlowSetup) -> bool {
    matches!(flow.foreign, Some(Foreign::Picoquic(_)))
}

/// Reason why a cell cannot run in real time on another system.
const NO_SYSTEM: &str = "the relay in real time needs Linux";

/// Checks whether a cell can be run in real time, and returns the reason otherwise.
pub(crate) fn check(setup: &CellSetup) -> Result<(), String> {
    if cfg!(target_os = "linux") { fits(setup) } else { Err(NO_SYSTEM.into()) }
}

/// Checks whether a cell can be run in real time on Linux.
pub(crate) fn fits(setup: &CellSetup) -> Result<(), String> {
    if setup.real_time {
        fits_namespace(setup)?;
    } else if let Some(flow) = setup.flows.iter().find(|flow| !flow.receive_hold.is_zero()) {
        return Err(format!(
            "flows {:?} have a `receive-hold`, which over real sockets needs `real-time = true`",
            flow.name
        ));
    }
    if let Some(workload) = setup.workloads.first() {
        return Err(format!("its workload {:?} runs only in virtual time", workload.name));
    }
    if let Some(probe) = setup.probes.first() {
        return Err(format!("its probe {:?} runs only in virtual time", probe.name));
    }
    setup.traffic.iter().filter(|traffic| traffic.rate != Rate::ZERO).try_for_each(check_traffic)?;
    match setup.flows.iter().map(|flow| flow.count).sum() {
        0 => return Err("it has no flows".into()),
        flows if flows > MOST_FLOWS => {
            return Err(format!("it has {flows} flows; at most {MOST_FLOWS} can be run over real sockets"));
        }
        _ => {}
    }
    setup.flows.iter().try_for_each(check_flow)?;
    if setup.links.len() > 1 {
        let links = setup.links.len();
        return Err(format!("its bottleneck has {links} links in a row; the relay emulates only one"));
    }
    check_rate(&setup.bottleneck().there, true)?;
    check_rate(&setup.bottleneck().back, false)
}

fn fits_namespace(setup: &CellSetup) -> Result<(), String> {
    if let Some(traffic) = setup.traffic.first() {
        return Err(format!("its cross traffic {:?} cannot cross a network namespace", traffic.name));
    }
    let has_messages = |flow: &&FlowSetup| is_of_picoquic(flow) && flow.messages.is_some();
    if let Some(flow) = setup.flows.iter().find(has_messages) {
        return Err(format!("flows {:?} have messages, which picoquic's demo program cannot send", flow.name));
    }
    if let Some(flow) = setup.flows.iter().find(|flow| flow.knows_path) {
        let what = "`known-path`, which exists only in virtual time; use `after`, `hosts` and `cache`";
        return Err(format!("flows {:?} have {what}", flow.name));
    }
    let shared = setup.flows.first().map(|flow| flow.receive_hold);
    if let Some(flow) = setup.flows.iter().find(|flow| Some(flow.receive_hold) != shared) {
        let what = "another `receive-hold` than the first ones; over real sockets all share a device";
        return Err(format!("flows {:?} have {what}", flow.name));
    }
    let is_recorded = |series: &&SeriesSetup| matches!(series.what, What::Read | What::Goodput);
    let other = setup.series.iter().find(|series| !is_recorded(series));
    let what = "is recorded only in virtual time; `read` and `goodput` are recorded in real time";
    other.map_or(Ok(()), |series| Err(format!("its series {:?} {what}", series.name)))
}

fn check_flow(flow: &FlowSetup) -> Result<(), String> {
    if let Some(Foreign::Stack(stack, _)) = &flow.foreign {
        return Err(format!("flows {:?} are of {stack}, which runs only in virtual time", flow.name));
    }
    let is_direct = [&flow.left, &flow.right].into_iter().all(|access| *access == Duplex::default());
    is_direct
        .then_some(())
        .ok_or_else(|| format!("flows {:?} have access links; the relay emulates only the shared link", flow.name))
}

fn check_traffic(traffic: &TrafficSetup) -> Result<(), String> {
    if [&traffic.left, &traffic.right].into_iter().any(|access| *access != Duplex::default()) {
        let what = "has access links; the relay emulates only the shared link";
        return Err(format!("its cross traffic {:?} {what}", traffic.name));
    }
    let rate = mbps(traffic.rate);
    let told =
        || format!("its cross traffic {:?} has {rate} Mb/s; the relay supports at most {MOST_RATE} Mb/s", traffic.name);
    if rate > MOST_RATE { Err(told()) } else { Ok(()) }
}

/// The reverse path may have no rate, because the data acknowledged on it has one.
fn check_rate(link: &LinkConfig, is_needed: bool) -> Result<(), String> {
    let first = match &link.rate {
        LinkRate::Unlimited if is_needed => {
            return Err(format!("its bottleneck has no rate; one of at most {MOST_RATE} Mb/s is needed"));
        }
        LinkRate::Unlimited => None,
        LinkRate::Constant(rate) => Some(*rate),
        LinkRate::Trace(trace) => Some(trace.mean_rate()),
    };
    let rates = first.into_iter().chain(link.steps.iter().filter_map(|step| step.rate));
    let fastest = rates.map(mbps).fold(0.0, f64::max);
    let told = || format!("its bottleneck has {fastest} Mb/s; the relay supports at most {MOST_RATE} Mb/s");
    if fastest > MOST_RATE { Err(told()) } else { Ok(()) }
}

/// Returns the part of a metric that real sockets cannot measure, or `None`. A metric with such a part has no value.
pub(crate) fn untold(setup: &CellSetup, metric: &Expression) -> Option<String> {
    metric.calls().into_iter().find_map(|call| untold_call(call, setup))
}

fn untold_call(call: &Call, setup: &CellSetup) -> Option<String> {
    let (asked, duration) = (Asked::read(call).ok()?, setup.duration);
    let name = asked.measure.name();
    let mut of_flows = setup.flows.iter().filter(|flow| asked.flows.contains(&flow.name.as_str()));
    let foreign = of_flows.find_map(|flow| flow.foreign.as_ref());
    if let Some(foreign) = foreign.filter(|_| !OF_RECEIVERS.contains(&name)) {
        return Some(format!("{foreign} does not provide `{name}`"));
    }
    match asked.measure.watch {
        Watch::Nothing | Watch::Bytes => {}
        Watch::State if asked.estimate.is_empty() || ESTIMATES.contains(&asked.estimate) => {}
        Watch::State => return Some(format!("real sockets do not provide the estimate {:?}", asked.estimate)),
        _ => return Some(format!("real sockets do not provide `{name}`")),
    }
    let is_within = |time: &Span| !time.is_zero() && *time != duration;
    let is_of_link = asked.flows.is_empty() && asked.workload.is_empty();
    (is_of_link && asked.times.iter().any(is_within))
        .then(|| format!("the relay provides `{name}` only for whole runs"))
        .or_else(|| (!asked.workload.is_empty()).then(|| format!("real sockets do not provide `{name}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effort(lateness_seconds: f64, starved_seconds: f64, waited_seconds: f64, lost_datagrams: u64) -> Effort {
        let seconds = 10.0;
        Effort { seconds, lateness_seconds, starved_seconds, waited_seconds, lost_datagrams, ..Effort::default() }
    }

    #[test]
    fn late_and_starved_and_lossy_runs_are_disturbed() {
        let efforts =
            [(9e-4, 0.09, 2.4, 0), (1.1e-3, 0.0, 0.0, 0), (0.0, 0.11, 0.0, 0), (0.0, 0.0, 2.6, 0), (0.0, 0.0, 0.0, 1)];
        let kept_up = efforts.map(|(late, starved, waited, lost)| effort(late, starved, waited, lost).kept_up());
        assert_eq!(kept_up, [true, false, false, false, false]);
    }

    #[test]
    fn disturbed_runs_are_repeated_and_the_least_disturbed_counts() {
        let chosen = |lateness: &[f64]| {
            let mut made = 0;
            let run = least_disturbed(|| {
                made += 1;
                Ok(Run { record: Record::default(), effort: effort(lateness[made - 1], 0.0, 0.0, 0) })
            });
            (run.unwrap().effort.lateness_seconds, made)
        };
        assert_eq!(chosen(&[0.0]), (0.0, 1));
        assert_eq!(chosen(&[0.3, 0.0]), (0.0, 2));
        assert_eq!(chosen(&[0.3, 0.2, 0.4]), (0.2, 3));
    }
}
