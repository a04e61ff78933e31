//! Commands behind a link, and a check whether they are permitted.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use longhaul_sys::linux::NetNs;

pub(crate) const LINKEM: &str = env!("CARGO_BIN_EXE_longhaul-linkem");

/// Returns whether namespaces and TUN devices can be used; otherwise prints why.
pub(crate) fn permitted() -> bool {
    match NetNs::anonymous() {
        Ok(_) if Path::new("/dev/net/tun").exists() => true,
        Ok(_) => {
            eprintln!("skipped: no TUN devices here");
            false
        }
        Err(error) => {
            eprintln!("skipped: network namespaces are not permitted here: {error}");
            false
        }
    }
}

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
