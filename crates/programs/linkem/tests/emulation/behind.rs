//! Commands behind a link.

use std::process::{Command, Output, Stdio};

pub(crate) const LINKEM: &str = env!("CARGO_BIN_EXE_longhaul-linkem");

/// Prepares a command behind a link.
pub(crate) fn shell(link: &str, command: &[&str]) -> Command {
    let mut shell = Command::new(LINKEM);
    shell.arg("shell").args(link.split_whitespace()).arg("--").args(command);
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    shell
}

/// Runs one of the ignored tests of the module `shell` behind a link.
pub(crate) fn behind(link: &str, test: &str, port: u16) -> Output {
    let this = std::env::current_exe().unwrap();
    let test = format!("shell::{test}");
    let command = [this.to_str().unwrap(), "--exact", &test, "--ignored", "--nocapture"];
    shell(link, &command).env("TEST_PORT", port.to_string()).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
