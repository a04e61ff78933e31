//! Every controller of the registry in virtual time: completion times over a matrix of paths, and pictures of the
//! window. Each controller is a test of its own, which libtest-mimic runs, so that `cargo test -p
//! longhaul-tests-papers --test registry cubic` runs those of CUBIC.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod pictures;
mod scenarios;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let trials = scenarios::trials().chain(pictures::trials()).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
