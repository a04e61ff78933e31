//! The bench `profile`: workers under `perf`, and the table. `benches/profile.rs` describes it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::generated::{Page, Task, docs, processor, section, table};
use crate::loopback::{self, Rival, Sent};
use crate::meter::Usage;
use crate::report::setting;
use crate::shards::{self, Load};
use crate::transport::Transport;
use crate::worker::{self, Worker, Workers};

mod classes;

use classes::Class;

/// Samples per second of CPU time. The number is prime, so that periodic work is not always sampled at the same point.
const FREQUENCY: u32 = 4999;
const COMMAND: &str = "cargo bench --bench profile -- --write";
const OWN: Rival = Rival::Stream(Transport::Longhaul);

#[derive(Debug, Serialize, Deserialize)]
enum Job {
    Stream(loopback::Job),
    Streams(shards::Job),
}

/// Fraction of a process's samples by class.
type Shares = BTreeMap<Class, f64>;

/// Profile of a process, and its CPU time in ms per GB if known.
struct Column {
    head: &'static str,
    shares: Shares,
    ms_per_gb: Option<f64>,
}

/// Runs the bench, or one process of it if this process is a worker. Profiles are stored in `target_tmpdir`.
///
/// # Errors
/// Returns an error for an unknown argument, without `perf`, or if a transfer failed.
pub fn main(target_tmpdir: &str) -> Result<()> {
    if let Some(job) = worker::job()? {
        return worker::run(async {
            match job {
                Job::Stream(job) => loopback::work(job).await,
                Job::Streams(job) => shards::work(job).await,
            }
        });
    }
    let task = Task::from_args()?;
    let bench = Bench { workers: Workers::new()?, directory: Path::new(target_tmpdir).to_owned() };
    let mib: u64 = setting("LONGHAUL_BENCH_MIB", 4096)?;
    let millis: u64 = setting("LONGHAUL_BENCH_MS", 4000)?;
    let columns: Vec<_> = bench.one_stream(mib << 20)?.into_iter().chain(bench.many_streams(millis)?).collect();
    let text = text(&columns);
    print!("{text}");
    Page { path: docs("costs.md"), text: section(&docs("costs.md"), "Per gigabyte", &text)? }.settle(task)
}

struct Bench {
    workers: Workers,
    directory: PathBuf,
}

/// A worker under `perf`, and the file of its profile.
struct Profiled {
    worker: Worker,
    file: PathBuf,
}

impl Bench {
    fn spawn(&self, name: &str, job: &Job) -> Result<Profiled> {
        let file = self.directory.join(format!("{name}.perf"));
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-e", "cpu-clock", "-F", &FREQUENCY.to_string(), "-o"]).arg(&file).arg("--");
        let worker = self.workers.spawn_under(perf, job).context("perf is needed")?;
        Ok(Profiled { worker, file })
    }

    /// Profiles sender and receiver of one stream.
    fn one_stream(&self, bytes: u64) -> Result<[Column; 2]> {
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let mut receiver = self.spawn("receiver", &Job::Stream(loopback::Job::Receive { rival: OWN, ip, bytes }))?;
        let to = receiver.worker.hear().context("the receiver")?;
        let mut sender = self.spawn("sender", &Job::Stream(loopback::Job::Send { rival: OWN, to, bytes }))?;
        let rx: Usage = receiver.worker.hear().context("the receiver")?;
        let Sent { usage: tx, .. } = sender.worker.hear().context("the sender")?;
        let ms_per_gb = |usage: Usage| Some(usage.cpu_s * 1e12 / bytes as f64);
        Ok([
            Column { head: "sender, ms/GB", shares: sender.finish()?, ms_per_gb: ms_per_gb(tx) },
            Column { head: "receiver, ms/GB", shares: receiver.finish()?, ms_per_gb: ms_per_gb(rx) },
        ])
    }

    /// Profiles the server of 200 streams, with one shard, and one of its two clients.
    fn many_streams(&self, millis: u64) -> Result<[Column; 2]> {
        let transport = Transport::Longhaul;
        let mut server = self.spawn("server", &Job::Streams(shards::Job::Serve { transport, shards: 1 }))?;
        let to: SocketAddr = server.worker.hear().context("the server")?;
        let (load, streams) = (Load::Goodput, Load::Goodput.streams() / 2);
        let job = || Job::Streams(shards::Job::Client { transport, to, load, streams, millis });
        let mut client = self.spawn("client", &job())?;
        let mut other = self.workers.spawn(&job(), None)?;
        client.worker.hear::<f64>().context("the client")?;
        other.hear::<f64>().context("the other client")?;
        Ok([
            Column { head: "server of 200, %", shares: server.finish()?, ms_per_gb: None },
            Column { head: "client of 100, %", shares: client.finish()?, ms_per_gb: None },
        ])
    }
}

