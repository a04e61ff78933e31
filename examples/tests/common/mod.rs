//! Programs that run beside a test, and what they report.
#![allow(dead_code, reason = "not every test needs everything")]

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// A program that says how it is. It ends when dropped.
pub(crate) struct Process {
    pub(crate) child: Child,
    /// What it says.
    pub(crate) said: Box<dyn BufRead + Send>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    pub(crate) fn new(child: Child, said: impl Read + Send + 'static) -> Self {
        Self { child, said: Box::new(BufReader::new(said)) }
    }

    /// What follows in its next line that begins so.
    pub(crate) fn wait_for(&mut self, beginning: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.said.read_line(&mut line).unwrap() > 0, "the program ended before {beginning:?}");
            if let Some(rest) = line.strip_prefix(beginning) {
                return rest.trim().to_owned();
            }
        }
    }

    /// Nobody reads what it says from now on: it must not be kept waiting for that.
    pub(crate) fn ignore(&mut self) {
        let mut said = std::mem::replace(&mut self.said, Box::new(io::empty()));
        std::thread::spawn(move || io::copy(&mut said, &mut io::sink()));
    }
}

/// `receive`, listening there and putting files into `out`.
pub(crate) fn receive(listen: &str, out: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_receive"));
    command.args(["--listen", listen, "--out"]).arg(out).args(options);
    command.env_remove("QLOGFILE").env_remove("QLOGDIR").stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// [`receive`] as it runs, and where it listens.
pub(crate) fn listening(mut child: Child) -> (Process, String) {
    let stderr = child.stderr.take().unwrap();
    let mut process = Process::new(child, stderr);
    let address = process.wait_for("listening on ");
    (process, address)
}

/// The report of a program that succeeded.
pub(crate) fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What a program that failed said last.
pub(crate) fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned()
}
