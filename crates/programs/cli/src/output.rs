//! Standard input, and standard output and standard error, which may end before the program does.
//!
//! The reader of a pipe may exit, a terminal may vanish, and a disk may be full (`EPIPE`, `EIO`, `ENOSPC`). The macros
//! of the standard library then panic, which would end the task that prints. The functions here do not panic, and a
//! lint forbids those macros.

use std::io::{self, BufRead as _, Read as _, Write};

use anyhow::{Context, Result};

use crate::sync::blocking;

/// Maximum length of a line of standard input in bytes.
const MAX_LINE: u64 = 1024;

/// Writes a line to standard error. If that is not possible, nobody can be told.
pub(crate) fn say(line: &str) {
    // A single write keeps the line in one piece if other processes write to the same file.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Writes to standard output. A reader that has exited, as in `perf -C list | head`, is not an error.
/// Returns an error if the write fails for another reason.
pub(crate) fn print(text: &str) -> Result<()> {
    unless_unread(write(text)).context("cannot write to standard output")
}

pub(crate) fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Treats a failed write as success if the reader has exited.
pub(crate) fn unless_unread(written: io::Result<()>) -> io::Result<()> {
    written.or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

/// Reads a line that a person or a script writes.
pub(crate) async fn read_line() -> io::Result<String> {
    let read = || {
        let mut line = String::new();
        io::stdin().lock().take(MAX_LINE).read_line(&mut line).map(|_| line.trim().to_owned())
    };
    blocking(read).await
}
