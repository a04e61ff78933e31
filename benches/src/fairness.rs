//! The bench `fairness`: who gets what of a shared bottleneck. What it measures is said in `benches/fairness.rs`.

mod page;

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use longhaul_cc::Congestion;
use longhaul_cc::registry::Safety;
use longhaul_link::topology::{Duplex, dumbbell};
use longhaul_link::{Limit, LinkConfig};
use longhaul_sim::{Plan, SessionId, Setup, Sim};
use longhaul_units::{Rate, Span, Time};
use serde::Serialize;

use crate::emulated::{read, seconds};
use crate::generated::{Mode, Task, settle};
use crate::parallel::in_parallel;
use crate::report::{setting, write_json};
use crate::subjects::{self, Subject};

const RATE: Rate = Rate::from_bits_per_sec(50_000_000);
const RTT: Span = Span::from_millis(40);
/// Queues, in bandwidth-delay products.
const QUEUES: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];
/// Neighbours for which each controller is a guest.
const NEIGHBOURS: [&str; 2] = ["cubic", "new-reno"];
/// What a flow is measured for, in seconds, unless a setting says otherwise.
const SECONDS: u64 = 60;
/// How the page is written.
const COMMAND: &str = "cargo bench --bench fairness -- --write";
/// Harm to CUBIC beyond which a controller is unsafe: the other has less than a fifth of what it has alone.
const MOST_HARM: f64 = 0.8;
/// What CUBIC alone has to fill of the link for harm to count: where it leaves much unused, others take what it left.
const LEAST_USE: f64 = 0.9;
/// Jain's index below which flows of one kind are uneven: that of two of which one has everything, and of ten of which
/// five have.
const LEAST_JAIN: f64 = 0.5;
/// Share beside CUBIC below which a controller yields.
const LEAST_SHARE: f64 = 0.1;

/// Between the starts of two flows, lest all of them lose in step.
const STAGGER: Span = Span::from_millis(700);

/// A controller at one queue.
#[derive(Clone, Debug, Serialize)]
struct Row {
    queue_bdp: f64,
    controller: String,
    /// Whether the registry allows it on shared networks.
    is_shared: bool,
    /// Mb/s of one flow alone.
    alone_mbps: f64,
    /// Median time in the queue of a flow alone, in ms.
    queue_p50_ms: f64,
    /// Jain's index of two and ten flows of the controller.
    jain_2: f64,
    jain_10: f64,
    /// Mb/s of the ten together.
    together_mbps: f64,
    beside: Vec<Beside>,
    /// Whether CUBIC fills the link when it is alone.
    is_judged: bool,
}

/// One flow of the controller and one of a neighbour's.
#[derive(Clone, Debug, Serialize)]
struct Beside {
    neighbour: &'static str,
    /// The controller's part of what both get where it began first, and where it began last.
    shares: [f64; 2],
    /// What the neighbour has less than alone, as a part of that, in the same order.
    harms: [f64; 2],
}

impl Beside {
    /// The mean over both orders of start.
    fn share(&self) -> f64 {
        f64::midpoint(self.shares[0], self.shares[1])
    }

    /// The larger of both orders of start.
    fn harm(&self) -> f64 {
        self.harms[0].max(self.harms[1])
    }
}

/// What the rule says of a controller at one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// None of the others.
    Fair,
    /// It leaves CUBIC too little.
    Unsafe,
    /// Its own flows get unequal parts.
    Uneven,
    /// It gets hardly anything beside CUBIC.
    Yields,
}

impl Row {
    /// The first that holds of: unsafe, where it is judged; uneven; yields.
    fn verdict(&self) -> Verdict {
        let beside_cubic = self.beside.first();
        if self.is_judged && beside_cubic.is_some_and(|beside| beside.harm() > MOST_HARM) {
            Verdict::Unsafe
        } else if self.jain_2.min(self.jain_10) < LEAST_JAIN {
            Verdict::Uneven
        } else if beside_cubic.is_some_and(|beside| beside.share() < LEAST_SHARE) {
            Verdict::Yields
        } else {
            Verdict::Fair
        }
    }
}

/// Runs the bench. `target_tmpdir`: see [`write_json`].
///
/// # Errors
/// An unknown argument, an unknown name in the settings, results or a page that cannot be written, or a page that says
/// something else.
pub fn main(target_tmpdir: &str) -> Result<()> {
    let task = Task::from_args()?;
    let length = setting("LONGHAUL_BENCH_SECONDS", SECONDS)?;
    let (subjects, is_part) = subjects::chosen(subjects::laws()?)?;
    if task.is_quick || (task.mode != Mode::Print && (is_part || length != SECONDS)) {
        bail!("--write and --check are about all controllers for {SECONDS} seconds; there is nothing quick here");
    }
    let rows = measure(&subjects, Span::from_secs(length))?;
    print_tables(&rows);
    write_json(target_tmpdir, "fairness.json", &rows)?;
    settle(&[page::render(&rows)], task.mode, COMMAND)
}

