//! Instructions of the hot paths, counted by Callgrind and compared with `baseline.txt`.
//!
//! | workload | what is counted |
//! |---|---|
//! | `ack NAME` | 2,000 ACKs in congestion avoidance for the controller of that name |
//! | `repair NAME` | 500 ACKs in a recovery episode |
//! | `transfer` | 4 MB from one sans-IO endpoint to another, including the handshake |
//! | `simulator` | a bulk flow over 100 Mb/s and 20 ms for two seconds of virtual time |
//!
//! The bench fails if a workload takes over 3 % more instructions than its baseline. `cargo bench -p
//! longhaul-instructions -- --write` writes a new baseline. Without valgrind, or with another compiler than the
//! baseline's, nothing is compared, and the bench says so. Callgrind counts the instructions between entering and
//! leaving [`counted`], and writes a dump each time, so that one process can count every workload.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use longhaul_instructions::acks::{Sender, State, controllers};
use longhaul_instructions::baseline::{Baseline, Change};
use longhaul_instructions::transfer;
use longhaul_link::{Limit, LinkConfig};
use longhaul_sim::{Plan, Setup, Sim};
use longhaul_units::{Rate, Span};

const BASELINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/baseline.txt");
const ACKS: usize = 2_000;
const REPAIR_ACKS: usize = 500;
const BYTES: u64 = 4_000_000;
/// Argument that marks the process that runs under Callgrind.
const COUNTED: &str = "--counted";
/// Tunables with which the C library uses the same copying routines on all processors.
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX2,-AVX512F,-AVX512VL,-ERMS,-FSRM,-AVX_Fast_Unaligned_Load,-RTM";

/// Runs the work that is counted. Without the statement after the call, the compiler could turn the call into a jump,
/// and Callgrind would not see the end of this function.
#[inline(never)]
fn counted(work: &mut dyn FnMut()) {
    work();
    black_box(());
}

/// Passes every workload to `count`, which runs it inside [`counted`]. Returns the names of the workloads in order.
fn workloads(mut count: impl FnMut(&mut dyn FnMut())) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for controller in controllers() {
        for (kind, state, acks) in [("ack", State::Avoidance, ACKS), ("repair", State::Recovery, REPAIR_ACKS)] {
            let mut sender = Sender::new(controller, state)?;
            count(&mut || (0..acks).for_each(|_| sender.step()));
            names.push(format!("{kind} {controller}"));
        }
    }
    count(&mut || transfer::run(BYTES));
    names.push("transfer".to_owned());
    let link = LinkConfig::new(Rate::from_bits_per_sec(100_000_000), Span::from_millis(10));
    let mut sim = Sim::new(Setup::symmetric(1, link.queue(Limit::Packets(167))));
    sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
    count(&mut || sim.run_for(Span::from_secs(2)));
    names.push("simulator".to_owned());
    Ok(names)
}

fn compiler() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().context("running rustc")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs this program under Callgrind, which writes one file per workload into `directory`.
fn run_under_callgrind(directory: &Path) -> Result<()> {
    let status = Command::new("valgrind")
        .args(["--quiet", "--tool=callgrind"])
        .args(["--toggle-collect", "--dump-after"].map(|option| format!("{option}={}::counted", module_path!())))
        .arg(format!("--callgrind-out-file={}", directory.join("out").display()))
        .arg(std::env::current_exe()?)
        .arg(COUNTED)
        .env("GLIBC_TUNABLES", TUNABLES)
        .status()
        .context("running valgrind")?;
    ensure!(status.success(), "valgrind ended with {status}");
    Ok(())
}

/// Returns the number of instructions of the `number`th dump.
fn read_total(directory: &Path, number: usize) -> Result<u64> {
    let path = directory.join(format!("out.{number}"));
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")).context("a dump without totals")?;
    Ok(total.trim().parse()?)
}

fn count_all() -> Result<Baseline> {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("callgrind");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory)?;
    run_under_callgrind(&directory)?;
    let names = workloads(|_| {})?;
    let totals = (1..).zip(names).map(|(number, name)| Ok((name, read_total(&directory, number)?)));
    Ok(Baseline { compiler: compiler()?, counts: totals.collect::<Result<_>>()? })
}

/// Prints a line for each count that changed. Returns the number of counts that rose by more than the tolerance.
fn compare(known: &Baseline, now: &Baseline) -> usize {
    let mut more = 0;
    for (name, count) in &now.counts {
        let change = known.judge(name, *count);
        more += usize::from(change == Change::More);
        if change != Change::Same {
            let before = known.counts.get(name).copied().unwrap_or_default();
            println!("{name:<48} {before:>12} -> {count:>12}  {change:?}");
        }
    }
    more
}

fn run(arguments: &[String]) -> Result<()> {
    if arguments.iter().any(|argument| argument == COUNTED) {
        workloads(|work| counted(work))?;
        return Ok(());
    }
    if !needs::program("valgrind") {
        return Ok(());
    }
    let now = count_all()?;
    if arguments.iter().any(|argument| argument == "--write") {
        std::fs::write(BASELINE, now.print())?;
        println!("{} counts written to {BASELINE}", now.counts.len());
        return Ok(());
    }
    let known = Baseline::parse(&std::fs::read_to_string(BASELINE).context("reading the baseline")?);
    let what = format!("the compiler of the baseline, {}, and not {}", known.compiler, now.compiler);
    if !needs::that(known.compiler == now.compiler, "baseline-compiler", &what) {
        return Ok(());
    }
    let more = compare(&known, &now);
    println!("{} workloads counted, {more} above the baseline", now.counts.len());
    if more > 0 {
        bail!("more instructions than the baseline; if they are worth it, renew it with `-- --write`");
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
