//! Jump-Start with several limits, in the manner of Scharf's study of fast starts (ICCRG, 2011; his thesis of 2009): short transfers
//! beside cross traffic, over nine round trips and short queues. His slides do not say how his Jump-Start was modified, nor what the
//! transfers under test were: here those are parameters, and what counts is how much they matter.

use std::sync::Arc;

use anyhow::{Context, Result};
use longhaul_cc::Congestion;
use longhaul_link::source::{BoundedPareto, HttpWorkload};
use longhaul_link::topology::{Duplex, evaluation_dumbbell};
use longhaul_link::{Limit, LinkConfig, Random};
use longhaul_sim::{Setup, Sim, WorkloadId, exchange_of, full_segments};
use longhaul_units::{Rate, Span, Time};

use super::Section;
use super::ledger::Loss;
use crate::emulated::seconds;
use crate::generated::table;
use crate::parallel::in_parallel;
use crate::stats::percentile;

/// The bottleneck (Scharf, "Evaluation methodology").
const RATE: Rate = Rate::from_bits_per_sec(10_000_000);
/// Its delay, each way: that of the evaluation suite's access link (draft-irtf-iccrg-tcpeval-01, section 4.2). A parameter.
const DELAY: Span = Span::from_millis(2);
/// Packets that its queue holds: half of Scharf's 50, those, and what he calls reasonable.
const BUFFERS: [u64; 3] = [25, 50, 100];
/// What cross traffic takes of the link, percent: up to his 35.
const LOADS: [u32; 3] = [10, 25, 35];
/// What the transfers under test take, percent, and how large each is: parameters. All limits are below the size.
const OWN_LOAD: f64 = 0.1;
const SIZE: u64 = 200_000;
/// Buffers of the sockets (Scharf).
const SOCKET: usize = 8 << 20;
/// How long connections are opened, and how long the last of them may take.
const SPAN: Span = Span::from_secs(600);
const PATIENCE: Span = Span::from_secs(120);
/// What does not start fast: CUBIC from RFC 3390's window, as Linux had it.
const PLAIN: &str = "slow-start(iw=3)+cubic";
/// What is compared.
const SCHEMES: [&str; 7] = [
    PLAIN,
    "slow-start+cubic",
    "initial-burst+slow-start+cubic",
    "jump-start(max-jump=32)+slow-start+cubic",
    "jump-start(max-jump=64)+slow-start+cubic",
    "jump-start(max-jump=128)+slow-start+cubic",
    "jump-start(max-jump=0)+slow-start+cubic",
];

/// What came of a run.
#[derive(Clone, Debug)]
struct Run {
    /// Seconds of the transfers under test, ascending; infinite if one did not end.
    own: Vec<f64>,
    /// Of the cross traffic.
    cross: Vec<f64>,
    loss: Loss,
}

/// All of it.
///
/// # Errors
/// A name of the registry is none.
pub(super) fn measure() -> Result<Section> {
    let mut jobs = Vec::new();
    for load in LOADS {
        for scheme in SCHEMES {
            let congestion: Congestion = scheme.parse().with_context(|| format!("making {scheme}"))?;
            jobs.extend(BUFFERS.map(|buffer| (load, congestion.clone(), buffer)));
        }
    }
    let runs = in_parallel(&jobs, |(load, scheme, buffer)| run(*load, scheme, *buffer, SPAN));
    let runs = runs.into_iter().collect::<Result<Vec<_>>>()?;
    let mut text = introduction();
    for (load, runs) in LOADS.into_iter().zip(runs.chunks(SCHEMES.len() * BUFFERS.len())) {
        text += &format!("\n### Cross traffic of {load} %\n\n{}", at_load(runs));
    }
    Ok(Section { id: "sweep".to_owned(), text })
}

fn at_load(runs: &[Run]) -> String {
    let columns = |what: &str| BUFFERS.map(|buffer| format!("{what}{buffer} packets"));
    let heads = [String::new()].into_iter().chain(columns("")).chain(columns("others, ")).collect();
    let line = |(scheme, runs): (&str, &[Run])| {
        let own = runs.iter().map(|run| format!("{} ({:.2})", two(&run.own), run.loss.percent()));
        let others = runs.iter().map(|run| two(&run.cross));
        [format!("`{scheme}`")].into_iter().chain(own).chain(others).collect()
    };
    let lines = SCHEMES.into_iter().zip(runs.chunks(BUFFERS.len())).map(line);
    table(&[heads].into_iter().chain(lines).collect::<Vec<Vec<_>>>())
}

/// The median and the 99th percentile.
fn two(sorted: &[f64]) -> String {
    format!("{:.2}, {:.2}", percentile(sorted, 50), percentile(sorted, 99))
}

