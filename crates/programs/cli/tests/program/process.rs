//! Commands of the program under test, and their output.
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use serde_json::Value;

/// Maximum time to wait for a line of a program, far above what the slowest test needs on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Kills a program that does not write the expected line, so that the test fails instead of waiting forever. Ends when
/// dropped.
pub(crate) struct Watchdog {
    _waiting: Sender<()>,
}

impl Watchdog {
    pub(crate) fn over(child: &Child) -> Self {
        Self::after(PATIENCE, child)
    }

    fn after(patience: Duration, child: &Child) -> Self {
        let (waiting, ended) = channel();
        let process = child.id().to_string();
        std::thread::spawn(move || {
            if ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                eprintln!("process {process} has not written what is waited for, and is killed");
                // The program may already have ended.
                let _ = Command::new("kill").args(["-KILL", &process]).stdin(Stdio::null()).status();
            }
        });
        Self { _waiting: waiting }
    }
}

/// A running program whose output is read, killed when dropped.
pub(crate) struct Process {
    pub(crate) child: Child,
    /// Output of the program.
    pub(crate) said: Box<dyn BufRead + Send>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // The program may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    pub(crate) fn new(child: Child, said: impl Read + Send + 'static) -> Self {
        Self { child, said: Box::new(BufReader::new(said)) }
    }

    /// Reads up to the next line that begins with `beginning`; returns the rest of that line.
    pub(crate) fn wait_for(&mut self, beginning: &str) -> String {
        let _watchdog = Watchdog::over(&self.child);
        loop {
            let mut line = String::new();
            assert!(self.said.read_line(&mut line).unwrap() > 0, "the program ended before {beginning:?}");
            if let Some(rest) = line.strip_prefix(beginning) {
                return rest.trim().to_owned();
            }
        }
    }

    /// Discards further output, so that the program does not block on a full pipe.
    pub(crate) fn ignore(&mut self) {
        let mut said = std::mem::replace(&mut self.said, Box::new(io::empty()));
        std::thread::spawn(move || io::copy(&mut said, &mut io::sink()));
    }
}

/// Returns a command for a sub-command of the program, whose standard input is empty.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.arg(name).env_remove("QLOGFILE").env_remove("QLOGDIR").stdin(Stdio::null());
    command
}

/// Returns a command for a receiver without encryption that listens on `listen` and writes to `out`.
pub(crate) fn receive(listen: &str, out: &Path, options: &[&str]) -> Command {
    let mut command = program("receive");
    command.args(["--plaintext=yes-on-this-network", "--listen", listen, "--out"]).arg(out).args(options);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Returns the JSON report of a program that succeeded.
pub(crate) fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns a running receiver and the address on which it listens.
pub(crate) fn listening(mut child: Child) -> (Process, String) {
    let stderr = child.stderr.take().unwrap();
    let mut process = Process::new(child, stderr);
    let address = process.wait_for("Ready on UDP ");
    (process, address)
}

/// Returns the last error line of a program that failed.
pub(crate) fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned()
}

#[cfg(unix)]
#[test]
#[should_panic(expected = "the program ended before \"a line\"")]
fn a_program_that_writes_nothing_fails_its_test() {
    let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let stdout = child.stdout.take().unwrap();
    let mut process = Process::new(child, stdout);
    let _watchdog = Watchdog::after(Duration::from_millis(10), &process.child);
    process.wait_for("a line");
}
