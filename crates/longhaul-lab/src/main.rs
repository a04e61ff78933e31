//! The `longhaul-lab` program: see [`longhaul_lab::args`].

use std::process::ExitCode;

fn main() -> ExitCode {
    longhaul_lab::args::main()
}
