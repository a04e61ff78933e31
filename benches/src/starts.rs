//! The bench `starts`: a megabyte under every start. What it measures is said in `benches/starts.rs`.

use std::env;
use std::process::ExitCode;

use anyhow::{Result, bail};
use longhaul_linkem::shell::INIT;
use serde::Serialize;

use crate::behind::transfer::{self, Load};
use crate::behind::{self, Link};
use crate::generated::{Mode, Page, Task, docs, settle, table};
use crate::parallel::with_threads;
use crate::report::{setting, write_json};
use crate::stats::quartiles;
use crate::transport::{Rival, Transport};
use crate::worker::{self, Workers};

/// How the page is written.
const COMMAND: &str = "cargo bench --bench starts -- --write";
const SIZE: u64 = 1_000_000;
/// What the first connection carries where the second is measured.
const BEFORE: u64 = 20_000_000;
/// Wire bytes for each byte of payload.
const OVERHEAD: f64 = 1500.0 / 1448.0;

/// The kernel's.
const KERNEL: [&str; 2] = ["cubic", "bbr"];
/// Ours without a memory. CUBIC from ten segments first: the others are compared with it.
const COLD: [&str; 18] = [
    "cubic",
    "bbr",
    "bbr1",
    "initial-burst+cubic",
    "swift-start(gamma=4)+cubic",
    "swift-start(gamma=1)+cubic",
    "swift-start-hardened(gamma=4)+cubic",
    "swift-start-hardened(gamma=1)+cubic",
    "jump-start+cubic",
    "jump-start(max-jump=0)+cubic",
    "halfback+cubic",
    "paced-start+cubic",
    "tcp-peach",
    "tcp-swift",
    "suss+cubic",
    "search+cubic",
    "rapid-start+cubic+rapid-start-recovery",
    "limited-slow-start+cubic",
];
/// Ours on a path that is known.
const KNOWN: [&str; 2] = ["careful-resume+cubic", "cached-start+cubic"];

const fn link(mbps: u32, rtt_ms: u32, queue_bdp: f64) -> Link {
    Link { mbps, rtt_ms, queue_bdp, loss_percent: 0.0 }
}

const LINKS: [Link; 6] = [
    link(5, 500, 1.0),
    link(20, 500, 1.0),
    link(20, 100, 1.0),
    link(5, 500, 0.5),
    link(20, 500, 0.5),
    link(20, 100, 0.5),
];

/// What one rival did on one link.
#[derive(Clone, Debug, Default, Serialize)]
struct Cell {
    /// Median, least and most over the runs, seconds; NaN if a run failed.
    seconds: [f64; 3],
    /// Packets that found the queue full, percent of those offered.
    overflow: f64,
    is_disturbed: bool,
    error: Option<String>,
}

/// A rival, whether it knows the path, and what it did on each link.
#[derive(Clone, Debug, Serialize)]
struct Row {
    name: String,
    known: bool,
    cells: Vec<Cell>,
}

/// Runs the bench; or the emulator, or one side of a transfer, when this process is one. `target_tmpdir`: see
/// [`write_json`].
///
/// # Errors
/// An unknown argument or name, or results that cannot be written.
pub fn main(target_tmpdir: &str) -> Result<ExitCode> {
    if env::args().nth(1).is_some_and(|first| first == behind::SHELL || first == INIT) {
        return Ok(longhaul_linkem::args::main());
    }
    if let Some(job) = worker::job()? {
        worker::run(transfer::work(job))?;
        return Ok(ExitCode::SUCCESS);
    }
    let task = Task::from_args()?;
    if task.mode == Mode::Check || task.is_quick {
        bail!("real time does not repeat itself: there is only --write");
    }
    if let Some(reason) = behind::obstacle() {
        println!("starts: {reason}");
        return Ok(ExitCode::SUCCESS);
    }
    let rows = measure()?;
    let page = render(&rows);
    print!("{}", page.text);
    write_json(target_tmpdir, "starts.json", &rows)?;
    settle(&[page], task.mode, COMMAND)?;
    Ok(ExitCode::SUCCESS)
}

/// Everybody, and whether the path is known.
fn rivals() -> Vec<(Rival, bool)> {
    let rival = |transport, name: &str| Rival { transport, congestion: Some(name.to_owned()) };
    let kernel = KERNEL.map(|name| (rival(Transport::Tcp, name), false));
    let cold = COLD.map(|name| (rival(Transport::Longhaul, name), false));
    let known = KNOWN.map(|name| (rival(Transport::Longhaul, name), true));
    kernel.into_iter().chain(cold).chain(known).collect()
}

