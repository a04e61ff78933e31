//! The program `longhaul` and its sub-commands.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::error::ErrorKind;
use longhaul::Congestion;
use tokio::runtime::Builder;
use tracing_subscriber::filter::LevelFilter;

use crate::progress::{Detail, Screen};
use crate::transport::{self, Interrupted, TransportArgs};
use crate::{output, report};

mod access;
mod args;
mod code;
mod config;
mod dial;
mod doctor;
mod forward;
mod gateway;
mod help;
mod home;
mod lists;
mod meet;
mod mirror;
mod monitoring;
mod near;
mod perf;
mod places;
mod receive;
mod send;
mod signals;
mod ssh;
mod stdio;
mod tally;
mod units;

use args::{Command, IdentityArgs, PlotArgs};
use home::Home;

const WRONG_USE: u8 = 2;
/// Exit code of an interrupted program: 128 and the number of SIGINT.
const INTERRUPTED: u8 = 130;
const SHUTDOWN: Duration = Duration::from_secs(1);

/// Usage error that clap cannot detect, such as options that do not fit the address.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct WrongUse(String);

/// A failure that has already been reported in the format that the command line requests.
#[derive(Debug, thiserror::Error)]
#[error("it failed")]
struct Reported;

/// Runs the program with the arguments of the process, and returns its exit code: 0 for success, 1 for failure, 2 for a
/// usage error, and 130 if it was interrupted.
pub fn main() -> ExitCode {
    #[cfg(feature = "zoo")]
    if let Err(error) = longhaul_zoo::register() {
        output::say(&format!("longhaul: {error}"));
        return ExitCode::FAILURE;
    }
    let cli = match config::parse() {
        Ok(cli) => cli,
        Err(error) => {
            output::say(&format!("longhaul: {error:#}"));
            return if error.is::<WrongUse>() { WRONG_USE.into() } else { ExitCode::FAILURE };
        }
    };
    let (detail, level) = match cli.verbose {
        _ if matches!(cli.command, Command::SshServer) => (Detail::Silent, LevelFilter::OFF),
        _ if cli.quiet => (Detail::Quiet, LevelFilter::ERROR),
        0 => (Detail::Usual, LevelFilter::WARN),
        1 if matches!(cli.command, Command::Send(_) | Command::Receive(_)) => (Detail::Files, LevelFilter::WARN),
        1 => (Detail::Files, LevelFilter::INFO),
        2 => (Detail::Transport, LevelFilter::INFO),
        3 => (Detail::Transport, LevelFilter::DEBUG),
        _ => (Detail::Transport, LevelFilter::TRACE),
    };
    let screen = Screen::stderr(detail, cli.plain);
    transport::init_log(level, &screen);
    let mut runtime = Builder::new_multi_thread();
    let (name, result) = match cli.command {
        Command::Send(args) => {
            if !args.transport.wants_list() && args.target_and_paths().is_none() {
                let what = "a receiver and at least one file are needed: longhaul send RECEIVER FILE...";
                help::of("send").error(ErrorKind::MissingRequiredArgument, what).exit();
            }
            ("send", transfer(&mut runtime, &args.transport, &screen, signals::ended(), || send::run(&args, &screen)))
        }
        Command::Receive(args) => (
            "receive",
            transfer(&mut runtime, &args.transport, &screen, signals::ended(), || receive::run(&args, &screen)),
        ),
        Command::Forward(args) => (
            "forward",
            transfer(&mut runtime, &args.transport, &screen, signals::interrupted(), || forward::run(&args, &screen)),
        ),
        Command::Stdio(args) => {
            ("stdio", transfer(&mut runtime, &args.transport, &screen, signals::ended(), || stdio::run(&args, &screen)))
        }
        Command::Gateway(args) => (
            "gateway",
            transfer(&mut runtime, &args.transport, &screen, signals::interrupted(), || gateway::run(&args, &screen)),
        ),
        Command::Meet(args) => ("meet", run_to_end(&mut runtime, signals::ended(), || meet::run(&args, &screen))),
        Command::Doctor(args) => ("doctor", run_to_end(&mut runtime, signals::ended(), || doctor::run(&args, &screen))),
        Command::Perf(options) => ("perf", perf::run(&options, &screen)),
        Command::Plot(args) => ("plot", plot(&args)),
        Command::Probe(options) => ("probe", crate::probe::run(&options, &screen)),
        #[cfg(target_os = "linux")]
        Command::Link(command) => return command.run(&["link"]),
        Command::Identity(args) => ("identity", identity(&args)),
        Command::SshServer => ("ssh-server", run_to_end(&mut runtime, signals::ended(), ssh::server::run)),
        Command::Completions { shell } => ("completions", help::completions(shell)),
        Command::Man { command, out } => ("man", help::man(command.as_deref(), out.as_deref())),
    };
    screen.flush();
    let Err(error) = result else {
        return if screen.is_incomplete() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    };
    if !error.is::<Reported>() && screen.shows(Detail::Quiet) {
        output::say(&format!("longhaul {name}: {error:#}"));
    }
    if error.is::<Interrupted>() {
        INTERRUPTED.into()
    } else if error.is::<WrongUse>() {
        WRONG_USE.into()
    } else {
        ExitCode::FAILURE
    }
}

fn transfer<F: Future<Output = Result<()>>>(
    runtime: &mut Builder,
    options: &TransportArgs,
    screen: &Screen,
    end: impl Future<Output = ()>,
    work: impl FnOnce() -> F,
) -> Result<()> {
    if options.wants_list() {
        return output::print(&Congestion::list());
    }
    if std::io::stderr().is_terminal() && cfg!(debug_assertions) {
        screen.say("warning: built without --release, this is several times slower than it can be");
    }
    run_to_end(runtime, std::future::pending(), || transport::finish(options, work(), end))
}

fn run_to_end<F: Future<Output = Result<()>>>(
    runtime: &mut Builder,
    end: impl Future<Output = ()>,
    work: impl FnOnce() -> F,
) -> Result<()> {
    let runtime = runtime.enable_all().build().context("cannot start the runtime")?;
    let result = runtime.block_on(async {
        tokio::select! {
            biased;
            () = end => Err(Interrupted.into()),
            result = work() => result,
        }
    });
    // Event logs are complete once the runtime has ended. That takes long only if a thread waits for standard input.
    runtime.shutdown_timeout(SHUTDOWN);
    result
}

fn plot(args: &PlotArgs) -> Result<()> {
    let picture = crate::plot::draw(&args.log).with_context(|| args.log.display().to_string())?;
    match &args.out {
        Some(file) => std::fs::write(file, picture).with_context(|| format!("cannot write {}", file.display())),
        None => output::print(&picture),
    }
}

fn identity(args: &IdentityArgs) -> Result<()> {
    let (identity, home) = Home::with_key()?;
    let fingerprint = identity.fingerprint();
    if args.json {
        let line = serde_json::json!({ "fingerprint": fingerprint.to_string(), "file": home.identity_file() });
        output::print(&format!("{}\n", report::json_line(&line)))
    } else {
        output::print(&format!("{fingerprint}\n"))
    }
}
