//! Sends a file from a sender to a receiver in the same process, over UDP sockets and an emulated satellite link,
//! once with each of three congestion controllers.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use longhaul::Congestion;
use longhaul_cli::files::TempDir;
use longhaul_cli::progress::Screen;
use longhaul_cli::report;
use longhaul_cli::sender::Source;
use longhaul_cli::transport::{self, Choice, ConnectionArgs, TransportArgs};
use longhaul_examples::quickstart::choices::{self, Choices};
use longhaul_examples::quickstart::link::{self, Emulated};
use longhaul_examples::quickstart::{Finish, Racer, conclusion, table};
use tokio::task::JoinSet;

/// Size in bytes of the file generated for the loopback interface.
const SIZE: u64 = 256 << 20;

/// Sends a file through a userspace TCP to a receiver in the same process, over an emulated satellite link: with
/// three congestion controllers at the same time, each on a link of its own. The results are compared in a table.
#[derive(Debug, Parser)]
#[command(name = "quickstart", version)]
struct Args {
    /// The file to send; by default, one that the link carries in four seconds is generated
    file: Option<PathBuf>,
    /// The link: a scenario (`list` prints them), options of a link as longhaul-linkem takes them, or both. `none`:
    /// the loopback interface alone
    #[arg(long, value_name = "LINK", default_value = "geo --loss 0.1%", allow_hyphen_values = true,
        value_parser = link::parse)]
    link: link::Choice,
    /// The controllers to compare, by name or composition; `list` prints the registry [default: cubic, hybla and bbr;
    /// without a link, cubic]
    #[arg(short = 'C', long, value_name = "SPEC,SPEC", value_parser = choices::parse)]
    congestion: Vec<Choices>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Controllers compared by default on a link that nobody else uses: the Internet's default, one made for satellite
/// links, and one that does not treat every loss as congestion.
const COMPARED: &str = "cubic,hybla,bbr";

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    if matches!(args.link, link::Choice::List) {
        return transport::outcome("quickstart", transport::print(&link::list()));
    }
    let wants_list = args.congestion.iter().any(|choice| matches!(choice, Choices::List));
    let congestion = wants_list.then_some(Choice::List);
    let options = TransportArgs { congestion, connection: args.connection.clone() };
    transport::run("quickstart", &options, run(args)).await
}

async fn run(args: Args) -> Result<()> {
    let directory = TempDir::create().context("cannot create a temporary directory")?;
    let link = available(args.link);
    let path = match args.file {
        Some(path) => path,
        None => {
            let path = directory.path().join("quickstart.bin");
            let size = link.as_ref().map_or(SIZE, Emulated::file_size);
            make_up(&path, size).with_context(|| format!("cannot write {}", path.display()))?;
            path
        }
    };
    // The size of a file is known.
    let size = Source::open(&path)?.size().unwrap_or_default();
    let controllers = controllers(&args.congestion, link.is_some())?;
    let names: Vec<_> = controllers.iter().map(ToString::to_string).collect();
    let way = link.as_ref().map_or("over loopback".to_owned(), |link| format!("down the link {}", link.text));
    eprintln!("sending {} {way}", report::size(size));
    eprintln!("in UDP, with {}", names.join(", "));
    let screen = Screen::stderr();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    let racers = controllers.into_iter().zip(&names).enumerate().map(|(number, (congestion, name))| {
        let mut transport =
            TransportArgs { congestion: Some(Choice::Use(congestion)), connection: args.connection.clone() };
        // Each controller has a link of its own, so nobody's share is at risk.
        transport.connection.allow_unsafe_congestion |= link.is_some();
        Racer {
            transport: transport.for_connection(number),
            path: path.clone(),
            out: directory.path().join(format!("received-{}", number + 1)),
            link: link.clone(),
            screen: screen.labelled(format!("{name:width$}")),
        }
    });
    match &link {
        Some(link) => {
            let finishes = together(racers, &screen).await?;
            let least = link.least_time(size);
            print!("{}{}", table(&finishes, least), conclusion(&finishes, least));
            if finishes.iter().filter_map(|finish| finish.seen).any(|seen| !seen.is_reliable) {
                eprintln!("warning: the machine was too busy to keep the link's time: do not trust these numbers");
            }
            finishes.iter().try_for_each(check)
        }
        // In parallel they would compete for the processor.
        None => {
            for racer in racers {
                let finish = racer.run().await?;
                print(&finish);
                check(&finish)?;
            }
            Ok(())
        }
    }
}

