//! Recoveries in transfers that do not end: beside their like, and beside an unmodified CUBIC, where queues know of low priority and
//! where they do not.

use std::sync::Arc;

use anyhow::{Context, Result};
use longhaul_cc::Congestion;
use longhaul_cc::registry::{self, Safety, Slot};
use longhaul_link::topology::{Duplex, dumbbell};
use longhaul_link::{Classes, Discipline, Limit, LinkConfig};
use longhaul_sim::{Plan, SessionId, Setup, Sim, full_segments};
use longhaul_units::{Rate, Span, Time};

use super::Section;
use super::ledger::Loss;
use crate::emulated::{read, seconds};
use crate::generated::table;
use crate::parallel::in_parallel;

const RATE: Rate = Rate::from_bits_per_sec(20_000_000);
const RTT: Span = Span::from_millis(100);
const SPAN: Span = Span::from_secs(60);
/// Flows of one kind that share the link.
const FLOWS: usize = 4;
/// Between the starts of two flows, lest all of them lose in step.
const STAGGER: Span = Span::from_millis(700);
/// Before each recovery.
const LAWS: [&str; 2] = ["cubic", "new-reno"];
/// The neighbour.
const NEIGHBOUR: &str = "cubic";

/// A queue.
#[derive(Clone, Copy, Debug)]
struct Bottleneck {
    bdp: f64,
    /// Whether it knows of low priority.
    knows: bool,
}

const BOTTLENECKS: [Bottleneck; 4] = [
    Bottleneck { bdp: 0.5, knows: false },
    Bottleneck { bdp: 1.0, knows: false },
    Bottleneck { bdp: 0.5, knows: true },
    Bottleneck { bdp: 1.0, knows: true },
];

/// What came of a run.
#[derive(Clone, Debug)]
struct Run {
    /// Mb/s of each flow.
    goodput: Vec<f64>,
    /// What each sent again of what it sent, percent.
    again: Vec<f64>,
    loss: Loss,
}

/// All of it.
///
/// # Errors
/// A name of the registry is none.
pub(super) fn measure() -> Result<Section> {
    let entries: Vec<_> = registry::built_in().of_slot(Slot::Recovery).collect();
    let mut rows = Vec::new();
    for law in LAWS {
        let growth = if law == NEIGHBOUR { "hystart-pp" } else { "slow-start" };
        for entry in &entries {
            let text = format!("growth={growth},steady={law},recovery={}", entry.name);
            rows.push((law, *entry, text.parse::<Congestion>().with_context(|| format!("making {text}"))?));
        }
    }
    let neighbour: Congestion = NEIGHBOUR.parse().with_context(|| format!("making {NEIGHBOUR}"))?;
    let mut jobs = Vec::new();
    for (.., own) in &rows {
        for bottleneck in BOTTLENECKS {
            for flows in [vec![own.clone(); FLOWS], vec![own.clone(), neighbour.clone()]] {
                jobs.push((bottleneck, flows));
            }
        }
    }
    let runs = in_parallel(&jobs, |(bottleneck, flows)| compete(*bottleneck, flows));
    let runs = runs.into_iter().collect::<Result<Vec<_>>>()?;
    let (mut crowds, mut pairs) = (vec![heads()], vec![heads()]);
    for ((law, entry, _), runs) in rows.iter().zip(runs.chunks(2 * BOTTLENECKS.len())) {
        let private = if entry.safety == Safety::Private { " †" } else { "" };
        let label = format!("`{law}`, `{}`{private}", entry.name);
        let line = |which: usize, cell: fn(&Run) -> String| {
            let cells = runs.iter().skip(which).step_by(2).map(cell);
            [label.clone()].into_iter().chain(cells).collect::<Vec<_>>()
        };
        crowds.push(line(0, crowd));
        pairs.push(line(1, pair));
    }
    let text = format!("{}{}\n{}{}", of_crowds(), table(&crowds), of_pairs(), table(&pairs));
    Ok(Section { id: "without end".to_owned(), text })
}

fn heads() -> Vec<String> {
    let head = |bottleneck: &Bottleneck| {
        let knows = if bottleneck.knows { ", priorities" } else { "" };
        format!("{} BDP{knows}", bottleneck.bdp)
    };
    [String::new()].into_iter().chain(BOTTLENECKS.iter().map(head)).collect()
}

