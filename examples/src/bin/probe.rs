//! Measures a path: capacity, available bandwidth, round trip, buffer and loss.

use std::process::ExitCode;

use clap::Parser;
use longhaul_examples::probe::options::Options;
use longhaul_examples::probe::run::run;
use longhaul_examples::transport;

fn main() -> ExitCode {
    transport::outcome("probe", run(&Options::parse()))
}
