//! Which cells can be run in real time, and which metrics can be measured then.

use longhaul_link::topology::Duplex;
use longhaul_link::{LinkConfig, LinkRate};
use longhaul_units::{Rate, Span};

use crate::experiment::{CellSetup, FlowSetup, TrafficSetup};
use crate::expression::{Call, Expression};
use crate::measure::{Asked, Watch};
use crate::number::mbps;
use crate::series::{SeriesSetup, What};

/// Maximum rate in Mb/s at which one process can reliably serve as both ends and the relay.
pub const MOST_RATE: f64 = 200.0;
/// Maximum number of flows. Each has four sockets.
pub const MOST_FLOWS: u32 = 100;
/// Estimates that connections report independently of their controllers.
const ESTIMATES: [&str; 7] = ["bandwidth", "delivery-rate", "pacing-rate", "capacity", "srtt", "latest-rtt", "min-rtt"];

/// Measures of flows that are taken from the receiving applications only.
const OF_RECEIVERS: [&str; 4] = ["completion", "goodput", "message-delay", "time-to"];

/// Reason why a cell cannot be run in real time.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Misfit {
    /// The relay is not available on this system.
    #[error("the relay in real time needs Linux")]
    System,
    /// There are no flows.
    #[error("it has no flows")]
    Idle,
    /// There are too many flows.
    #[error("it has {0} flows; at most {MOST_FLOWS} can be run over real sockets")]
    TooManyFlows(u32),
    /// There are several links in a row, but only one relay.
    #[error("its bottleneck has {0} links in a row; the relay emulates only one")]
    Row(usize),
    /// The bottleneck has no rate in the direction of the data.
    #[error("its bottleneck has no rate; one of at most {MOST_RATE} Mb/s is needed")]
    Unlimited,
    /// The rate exceeds what the relay can reliably emulate.
    #[error("its bottleneck has {0} Mb/s; the relay supports at most {MOST_RATE} Mb/s")]
    Fast(f64),
    /// Flows have access links, but the relay emulates only the shared link.
    #[error("flows {0:?} have access links; the relay emulates only the shared link")]
    Access(String),
    /// Cross traffic has access links, but the relay emulates only the shared link.
    #[error("its cross traffic {0:?} has access links; the relay emulates only the shared link")]
    TrafficAccess(String),
    /// The rate of cross traffic exceeds what the relay can reliably emulate.
    #[error("its cross traffic {0:?} has {1} Mb/s; the relay supports at most {MOST_RATE} Mb/s")]
    TrafficFast(String, f64),
    /// Workloads exist only in virtual time.
    #[error("its workload {0:?} runs only in virtual time")]
    Workload(String),
    /// Probes exist only in virtual time.
    #[error("its probe {0:?} runs only in virtual time")]
    Probe(String),
    /// Cross traffic exists only with the relay.
    #[error("its cross traffic {0:?} cannot cross a network namespace")]
    TrafficBehind(String),
    /// Only the bytes that applications have read are recorded.
    #[error("its series {0:?} is recorded only in virtual time; `read` and `goodput` are recorded in real time")]
    Series(String),
    /// The cache of a host is filled only by earlier flows.
    #[error("flows {0:?} have `known-path`, which exists only in virtual time; use `after`, `hosts` and `cache`")]
    KnownPath(String),
    /// Only the device of a network namespace holds packets.
    #[error("flows {0:?} have a `receive-hold`, which over real sockets needs `real-time = true`")]
    ReceiveHold(String),
    /// All receivers share a device.
    #[error("flows {0:?} have another `receive-hold` than the first ones; over real sockets all share a device")]
    ReceiveHolds(String),
    /// The experiment is in real time.
    #[error("it has `real-time = true`, and `run` without --real runs it over real sockets")]
    RealTime,
}

/// Checks whether a cell can be run in real time.
///
/// # Errors
/// Returns why it cannot.
pub fn check(setup: &CellSetup) -> Result<(), Misfit> {
    if cfg!(target_os = "linux") { fits(setup) } else { Err(Misfit::System) }
}

/// Checks whether a cell can be run in real time on Linux.
///
/// # Errors
/// Returns why it cannot.
pub fn fits(setup: &CellSetup) -> Result<(), Misfit> {
    if setup.real_time {
        fits_namespace(setup)?;
    } else if let Some(flow) = setup.flows.iter().find(|flow| !flow.receive_hold.is_zero()) {
        return Err(Misfit::ReceiveHold(flow.name.clone()));
    }
    if let Some(workload) = setup.workloads.first() {
        return Err(Misfit::Workload(workload.name.clone()));
    }
    if let Some(probe) = setup.probes.first() {
        return Err(Misfit::Probe(probe.name.clone()));
    }
    setup.traffic.iter().filter(|traffic| traffic.rate != Rate::ZERO).try_for_each(check_traffic)?;
    match setup.flows.iter().map(|flow| flow.count).sum() {
        0 => return Err(Misfit::Idle),
        flows if flows > MOST_FLOWS => return Err(Misfit::TooManyFlows(flows)),
        _ => {}
    }
    setup.flows.iter().try_for_each(check_flow)?;
    if setup.links.len() > 1 {
        return Err(Misfit::Row(setup.links.len()));
    }
    check_rate(&setup.bottleneck().there, true)?;
    check_rate(&setup.bottleneck().back, false)
}

