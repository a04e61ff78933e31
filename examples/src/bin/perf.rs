//! Measures what a path carries, as iperf3 does.

use std::process::ExitCode;

use anyhow::Result;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use longhaul_examples::perf::options::Options;
use longhaul_examples::perf::protocol::Params;
use longhaul_examples::perf::text::Reporter;
use longhaul_examples::perf::{client, server};
use longhaul_examples::transport;

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let params = if options.transport.wants_list() { Ok(Params::default()) } else { options.params() };
    let params = params.unwrap_or_else(|what| Options::command().error(ErrorKind::ArgumentConflict, what).exit());
    let mut reported = false;
    let code = transport::run("perf", &options.transport, run(&options, &params, &mut reported)).await;
    if reported { ExitCode::FAILURE } else { code }
}

/// Says in `reported` whether a failure has been told of, in the form that was asked for.
async fn run(options: &Options, params: &Params, reported: &mut bool) -> Result<()> {
    let Some(host) = &options.client else { return server::run(options).await };
    let mut report = Reporter::new(options, true);
    let outcome = client::run(options, host, params, &mut report).await;
    report.end(&outcome);
    *reported = outcome.is_err();
    Ok(())
}
