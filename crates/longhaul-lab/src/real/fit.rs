//! What can be run in real time, and what can be told of it then.

use longhaul_link::topology::Duplex;
use longhaul_link::{LinkConfig, LinkRate};
use longhaul_units::{Rate, Span};

use crate::experiment::{CellSetup, FlowSetup, TrafficSetup};
use crate::expression::{Call, Expression};
use crate::measure::{Asked, Watch};
use crate::number::mbps;

/// The fastest link for which one process is both ends and the relay, Mb/s.
pub const MOST_RATE: f64 = 200.0;
/// The most flows: each has four sockets.
pub const MOST_FLOWS: u32 = 100;
/// What connections tell by these names without their controllers.
const ESTIMATES: [&str; 6] = ["delivery-rate", "pacing-rate", "capacity", "srtt", "latest-rtt", "min-rtt"];

/// Why a cell cannot be run in real time.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Misfit {
    /// There is no relay.
    #[error("the relay in real time needs Linux")]
    System,
    /// Nobody sends.
    #[error("it has no flows")]
    Idle,
    /// Too many send.
    #[error("it has {0} flows; {MOST_FLOWS} at most can be run over real sockets")]
    Crowd(u32),
    /// There is one relay.
    #[error("its bottleneck has {0} links in a row; the relay is one")]
    Row(usize),
    /// The data may come as fast as it likes.
    #[error("its bottleneck has no rate; one of at most {MOST_RATE} Mb/s is needed")]
    Unlimited,
    /// Faster than the machine is sure to be.
    #[error("its bottleneck has {0} Mb/s; the relay is sure to keep up to {MOST_RATE} Mb/s")]
    Fast(f64),
    /// There is one link only.
    #[error("flows {0:?} have access links of their own; the relay has the shared link only")]
    Access(String),
    /// So has cross traffic.
    #[error("its cross traffic {0:?} has access links of its own; the relay has the shared link only")]
    TrafficAccess(String),
    /// Cross traffic comes faster than the machine is sure to be.
    #[error("its cross traffic {0:?} has {1} Mb/s; the relay is sure to keep up to {MOST_RATE} Mb/s")]
    TrafficFast(String, f64),
    /// Connections come and go.
    #[error("its workload {0:?} is made in virtual time only")]
    Workload(String),
    /// Tools have worlds of their own.
    #[error("its probe {0:?} works in virtual time only")]
    Probe(String),
}

/// Whether a cell can be run in real time.
///
/// # Errors
/// Why it cannot.
pub fn check(setup: &CellSetup) -> Result<(), Misfit> {
    if !cfg!(target_os = "linux") {
        return Err(Misfit::System);
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
        flows if flows > MOST_FLOWS => return Err(Misfit::Crowd(flows)),
        _ => {}
    }
    setup.flows.iter().try_for_each(check_flow)?;
    if setup.links.len() > 1 {
        return Err(Misfit::Row(setup.links.len()));
    }
    check_rate(&setup.bottleneck().there, true)?;
    check_rate(&setup.bottleneck().back, false)
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

/// ACKs may come back as fast as they like: the data has a rate.
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

/// What in a metric real sockets do not tell; nothing if they tell all. A metric of which they do not tell a part has no value.
#[must_use]
pub fn untold(setup: &CellSetup, metric: &Expression) -> Option<String> {
    metric.calls().into_iter().find_map(|call| untold_call(call, setup.duration))
}

fn untold_call(call: &Call, duration: Span) -> Option<String> {
    let asked = Asked::read(call).ok()?;
    let name = asked.measure.name;
    match asked.measure.watch {
        Watch::Nothing | Watch::Bytes => {}
        Watch::State if asked.estimate.is_empty() || ESTIMATES.contains(&asked.estimate) => {}
        Watch::State => return Some(format!("real sockets do not tell of the estimate {:?}", asked.estimate)),
        Watch::Rtt
        | Watch::Window
        | Watch::Drops
        | Watch::FirstDrop
        | Watch::Reduction
        | Watch::Phases
        | Watch::Acks
        | Watch::Probe => {
            return Some(format!("real sockets do not tell `{name}`"));
        }
    }
    let is_within = |time: &Span| !time.is_zero() && *time != duration;
    let is_of_link = asked.flows.is_empty() && asked.workload.is_empty();
    (is_of_link && asked.times.iter().any(is_within))
        .then(|| format!("the relay tells `{name}` of whole runs only"))
        .or_else(|| (!asked.workload.is_empty()).then(|| format!("real sockets do not tell `{name}`")))
}