fn introduction() -> String {
    format!(
        "## Jump-Start's limit in short transfers\n\nIn the manner of Scharf's study (ICCRG, 2011): {} Mb/s, drop-tail, the evaluation suite's nine round trips of {} to {} ms, \
         sockets' buffers of\n8 MiB. Cross traffic is HTTP/1.0 with responses of 14 kB on average (bounded Pareto, shape 1.1, at most \
         10 MB), all by `{PLAIN}`. Beside\nit responses of {} kB, {:.0} % of the link, by the scheme in question. That size and share, the \
         bottleneck's delay of {} ms, Poisson arrivals, and our pacing\nare parameters that his slides do not give; nor do they say how his \
         Jump-Start was changed. So this shows what the limit does, not his figures.\n\nSeconds from the SYN to the last byte, median and 99th \
         percentile, and in parentheses packets that the queue dropped, in percent: of all that\ncame, in {} s. *Others* is the cross \
         traffic's time.\n",
        RATE.as_bits_per_sec() / 1_000_000,
        4 + 2 * DELAY.as_millis(),
        200 + 2 * DELAY.as_millis(),
        SIZE / 1000,
        OWN_LOAD * 100.0,
        DELAY.as_millis(),
        SPAN.as_millis() / 1000,
    )
}

/// Servers on the left, clients on the right; of each round trip one pair for the cross traffic and one under test.
fn run(load: u32, scheme: &Congestion, buffer: u64, span: Span) -> Result<Run> {
    let link = LinkConfig::new(RATE, DELAY);
    let net = evaluation_dumbbell(Duplex { there: link.clone().queue(Limit::Packets(buffer)), back: link }, 2);
    let plain: Congestion = PLAIN.parse().with_context(|| format!("making {PLAIN}"))?;
    let mut setup = Setup::new(1, net.topology).configure(|config| {
        full_segments(config);
        (config.recv_buffer, config.recv_buffer_max, config.send_buffer) = (SOCKET, SOCKET, SOCKET);
        config.congestion = plain.clone();
    });
    let pairs: Vec<_> =
        net.right.iter().zip(&net.left).map(|(right, left)| (*right as usize, *left as usize)).collect();
    let (cross, own) = pairs.split_at(pairs.len() / 2);
    for node in own.iter().flat_map(|(client, server)| [*client, *server]) {
        let host = setup.hosts.get_mut(node).context("the dumbbell has no such host")?;
        Arc::make_mut(&mut host.config).congestion = scheme.clone();
    }
    let mut sim = Sim::new(setup);
    let mut add = |pairs: &[(usize, usize)], load: f64, sizes: BoundedPareto, stream: u64| -> Vec<WorkloadId> {
        let share = load / pairs.len().max(1) as f64;
        (stream..)
            .zip(pairs)
            .map(|(stream, (client, server))| {
                let transfers = HttpWorkload::new(Time::ZERO, RATE, share, sizes, Random::new(1, stream));
                sim.add_workload(*client, *server, transfers.map(|transfer| exchange_of(&transfer)), Time::ZERO + span)
            })
            .collect()
    };
    let cross = add(cross, f64::from(load) / 100.0, BoundedPareto::http_responses(), 1000);
    let own = add(own, OWN_LOAD, BoundedPareto::new(SIZE as f64, SIZE as f64, 1.1), 2000);
    sim.run_for(span + PATIENCE);
    Ok(Run {
        own: times(&sim, &own),
        cross: times(&sim, &cross),
        loss: Loss::by_class(sim.link(net.bottleneck.0).stats()),
    })
}

/// How long each connection of these took, ascending.
fn times(sim: &Sim, workloads: &[WorkloadId]) -> Vec<f64> {
    let time = |client: &longhaul_sim::Session| {
        let at = client.read_at.filter(|_| client.ended && client.error.is_none());
        at.map_or(f64::INFINITY, |at| seconds(at - client.opened_at))
    };
    let clients = workloads.iter().flat_map(|id| sim.opened_by(*id)).filter_map(|(client, _)| sim.find(*client));
    let mut times: Vec<f64> = clients.map(time).collect();
    times.sort_by(f64::total_cmp);
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 10 Mb/s a tenth: five responses of 200 kB in eight seconds, and all of them end; a jump is sooner than slow start.
    #[test]
    fn transfers_come_as_often_as_their_load_says() {
        let run = |scheme: &str| run(10, &scheme.parse().unwrap(), 100, Span::from_secs(200)).unwrap();
        let (plain, jump) = (run(PLAIN), run("jump-start(max-jump=0)+slow-start+cubic"));
        assert_eq!(plain.own.len(), jump.own.len());
        assert!((90..160).contains(&plain.own.len()), "{}", plain.own.len());
        assert!(plain.own.last().unwrap().is_finite() && jump.cross.last().unwrap().is_finite());
        assert!(percentile(&jump.own, 50) < 0.8 * percentile(&plain.own, 50));
    }
}
