//! Runs a command behind a link, in its own network namespace.
//!
//! ```text
//! COMMAND -- kernel's TCP -- link0 (TUN) -- link -- linkemN (TUN) -- kernel
//! {        new namespace (inside)       }         {  original namespace (outside)  }
//! ```
//!
//! Nothing outlives the shell: the devices disappear with the descriptors of this process, and the network namespace
//! with the last process in it. The processes end with the first one of their PID namespace ([`init`]), which the
//! kernel kills when this process ends for any reason.

mod behind;
mod init;
mod network;
mod packet;
mod port;
mod route;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write, stdin};
use std::process::{Command, ExitCode, ExitStatus};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use longhaul_link::spec::Path;
use longhaul_netns::{NetNs, own_processes, terminate};
use longhaul_units::Span;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::log::Logs;
use crate::summary::{summary, ways};
pub use behind::Behind;
use behind::explained;
pub use init::init;
pub use packet::IpPacket;

/// Hidden command that runs as the first process of the PID namespace.
pub const INIT: &str = "shell-init";

/// Environment variables with the address of the outside. Scripts for mahimahi use the second one.
const OUTSIDE: [&str; 2] = ["LONGHAUL_OUTSIDE", "MAHIMAHI_BASE"];

/// Environment variable with the address of the inside.
const INSIDE: &str = "LONGHAUL_INSIDE";

/// Environment variables with the IPv6 addresses of the outside and the inside.
const ENDS6: [&str; 2] = ["LONGHAUL_OUTSIDE6", "LONGHAUL_INSIDE6"];

/// Interval at which SIGTERM is repeated to a process that has not ended.
const AGAIN: Duration = Duration::from_millis(100);

/// Runs a command behind a link until it ends, and prints a summary. `above` are the sub-commands of the running program
/// to which [`INIT`] belongs; `receive_hold` is as in [`Behind::start`]. Returns the command's exit code: 128 plus the
/// signal's number if it was killed, 127 if it does not exist, and 126 if it cannot be executed.
pub fn run(
    above: &[&str],
    command: &[OsString],
    path: &Path,
    logs: Logs,
    receive_hold: Option<Span>,
) -> Result<ExitCode> {
    let behind = Behind::start(path, logs, receive_hold)?;
    let env = environment(&behind);
    // Ignore a closed output, because the command still has to run.
    let _ = writeln!(io::stderr(), "longhaul-linkem: {}", addresses(&behind));
    let _ = io::stderr().write_all(ways(path, "from the command", "to the command").as_bytes());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let ended = runtime.block_on(async {
        let signals = Signals::new()?;
        let (child, ended) = spawn(above, command, &env, &behind.namespace)?;
        tokio::select! {
            ended = signals.wait(child, ended) => ended,
            failed = behind.failed() => failed.and(Err(io::Error::other("the link has failed"))).map_err(Into::into),
        }
    });
    // After a regular end, let the kernel close the command's connections over the link.
    let is_over = matches!(ended, Ok((_, false)));
    let (engine, counts) = if is_over { behind.finish() } else { behind.stop() }?;
    let _ = io::stderr().write_all(summary(&engine, &counts).as_bytes());
    Ok(ExitCode::from(init::code(ended?.0)))
}

fn addresses(behind: &Behind) -> String {
    let ([outside, inside], [outside6, inside6]) = match behind.ends6 {
        None => (behind.ends, [String::new(), String::new()]),
        Some(ends6) => (behind.ends, ends6.map(|end| format!(" and {end}"))),
    };
    format!("the outside is at {outside}{outside6}, the inside at {inside}{inside6}")
}

/// Returns the environment of the command. Variables with the value `None` are removed, because they belong to an
/// enclosing shell.
fn environment(behind: &Behind) -> Vec<(&'static str, Option<String>)> {
    let [outside, inside] = behind.ends.map(|end| Some(end.to_string()));
    let mut env: Vec<_> = OUTSIDE.iter().map(|name| (*name, outside.clone())).collect();
    env.push((INSIDE, inside));
    let ends6 = behind.ends6.map_or([None, None], |ends6| ends6.map(|end| Some(end.to_string())));
    env.extend(ENDS6.into_iter().zip(ends6));
    env
}

fn spawn(
    above: &[&str],
    command: &[OsString],
    env: &[(&str, Option<String>)],
    namespace: &NetNs,
) -> Result<(u32, oneshot::Receiver<io::Result<ExitStatus>>)> {
    let mut init = Command::new("/proc/self/exe");
    init.args(above).arg(INIT).arg(std::process::id().to_string()).arg("--").args(command);
    for (name, value) in env {
        match value {
            Some(value) => init.env(name, value),
            None => init.env_remove(name),
        };
    }
    let namespace = namespace.run(NetNs::current)??;
    let (started, start) = std::sync::mpsc::channel();
    let (ended, end) = oneshot::channel();
    // This thread runs as long as the process, because the kernel kills the process when its parent thread ends.
    thread::Builder::new().name("command".to_owned()).spawn(move || {
        let spawned = namespace.enter().and_then(|()| own_processes()).and_then(|()| init.spawn());
        drop(namespace);
        match spawned {
            Ok(mut child) => {
                // Ignore errors, because the receiver may have ended.
                let _ = started.send(Ok(child.id()));
                let _ = ended.send(child.wait());
            }
            Err(error) => drop(started.send(Err(error))),
        }
    })?;
    let child = start.recv().context("starting the command")?.map_err(explained)?;
    Ok((child, end))
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn wait(
        mut self,
        child: u32,
        mut ended: oneshot::Receiver<io::Result<ExitStatus>>,
    ) -> Result<(ExitStatus, bool)> {
        let mut stopping = false;
        // A terminal also sends the interrupt to the command, which handles it in its own way.
        let is_interactive = stdin().is_terminal();
        loop {
            tokio::select! {
                status = &mut ended => return Ok((status.context("the command's thread has failed")??, stopping)),
                _ = self.interrupt.recv() => stopping |= !is_interactive,
                _ = self.terminate.recv() => stopping = true,
                _ = self.hang_up.recv() => stopping = true,
                () = tokio::time::sleep(AGAIN), if stopping => {}
            }
            if stopping {
                // Ignore errors: if the process has ended, `ended` reports it.
                let _ = terminate(child);
            }
        }
    }
}
