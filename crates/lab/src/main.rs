//! The `longhaul-lab` program: see [`longhaul_lab::args`].
#![warn(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

fn main() -> ExitCode {
    longhaul_lab::args::main()
}
