//! Receives files that `send` sends.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Parser;
use longhaul::{TcpListener, TcpStream};
use longhaul_examples::progress::Screen;
use longhaul_examples::receiver::{File, ReceiveError, Receiver};
use longhaul_examples::report::{self, Received};
use longhaul_examples::transport::TransportArgs;
use longhaul_examples::{session, transport};
use tokio::task::JoinSet;

/// Receives files that `send` sends, over longhaul.
///
/// A file gets its name once its BLAKE3 hash was found to be the sender's; before that it has a temporary one. Only
/// plain file names are accepted.
#[derive(Debug, Parser)]
#[command(name = "receive", version)]
struct Args {
    /// Address and UDP port to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7000")]
    listen: SocketAddr,
    /// Directory the files are put into
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// End with the first connection, and say by the exit code whether it went well
    #[arg(long)]
    once: bool,
    /// Replace files that exist
    #[arg(long)]
    overwrite: bool,
    /// Print one JSON object for each file received, on a line of standard output
    #[arg(long)]
    json: bool,
    /// Answer probes of the path as well, such as those of `probe`, with their times of arrival
    #[arg(long)]
    reflect: bool,
    #[command(flatten)]
    transport: TransportArgs,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let options = args.transport.clone();
    transport::run("receive", &options, run(args)).await
}

async fn run(args: Args) -> Result<()> {
    let out = &args.out;
    if !out.is_dir() {
        bail!("{} is not a directory", out.display());
    }
    let socket = args.transport.socket(args.listen)?;
    socket.set_reflect(args.reflect);
    let listener = args.transport.listen_on(args.listen, socket)?;
    let screen = Screen::stderr();
    screen.say(&format!("listening on {}", listener.local_addr()?));
    let receiver = Receiver {
        out: out.clone(),
        overwrite: args.overwrite,
        patience: args.transport.patience(),
        screen: screen.clone(),
    };
    let server = Arc::new(Server { receiver, screen, json: args.json, transport: args.transport });
    if args.once {
        let (stream, peer) = listener.accept().await?;
        // Nobody else gets in: who comes now is refused, rather than left waiting.
        drop(listener);
        return server.serve(stream, peer).await.with_context(|| format!("{peer}"));
    }
    serve_all(&server, &listener).await
}

struct Server {
    receiver: Receiver,
    screen: Screen,
    json: bool,
    transport: TransportArgs,
}

/// Serves connections side by side, until the listener fails.
async fn serve_all(server: &Arc<Server>, listener: &TcpListener) -> Result<()> {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, peer) = accepted?;
                let server = Arc::clone(server);
                connections.spawn(async move {
                    if let Err(error) = server.serve(stream, peer).await {
                        server.screen.say(&format!("receive: {peer}: {error}"));
                    }
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

impl Server {
    async fn serve(&self, stream: TcpStream, peer: SocketAddr) -> Result<(), ReceiveError> {
        session::receive(&self.transport, &self.receiver, stream, |file| self.report(peer, file)).await
    }

    fn report(&self, peer: SocketAddr, file: File) {
        let File { name, bytes, took, hash } = file;
        let goodput_bps = report::bits_per_second(bytes, took);
        if !self.json {
            let (size, rate, seconds) = (report::size(bytes), report::rate(goodput_bps), took.as_secs_f64());
            self.screen.say(&format!("{name}: {size} in {seconds:.2} s, {rate}, from {peer}, blake3 {hash}"));
            return;
        }
        let received = Received {
            file: name,
            bytes,
            seconds: took.as_secs_f64(),
            goodput_bps,
            blake3: hash.to_hex().to_string(),
            peer: peer.to_string(),
        };
        self.screen.print(&report::json_line(&received));
    }
}
