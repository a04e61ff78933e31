//! The bench `peers`: every law beside the kernel's. What it measures is said in `benches/peers.rs`.

mod page;
mod wanted;

use std::process::ExitCode;

use anyhow::{Result, bail};
use serde::Serialize;

use crate::behind::transfer::Load;
use crate::behind::{self, Files, Link, Outcome};
use crate::generated::{Mode, Task, settle};
use crate::parallel::with_threads;
use crate::report::{setting, write_json};
use crate::stats::quartiles;
use crate::subjects;
use crate::transport::{Rival, Transport};
use crate::worker::Workers;

/// How the page is written.
const COMMAND: &str = "cargo bench --bench peers -- --write";
/// The kernel's, with which all are compared.
const KERNEL: [&str; 2] = ["cubic", "bbr"];

/// A link and for how long it is used.
#[derive(Clone, Copy, Debug)]
struct Course {
    head: &'static str,
    link: Link,
    seconds: f64,
}

const fn course(
    head: &'static str,
    [mbps, rtt_ms]: [u32; 2],
    queue_bdp: f64,
    loss_percent: f64,
    seconds: f64,
) -> Course {
    Course { head, link: Link { mbps, rtt_ms, queue_bdp, loss_percent, router: None }, seconds }
}

/// 150 kB of 100 Mb/s x 133 ms.
const SHALLOW: f64 = 0.150 * 8.0 / (100.0 * 0.133);

const COURSES: [Course; 6] = [
    course("155 Mb/s, 65 ms", [155, 65], 1.0, 0.0, 20.0),
    course("0.1 % lost", [155, 65], 1.0, 0.1, 40.0),
    course("0.25 %", [155, 65], 1.0, 0.25, 40.0),
    course("0.5 %", [155, 65], 1.0, 0.5, 40.0),
    course("100 Mb/s, 133 ms, 150 kB, 0.005 %", [100, 133], SHALLOW, 0.005, 30.0),
    course("20 Mb/s, 500 ms, 0.1 %", [20, 500], 1.0, 0.1, 60.0),
];

/// What one rival did on one link.
#[derive(Clone, Debug, Default, Serialize)]
struct Cell {
    /// Median over the seeds, Mb/s; NaN if a run failed.
    goodput: f64,
    /// Packets that found the queue full, percent of those offered.
    overflow: f64,
    is_disturbed: bool,
    /// Why a run failed.
    error: Option<String>,
    runs: Vec<Outcome>,
}

/// One line: a rival, and what it did on each link.
#[derive(Clone, Debug, Serialize)]
struct Row {
    name: String,
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
    let (subjects, is_part) = subjects::chosen(subjects::laws()?)?;
    if task.mode == Mode::Check || task.is_quick || is_part && task.mode == Mode::Write {
        bail!("real time does not repeat itself: there is only --write, and that of all");
    }
    if let Some(reason) = behind::obstacle() {
        println!("peers: {reason}");
        return Ok(());
    }
    let kernel = KERNEL.map(|name| Rival { transport: Transport::Tcp, congestion: Some(name.to_owned()) });
    let own = subjects.iter().map(|law| Rival { transport: Transport::Longhaul, congestion: Some(law.name.clone()) });
    let rivals: Vec<Rival> = kernel.into_iter().chain(own).collect();
    let rows = measure(&rivals)?;
    let page = page::render(&rows);
    print!("{}", page.text);
    write_json(target_tmpdir, "peers.json", &rows)?;
    settle(&[page], task.mode, COMMAND)?;
    Ok(())
}

/// All of `rivals` on all links, one link after the other.
fn measure(rivals: &[Rival]) -> Result<Vec<Row>> {
    let (budget, seeds): (u32, usize) = (setting("LONGHAUL_BENCH_MBPS", 160)?, setting("LONGHAUL_BENCH_SEEDS", 1)?);
    let workers = Workers::new()?;
    let mut rows: Vec<Row> = rivals.iter().map(|rival| Row { name: rival.name(), cells: Vec::new() }).collect();
    for course in &COURSES {
        let threads = usize::try_from(budget / course.link.mbps)?.max(1);
        let cells = with_threads(threads, rivals, |rival| run(&workers, rival, course, seeds.max(1)));
        for (row, cell) in rows.iter_mut().zip(cells) {
            row.cells.push(cell);
        }
    }
    Ok(rows)
}

fn run(workers: &Workers, rival: &Rival, course: &Course, seeds: usize) -> Cell {
    let one = |seed| {
        let make =
            || behind::transfer(workers, rival, course.link, Load::Seconds(course.seconds), seed, Files::default());
        behind::least_disturbed(make)
    };
    let cell = match (1..=seeds).map(one).collect() {
        Ok(runs) => Cell::of(runs),
        Err(error) => Cell { goodput: f64::NAN, error: Some(format!("{error:#}")), ..Cell::default() },
    };
    eprintln!("{:<24} {:<26} {}", course.link.name(), rival.name(), page::words(&cell));
    cell
}

impl Cell {
    fn of(runs: Vec<Outcome>) -> Self {
        let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
        let (packets, overflowed) =
            runs.iter().fold((0, 0), |(packets, full), run| (packets + run.packets, full + run.overflowed));
        let is_disturbed = runs.iter().any(Outcome::is_disturbed);
        let [_, goodput, _] = quartiles(&values);
        Self { goodput, overflow: 100.0 * overflowed as f64 / packets.max(1) as f64, is_disturbed, error: None, runs }
    }
}
