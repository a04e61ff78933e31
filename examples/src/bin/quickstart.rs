//! Races congestion controllers in one process: each sends the same data over UDP sockets and an emulated satellite
//! link of its own.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use longhaul::Congestion;
use longhaul_examples::quickstart::choices::{self, Choices};
use longhaul_examples::quickstart::link::{self, Emulated};
use longhaul_examples::quickstart::{Finish, Racer, conclusion, show_progress, table};
use longhaul_link::text;
use tokio::task::JoinSet;

/// Default amount of data over the loopback interface, in MB.
const MEGABYTES: u64 = 256;
/// Controllers to compare by default on a link that carries no other traffic: the Internet's default, one made for
/// satellite links, and one that does not treat every loss as congestion.
const COMPARED: &str = "cubic,bbr,copa-cubic";

/// Sends data through a userspace TCP to a receiver in the same process, over an emulated satellite link: with three
/// congestion controllers at the same time, each on a link of its own. The results are compared in a table.
#[derive(Debug, Parser)]
#[command(name = "quickstart", version)]
struct Args {
    /// The link: a scenario (`list` prints them), options of a link as longhaul-linkem takes them, or both. `none`:
    /// the loopback interface alone
    #[arg(long, value_name = "LINK", default_value = "geo --loss 0.1%", allow_hyphen_values = true,
        value_parser = link::parse)]
    link: link::Choice,
    /// The controllers to compare, by name or composition; `list` prints the registry [default: cubic, bbr and copa-cubic;
    /// without a link, copa-cubic]
    #[arg(short = 'C', long, value_name = "SPEC,SPEC", value_parser = choices::parse)]
    congestion: Vec<Choices>,
    /// Send this many MB (of 1,000,000 bytes) [default: what the link carries in four seconds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    megabytes: Option<u64>,
}

#[tokio::main]
async fn main() -> ExitCode {
    if let Err(error) = longhaul_zoo::register() {
        eprintln!("quickstart: {error}");
        return ExitCode::FAILURE;
    }
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quickstart: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<()> {
    if matches!(args.link, link::Choice::List) {
        return print(&link::list());
    }
    if args.congestion.iter().any(|choice| matches!(choice, Choices::List)) {
        return print(&Congestion::list());
    }
    if cfg!(debug_assertions) {
        eprintln!("warning: built without --release, this is several times slower than it can be");
    }
    let link = available(args.link);
    let size = match args.megabytes {
        Some(megabytes) => megabytes * 1_000_000,
        None => link.as_ref().map_or(MEGABYTES * 1_000_000, Emulated::size),
    };
    let controllers = controllers(args.congestion, link.is_some())?;
    let names: Vec<_> = controllers.iter().map(ToString::to_string).collect();
    let way = link.as_ref().map_or("over loopback".to_owned(), |link| format!("down the link {}", link.text));
    eprintln!("sending {} {way}\nin UDP, with {}", text::size(size), names.join(", "));
    let racers = controllers.into_iter().map(|congestion| Racer::new(congestion, size, link.clone())).collect();
    let finishes = if link.is_some() { together(racers).await? } else { one_by_one(racers).await? };
    let least = link.map(|link| link.least_time(size));
    print(&(table(&finishes, least) + &conclusion(&finishes, least)))?;
    if finishes.iter().filter_map(|finish| finish.seen).any(|seen| !seen.is_reliable) {
        eprintln!("warning: the machine was too busy to keep the link's time: do not trust these numbers");
    }
    Ok(())
}

/// Prints to standard output. A closed standard output, as in `quickstart -C list | head`, is not an error.
fn print(text: &str) -> Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

/// Returns the requested link, unless the system does not support emulated links.
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

fn controllers(choices: Vec<Choices>, is_link: bool) -> Result<Vec<Congestion>> {
    let choices = match choices.is_empty() {
        true => vec![choices::parse(if is_link { COMPARED } else { "copa-cubic" })?],
        false => choices,
    };
    let mut controllers = Vec::new();
    for choice in choices {
        match choice {
            Choices::Use(some) => controllers.extend(some),
            Choices::List => bail!("`list` does not go with controllers"),
        }
    }
    Ok(controllers)
}

/// Runs all transfers at the same time. The results are in the order of `racers`.
async fn together(racers: Vec<Racer>) -> Result<Vec<Finish>> {
    let progress = tokio::spawn(show_progress(racers.iter().map(Racer::progress).collect()));
    let mut running = JoinSet::new();
    for (number, racer) in racers.into_iter().enumerate() {
        running.spawn(async move { (number, racer.run().await) });
    }
    let mut finishes = Vec::new();
    while let Some(ended) = running.join_next().await {
        let (number, finish) = ended.context("a transfer failed")?;
        finishes.push((number, finish?));
    }
    progress.abort();
    finishes.sort_unstable_by_key(|(number, _)| *number);
    Ok(finishes.into_iter().map(|(_, finish)| finish).collect())
}

/// Runs the transfers one after the other, because without emulated links they would compete for the processor.
async fn one_by_one(racers: Vec<Racer>) -> Result<Vec<Finish>> {
    let mut finishes = Vec::new();
    for racer in racers {
        finishes.push(racer.run().await?);
    }
    Ok(finishes)
}
