//! Commands of the program under test, and their output.
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub(crate) use crate::child::{Process, complaint, listening};

impl Process {
    /// Discards further output, so that the program does not block on a full pipe.
    pub(crate) fn ignore(&mut self) {
        let mut said = std::mem::replace(&mut self.said, Box::new(io::empty()));
        std::thread::spawn(move || io::copy(&mut said, &mut io::sink()));
    }
}

/// Returns a command for a sub-command of the program.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.arg(name).env_remove("QLOGFILE").env_remove("QLOGDIR");
    command
}

/// Returns a command for a receiver without encryption that listens on `listen` and puts files into `out`.
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
