//! Measures a path: capacity, available bandwidth, round trip, buffer and loss.

use std::process::ExitCode;

use clap::Parser;
use longhaul_cli::transport;
use longhaul_examples::probe::{self, Options};

fn main() -> ExitCode {
    transport::outcome("probe", probe::run(&Options::parse()))
}