fn fits_namespace(setup: &CellSetup) -> Result<(), Misfit> {
    if let Some(traffic) = setup.traffic.first() {
        return Err(Misfit::TrafficBehind(traffic.name.clone()));
    }
    if let Some(flow) = setup.flows.iter().find(|flow| flow.knows_path) {
        return Err(Misfit::KnownPath(flow.name.clone()));
    }
    let shared = setup.flows.first().map(|flow| flow.receive_hold);
    if let Some(flow) = setup.flows.iter().find(|flow| Some(flow.receive_hold) != shared) {
        return Err(Misfit::ReceiveHolds(flow.name.clone()));
    }
    let is_recorded = |series: &&SeriesSetup| matches!(series.what, What::Read | What::Goodput);
    let other = setup.series.iter().find(|series| !is_recorded(series));
    other.map_or(Ok(()), |series| Err(Misfit::Series(series.name.clone())))
}

fn check_flow(flow: &FlowSetup) -> Result<(), Misfit> {
    let is_direct = [&flow.left, &flow.right].into_iter().all(|access| *access == Duplex::default());
    is_direct.then_some(()).ok_or_else(|| Misfit::Access(flow.name.clone()))
}

fn check_traffic(traffic: &TrafficSetup) -> Result<(), Misfit> {
    if [&traffic.left, &traffic.right].into_iter().any(|access| *access != Duplex::default()) {
        return Err(Misfit::TrafficAccess(traffic.name.clone()));
    }
    let rate = mbps(traffic.rate);
    if rate > MOST_RATE { Err(Misfit::TrafficFast(traffic.name.clone(), rate)) } else { Ok(()) }
}

/// The reverse path may have no rate, because the data that its ACKs belong to has one.
fn check_rate(link: &LinkConfig, is_needed: bool) -> Result<(), Misfit> {
    let first = match &link.rate {
        LinkRate::Unlimited if is_needed => return Err(Misfit::Unlimited),
        LinkRate::Unlimited => None,
        LinkRate::Constant(rate) => Some(*rate),
        LinkRate::Trace(trace) => Some(trace.mean_rate()),
    };
    let rates = first.into_iter().chain(link.steps.iter().filter_map(|step| step.rate));
    let fastest = rates.map(mbps).fold(0.0, f64::max);
    if fastest > MOST_RATE { Err(Misfit::Fast(fastest)) } else { Ok(()) }
}

/// Returns the part of a metric that real sockets cannot measure, or `None`. A metric with such a part has no value.
#[must_use]
pub fn untold(setup: &CellSetup, metric: &Expression) -> Option<String> {
    metric.calls().into_iter().find_map(|call| untold_call(call, setup))
}

fn untold_call(call: &Call, setup: &CellSetup) -> Option<String> {
    let (asked, duration) = (Asked::read(call).ok()?, setup.duration);
    let name = asked.measure.name;
    let is_of_kernel = |flow: &FlowSetup| flow.kernel.is_some() && asked.flows.contains(&flow.name.as_str());
    if setup.flows.iter().any(is_of_kernel) && !OF_RECEIVERS.contains(&name) {
        return Some(format!("the kernel's TCP does not provide `{name}`"));
    }
    match asked.measure.watch {
        Watch::Nothing | Watch::Bytes => {}
        Watch::State if asked.estimate.is_empty() || ESTIMATES.contains(&asked.estimate) => {}
        Watch::State => return Some(format!("real sockets do not provide the estimate {:?}", asked.estimate)),
        Watch::Rtt
        | Watch::Data
        | Watch::Window
        | Watch::Drops
        | Watch::FirstDrop
        | Watch::Reduction
        | Watch::Phases
        | Watch::Acks
        | Watch::Probe => {
            return Some(format!("real sockets do not provide `{name}`"));
        }
    }
    let is_within = |time: &Span| !time.is_zero() && *time != duration;
    let is_of_link = asked.flows.is_empty() && asked.workload.is_empty();
    (is_of_link && asked.times.iter().any(is_within))
        .then(|| format!("the relay provides `{name}` only for whole runs"))
        .or_else(|| (!asked.workload.is_empty()).then(|| format!("real sockets do not provide `{name}`")))
}
