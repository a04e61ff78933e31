//! Measures a path: capacity, available bandwidth, round trip, buffer and loss.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use longhaul_examples::probe::options::Options;
use longhaul_examples::probe::prober::Prober;
use longhaul_examples::probe::report::Report;
use longhaul_examples::probe::{reach, socket};
use longhaul_examples::{report, transport};

fn main() -> ExitCode {
    transport::outcome("probe", run(&Options::parse()))
}

fn run(options: &Options) -> Result<()> {
    let address = options.resolve()?;
    let mut socket = socket::Socket::connect(address)?;
    let reached = reach::check(&mut socket, address)?;
    if let Some(note) = reached.note() {
        eprintln!("{note}");
    }
    let mut prober = Prober::new(socket, &reached);
    let mut outcomes = Vec::new();
    for mut method in options.methods(reached.largest)? {
        outcomes.push(prober.measure(method.as_mut(), options.time())?);
    }
    let report = Report::new(address, &reached, prober.path(), &outcomes);
    if options.json {
        println!("{}", report::json_line(&report));
    } else {
        print!("{report}");
    }
    Ok(())
}
