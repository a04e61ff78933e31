//! The bench `starts`: a megabyte under every start. What it measures is said in `benches/starts.rs`.

use std::process::ExitCode;
use std::{fs, path};

use anyhow::{Result, bail};
use serde::Serialize;

use crate::behind::transfer::Load;
use crate::behind::{self, Files, Link, Outcome};
use crate::generated::{Mode, Page, Task, docs, settle, table};
use crate::parallel::with_threads;
use crate::report::{setting, write_json};
use crate::stats::quartiles;
use crate::transport::{Rival, Transport};
use crate::worker::Workers;

/// How the page is written.
const COMMAND: &str = "cargo bench --bench starts -- --write";
const SIZE: u64 = 1_000_000;
/// What an earlier connection carried where the path is known.
const BEFORE: u64 = 20_000_000;
/// Wire bytes for each byte of payload.
const OVERHEAD: f64 = 1500.0 / 1448.0;

/// The kernel's.
const KERNEL: [&str; 2] = ["cubic", "bbr"];
/// Ours: CUBIC behind every start but BBN's, which takes a minute; those that have a law of their own follow.
const OURS: &[(&str, Path)] = &[
    ("cubic", Path::Unknown),
    ("bbr", Path::Unknown),
    ("bbr1", Path::Unknown),
    ("initial-burst+cubic", Path::Unknown),
    ("pacing-only+cubic", Path::Unknown),
    ("swift-start(gamma=4)+cubic", Path::Unknown),
    ("swift-start(gamma=1)+cubic", Path::Unknown),
    ("swift-start-hardened(gamma=4)+cubic", Path::Unknown),
    ("swift-start-hardened(gamma=1)+cubic", Path::Unknown),
    ("jump-start+cubic", Path::Unknown),
    ("jump-start(max-jump=0)+cubic", Path::Unknown),
    ("halfback+cubic", Path::Unknown),
    ("rc3+cubic", Path::Unknown),
    ("paced-start+cubic", Path::Unknown),
    ("sudden-start+cubic", Path::Unknown),
    ("peach-jump-start+cubic", Path::Unknown),
    ("speedy-start+cubic", Path::Unknown),
    ("hystart+cubic", Path::Unknown),
    ("suss+cubic", Path::Unknown),
    ("search+cubic", Path::Unknown),
    ("rapid-start+cubic+rapid-start-recovery", Path::Unknown),
    ("limited-slow-start+cubic", Path::Unknown),
    ("tcp-peach", Path::Unknown),
    ("tcp-peach-plus", Path::Unknown),
    ("tcp-swift", Path::Unknown),
    ("careful-resume+cubic", Path::Known),
    ("cached-start+cubic", Path::Known),
    ("quick-start+cubic", Path::Router("quick-start")),
    ("rcp", Path::Router("rcp")),
    ("xcp", Path::Router("xcp")),
];

