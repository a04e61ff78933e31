//! Sends files to `receive`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use longhaul_cli::progress::Screen;
use longhaul_cli::report;
use longhaul_cli::sender::Source;
use longhaul_cli::session::{self, Outcome};
use longhaul_cli::transport::{self, TransportArgs};

/// Sends files to `receive`, over longhaul.
///
/// All files are sent over one connection, one after the other; the receiver confirms each with the BLAKE3 hash of
/// the data written. The first failure ends the program.
#[derive(Debug, Parser)]
#[command(name = "send", version)]
struct Args {
    /// The receiver: HOST:PORT
    #[arg(value_name = "ADDR")]
    address: Option<String>,
    /// The files to send
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print a JSON object per sent file, each on a line of standard output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    transport: TransportArgs,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let address = args.address.clone().filter(|_| !args.files.is_empty());
    if address.is_none() && !args.transport.wants_list() {
        let what = "an address and at least one file are needed: send HOST:PORT FILE...";
        Args::command().error(ErrorKind::MissingRequiredArgument, what).exit();
    }
    transport::run("send", &args.transport, run(&args, &address.unwrap_or_default())).await
}

async fn run(args: &Args, address: &str) -> Result<()> {
    // All files are opened first, so that a missing one is found before anything is sent.
    let sources = args.files.iter().map(|path| Source::open(path)).collect::<Result<Vec<_>, _>>()?;
    let addresses = tokio::net::lookup_host(address).await;
    let addresses: Vec<_> = addresses.with_context(|| format!("{address:?} is not an address (HOST:PORT)"))?.collect();
    let screen = Screen::stderr();
    let report = |done: Outcome, _: &transport::Snapshot| {
        let sent = match done {
            Outcome::Sent(sent) => sent,
            Outcome::Skipped(file) => {
                return screen.say(&format!("{file}: the receiver has kept another file of this name"));
            }
            Outcome::Failed(file, reason) => return screen.say(&format!("{file}: not sent: {reason}")),
            Outcome::Created(_) => return,
        };
        if args.json {
            screen.print(&report::json_line(&sent));
            return;
        }
        let (size, rate) = (report::size(sent.bytes), report::rate(sent.goodput_bps));
        let (file, seconds, hash) = (&sent.file, sent.seconds, &sent.blake3);
        let resent = report::size(sent.retransmitted_bytes);
        screen
            .say(&format!("{file}: {size} in {seconds:.2} s, {rate}, {resent} retransmitted, blake3 {hash} confirmed"));
    };
    session::send(&args.transport, &addresses, sources, &screen, report).await
}
