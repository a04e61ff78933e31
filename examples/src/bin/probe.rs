//! Measures a path: capacity, available bandwidth, round trip, buffer and loss.

use std::process::ExitCode;

use clap::Parser;
use longhaul_examples::probe::{self, Options};
use longhaul_examples::transport;

fn main() -> ExitCode {
    transport::outcome("probe", probe::run(&Options::parse()))
}
