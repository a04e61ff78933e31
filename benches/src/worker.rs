//! Worker processes: the bench's own binary, started again with a job.
//!
//! Each side of a transfer is a process of its own, so that the system's accounting tells the CPU time of the sender
//! from that of the receiver. A worker prints what it has to say as JSON, one line each. It ends when its standard
//! input ends, hence also when the bench itself is killed.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{self, Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;
use std::{env, thread};

use anyhow::{Context, Result, bail};
use longhaul_sys::linux::NetNs;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::transport::Identity;

/// The first argument of a worker; the job is the second.
pub(crate) const MARK: &str = "worker";
/// A worker that says nothing for so long has failed.
const PATIENCE: Duration = Duration::from_secs(180);
/// Files that a worker asks to be allowed to open: ten thousand connections and some.
const OPEN_FILES: u32 = 65_536;

/// Starts workers; all have the same TLS identity.
#[derive(Debug)]
pub struct Workers {
    identity: Identity,
}

/// A worker process; killed when dropped.
#[derive(Debug)]
pub struct Worker {
    process: Child,
    lines: Receiver<io::Result<String>>,
}

impl Workers {
    /// With a fresh TLS identity.
    ///
    /// # Errors
    /// The identity cannot be made.
    pub fn new() -> Result<Self> {
        Ok(Self { identity: Identity::generate()? })
    }

    /// Starts a worker with `job`, in a network namespace if one is given.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn spawn(&self, job: &impl Serialize, namespace: Option<&NetNs>) -> Result<Worker> {
        let mut command = self.command(job)?;
        let mut spawn = || command.spawn();
        let mut process = match namespace {
            Some(namespace) => namespace.run(spawn)?,
            None => spawn(),
        }
        .context("starting a worker")?;
        let output = process.stdout.take().context("a worker without output")?;
        Ok(Worker { process, lines: read_lines(output) })
    }

    /// A shell raises the limit of open files as far as it may, then becomes the worker.
    fn command(&self, job: &impl Serialize) -> Result<Command> {
        let raise = format!(r#"ulimit -n {OPEN_FILES} 2>/dev/null || ulimit -n "$(ulimit -H -n)"; exec "$0" "$@""#);
        let mut command = Command::new("sh");
        command.arg("-c").arg(raise).arg(env::current_exe()?).arg(MARK).arg(serde_json::to_string(job)?);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        self.identity.hand_to(&mut command);
        Ok(command)
    }
}

/// A thread reads, so that whoever waits for a line can stop waiting.
fn read_lines(output: ChildStdout) -> Receiver<io::Result<String>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

impl Worker {
    /// The next thing the worker says.
    ///
    /// # Errors
    /// It ended, said something else, or nothing for three minutes.
    pub fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                let line = line?;
                serde_json::from_str(&line).with_context(|| format!("a worker said: {line}"))
            }
            Err(RecvTimeoutError::Timeout) => bail!("a worker hangs"),
            Err(RecvTimeoutError::Disconnected) => bail!("a worker ended early"),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself: then there is nothing to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The job of this process, if it is a worker.
///
/// # Errors
/// The job is none of this bench.
pub fn job<T: DeserializeOwned>() -> Result<Option<T>> {
    let mut args = env::args().skip(1);
    match (args.next(), args.next()) {
        (Some(mark), Some(job)) if mark == MARK => Ok(Some(serde_json::from_str(&job)?)),
        _ => Ok(None),
    }
}

/// Runs a worker's job on a single-threaded runtime. (The thread that waits for the end of the standard input sleeps
/// until then.)
///
/// # Errors
/// The job's.
pub fn run(job: impl Future<Output = Result<()>>) -> Result<()> {
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(0);
    });
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(job)
}

/// Says something to the bench.
///
/// # Errors
/// The bench is gone.
pub fn say(value: &impl Serialize) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(value)?)?;
    Ok(out.flush()?)
}

/// Waits for the bench to end this worker.
///
/// # Errors
/// Never returns.
pub async fn until_ended() -> Result<()> {
    std::future::pending().await
}
