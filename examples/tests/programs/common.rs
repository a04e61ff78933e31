//! Commands of the example programs.
use std::path::Path;
use std::process::{Command, Stdio};

/// Returns a command for `receive` that listens on `listen` and puts files into `out`.
pub(crate) fn receive(listen: &str, out: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_receive"));
    command.args(["--listen", listen, "--out"]).arg(out).args(options);
    command.env_remove("QLOGFILE").env_remove("QLOGDIR").stdout(Stdio::null()).stderr(Stdio::piped());
    command
}
