//! The bench `loopback`: both sides, the table and the JSON file. `benches/loopback.rs` describes it.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::thread;

use anyhow::{Context, Result};
use longhaul_netns::{NetNs, VethPair};
use serde::{Deserialize, Serialize};

use crate::bulk;
use crate::contest::{self, CONTENDED, Chosen, Run};
use crate::meter::Usage;
use crate::report::{Spread, setting, write_json};
use crate::transport::{Connector, Listener, Transport, kernel_congestion, longhaul_socket};
use crate::udp::{self, Udp};
use crate::worker::{self, Workers};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Rival {
    /// Raw UDP, the upper bound.
    Udp,
    Stream(Transport),
    /// longhaul, with writes and reads by reference.
    Reference,
}

/// Number of [`RIVALS`] that are longhaul with its own system calls.
const OWN: usize = 2;
const RIVALS: [Rival; 6] = [
    Rival::Stream(Transport::Longhaul),
    Rival::Reference,
    Rival::Udp,
    Rival::Stream(Transport::Portable),
    Rival::Stream(Transport::Tcp),
    Rival::Stream(Transport::Quinn),
];

impl Rival {
    const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Stream(transport) => transport.name(),
            Self::Reference => "longhaul-bytes",
        }
    }
}

/// Job of a worker: one side of a transfer, or a load on the CPUs during transfers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Job {
    /// Computes on this many threads until the process is killed.
    Load { threads: usize },
    /// Reports its address, and then its [`Usage`].
    Receive { rival: Rival, ip: IpAddr, bytes: u64 },
    /// Reports its [`Sent`].
    Send { rival: Rival, to: SocketAddr, bytes: u64 },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sent {
    pub usage: Usage,
    /// Bytes of raw UDP that were assumed to be lost and retransmitted.
    pub lost: u64,
}

/// Network between both sides, and the load of the machine.
#[derive(Clone, Copy)]
struct Place<'a> {
    name: &'a str,
    sender: Option<&'a NetNs>,
    receiver: Option<&'a NetNs>,
    receiver_ip: Ipv4Addr,
    /// Whether another process computes on each CPU.
    is_loaded: bool,
}

struct Bench {
    workers: Workers,
    bytes: u64,
    runs: usize,
}

/// Results of a rival in one network, in the format of `bench/loopback.json`.
#[derive(Debug, Serialize)]
struct Row {
    gbps: f64,
    gbps_min: f64,
    gbps_max: f64,
    tx_cpu_s_per_gb: f64,
    rx_cpu_s_per_gb: f64,
    runs: usize,
}

type Rows = BTreeMap<&'static str, Row>;

/// Contents of `bench/loopback.json`.
#[derive(Debug, Serialize)]
struct Results {
    loopback: Rows,
    loopback_loaded: Rows,
    veth: Option<Rows>,
}

/// Runs the bench, or one side of a transfer if this process is a worker. [`write_json`] describes `target_tmpdir`.
///
/// # Errors
/// Returns an error if a transfer failed.
pub fn main(target_tmpdir: &str) -> Result<()> {
    if let Some(job) = worker::job()? {
        return worker::run_on(setting("LONGHAUL_BENCH_THREADS", 1)?, work(job));
    }
    let mib: u64 = setting("LONGHAUL_BENCH_MIB", 2048)?;
    let bench = Bench { workers: Workers::new()?, bytes: mib << 20, runs: setting("LONGHAUL_BENCH_RUNS", 9)?.max(1) };
    println!("{mib} MiB in one stream, {} runs each, interleaved; kernel TCP: {}", bench.runs, kernel_congestion()?);
    let idle =
        Place { name: "loopback", sender: None, receiver: None, receiver_ip: Ipv4Addr::LOCALHOST, is_loaded: false };
    let loaded = Place { name: "loopback, beside a process that computes on each CPU", is_loaded: true, ..idle };
    let results = Results {
        loopback: bench.compete(idle)?,
        loopback_loaded: bench.compete(loaded)?,
        veth: bench.compete_over_veth()?,
    };
    write_json(target_tmpdir, "loopback.json", &results)
}

pub(crate) async fn work(job: Job) -> Result<()> {
    match job {
        Job::Load { threads } => {
            (0..threads).for_each(|_| drop(thread::spawn(compute)));
            worker::until_ended().await
        }
        Job::Receive { rival: Rival::Udp, ip, bytes } => {
            let udp = Udp::bind(ip)?;
            worker::say(&udp.local_addr()?)?;
            worker::say(&udp::receive(&udp, bytes).await?)?;
            worker::until_ended().await
        }
        Job::Receive { rival: Rival::Stream(transport), ip, bytes } => {
            let listener = Listener::bind(transport, ip).await?;
            worker::say(&listener.local_addr()?)?;
            let mut stream = listener.accept().await?;
            worker::say(&bulk::receive(&mut stream, bytes).await?)?;
            worker::until_ended().await
        }
        Job::Receive { rival: Rival::Reference, ip, bytes } => {
            let socket = longhaul_socket(Transport::Longhaul)?;
            socket.bind((ip, 0).into())?;
            let listener = socket.listen(1)?;
            worker::say(&listener.local_addr()?)?;
            let mut stream = listener.accept().await?.0;
            worker::say(&bulk::receive_by_reference(&mut stream, bytes).await?)?;
            worker::until_ended().await
        }
        Job::Send { rival: Rival::Udp, to, bytes } => {
            let (usage, lost) = udp::send(to, bytes).await?;
            worker::say(&Sent { usage, lost })
        }
        Job::Send { rival: Rival::Stream(transport), to, bytes } => {
            let mut stream = Connector::new(transport)?.connect(to).await?;
            let usage = bulk::send(&mut stream, bytes).await?;
            worker::say(&Sent { usage, lost: 0 })
        }
        Job::Send { rival: Rival::Reference, to, bytes } => {
            let mut stream = longhaul_socket(Transport::Longhaul)?.connect(to).await?;
            let usage = bulk::send_by_reference(&mut stream, bytes).await?;
            worker::say(&Sent { usage, lost: 0 })
        }
    }
}

