//! Child processes of tests, and their output. The tests of the examples include this file, too.
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Output};

/// A running program whose output is read. It is killed when dropped.
pub(crate) struct Process {
    pub(crate) child: Child,
    /// Its output.
    pub(crate) said: Box<dyn BufRead + Send>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
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
        loop {
            let mut line = String::new();
            assert!(self.said.read_line(&mut line).unwrap() > 0, "the program ended before {beginning:?}");
            if let Some(rest) = line.strip_prefix(beginning) {
                return rest.trim().to_owned();
            }
        }
    }
}

/// Returns a running receiver and the address on which it listens.
pub(crate) fn listening(mut child: Child) -> (Process, String) {
    let stderr = child.stderr.take().unwrap();
    let mut process = Process::new(child, stderr);
    let address = process.wait_for("listening on ");
    (process, address)
}

/// Returns the last error line of a program that failed.
pub(crate) fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned()
}
