//! Measures the throughput of a path, as iperf3 does.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use longhaul_cli::transport::{self, interrupted};
use longhaul_examples::perf::options::Options;
use longhaul_examples::perf::protocol::Params;
use longhaul_examples::perf::text::Reporter;
use longhaul_examples::perf::{client, server};
use tokio::sync::watch;
use tokio::time::sleep;

/// Environment variable that is set for a server in the background.
const IN_BACKGROUND: &str = "LONGHAUL_PERF_IN_BACKGROUND";

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let params = if options.transport.wants_list() { Ok(Params::default()) } else { options.params() };
    let params = params.unwrap_or_else(|what| Options::command().error(ErrorKind::ArgumentConflict, what).exit());
    if options.daemon {
        if std::env::var_os(IN_BACKGROUND).is_none() {
            return transport::outcome("perf", start_in_background(&options));
        }
        // A session of its own lets the server outlive the terminal.
        #[cfg(unix)]
        let _ = rustix::process::setsid();
    }
    let mut reported = false;
    let (stop, stopped) = watch::channel(false);
    let patience = options.transport.patience();
    let ends = async {
        interrupted().await;
        // A client ends its test in order, unless that takes too long or it is interrupted again.
        if options.client.is_some() && stop.send(true).is_ok() {
            tokio::select! {
                () = sleep(patience) => {}
                () = interrupted() => {}
            }
        }
    };
    let work = run(&options, &params, stopped, &mut reported);
    let code = transport::run_until("perf", &options.transport, work, ends).await;
    if reported { ExitCode::FAILURE } else { code }
}

/// Runs the client or the server; `reported` is set if a failure was printed in the requested format.
async fn run(options: &Options, params: &Params, stop: watch::Receiver<bool>, reported: &mut bool) -> Result<()> {
    let Some(host) = &options.client else { return server::run(options).await };
    let mut report = Reporter::new(options, true)?;
    let outcome = client::run(options, host, params, stop, &mut report).await;
    report.end(&outcome);
    *reported = outcome.is_err();
    Ok(())
}

/// Starts the program again without a terminal. Its messages go to the log file.
fn start_in_background(options: &Options) -> Result<()> {
    use std::process::{Command, Stdio};
    let errors = match &options.logfile {
        Some(path) => {
            let file = std::fs::File::options().append(true).create(true).open(path);
            file.with_context(|| format!("cannot write {}", path.display()))?.into()
        }
        None => Stdio::null(),
    };
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).env(IN_BACKGROUND, "1");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    command.spawn().context("cannot start in the background")?;
    Ok(())
}
