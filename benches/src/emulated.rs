//! The bench `emulated`: its grid, its table and its JSON. What it measures is said in `benches/emulated.rs`.

use anyhow::{Context, Result, bail};
use longhaul_cc::{Congestion, registry};
use longhaul_link::topology::Duplex;
use longhaul_link::{LinkConfig, LinkRate, Loss, scenario};
use longhaul_sim::{Content, Plan, SessionId, Setup, Sim};
use longhaul_units::{Rate, Span, Time};
use serde::Serialize;

use crate::parallel::in_parallel;
use crate::report::{setting, write_json};
use crate::stats::quartiles;

/// Random loss of the lossy half, on the way of the data.
const LOSS: f64 = 0.001;
/// Sizes whose completion is timed.
const SIZES: [(&str, u64); 4] =
    [("fct_15kB_s", 15_000), ("fct_100kB_s", 100_000), ("fct_1MB_s", 1_000_000), ("fct_10MB_s", 10_000_000)];
/// The longest that a completion is waited for, in virtual time.
const PATIENCE: Span = Span::from_secs(600);
/// Payload of a full segment, and the IP packet it is in: with timestamps, over UDP and IPv4.
const PAYLOAD: u64 = 1448;
const PACKET: u32 = PAYLOAD as u32 + 24 + 28;

/// One number of one controller on one link.
#[derive(Clone, Debug, Serialize)]
struct Row {
    scenario: &'static str,
    loss: f64,
    controller: String,
    metric: &'static str,
    median: f64,
    p25: f64,
    p75: f64,
    seeds: usize,
    /// What physics allows, if that is a number.
    limit: Option<f64>,
}

/// A cell of the grid.
#[derive(Clone)]
struct Cell {
    scenario: &'static str,
    /// The way of the data, and back.
    links: Duplex,
    loss: f64,
    controller: String,
    congestion: Congestion,
}

/// Runs the bench. `target_tmpdir`: see [`write_json`].
///
/// # Errors
/// An unknown name in the settings, or the results cannot be written.
pub fn main(target_tmpdir: &str) -> Result<()> {
    let seeds = setting("LONGHAUL_BENCH_SEEDS", 3)?.max(1);
    let span = Span::from_secs(setting("LONGHAUL_BENCH_SECONDS", 60)?);
    let cells = cells()?;
    println!("{} links and controllers, {seeds} seeds where there is chance", cells.len());
    let rows: Vec<Row> = in_parallel(&cells, |cell| cell.rows(seeds, span)).into_iter().flatten().collect();
    print_tables(&rows);
    write_json(target_tmpdir, "emulated.json", &rows)
}