fn measure(subjects: &[Subject], span: Span) -> Result<Vec<Row>> {
    let pairs: Vec<_> = QUEUES.iter().flat_map(|queue| NEIGHBOURS.map(|neighbour| (*queue, neighbour))).collect();
    let alone = in_parallel(&pairs, |(queue, neighbour)| compete(bytes(*queue), &[neighbour], span));
    let alone = alone.into_iter().map(|run| Ok(sum(&run?.0))).collect::<Result<Vec<f64>>>()?;
    let cells: Vec<_> = alone
        .chunks(NEIGHBOURS.len())
        .zip(QUEUES)
        .flat_map(|(alone, queue)| subjects.iter().map(move |subject| (queue, subject, alone)))
        .collect();
    in_parallel(&cells, |(queue, subject, alone)| row(*queue, subject, alone, span)).into_iter().collect()
}

/// Of a queue in bandwidth-delay products.
fn bytes(queue_bdp: f64) -> u64 {
    (queue_bdp * RATE.bytes_in(RTT).0 as f64) as u64
}

/// `neighbours_alone`: the goodput of each neighbour without company, in Mb/s.
fn row(queue_bdp: f64, subject: &Subject, neighbours_alone: &[f64], span: Span) -> Result<Row> {
    let (queue, name) = (bytes(queue_bdp), subject.name.as_str());
    let of_itself = |count| compete(queue, &vec![name; count], span);
    let (alone, (two, _), (ten, _)) = (of_itself(1)?, of_itself(2)?, of_itself(10)?);
    let beside = NEIGHBOURS.into_iter().zip(neighbours_alone).map(|(neighbour, solo)| {
        let ([share_first, harm_first], [share_last, harm_last]) =
            (pair(queue, [name, neighbour], 0, *solo, span)?, pair(queue, [neighbour, name], 1, *solo, span)?);
        Ok(Beside { neighbour, shares: [share_first, share_last], harms: [harm_first, harm_last] })
    });
    Ok(Row {
        queue_bdp,
        controller: name.to_owned(),
        is_shared: subject.congestion.safety() == Safety::Shared,
        alone_mbps: sum(&alone.0),
        queue_p50_ms: alone.1,
        jain_2: jain(&two),
        jain_10: jain(&ten),
        together_mbps: sum(&ten),
        beside: beside.collect::<Result<_>>()?,
        is_judged: neighbours_alone
            .first()
            .is_some_and(|cubic| *cubic >= LEAST_USE * RATE.as_bits_per_sec() as f64 * 1e-6),
    })
}

/// The share of the flow at `own`, and the harm to the other, which has `solo` Mb/s alone; the first begins first.
fn pair(queue: u64, flows: [&str; 2], own: usize, solo: f64, span: Span) -> Result<[f64; 2]> {
    let (both, _) = compete(queue, &flows, span)?;
    let rate = |flow: usize| both.get(flow).copied().unwrap_or_default();
    Ok([rate(own) / sum(&both), ((solo - rate(1 - own)) / solo).max(0.0)])
}