/// Returns the requested link if the system supports emulated links.
fn available(choice: link::Choice) -> Option<Emulated> {
    match choice {
        link::Choice::Emulated(_) if cfg!(not(target_os = "linux")) => {
            eprintln!("warning: links are emulated on Linux only; over the loopback interface instead");
            None
        }
        link::Choice::Emulated(link) => Some(*link),
        link::Choice::Loopback | link::Choice::List => None,
    }
}

fn controllers(choices: &[Choices], is_link: bool) -> Result<Vec<Congestion>> {
    let chosen: Vec<_> = choices
        .iter()
        .filter_map(|choice| match choice {
            Choices::Use(controllers) => Some(controllers.clone()),
            Choices::List => None,
        })
        .flatten()
        .collect();
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    match choices::parse(if is_link { COMPARED } else { "cubic" })? {
        Choices::Use(controllers) => Ok(controllers),
        Choices::List => Ok(Vec::new()),
    }
}

/// Runs all transfers at the same time; the results are in the order of `racers`.
async fn together(racers: impl Iterator<Item = Racer>, screen: &Screen) -> Result<Vec<Finish>> {
    let mut running = JoinSet::new();
    for (number, racer) in racers.enumerate() {
        running.spawn(async move { (number, racer.run().await) });
    }
    let mut finishes = Vec::new();
    while let Some(ended) = running.join_next().await {
        let (number, finish) = ended.context("a transfer failed")?;
        let finish = finish?;
        screen.say(&format!(
            "{}: the file has arrived after {:.2} s",
            finish.sent.congestion,
            finish.took.as_secs_f64()
        ));
        finishes.push((number, finish));
    }
    finishes.sort_unstable_by_key(|(number, _)| *number);
    Ok(finishes.into_iter().map(|(_, finish)| finish).collect())
}

fn check(finish: &Finish) -> Result<()> {
    ensure!(finish.is_right(), "the hashes differ");
    Ok(())
}

fn print(finish: &Finish) {
    let Finish { sent, connection, received, .. } = finish;
    let verdict = if finish.is_right() { "match" } else { "DIFFER" };
    println!("bytes       {} ({})", sent.bytes, report::size(sent.bytes));
    println!("seconds     {:.3}, from connect to the receiver's confirmation", sent.seconds);
    println!("rate        {}", report::rate(sent.goodput_bps));
    println!("RTT         {} smoothed, {} at least", report::time(connection.rtt), report::time(connection.min_rtt));
    println!("cwnd        {} bytes ({})", connection.cwnd, sent.congestion);
    println!("sent twice  {} bytes", sent.retransmitted_bytes);
    let limits = sent.limited_by.fields().map(|(name, time)| format!("{name} {:.3}", time.as_secs_f64()));
    let limits: Vec<_> = limits.collect();
    println!("limited by  {} seconds", limits.join(", "));
    println!("sent        blake3 {}", sent.blake3);
    println!("received    blake3 {}", received.hash);
    println!("the hashes {verdict}");
}

/// Writes `size` bytes that do not repeat: the output of BLAKE3 as an extendable-output function.
fn make_up(path: &Path, size: u64) -> std::io::Result<()> {
    let mut output = blake3::Hasher::new().update(b"longhaul quickstart").finalize_xof();
    let mut file = BufWriter::new(File::create(path)?);
    let mut block = vec![0; 64 << 10];
    let mut left = size;
    while left > 0 {
        let part = left.min(block.len() as u64) as usize;
        output.fill(&mut block);
        file.write_all(block.get(..part).unwrap_or_default())?;
        left -= part as u64;
    }
    file.flush()
}