/// Names with commas between them, or all.
pub(crate) fn chosen(variable: &str, all: Vec<&'static str>) -> Result<Vec<&'static str>> {
    let Ok(text) = std::env::var(variable) else { return Ok(all) };
    let find = |name: &str| all.iter().copied().find(|known| *known == name.trim());
    text.split(',').map(|name| find(name).with_context(|| format!("{variable}: there is no {name}"))).collect()
}

fn cells() -> Result<Vec<Cell>> {
    let profiles = registry::built_in().profiles.iter().map(|profile| profile.name).collect();
    let controllers = chosen("LONGHAUL_BENCH_CONTROLLERS", profiles)?;
    let names = chosen("LONGHAUL_BENCH_SCENARIOS", scenario::all().iter().map(|s| s.name).collect())?;
    let mut cells = Vec::new();
    for name in names {
        let Some(scenario) = scenario::find(name) else { bail!("there is no link {name}") };
        let Duplex { there, back } = scenario.link();
        // Where the two differ, the user downloads.
        let links = Duplex { there: back, back: there };
        for loss in [0.0, LOSS] {
            for controller in &controllers {
                let congestion = controller.parse().with_context(|| format!("making {controller}"))?;
                let links = links.clone();
                cells.push(Cell { scenario: name, links, loss, controller: (*controller).to_owned(), congestion });
            }
        }
    }
    Ok(cells)
}

/// What a transfer of a fixed time came to.
struct Bulk {
    goodput_mbps: f64,
    retransmitted: f64,
    queued_ms: [f64; 2],
}

impl Cell {
    fn rows(&self, seeds: usize, span: Span) -> Vec<Row> {
        let seeds = if self.loss > 0.0 { seeds } else { 1 };
        let mut rows = Vec::new();
        for (metric, size) in SIZES {
            let times = (0..seeds).map(|seed| self.completion(seed as u64, size));
            rows.push(self.row(metric, times, Some(self.least_completion(size))));
        }
        let bulks: Vec<_> = (0..seeds).map(|seed| self.bulk(seed as u64, span)).collect();
        rows.push(self.row("goodput_mbps", bulks.iter().map(|b| b.goodput_mbps), self.most_goodput()));
        rows.push(self.row("retransmitted_share", bulks.iter().map(|b| b.retransmitted), None));
        rows.push(self.row("queue_p50_ms", bulks.iter().map(|b| b.queued_ms[0]), None));
        rows.push(self.row("queue_p95_ms", bulks.iter().map(|b| b.queued_ms[1]), None));
        rows
    }

    fn row(&self, metric: &'static str, values: impl Iterator<Item = f64>, limit: Option<f64>) -> Row {
        let values: Vec<f64> = values.collect();
        let [p25, median, p75] = quartiles(&values);
        let (scenario, loss, controller) = (self.scenario, self.loss, self.controller.clone());
        Row { scenario, loss, controller, metric, median, p25, p75, seeds: values.len(), limit }
    }

    fn sim(&self, seed: u64) -> Sim {
        let mut links = self.links.clone();
        if self.loss > 0.0 {
            links.there = links.there.loss(Loss::Uniform(self.loss));
        }
        let setup = Setup::pair(seed + 1, links).configure(|config| {
            config.congestion = self.congestion.clone();
        });
        Sim::new(setup)
    }

    /// Seconds until `size` bytes are there.
    fn completion(&self, seed: u64, size: u64) -> f64 {
        completion(&mut self.sim(seed), size).unwrap_or(f64::INFINITY)
    }

    fn bulk(&self, seed: u64, span: Span) -> Bulk {
        let mut sim = self.sim(seed);
        let (sender, receiver) = sim.open(plan(u64::MAX), plan(0));
        sim.run_for(span);
        let id = sim.session(sender).id;
        let info = sim.host(sender.host).endpoint.connection(id).map(|connection| connection.info(sim.now()));
        let retransmitted =
            info.map_or(f64::NAN, |info| info.bytes_retransmitted as f64 / info.bytes_sent.max(1) as f64);
        let queued = sim.link(0).stats().all().sojourn;
        let quantile = |q| seconds(queued.quantile(q)) * 1e3;
        Bulk {
            goodput_mbps: read(&sim, receiver) as f64 * 8e-6 / seconds(span),
            retransmitted,
            queued_ms: [quantile(0.5), quantile(0.95)],
        }
    }

    /// The handshake, the way there, and the packets at the rate of the link. What a LEO's handover adds is left out.
    fn least_completion(&self, size: u64) -> f64 {
        let Duplex { there, back } = &self.links;
        let round_trip = seconds(there.delay) + seconds(back.delay);
        let Some(rate) = constant(there) else { return f64::NAN };
        // Full packets but for the last.
        let headers = PACKET - PAYLOAD as u32;
        let (full, rest) = (size / PAYLOAD, (size % PAYLOAD) as u32);
        let last = if rest > 0 { there.overhead.on_link(rest + headers) } else { 0 };
        let bytes = full * there.overhead.on_link(PACKET) + last;
        round_trip + seconds(there.delay) + bytes as f64 / rate.as_bytes_per_sec() as f64
    }

    /// In Mb/s; `None` where the rate changes.
    fn most_goodput(&self) -> Option<f64> {
        let there = &self.links.there;
        let share = PAYLOAD as f64 / there.overhead.on_link(PACKET) as f64;
        let rate = constant(there).filter(|_| there.steps.is_empty())?;
        Some(rate.as_bytes_per_sec() as f64 * 8e-6 * share)
    }
}

/// Seconds from when host 0 of an unused simulation connects until `size` bytes are with the application of host 1;
/// `None` if that takes longer than ten minutes.
pub(crate) fn completion(sim: &mut Sim, size: u64) -> Option<f64> {
    let (_, receiver) = sim.open(plan(size), plan(0));
    let done = sim.run(PATIENCE, |sim| read(sim, receiver) >= size);
    done.then(|| seconds(sim.now() - Time::ZERO))
}

fn plan(bytes: u64) -> Plan {
    let mut plan = if bytes == 0 { Plan::sink() } else { Plan::bulk(bytes) };
    plan.content = Content::Zeros;
    plan
}

pub(crate) fn read(sim: &Sim, id: SessionId) -> u64 {
    sim.find(id).map_or(0, |session| session.read)
}

pub(crate) fn seconds(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e9
}

fn constant(link: &LinkConfig) -> Option<Rate> {
    match link.rate {
        LinkRate::Constant(rate) => Some(rate),
        _ => None,
    }
}

/// One table a link, one line a controller.
fn print_tables(rows: &[Row]) {
    let mut tables: Vec<((&str, f64), Vec<&Row>)> = Vec::new();
    for row in rows {
        match tables.last_mut().filter(|(key, _)| *key == (row.scenario, row.loss)) {
            Some((_, rows)) => rows.push(row),
            None => tables.push(((row.scenario, row.loss), vec![row])),
        }
    }
    for ((scenario, loss), rows) in tables {
        println!("\n{scenario}, loss {} %", loss * 100.0);
        println!("{:>16} | {}", "", columns(&rows, |row| row.metric.to_owned()).join(" "));
        println!("{:>16} | {}", "limit", columns(&rows, |row| row.limit.map_or_else(String::new, number)).join(" "));
        let mut rest = rows.as_slice();
        while let Some(first) = rest.first() {
            let count = rest.iter().take_while(|row| row.controller == first.controller).count();
            let (line, later) = rest.split_at(count);
            println!("{:>16} | {}", first.controller, columns(line, |row| number(row.median)).join(" "));
            rest = later;
        }
    }
}

/// The first controller's rows as cells of the table.
fn columns(rows: &[&Row], text: impl Fn(&Row) -> String) -> Vec<String> {
    let controller = rows.first().map(|row| row.controller.as_str());
    let own = rows.iter().take_while(|row| Some(row.controller.as_str()) == controller);
    own.map(|row| format!("{:>19}", text(row))).collect()
}

fn number(value: f64) -> String {
    format!("{value:.4}")
}
