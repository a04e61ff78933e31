//! `longhaul-linkem`: runs any program over an emulated link.
#![warn(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    longhaul_linkem::args::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    let _ = std::io::Write::write_all(
        &mut std::io::stderr(),
        b"longhaul-linkem: needs Linux; in virtual time, longhaul-sim runs everywhere\n",
    );
    ExitCode::from(2)
}
