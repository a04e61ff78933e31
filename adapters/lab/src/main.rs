//! The laboratory with noq and quinn: `longhaul-lab`, in whose experiments flows may have `stack = "noq"` or `"quinn"`.

use std::process::ExitCode;

fn main() -> ExitCode {
    longhaul_lab::args::main_with(quic_lab::stacks())
}
