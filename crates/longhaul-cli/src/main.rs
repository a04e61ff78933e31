//! The program `longhaul`.

use std::process::ExitCode;

fn main() -> ExitCode {
    longhaul_cli::program::main()
}
