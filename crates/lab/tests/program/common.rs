//! Helpers shared by the tests of the program.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

/// Four cells whose runs take a few hundredths of a second each, with values that have no short decimal
/// representation.
pub(crate) const SMALL: &str = include_str!("../data/small.toml");

pub(crate) fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul-lab"));
    command.args(arguments);
    command
}

pub(crate) fn lab(arguments: &[&str]) -> Output {
    program(arguments).output().unwrap()
}

pub(crate) fn begin(arguments: &[&str]) -> Child {
    program(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Parses a standard output of JSON lines.
pub(crate) fn json_lines(stdout: &[u8]) -> Vec<Value> {
    text(stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs the program, which must fail, and returns its error message.
pub(crate) fn refusal(arguments: &[&str]) -> String {
    let output = lab(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?} {}", text(&output.stderr));
    text(&output.stderr)
}

/// Runs the program, which must fail with an error message that contains `told`.
pub(crate) fn refused(arguments: &[&str], told: &str) {
    let error = refusal(arguments);
    assert!(error.contains(told), "{told} in {error}");
}

/// Replaces the first `from` of a text, which must have it.
pub(crate) fn with(text: &str, from: &str, to: &str) -> String {
    let changed = text.replacen(from, to, 1);
    assert_ne!(changed, text, "{from}");
    changed
}

/// An empty directory for a test.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Writes an experiment file and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.0.join(name).exists()
    }

    /// Waits until a file has this many lines.
    pub(crate) fn wait_for(&self, name: &str, lines: usize) {
        // The test does not depend on the duration. One minute is enough for any machine.
        for _ in 0..6000 {
            let bytes = fs::read(self.path(name)).unwrap_or_default();
            if bytes.iter().filter(|byte| **byte == b'\n').count() >= lines {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{name} did not come to {lines} lines");
    }
}