impl Profiled {
    /// Ends the worker and reads its profile.
    fn finish(self) -> Result<Shares> {
        self.worker.finish()?;
        let mut report = Command::new("perf");
        report.args(["report", "--stdio", "-q", "--no-children", "-F", "sample,dso,sym", "-t", "|", "-i"]);
        let output = report.arg(&self.file).output().context("perf report")?;
        ensure!(output.status.success(), "perf report: {}", String::from_utf8_lossy(&output.stderr));
        shares(&String::from_utf8_lossy(&output.stdout))
    }
}

/// Sums the samples of each class, from lines such as `12 |[kernel.kallsyms] |[k] udp_sendmsg`.
fn shares(report: &str) -> Result<Shares> {
    let mut samples = BTreeMap::new();
    for line in report.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut fields = line.splitn(3, '|').map(str::trim);
        let (Some(count), Some(object), Some(symbol)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let function = symbol.split_once("] ").map_or(symbol, |(_, function)| function);
        let count: f64 = count.parse().with_context(|| format!("perf report has the line {line}"))?;
        *samples.entry(Class::of(object, function)).or_insert(0.0) += count;
    }
    let all: f64 = samples.values().sum();
    ensure!(all > 0.0, "perf took no samples");
    samples.values_mut().for_each(|count| *count /= all);
    Ok(samples)
}

fn text(columns: &[Column]) -> String {
    let mut text = format!("<!-- generated by {COMMAND} -->\n\n");
    text += &format!(
        "CPU time of the two processes of one stream over loopback, in ms per GB (10^9 bytes), and shares of the time of a \
         server with 200 streams\nand one shard, and of one of its two clients{}. `perf` takes {FREQUENCY} samples per second \
         of CPU time, of one run\neach. Other processes may have run at the same time: the shares tell more than the sums.\n\n\
         A sample counts for the function that was running, by its name (`benches/src/profile/classes.rs`). The compiler \
         inlines functions, whose\ntime then counts for the caller: small functions of the engine for the driver, and \
         locks without contention, which are a few\ninstructions, for their holder. Waiting for a lock would be among the \
         wake-ups, but each process has one thread. The kernel processes\nreceived datagrams within the sender's system \
         call. Where it disables interrupts, samples are taken when it enables them again, which\ncounts as a wake-up.\n\n",
        processor().map(|name| format!(", on two cores of {name}")).unwrap_or_default()
    );
    text + &table(&rows(columns))
}

fn rows(columns: &[Column]) -> Vec<Vec<String>> {
    let cell = |column: &Column, share: f64| match column.ms_per_gb {
        Some(ms) => format!("{:.0}", share * ms),
        None => format!("{:.1}", share * 100.0),
    };
    let row = |name: String, share: &dyn Fn(&Column) -> f64| {
        [name].into_iter().chain(columns.iter().map(|column| cell(column, share(column)))).collect()
    };
    let head = [String::new()].into_iter().chain(columns.iter().map(|column| column.head.to_owned())).collect();
    let classes = Class::ALL
        .map(|class| row(class.to_string(), &|column: &Column| column.shares.get(&class).copied().unwrap_or_default()));
    let sum = row("sum".to_owned(), &|column: &Column| column.shares.values().sum());
    [head].into_iter().chain(classes).chain([sum]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "\
# comment
 30         |[kernel.kallsyms]   |[k] _copy_from_iter
 50         |server              |[.] <longhaul::stream::TcpStream as tokio::io::async_read::AsyncRead>::poll_read
 20         |server              |[.] longhaul_tcp::endpoint::Endpoint::poll_transmit
";

    #[test]
    fn samples_are_summed_by_class() {
        let shares = shares(REPORT).unwrap();
        let expected = [(Class::KernelCopy, 0.3), (Class::Engine, 0.2), (Class::Driver, 0.5)];
        assert_eq!(shares, BTreeMap::from(expected));
        assert!(super::shares("# nothing\n").is_err());
    }

    #[test]
    fn a_column_has_times_or_shares() {
        let column = |ms_per_gb| Column { head: "sender", shares: shares(REPORT).unwrap(), ms_per_gb };
        let rows = rows(&[column(Some(400.0)), column(None)]);
        assert_eq!(rows.len(), Class::ALL.len() + 2);
        assert_eq!(rows[1][1..], ["120", "30.0"]);
        assert_eq!(rows.last().unwrap()[1..], ["400", "100.0"]);
    }
}
