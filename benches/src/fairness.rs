//! The bench `fairness`: who gets what of a shared bottleneck. What it measures is said in `benches/fairness.rs`.

use std::sync::Arc;

use anyhow::{Context, Result};
use longhaul_cc::{Congestion, registry};
use longhaul_link::topology::{Duplex, dumbbell};
use longhaul_link::{Limit, LinkConfig};
use longhaul_sim::{Plan, SessionId, Setup, Sim};
use longhaul_units::{Rate, Span, Time};
use serde::Serialize;

use crate::emulated::{chosen, read, seconds};
use crate::parallel::in_parallel;
use crate::report::{setting, write_json};

const RATE: Rate = Rate::from_bits_per_sec(50_000_000);
const RTT: Span = Span::from_millis(40);
/// Queues, in bandwidth-delay products.
const QUEUES: [f64; 3] = [0.25, 1.0, 4.0];
/// Neighbours for which each controller is a guest.
const NEIGHBOURS: [&str; 2] = ["cubic", "new-reno"];
/// Between the starts of two flows, lest all of them lose in step.
const STAGGER: Span = Span::from_millis(700);

/// A controller at one queue.
#[derive(Clone, Debug, Serialize)]
struct Row {
    queue_bdp: f64,
    controller: String,
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
}

/// One flow of the controller and one of a neighbour's.
#[derive(Clone, Debug, Serialize)]
struct Beside {
    neighbour: &'static str,
    /// The controller's part of what both get.
    share: f64,
    /// What the neighbour has less than alone, as a part of that.
    harm: f64,
}

/// Runs the bench. `target_tmpdir`: see [`write_json`].
///
/// # Errors
/// An unknown name in the settings, or the results cannot be written.
pub fn main(target_tmpdir: &str) -> Result<()> {
    let span = Span::from_secs(setting("LONGHAUL_BENCH_SECONDS", 60)?);
    let profiles = registry::built_in().profiles.iter().map(|profile| profile.name).collect();
    let controllers = chosen("LONGHAUL_BENCH_CONTROLLERS", profiles)?;
    let cells: Vec<_> = QUEUES.iter().flat_map(|queue| controllers.iter().map(|name| (*queue, *name))).collect();
    let rows =
        in_parallel(&cells, |(queue, name)| row(*queue, name, span)).into_iter().collect::<Result<Vec<Row>>>()?;
    print_tables(&rows);
    write_json(target_tmpdir, "fairness.json", &rows)
}

fn row(queue_bdp: f64, name: &str, span: Span) -> Result<Row> {
    let queue = (queue_bdp * RATE.bytes_in(RTT).0 as f64) as u64;
    let of_itself = |count| compete(queue, &vec![name; count], span);
    let (alone, (two, _), (ten, _)) = (of_itself(1)?, of_itself(2)?, of_itself(10)?);
    let beside = NEIGHBOURS.into_iter().map(|neighbour| {
        let (solo, _) = compete(queue, &[neighbour], span)?;
        let (both, _) = compete(queue, &[name, neighbour], span)?;
        let harm = (sum(&solo) - both.last().copied().unwrap_or_default()) / sum(&solo);
        let share = both.first().copied().unwrap_or_default() / sum(&both);
        Ok(Beside { neighbour, share, harm: harm.max(0.0) })
    });
    Ok(Row {
        queue_bdp,
        controller: name.to_owned(),
        alone_mbps: sum(&alone.0),
        queue_p50_ms: alone.1,
        jain_2: jain(&two),
        jain_10: jain(&ten),
        together_mbps: sum(&ten),
        beside: beside.collect::<Result<_>>()?,
    })
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
        let mut config = longhaul_tcp::Config::clone(&host.config);
        config.congestion = congestion;
        host.config = Arc::new(config);
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
            print!(" | {:>18} {:>5}", format!("share by {neighbour}"), "harm");
        }
        println!();
        for row in rows.iter().filter(|row| row.queue_bdp == queue) {
            print!("{:>18} | {:>7.1} {:>9.1} |", row.controller, row.alone_mbps, row.queue_p50_ms);
            print!(" {:>6.3} {:>7.3} {:>8.1}", row.jain_2, row.jain_10, row.together_mbps);
            for Beside { share, harm, .. } in &row.beside {
                print!(" | {share:>18.3} {harm:>5.2}");
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

    /// Two equals share, and each has half of what it had alone.
    #[test]
    fn a_flow_beside_its_like_has_half() {
        let (rates, _) = compete(250_000, &["new-reno", "new-reno"], Span::from_secs(20)).unwrap();
        assert!(jain(&rates) > 0.9 && sum(&rates) > 45.0, "{rates:?}");
    }
}