fn measure() -> Result<Vec<Row>> {
    let (budget, seeds): (u32, usize) = (setting("LONGHAUL_BENCH_MBPS", 100)?, setting("LONGHAUL_BENCH_SEEDS", 3)?);
    let (workers, rivals) = (Workers::new()?, rivals());
    let mut rows: Vec<Row> =
        rivals.iter().map(|(rival, known)| Row { name: rival.name(), known: *known, cells: Vec::new() }).collect();
    for link in LINKS {
        let threads = usize::try_from(budget / link.mbps)?.max(1);
        let cells = with_threads(threads, &rivals, |(rival, known)| run(&workers, rival, *known, link, seeds.max(1)));
        rows.iter_mut().zip(cells).for_each(|(row, cell)| row.cells.push(cell));
    }
    Ok(rows)
}

fn run(workers: &Workers, rival: &Rival, known: bool, link: Link, seeds: usize) -> Cell {
    let load = if known { Load::Known { before: BEFORE, bytes: SIZE } } else { Load::Bytes(SIZE) };
    let one = |seed| behind::least_disturbed(|| behind::transfer(workers, rival, link, load, seed, None));
    let runs: Result<Vec<_>> = (1..=seeds).map(one).collect();
    let cell = match runs {
        Ok(runs) => {
            let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
            let (packets, full) = runs.iter().fold((0, 0), |(p, f), run| (p + run.packets, f + run.overflowed));
            let [_, median, _] = quartiles(&values);
            let (least, most) = values.iter().fold((f64::MAX, 0.0_f64), |(l, m), v| (l.min(*v), m.max(*v)));
            Cell {
                seconds: [median, least, most],
                overflow: 100.0 * full as f64 / packets.max(1) as f64,
                is_disturbed: runs.iter().any(behind::Outcome::is_disturbed),
                error: None,
            }
        }
        Err(error) => Cell { seconds: [f64::NAN; 3], error: Some(format!("{error:#}")), ..Cell::default() },
    };
    eprintln!("{:<22} {:<40} {}", link.name(), rival.name(), words(&cell));
    cell
}

/// Handshake, one way, and the time that the bytes take.
fn limit(link: Link) -> f64 {
    f64::from(link.rtt_ms) * 1.5e-3 + SIZE as f64 * OVERHEAD * 8e-6 / f64::from(link.mbps)
}

fn words(cell: &Cell) -> String {
    if let Some(error) = &cell.error {
        return format!("failed: {error}");
    }
    let full = if cell.overflow >= 0.05 { format!(" ({:.1})", cell.overflow) } else { String::new() };
    format!("{:.2}{full}{}", cell.seconds[0], if cell.is_disturbed { "*" } else { "" })
}

fn render(rows: &[Row]) -> Page {
    let head = |link: &Link| format!("{} Mb/s, {} ms, {} BDP", link.mbps, link.rtt_ms, link.queue_bdp);
    let heads = [String::new()].into_iter().chain(LINKS.iter().map(head)).collect();
    let limits =
        ["limit".to_owned()].into_iter().chain(LINKS.iter().map(|link| format!("{:.2}", limit(*link)))).collect();
    let lines = rows.iter().map(|row| {
        let name = format!("`{}`{}", row.name, if row.known { ", known path" } else { "" });
        [name].into_iter().chain(row.cells.iter().map(words)).collect::<Vec<_>>()
    });
    let table = table(&[heads, limits].into_iter().chain(lines).collect::<Vec<_>>());
    let text = format!(
        "# A megabyte on a fresh connection\n\n<!-- generated by {COMMAND} -->\n\n\
         Seconds from before `connect` until the last byte is there, over real sockets and an emulated link, in real time: the median of \
         some runs, and\nin parentheses packets that found the queue full, in percent, if there were any. The queue is in bandwidth-delay \
         products. `tcp-cubic` and\n`tcp-bbr` are the kernel's, in the same run. The limit is the handshake, one way, and the time that \
         the bytes take. On a known path an earlier\nconnection carried 20 MB. longhaul's receivers offer 4 MB from the start, the kernel's what it \
         does by default. An asterisk marks runs in which the\nmachine was too busy.\n\n{table}"
    );
    Page { path: docs("starts.md"), text }
}
