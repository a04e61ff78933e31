//! The program `longhaul`.
#![warn(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

fn main() -> ExitCode {
    longhaul_cli::program::main()
}
