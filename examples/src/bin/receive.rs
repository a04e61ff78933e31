//! Receives files that `send` sends.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Parser;
use longhaul::{TcpListener, TcpStream};
use longhaul_cli::files::Staging;
use longhaul_cli::perf::units::parse_size;
use longhaul_cli::progress::Screen;
use longhaul_cli::receiver::{Budget, Existing, File, Output, ReceiveError, Receiver};
use longhaul_cli::report::{self, Received};
use longhaul_cli::transport::TransportArgs;
use longhaul_cli::{session, transport};
use longhaul_tls::admission::{Admission, Limits, Prefix, Ticket};
use tokio::task::JoinSet;

/// Receives files that `send` sends, over longhaul.
///
/// A file gets its name after its BLAKE3 hash was found equal to the sender's; until then it is in a private
/// directory. Only plain file names are accepted. Senders are not authenticated: use --allow if others can reach the
/// port.
#[derive(Debug, Parser)]
#[command(name = "receive", version)]
struct Args {
    /// Address and UDP port to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7000")]
    listen: SocketAddr,
    /// Directory for the received files; it is created if it does not exist
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// End after the first connection, with an exit code that says whether it succeeded
    #[arg(long)]
    once: bool,
    /// Replace existing files
    #[arg(long)]
    overwrite: bool,
    /// Accept connections from this address or prefix only, such as 192.0.2.0/24; may be given several times
    #[arg(long, value_name = "ADDR")]
    allow: Vec<Prefix>,
    /// Accept at most this many bytes in total, with a suffix K, M, G, T (of 1024); a file counts as at least 4K
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    max_bytes: Option<u64>,
    /// Accept names that begin with a dot or a dash
    #[arg(long)]
    allow_hidden: bool,
    /// Maximum number of concurrent connections
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    max_connections: u16,
    /// Maximum number of concurrent connections from one address (IPv6: from one /64 prefix)
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..))]
    max_per_address: u16,
    /// Print a JSON object per received file, each on a line of standard output
    #[arg(long)]
    json: bool,
    /// Also answer path probes, such as those of `probe`, with their arrival times
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
    let staging = Staging::open(out).with_context(|| format!("cannot write to {}", out.display()))?;
    let socket = args.transport.socket(args.listen)?;
    socket.set_reflect(args.reflect);
    let listener = args.transport.listen_on(args.listen, socket)?;
    let screen = Screen::stderr();
    screen.say(&format!("listening on {}", listener.local_addr()?));
    if args.allow.is_empty() && !args.listen.ip().to_canonical().is_loopback() {
        let place = out.display();
        screen.say(&format!("warning: whoever reaches this port can write files to {place}; --allow ADDR limits that"));
    }
    let receiver = Receiver {
        out: Output::Directory(staging),
        existing: if args.overwrite { Existing::Overwrite } else { Existing::Refuse },
        hidden: args.allow_hidden,
        budget: Budget::new(args.max_bytes),
        patience: args.transport.patience(),
        screen: screen.clone(),
    };
    let limits = Limits { all: args.max_connections.into(), per_address: args.max_per_address.into() };
    let door = Door { allow: args.allow, admission: Admission::new(limits), screen: screen.clone() };
    let server = Arc::new(Server { receiver, screen, json: args.json });
    if args.once {
        let (stream, peer, ticket) = door.accept(&listener).await?;
        // Further connections are refused rather than left waiting.
        drop(listener);
        return server.serve(stream, peer, &ticket).await.with_context(|| format!("{peer}"));
    }
    serve_all(&server, &listener, &door).await
}

/// Access control for incoming connections.
struct Door {
    allow: Vec<Prefix>,
    admission: Admission,
    screen: Screen,
}

impl Door {
    /// Accepts the next connection that is to be served. All others are reset.
    async fn accept(&self, listener: &TcpListener) -> Result<(TcpStream, SocketAddr, Ticket)> {
        let mut full = false;
        loop {
            let (stream, peer) = listener.accept().await?;
            if !self.is_allowed(peer.ip()) {
                stream.abort();
            } else if let Some(ticket) = self.admission.admit(peer.ip()) {
                return Ok((stream, peer, ticket));
            } else {
                stream.abort();
                // One message for all connections refused until there is a free place.
                if !std::mem::replace(&mut full, true) {
                    self.screen.say(&format!("receive: {peer}: refused: too many connections"));
                }
            }
        }
    }

    fn is_allowed(&self, peer: IpAddr) -> bool {
        self.allow.is_empty() || self.allow.iter().any(|prefix| prefix.contains(peer))
    }
}

struct Server {
    receiver: Receiver,
    screen: Screen,
    json: bool,
}

/// Serves connections concurrently until the listener fails.
async fn serve_all(server: &Arc<Server>, listener: &TcpListener, door: &Door) -> Result<()> {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = door.accept(listener) => {
                let (stream, peer, ticket) = accepted?;
                let server = Arc::clone(server);
                connections.spawn(async move {
                    if let Err(error) = server.serve(stream, peer, &ticket).await {
                        server.screen.say(&format!("receive: {peer}: {error}"));
                    }
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

impl Server {
    /// Receives the files of a connection, unless the connection is evicted before it has proved to be a sender.
    async fn serve(&self, stream: TcpStream, peer: SocketAddr, ticket: &Ticket) -> Result<(), ReceiveError> {
        let greeted = || ticket.is_known();
        let received = |file| self.report(peer, file);
        tokio::select! {
            result = session::receive(&self.receiver, stream, greeted, received) => result,
            () = ticket.evicted() => Err(ReceiveError::Silent),
        }
    }

    fn report(&self, peer: SocketAddr, file: File) {
        let File { name, bytes, resumed, took, hash } = file;
        let goodput_bps = report::bits_per_second(bytes, took);
        if !self.json {
            let (size, rate, seconds) = (report::size(bytes), report::rate(goodput_bps), took.as_secs_f64());
            self.screen.say(&format!("{name}: {size} in {seconds:.2} s, {rate}, from {peer}, blake3 {hash}"));
            return;
        }
        let received = Received {
            file: name,
            bytes,
            resumed_bytes: resumed,
            seconds: took.as_secs_f64(),
            goodput_bps,
            blake3: hash.to_hex().to_string(),
            peer: peer.to_string(),
        };
        self.screen.print(&report::json_line(&received));
    }
}
