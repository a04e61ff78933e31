//! Worker processes, which are started from the binary of the bench with a job.
//!
//! Each side of a transfer is a process, so that the CPU time of sender and receiver is known separately. A worker
//! prints its reports as lines of JSON. It ends when its standard input ends, and thus also when the bench is killed.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{self, Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;
use std::{env, thread};

use anyhow::{Context, Result, bail};
use longhaul_netns::NetNs;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::transport::Identity;

/// First argument of a worker. The second one is the job.
pub(crate) const MARK: &str = "worker";
/// Time without a report after which a worker has failed.
const PATIENCE: Duration = Duration::from_secs(180);
/// Limit of open files that a worker requests, sufficient for 100,000 connections of kernel TCP.
const OPEN_FILES: u32 = 262_144;

/// Starts workers, which share a TLS identity.
#[derive(Debug)]
pub struct Workers {
    identity: Identity,
}

/// Worker process, which is killed when dropped.
#[derive(Debug)]
pub struct Worker {
    process: Child,
    lines: Receiver<io::Result<String>>,
}

impl Workers {
    /// Generates a TLS identity for all workers.
    ///
    /// # Errors
    /// Returns an error if it cannot be generated.
    pub fn new() -> Result<Self> {
        Ok(Self { identity: Identity::generate()? })
    }

    /// Starts a worker with `job`, in a network namespace if one is given.
    ///
    /// # Errors
    /// Returns an error if the process cannot be started.
    pub fn spawn(&self, job: &impl Serialize, namespace: Option<&NetNs>) -> Result<Worker> {
        let mut command = self.command(Command::new("sh"), job)?;
        let mut spawn = || command.spawn();
        let process = match namespace {
            Some(namespace) => namespace.run(spawn)?,
            None => spawn(),
        };
        Self::worker(process)
    }

    /// Starts a worker with `job` as the child of a program, such as a profiler, that executes its last arguments.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started.
    pub fn spawn_under(&self, mut program: Command, job: &impl Serialize) -> Result<Worker> {
        program.arg("sh");
        Self::worker(self.command(program, job)?.spawn())
    }

    fn worker(process: io::Result<Child>) -> Result<Worker> {
        let mut process = process.context("starting a worker")?;
        let output = process.stdout.take().context("a worker without output")?;
        Ok(Worker { process, lines: read_lines(output) })
    }

    /// Completes a command that runs a shell, which raises the limit of open files as far as permitted and then
    /// executes the worker.
    fn command(&self, mut command: Command, job: &impl Serialize) -> Result<Command> {
        let raise = format!(r#"ulimit -n {OPEN_FILES} 2>/dev/null || ulimit -n "$(ulimit -H -n)"; exec "$0" "$@""#);
        command.arg("-c").arg(raise).arg(env::current_exe()?).arg(MARK).arg(serde_json::to_string(job)?);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        self.identity.hand_to(&mut command);
        Ok(command)
    }
}

/// Reads lines on a thread, so that waiting for a line can time out.
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
    /// Waits for the next report of the worker.
    ///
    /// # Errors
    /// Returns an error if the worker ended, reported something else, or reported nothing for three minutes.
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

    /// Returns the PID of the worker as text.
    pub(crate) fn process(&self) -> String {
        self.process.id().to_string()
    }

    /// Waits until the worker's job is done and its process has ended.
    ///
    /// # Errors
    /// Returns the system's error.
    pub(crate) fn done(mut self) -> Result<()> {
        self.process.wait()?;
        Ok(())
    }

    /// Ends the worker by closing its standard input, and waits until its process has ended.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn finish(mut self) -> Result<()> {
        drop(self.process.stdin.take());
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The process may have ended already, so errors are ignored.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the job of this process, if it is a worker.
///
/// # Errors
/// Returns an error if it is not a job of this bench.
pub fn job<T: DeserializeOwned>() -> Result<Option<T>> {
    let mut args = env::args().skip(1);
    match (args.next(), args.next()) {
        (Some(mark), Some(job)) if mark == MARK => Ok(Some(serde_json::from_str(&job)?)),
        _ => Ok(None),
    }
}

/// Runs the job of a worker on a single-threaded runtime. A second thread only waits for the end of the standard input.
///
/// # Errors
/// Returns the error of the job.
pub fn run(job: impl Future<Output = Result<()>> + Send + 'static) -> Result<()> {
    end_with_input();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // The job runs as a task, like most code of a server or client, and not on the thread of `block_on`.
    runtime.block_on(runtime.spawn(job))?
}

/// Runs the job of a worker on a runtime with this many threads, or on a single-threaded one like [`run`].
///
/// # Errors
/// Returns the error of the job.
pub fn run_on(threads: usize, job: impl Future<Output = Result<()>> + Send + 'static) -> Result<()> {
    if threads <= 1 {
        return run(job);
    }
    end_with_input();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    // The job runs on a worker thread, because the thread that waits here would be an additional one.
    runtime.block_on(runtime.spawn(job))?
}

fn end_with_input() {
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(0);
    });
}

///
/// # Errors
/// Returns an error if the bench has ended.
pub fn say(value: &impl Serialize) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(value)?)?;
    Ok(out.flush()?)
}

/// Waits until the bench ends this worker.
///
/// # Errors
/// Returns no error, because it does not return.
pub async fn until_ended() -> Result<()> {
    std::future::pending().await
}
