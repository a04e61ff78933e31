//! `longhaul-linkem`: runs any program over an emulated link.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    longhaul_linkem::args::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("longhaul-linkem: needs Linux; in virtual time, longhaul-sim runs everywhere");
    ExitCode::from(2)
}