/// The goodput of each flow in Mb/s, once all of them had half of `span` to find their shares, for the whole of it; and the
/// median time in the queue in ms, from the beginning.
fn compete(queue: u64, flows: &[&str], span: Span) -> Result<(Vec<f64>, f64)> {
    let link = LinkConfig::new(RATE, RTT / 2).queue(Limit::Bytes(queue));
    let bottleneck = Duplex { there: link, back: LinkConfig::delay(RTT / 2) };
    let access = || flows.iter().map(|_| Duplex::delay(Span::ZERO));
    let net = dumbbell(bottleneck, access(), access());
    let mut setup = Setup::new(1, net.topology);
    for (node, flow) in net.left.iter().zip(flows) {
        let congestion: Congestion = flow.parse().with_context(|| format!("making {flow}"))?;
        let host = setup.hosts.get_mut(*node as usize).context("the dumbbell has no such host")?;
        Arc::make_mut(&mut host.config).congestion = congestion;
    }
    let mut sim = Sim::new(setup);
    let pairs = net.left.iter().zip(&net.right);
    let receivers: Vec<_> = (0u32..)
        .zip(pairs)
        .map(|(n, (left, right))| {
            let plans = (Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
            let at = Time::ZERO + STAGGER * u64::from(n);
            sim.open_at(at, *left as usize, *right as usize, plans.0, plans.1).1
        })
        .collect();
    sim.run_for(STAGGER * flows.len() as u64 + span / 2);
    let count = |sim: &Sim| receivers.iter().map(|id: &SessionId| read(sim, *id)).collect::<Vec<_>>();
    let before = count(&sim);
    sim.run_for(span);
    let rates =
        count(&sim).into_iter().zip(&before).map(|(after, before)| (after - before) as f64 * 8e-6 / seconds(span));
    let queued = sim.link(net.bottleneck.0).stats().all().sojourn.quantile(0.5);
    Ok((rates.collect(), seconds(queued) * 1e3))
}

fn sum(rates: &[f64]) -> f64 {
    rates.iter().sum()
}

/// Jain, Chiu and Hawe (1984): 1 if all have the same, 1/n if one has all.
fn jain(rates: &[f64]) -> f64 {
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    if squares == 0.0 { 1.0 } else { sum(rates).powi(2) / (rates.len() as f64 * squares) }
}

/// One table a queue, one line a controller.
fn print_tables(rows: &[Row]) {
    for queue in QUEUES {
        println!("\nqueue of {queue} bandwidth-delay products");
        print!("{:>18} | {:>7} {:>9} | {:>6} {:>7} {:>8}", "", "alone", "queue p50", "Jain 2", "Jain 10", "together");
        for neighbour in NEIGHBOURS {
            print!(" | {:>18} {:>5} {:>5} {:>5}", format!("share by {neighbour}"), "last", "harm", "last");
        }
        println!();
        for row in rows.iter().filter(|row| row.queue_bdp == queue) {
            print!("{:>18} | {:>7.1} {:>9.1} |", row.controller, row.alone_mbps, row.queue_p50_ms);
            print!(" {:>6.3} {:>7.3} {:>8.1}", row.jain_2, row.jain_10, row.together_mbps);
            for Beside { shares: [first, last], harms, .. } in &row.beside {
                print!(" | {first:>18.3} {last:>5.3} {:>5.2} {:>5.2}", harms[0], harms[1]);
            }
            println!();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_one_for_equals_and_a_part_for_one() {
        assert!((jain(&[3.0; 10]) - 1.0).abs() < 1e-12);
        assert!((jain(&[1.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
        // 6^2 / (3 x 14).
        assert!((jain(&[1.0, 2.0, 3.0]) - 36.0 / 42.0).abs() < 1e-12);
    }

    fn measured(queue_bdp: f64, [jain_2, jain_10]: [f64; 2], [share, harm]: [f64; 2]) -> Row {
        // The rule takes the mean share and the larger harm of both orders.
        let (shares, harms) = ([share + 0.01, share - 0.01], [harm - 0.3, harm]);
        let beside = vec![Beside { neighbour: "cubic", shares, harms }];
        let (alone_mbps, together_mbps, queue_p50_ms) = (48.0, 48.0, 1.0);
        let controller = "toy".to_owned();
        let is_judged = queue_bdp > 0.1;
        Row {
            queue_bdp,
            controller,
            is_shared: true,
            alone_mbps,
            queue_p50_ms,
            jain_2,
            jain_10,
            together_mbps,
            beside,
            is_judged,
        }
    }

    #[test]
    fn the_rule_and_its_borders() {
        assert_eq!(measured(1.0, [0.9; 2], [0.8, 0.8]).verdict(), Verdict::Fair);
        assert_eq!(measured(1.0, [0.9; 2], [0.8, 0.81]).verdict(), Verdict::Unsafe);
        assert_eq!(measured(0.05, [0.9; 2], [0.9, 0.9]).verdict(), Verdict::Fair);
        assert_eq!(measured(4.0, [0.9, 0.49], [0.9, 0.9]).verdict(), Verdict::Unsafe);
        assert_eq!(measured(4.0, [0.9, 0.49], [0.05, 0.0]).verdict(), Verdict::Uneven);
        assert_eq!(measured(4.0, [0.5, 0.5], [0.09, 0.1]).verdict(), Verdict::Yields);
    }

    /// Two equals share, and each has half of what it had alone.
    #[test]
    fn a_flow_beside_its_like_has_half() {
        let (rates, _) = compete(250_000, &["new-reno", "new-reno"], Span::from_secs(20)).unwrap();
        assert!(jain(&rates) > 0.9 && sum(&rates) > 45.0, "{rates:?}");
    }
}