fn of_crowds() -> String {
    format!(
        "## Recoveries without end\n\n{FLOWS} flows of one kind for {} s over {} Mb/s and {} ms: Mb/s of all together; in parentheses packets of data that \
         the queue\ndropped, in percent, and behind the stroke how many probes there were for 100 of data. Queues are drop-tail; \
         *priorities* are queues\nthat serve probes last and drop them first.\n\n",
        SPAN.as_millis() / 1000,
        RATE.as_bits_per_sec() / 1_000_000,
        RTT.as_millis(),
    )
}

fn of_pairs() -> String {
    format!(
        "One of them beside one of `{NEIGHBOUR}`: Mb/s that the other has, and in parentheses what the other sends again of all that it \
         sends, in percent.\n\n"
    )
}

/// What those of one kind come to.
fn crowd(run: &Run) -> String {
    let probes = 100.0 * run.loss.probes as f64 / run.loss.data.max(1) as f64;
    let probes = if probes >= 0.05 { format!(" / {probes:.1}") } else { String::new() };
    format!("{:.1} ({:.2}{probes})", run.goodput.iter().sum::<f64>(), run.loss.percent())
}

/// What the neighbour comes to.
fn pair(run: &Run) -> String {
    let last = |values: &[f64]| values.last().copied().unwrap_or(f64::NAN);
    format!("{:.1} ({:.2})", last(&run.goodput), last(&run.again))
}

/// Transfers without end for [`SPAN`], from when the last of them began.
fn compete(bottleneck: Bottleneck, flows: &[Congestion]) -> Result<Run> {
    let queue = Limit::Bytes(RATE.bytes_in(RTT).mul_f64(bottleneck.bdp).0);
    let mut link = LinkConfig::new(RATE, RTT / 2).queue(queue);
    if bottleneck.knows {
        link.queue.discipline = Discipline::Priority(Classes::less_effort());
    }
    let access = || flows.iter().map(|_| Duplex::delay(Span::ZERO));
    let net = dumbbell(Duplex { there: link, back: LinkConfig::delay(RTT / 2) }, access(), access());
    let mut setup = Setup::new(1, net.topology).configure(full_segments);
    for (node, flow) in net.left.iter().zip(flows) {
        let host = setup.hosts.get_mut(*node as usize).context("the dumbbell has no such host")?;
        Arc::make_mut(&mut host.config).congestion = flow.clone();
    }
    let mut sim = Sim::new(setup);
    let ends = (0..).zip(net.left.iter().zip(&net.right));
    let sessions: Vec<(SessionId, SessionId)> = ends
        .map(|(n, (left, right))| {
            let plans = (Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
            sim.open_at(Time::ZERO + STAGGER * n, *left as usize, *right as usize, plans.0, plans.1)
        })
        .collect();
    sim.run_for(STAGGER * flows.len() as u64);
    let count = |sim: &Sim| sessions.iter().map(|(_, id)| read(sim, *id)).collect::<Vec<_>>();
    let before = count(&sim);
    sim.run_for(SPAN);
    let gained = count(&sim).into_iter().zip(before).map(|(after, before)| after - before);
    let again = |(sender, _): &(SessionId, SessionId)| {
        let connection = sim.find(*sender).and_then(|session| sim.host(sender.host).endpoint.connection(session.id));
        let info = connection.map(|connection| connection.info(sim.now()));
        info.map_or(f64::NAN, |info| 100.0 * info.bytes_retransmitted as f64 / info.bytes_sent.max(1) as f64)
    };
    Ok(Run {
        goodput: gained.map(|bytes| bytes as f64 * 8e-6 / seconds(SPAN)).collect(),
        again: sessions.iter().map(again).collect(),
        loss: Loss::by_class(sim.link(net.bottleneck.0).stats()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probes are counted apart, and where priorities are known none of the data's places go to them.
    #[test]
    fn probes_cost_data_their_places_where_nobody_knows_them() {
        let flows = vec!["growth=slow-start,steady=new-reno,recovery=rapid-recovery".parse().unwrap(); 2];
        let run = |knows| compete(Bottleneck { bdp: 0.5, knows }, &flows).unwrap().loss;
        let (blind, knows) = (run(false), run(true));
        assert!(blind.probes > 0 && knows.probes > 0);
        assert!(blind.percent() > 2.0 * knows.percent(), "{blind:?} {knows:?}");
    }
}
