//! Command-line interface.

mod link;

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::{Args, Parser, Subcommand};
use longhaul_link::spec::{Path, value};
use longhaul_link::{Limit, LinkConfig, LinkRate, scenario};
use longhaul_units::Span;

use crate::relay::Pair;
use crate::{relay, shell};
pub use link::LinkArgs;

/// Exit code for invalid input, and for any error that prevents the link from starting.
const FAULT: u8 = 2;

/// Runs any program over an emulated link.
///
/// The options below describe the link; those that end in -up or -down apply to one direction. Up is away from the
/// client or the command, whose data therefore goes up. In scenarios such as geo, up is the slow direction; --swap
/// exchanges the directions.
#[derive(Debug, Parser)]
#[command(name = "longhaul-linkem", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The sub-commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Relay UDP datagrams over the link; needs no privileges
    Relay(RelayArgs),
    /// Run a command in its own network namespace behind the link; needs root
    Shell(ShellArgs),
    /// Print the scenarios (named links)
    List,
    /// First process of a shell's PID namespace
    #[command(hide = true, name = shell::INIT)]
    Init {
        /// Process that started this one
        parent: u32,
        /// Command to run
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

/// Options of the relay.
#[derive(Debug, Args)]
pub struct RelayArgs {
    /// Address and port that clients send to, such as 127.0.0.1:7001. Give one per --to; all share the link
    #[arg(long, value_name = "ADDR", value_parser = address)]
    listen: Vec<SocketAddr>,
    /// Address and port of the server. The first --to belongs to the first --listen, and so on
    #[arg(long, value_name = "ADDR", value_parser = address)]
    to: Vec<SocketAddr>,
    /// Maximum number of concurrent clients
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,
    /// Time without traffic after which a client is removed
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = duration)]
    idle: Duration,
    #[command(flatten)]
    link: LinkArgs,
}

/// Options of the shell.
#[derive(Debug, Args)]
pub struct ShellArgs {
    #[command(flatten)]
    link: LinkArgs,
    /// Merge packets from the command, as a network card with receive offload does, and hold them for this time
    #[arg(long, value_name = "TIME", value_parser = value::span)]
    receive_hold: Option<Span>,
    /// Command to run; default: your shell
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    Cli::parse().command.run(&[])
}

impl Command {
    /// Runs the command. An error is written to standard error. `above` are the sub-commands of the running program to
    /// which this one belongs.
    pub fn run(self, above: &[&str]) -> ExitCode {
        let result = match self {
            Self::Init { parent, command } => return shell::init(parent, &command),
            Self::List => list(),
            Self::Relay(args) if args.link.asks_for_list() => list(),
            Self::Shell(args) if args.link.asks_for_list() => list(),
            Self::Relay(args) => args.run(),
            Self::Shell(args) => args.run(above),
        };
        result.unwrap_or_else(|error| {
            let _ = writeln!(io::stderr(), "longhaul-linkem: {error:#}");
            ExitCode::from(FAULT)
        })
    }
}

impl RelayArgs {
    fn run(self) -> Result<ExitCode> {
        let pairs = pairs(&self.listen, &self.to)?;
        let (path, logs) = self.link.build(&command_line())?;
        let clients = usize::try_from(self.clients).unwrap_or(usize::MAX);
        hint(&path);
        relay::run(&relay::Options { pairs, clients, idle: self.idle }, &path, logs)
    }
}

impl ShellArgs {
    fn run(self, above: &[&str]) -> Result<ExitCode> {
        let mut command = self.command;
        if command.is_empty() {
            command.push(env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into()));
        }
        let (path, logs) = self.link.build(&command_line())?;
        hint(&path);
        shell::run(above, &command, &path, logs, self.receive_hold)
    }
}

fn pairs(listen: &[SocketAddr], to: &[SocketAddr]) -> Result<Vec<Pair>> {
    ensure!(!listen.is_empty(), "relay needs --listen ADDR, the address that clients send to, such as 127.0.0.1:7001");
    ensure!(!to.is_empty(), "relay needs --to ADDR, the address of the server, such as 127.0.0.1:7000");
    let (listens, tos) = (listen.len(), to.len());
    ensure!(listens == tos, "--listen is given {listens} times and --to {tos} times; each --listen needs a --to");
    for to in to {
        ensure!(!listen.contains(to), "{to} is both a --listen and a --to; give the relay a port of its own");
        ensure!(to.port() != 0, "--to {to} has port 0, to which nothing can be sent; name the server's port");
    }
    Ok(listen.iter().zip(to).map(|(&listen, &to)| Pair { listen, to }).collect())
}

/// Warns about a queue without a limit, which is rarely intended together with a rate.
fn hint(path: &Path) {
    let directions = [("up", &path.link.there), ("down", &path.link.back)];
    let grows = |link: &LinkConfig| {
        let has_rate = link.rate != LinkRate::Unlimited || link.steps.iter().any(|step| step.rate.is_some());
        has_rate && link.queue.limit == Limit::Infinite
    };
    let names: Vec<_> = directions.into_iter().filter(|(_, link)| grows(link)).map(|(name, _)| name).collect();
    if !names.is_empty() {
        let _ = writeln!(
            io::stderr(),
            "longhaul-linkem: the queue {} is unlimited; --queue 1bdp limits it",
            names.join(" and ")
        );
    }
}

fn list() -> Result<ExitCode> {
    let width = scenario::all().iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
    for scenario in scenario::all() {
        let _ = writeln!(io::stdout(), "{:width$}  {}", scenario.name, scenario.title);
    }
    Ok(ExitCode::SUCCESS)
}

fn command_line() -> String {
    env::args_os().map(|argument| argument.to_string_lossy().replace('\n', " ")).collect::<Vec<_>>().join(" ")
}

fn address(text: &str) -> Result<SocketAddr> {
    match text.parse().ok().or_else(|| with_zone(text)) {
        Some(address) => Ok(address),
        None => bail!("{text:?} is not an address with a port; write it as 127.0.0.1:7000 or [::1]:7000"),
    }
}

/// Parses an address with the name of an interface, such as `[fe80::1%eth0]:7000`, which the system knows.
fn with_zone(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.strip_prefix('[')?.split_once("]:")?;
    host.split_once('%')?.0.parse::<Ipv6Addr>().ok()?;
    (host, port.parse().ok()?).to_socket_addrs().ok()?.next()
}

fn duration(text: &str) -> Result<Duration> {
    let idle = Duration::from_nanos(value::span(text)?.as_nanos());
    ensure!(!idle.is_zero(), "a client cannot be forgotten at once; write a time such as 5min");
    Ok(idle)
}