fn compute() {
    for number in 0_u64.. {
        black_box(number);
    }
}

impl Bench {
    /// Compares all rivals over a veth pair. If the system does not permit one, prints the reason and returns `None`.
    fn compete_over_veth(&self) -> Result<Option<Rows>> {
        let pair = match VethPair::new().context("making a veth pair (root may)") {
            Ok(pair) => pair,
            Err(error) => {
                println!("\nveth: not measured: {error:#}");
                return Ok(None);
            }
        };
        let rows = self.compete(Place {
            name: "veth, MTU 1500, segmentation offloads off, GRO on",
            sender: Some(&pair.near),
            receiver: Some(&pair.far),
            receiver_ip: VethPair::FAR_ADDR,
            is_loaded: false,
        })?;
        Ok(Some(rows))
    }

    fn compete(&self, place: Place<'_>) -> Result<Rows> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let _load = place.is_loaded.then(|| self.workers.spawn(&Job::Load { threads }, None)).transpose()?;
        let limit = if place.is_loaded { f64::INFINITY } else { CONTENDED };
        let chosen = contest::hold(&RIVALS, self.runs, limit, |rival| {
            self.transfer(rival, place).with_context(|| format!("{} over {}", rival.name(), place.name))
        })?;
        let rows = chosen.iter().map(|chosen| (chosen.rival.name(), self.row(chosen))).collect();
        println!("\n{}", place.name);
        self.print_table(&chosen, &rows);
        print_ratios(&rows);
        Ok(rows)
    }

    fn transfer(&self, rival: Rival, place: Place<'_>) -> Result<Run> {
        let (ip, bytes) = (place.receiver_ip.into(), self.bytes);
        let mut receiver = self.workers.spawn(&Job::Receive { rival, ip, bytes }, place.receiver)?;
        let to = receiver.hear()?;
        let mut sender = self.workers.spawn(&Job::Send { rival, to, bytes }, place.sender)?;
        let rx = receiver.hear().context("the receiver")?;
        let Sent { usage: tx, lost } = sender.hear().context("the sender")?;
        if lost > 0 {
            println!("raw UDP over {}: {lost} bytes were assumed to be lost and retransmitted", place.name);
        }
        Ok(Run { tx, rx })
    }

    fn row(&self, chosen: &Chosen<Rival>) -> Row {
        let gigabytes = self.bytes as f64 / 1e9;
        let gbps = Spread::of(chosen.runs.iter().map(|run| gigabytes * 8.0 / run.tx.seconds));
        Row {
            gbps: gbps.median,
            gbps_min: gbps.min,
            gbps_max: gbps.max,
            tx_cpu_s_per_gb: Spread::of(chosen.runs.iter().map(|run| run.tx.cpu_s / gigabytes)).median,
            rx_cpu_s_per_gb: Spread::of(chosen.runs.iter().map(|run| run.rx.cpu_s / gigabytes)).median,
            runs: chosen.runs.len(),
        }
    }

    fn print_table(&self, chosen: &[Chosen<Rival>], rows: &Rows) {
        let gigabytes = self.bytes as f64 / 1e9;
        println!("                   |        Gbit/s         |       CPU s/GB        | whole machine | runs");
        println!("                   |   min  median    max  | sender receiver   sum |   CPU s/GB    |");
        for chosen in chosen {
            let Some(row) = rows.get(chosen.rival.name()) else { continue };
            let machine = Spread::of(chosen.runs.iter().map(|run| run.tx.machine_s / gigabytes)).median;
            println!(
                "{:>18} | {:>6.2} {:>6.2} {:>6.2}  | {:>6.3}   {:>6.3} {:>6.3} |    {machine:>6.3}     | {}{}",
                chosen.rival.name(),
                row.gbps_min,
                row.gbps,
                row.gbps_max,
                row.tx_cpu_s_per_gb,
                row.rx_cpu_s_per_gb,
                row.cpu_s_per_gb(),
                row.runs,
                remark(chosen),
            );
        }
    }
}

impl Row {
    /// Returns the CPU time of sender and receiver in total.
    fn cpu_s_per_gb(&self) -> f64 {
        self.tx_cpu_s_per_gb + self.rx_cpu_s_per_gb
    }
}

fn remark(chosen: &Chosen<Rival>) -> String {
    match (chosen.contended, chosen.dropped) {
        (0, 0) => String::new(),
        (0, dropped) => format!(" ({dropped} contended dropped)"),
        (contended, dropped) => format!(" ({contended} of them contended, {dropped} worse ones dropped)"),
    }
}

fn print_ratios(rows: &Rows) {
    let (own, others) = RIVALS.split_at(OWN);
    for (own, rival) in own.iter().flat_map(|own| others.iter().map(move |rival| (own.name(), rival.name()))) {
        let (Some(own_row), Some(row)) = (rows.get(own), rows.get(rival)) else { continue };
        let goodput = own_row.gbps / row.gbps;
        let cpu = own_row.cpu_s_per_gb() / row.cpu_s_per_gb();
        println!("{own} / {rival}: goodput {goodput:.2}, CPU per GB {cpu:.2}");
    }
}
