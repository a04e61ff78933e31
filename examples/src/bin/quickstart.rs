//! A file travels from a sender to a receiver, both in this process, over real UDP sockets on the loopback interface.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use longhaul::TcpListener;
use longhaul_examples::files::TempDir;
use longhaul_examples::progress::Screen;
use longhaul_examples::receiver::{self, Receiver};
use longhaul_examples::report::{self, Sent};
use longhaul_examples::sender::Source;
use longhaul_examples::session;
use longhaul_examples::transport::{self, Snapshot, TransportArgs};

/// Size of the file that is made when none is given.
const SIZE: u64 = 256 << 20;

/// Sends a file through a userspace TCP to a receiver in the same process, and shows how it went.
#[derive(Debug, Parser)]
#[command(name = "quickstart", version)]
struct Args {
    /// The file to send; without one, 256 MiB are made up
    file: Option<PathBuf>,
    #[command(flatten)]
    transport: TransportArgs,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let options = args.transport.clone();
    transport::run("quickstart", &options, run(args)).await
}

async fn run(args: Args) -> Result<()> {
    let directory = TempDir::create().context("cannot create a temporary directory")?;
    let path = match args.file {
        Some(path) => path,
        None => {
            let path = directory.path().join("quickstart.bin");
            make_up(&path).with_context(|| format!("cannot write {}", path.display()))?;
            path
        }
    };
    let out = directory.path().join("received");
    std::fs::create_dir(&out).with_context(|| format!("cannot create {}", out.display()))?;
    let source = Source::open(&path)?;

    let receiving = args.transport.for_other_end();
    let listener = receiving.listen((Ipv4Addr::LOCALHOST, 0).into())?;
    let address = listener.local_addr()?;
    eprintln!("sending {} ({}) to {address}, over UDP", path.display(), report::size(source.size()));
    let receiver = tokio::spawn(receive(receiving, listener, out));
    let mut outcome = None;
    let screen = Screen::stderr();
    session::send(&args.transport, &[address], vec![source], &screen, |sent, connection| {
        outcome = Some((sent, connection.clone()));
    })
    .await?;
    let received = receiver.await.context("the receiver failed")??;
    let (sent, connection) = outcome.context("nothing was sent")?;
    print(&sent, &connection, &received);
    ensure!(sent.blake3 == received.hash.to_hex().as_str(), "the hashes differ");
    Ok(())
}

/// Accepts one connection and receives a file over it.
async fn receive(args: TransportArgs, listener: TcpListener, out: PathBuf) -> Result<receiver::File> {
    let (stream, _) = listener.accept().await?;
    let receiver = Receiver { out, overwrite: false, patience: args.patience(), screen: Screen::hidden() };
    let mut file = None;
    session::receive(&args, &receiver, stream, |received| file = Some(received)).await?;
    file.context("nothing was received")
}

fn print(sent: &Sent, connection: &Snapshot, received: &receiver::File) {
    let verdict = if sent.blake3 == received.hash.to_hex().as_str() { "match" } else { "DIFFER" };
    println!("bytes       {} ({})", sent.bytes, report::size(sent.bytes));
    println!("seconds     {:.3}, from connect to the receiver's confirmation", sent.seconds);
    println!("rate        {}", report::rate(sent.goodput_bps));
    println!("RTT         {} smoothed, {} at least", report::time(connection.rtt), report::time(connection.min_rtt));
    println!("cwnd        {} bytes ({})", connection.cwnd, sent.congestion);
    println!("sent again  {} bytes", sent.retransmitted_bytes);
    let limits = sent.limited_by.fields().map(|(name, seconds)| format!("{name} {seconds:.3}"));
    println!("limited by  {} seconds", limits.join(", "));
    println!("sent        blake3 {}", sent.blake3);
    println!("received    blake3 {}", received.hash);
    println!("the hashes {verdict}");
}

/// Writes [`SIZE`] bytes that do not repeat: BLAKE3's output, which can be as long as one likes.
fn make_up(path: &Path) -> std::io::Result<()> {
    let mut output = blake3::Hasher::new().update(b"longhaul quickstart").finalize_xof();
    let mut file = BufWriter::new(File::create(path)?);
    let mut block = vec![0; 64 << 10];
    for _ in 0..SIZE / block.len() as u64 {
        output.fill(&mut block);
        file.write_all(&block)?;
    }
    file.flush()
}