/// What a sender has of the path.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
enum Path {
    /// Nothing.
    Unknown,
    /// What an earlier connection left.
    Known,
    /// The help of routers of this name.
    Router(&'static str),
}

const fn link(mbps: u32, rtt_ms: u32, queue_bdp: f64) -> Link {
    Link { mbps, rtt_ms, queue_bdp, loss_percent: 0.0, router: None }
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

/// A rival, what it has of the path, and what it did on each link.
#[derive(Clone, Debug, Serialize)]
struct Row {
    name: String,
    path: Path,
    cells: Vec<Cell>,
}

/// Runs the bench; or the emulator, or one side of a transfer, when this process is one. `target_tmpdir`: see
/// [`write_json`].
///
/// # Errors
/// An unknown argument or name, or results that cannot be written.
pub fn main(target_tmpdir: &str) -> Result<ExitCode> {
    behind::run(|| bench(target_tmpdir))
}

fn bench(target_tmpdir: &str) -> Result<()> {
    let task = Task::from_args()?;
    if task.mode == Mode::Check || task.is_quick {
        bail!("real time does not repeat itself: there is only --write");
    }
    if let Some(reason) = behind::obstacle() {
        println!("starts: {reason}");
        return Ok(());
    }
    let rows = measure(target_tmpdir)?;
    let page = render(&rows);
    print!("{}", page.text);
    write_json(target_tmpdir, "starts.json", &rows)?;
    settle(&[page], task.mode, COMMAND)?;
    Ok(())
}

/// Everybody, and what they have of the path.
fn rivals() -> Vec<(Rival, Path)> {
    let rival = |transport, name: &str| Rival { transport, congestion: Some(name.to_owned()) };
    let kernel = KERNEL.map(|name| (rival(Transport::Tcp, name), Path::Unknown));
    let ours = OURS.iter().map(|(name, path)| (rival(Transport::Longhaul, name), *path));
    kernel.into_iter().chain(ours).collect()
}

fn measure(scratch: &str) -> Result<Vec<Row>> {
    let (budget, seeds): (u32, usize) = (setting("LONGHAUL_BENCH_MBPS", 100)?, setting("LONGHAUL_BENCH_SEEDS", 3)?);
    let (workers, rivals) = (Workers::new()?, rivals());
    let mut rows: Vec<Row> =
        rivals.iter().map(|(rival, path)| Row { name: rival.name(), path: *path, cells: Vec::new() }).collect();
    for link in LINKS {
        let threads = usize::try_from(budget / link.mbps)?.max(1);
        let cells = with_threads(threads, &rivals, |(rival, path)| {
            let router = if let Path::Router(name) = path { Some(*name) } else { None };
            let memory = (*path == Path::Known).then(|| format!("{scratch}/paths-{}-{}", link.name(), rival.name()));
            let link = Link { router, ..link };
            let one = |seed| behind::least_disturbed(|| one(&workers, rival, memory.as_deref(), link, seed));
            cell((1..=seeds.max(1)).map(one).collect(), &format!("{:<22} {}", link.name(), rival.name()))
        });
        rows.iter_mut().zip(cells).for_each(|(row, cell)| row.cells.push(cell));
    }
    Ok(rows)
}

/// One run. What `memory` names is made by an earlier connection, which is not measured.
fn one(workers: &Workers, rival: &Rival, memory: Option<&str>, link: Link, seed: usize) -> Result<Outcome> {
    let memory = memory.map(path::Path::new);
    let files = Files { memory, log: None };
    if let Some(file) = memory {
        if file.exists() {
            fs::remove_file(file)?;
        }
        behind::transfer(workers, rival, link, Load::Bytes(BEFORE), seed, files)?;
    }
    behind::transfer(workers, rival, link, Load::Bytes(SIZE), seed, files)
}

fn cell(runs: Result<Vec<Outcome>>, what: &str) -> Cell {
    let cell = match runs {
        Ok(runs) => {
            let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
            let (packets, full) = runs.iter().fold((0, 0), |(p, f), run| (p + run.packets, f + run.overflowed));
            let [_, median, _] = quartiles(&values);
            let (least, most) = values.iter().fold((f64::MAX, 0.0_f64), |(l, m), v| (l.min(*v), m.max(*v)));
            Cell {
                seconds: [median, least, most],
                overflow: 100.0 * full as f64 / packets.max(1) as f64,
                is_disturbed: runs.iter().any(Outcome::is_disturbed),
                error: None,
            }
        }
        Err(error) => Cell { seconds: [f64::NAN; 3], error: Some(format!("{error:#}")), ..Cell::default() },
    };
    eprintln!("{what:<64} {}", words(&cell));
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
        let path = match row.path {
            Path::Unknown => "",
            Path::Known => ", known path",
            Path::Router(_) => ", its routers",
        };
        let name = format!("`{}`{path}", row.name);
        [name].into_iter().chain(row.cells.iter().map(words)).collect::<Vec<_>>()
    });
    let table = table(&[heads, limits].into_iter().chain(lines).collect::<Vec<_>>());
    let text = format!(
        "# A megabyte on a fresh connection\n\n<!-- generated by {COMMAND} -->\n\n\
         Seconds from before `connect` until the last byte is there, over real sockets and an emulated link, in real time: the median of \
         some runs, and\nin parentheses packets that found the queue full, in percent, if there were any. The queue is in bandwidth-delay \
         products. `tcp-cubic` and\n`tcp-bbr` are the kernel's, in the same run. The limit is the handshake, one way, and the time that \
         the bytes take. On a known path an earlier\nconnection carried 20 MB, which is not counted; \"its routers\" are at both ends of the link, and were idle before. \
         longhaul's receivers offer\n4 MiB from the start, the kernel's what they do by default. An asterisk marks runs in which the machine \
         was too busy.\n\n{table}"
    );
    Page { path: docs("starts.md"), text }
}
