//! The end that ssh starts, `longhaul ssh-server`.

use std::io::{BufRead as _, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;

use anyhow::{Context, Result, anyhow, bail};
use clap::Parser as _;
use longhaul_tls::{Fingerprint, Identity, SecureListener};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{Line, MARK, MAX_TEXT, Request, START, VERSION};
use crate::output;
use crate::program::args::{Cli, Command};
use crate::program::{Reported, config, receive, send};
use crate::progress::Screen;
use crate::transport::{self, TransportArgs};

/// Serves the one transfer that standard input requests.
pub(crate) async fn run() -> Result<()> {
    let (request, closed) = input();
    serve(request, async { drop(closed.await) }).await.map_err(|error| {
        tell(&Line::Failed(format!("{error:#}")));
        Reported.into()
    })
}

/// Returns the first line of standard input, and a future that completes when standard input ends.
///
/// A thread of the runtime would delay the end of the program, because nothing interrupts its read.
fn input() -> (oneshot::Receiver<String>, oneshot::Receiver<()>) {
    let ((request, line), (open, closed)) = (oneshot::channel(), oneshot::channel());
    std::thread::spawn(move || {
        let _open: oneshot::Sender<()> = open;
        let (mut text, mut stdin) = (String::new(), std::io::stdin().lock());
        if stdin.by_ref().take(MAX_TEXT).read_line(&mut text).is_ok() {
            let _ = request.send(text);
            let _ = std::io::copy(&mut stdin, &mut std::io::sink());
        }
    });
    (line, closed)
}

fn tell(line: &Line) {
    if let Ok(text) = serde_json::to_string(line) {
        // If ssh has ended, the message has no receiver.
        let _ = output::write(&format!("{MARK}{text}\n"));
    }
}

async fn serve(request: oneshot::Receiver<String>, closed: impl Future<Output = ()>) -> Result<()> {
    let text = timeout(START, request).await.context("there is no request")?.context("there is no request")?;
    let request: Value = serde_json::from_str(&text).context("the request is not valid")?;
    if request.get("version") != Some(&VERSION.into()) {
        tell(&Line::Version(VERSION));
        return Ok(());
    }
    let request: Request = serde_json::from_value(request).context("the request is not valid")?;
    let (key, ports) = (request.key.parse::<Fingerprint>()?, request.ports.0..=request.ports.1);
    let arguments = std::iter::once("longhaul").chain(request.arguments.iter().map(String::as_str));
    let screen = Screen::silent();
    let cli = Cli::try_parse_from(arguments).map_err(|error| anyhow!(config::plain(&error)))?;
    match cli.command {
        Command::Receive(args) => {
            let server = receive::Server::open(&args, None, &screen)?;
            let listener = listen(&args.transport, ports, key)?;
            transport::finish(&args.transport, server.serve_once(listener), closed).await
        }
        Command::Send(args) => {
            let plan = send::plan(&args)?;
            let listener = listen(&args.transport, ports, key)?;
            let sent = async {
                for (file, reason) in send::offer(&args, plan, listener, &screen).await? {
                    tell(&Line::LeftOut(file, reason));
                }
                Ok(())
            };
            transport::finish(&args.transport, sent, closed).await
        }
        _ => bail!("the request is not valid"),
    }
}

/// Listens on the first free port for the machine with `key`, and reports the port to it.
fn listen(transport: &TransportArgs, ports: RangeInclusive<u16>, key: Fingerprint) -> Result<SecureListener> {
    let connection = std::env::var("SSH_CONNECTION").unwrap_or_default();
    // Addresses and ports of the client and of the server.
    let own = connection.split(' ').nth(2).unwrap_or_default();
    let any = if own.contains(':') { IpAddr::from(Ipv6Addr::UNSPECIFIED) } else { Ipv4Addr::UNSPECIFIED.into() };
    let (first, last) = (*ports.start(), *ports.end());
    let mut listener = Err(anyhow!("there is no such port"));
    for port in ports {
        listener = transport.wide().listen(SocketAddr::new(any, port));
        if listener.is_ok() {
            break;
        }
    }
    let listener = listener.with_context(|| format!("no UDP port from {first} to {last} is free"))?;
    // The key is for this transfer.
    let identity = Identity::generate()?;
    let port = listener.local_addr()?.port();
    let listener = SecureListener::new(listener, &identity, move |presented| *presented == key)?;
    tell(&Line::Ready { port, key: identity.fingerprint().to_string(), address: own.parse().ok() });
    Ok(listener)
}
