//! `longhaul perf`.

use std::cell::Cell;
use std::num::NonZero;
use std::thread::available_parallelism;

use anyhow::{Context, Result};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::sleep;

use super::signals::ended;
use super::{Reported, Screen, WrongUse};
use crate::perf::options::Options;
use crate::perf::protocol::Params;
use crate::perf::reporter::Reporter;
use crate::perf::{client, server};
use crate::transport::Interrupted;

/// Environment variable that is set for a server in the background.
const IN_BACKGROUND: &str = "LONGHAUL_PERF_IN_BACKGROUND";

pub(super) fn run(options: &Options, screen: &Screen) -> Result<()> {
    let params = if options.transport.wants_list() { Params::default() } else { options.params().map_err(WrongUse)? };
    if options.daemon {
        if std::env::var_os(IN_BACKGROUND).is_none() {
            return start_in_background(options);
        }
        // In a session of its own, the server outlives the terminal.
        let _ = rustix::process::setsid();
    }
    let reported = Cell::new(false);
    let (stop, stopped) = watch::channel(false);
    let patience = options.transport.patience();
    let ends = async {
        ended().await;
        // A client ends its test in an orderly way, unless that takes too long or a second signal arrives.
        if options.client.is_some() && stop.send(true).is_ok() {
            tokio::select! {
                () = sleep(patience) => {}
                () = ended() => {}
            }
        }
    };
    let mut runtime = Builder::new_multi_thread();
    if let Some(workers) = workers(options, &params) {
        runtime.worker_threads(workers);
    }
    let work = || work(options, &params, (stop.clone(), stopped), &reported);
    let result = super::transfer(&mut runtime, &options.transport, screen, ends, work);
    match result {
        Err(error) if error.is::<Interrupted>() => Err(error),
        _ if reported.get() => Err(Reported.into()),
        result => result,
    }
}

/// Returns the number of threads for a client's streams. `None` stands for one per processor, as on a server, which
/// does not know the requests of its clients in advance.
///
/// If one stream sends, an idle thread would be woken for every ACK and every run of the driver.
fn workers(options: &Options, params: &Params) -> Option<usize> {
    let processors = available_parallelism().map_or(1, NonZero::get);
    options.client.as_ref().map(|_| params.client_sends().len().clamp(1, processors))
}

/// Runs the client or the server. Sets `reported` if a failure was printed in the requested format.
async fn work(
    options: &Options,
    params: &Params,
    (stop, stopped): (watch::Sender<bool>, watch::Receiver<bool>),
    reported: &Cell<bool>,
) -> Result<()> {
    let Some(host) = &options.client else { return server::run(options).await };
    let mut report = Reporter::new(options, true)?;
    report.stop = Some(stop);
    let outcome = client::run(options, host, params, stopped, &mut report).await;
    report.end(&outcome);
    match outcome {
        // It is reported already.
        Err(error) if error.is::<Interrupted>() => return Err(error.context(Reported)),
        outcome => reported.set(outcome.is_err()),
    }
    report.check()
}

/// Starts the program again without a terminal. Messages go to the log file.
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn a_client_has_a_thread_per_stream() {
        let workers_of = |line: &str| {
            let options = Options::try_parse_from(line.split(' ')).unwrap();
            workers(&options, &options.params().unwrap())
        };
        let processors = available_parallelism().unwrap().get();
        assert_eq!(workers_of("perf -s"), None);
        assert_eq!(workers_of("perf -c host"), Some(1));
        assert_eq!(workers_of("perf -c host -R"), Some(1));
        assert_eq!(workers_of("perf -c host --bidir"), Some(processors.min(2)));
        assert_eq!(workers_of("perf -c host -P 128"), Some(processors.min(128)));
    }
}
