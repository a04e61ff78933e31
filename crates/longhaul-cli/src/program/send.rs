//! `longhaul send`.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use longhaul_tls::{Fingerprint, Identity, SecureConnector, SecureStream, TlsError, tls_error};
use tokio::time::timeout;

use super::args::{PORT, SendArgs};
use super::home::Home;
use super::lists::KnownPeers;
use super::{Screen, WrongUse};
use crate::protocol::ProtocolError;
use crate::report::{self, Sent, Stopwatch};
use crate::sender::{SendError, Source};
use crate::session::{self, Outcome};
use crate::transport::{Snapshot, TransportArgs};

pub(super) async fn run(args: &SendArgs, screen: &Screen) -> Result<()> {
    let (target, paths) = args.target_and_paths().unwrap_or_default();
    let target = Target::parse(target)?;
    // All files are opened first, so that a missing one is found before anything is sent.
    let sources = paths.iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
    let addresses = tokio::net::lookup_host((target.host.as_str(), target.port)).await;
    let addresses: Vec<_> = addresses.with_context(|| format!("cannot find {}", target.host))?.collect();
    let done = |outcome: Outcome, _: &Snapshot| report(args.json, screen, outcome);
    let patience = args.transport.patience();
    if args.plaintext {
        screen.warn("warning: --plaintext: nothing is encrypted, and anyone may be the receiver");
        let watch = Stopwatch::start();
        let stream = args.transport.connect(&addresses).await?;
        let sent = session::send_over(stream, watch, patience, sources, screen, done).await;
        return sent.map_err(|error| explain(error, None));
    }
    let home = Home::find()?;
    let dialer = Dialer {
        transport: &args.transport,
        addresses: &addresses,
        name: target.to_string(),
        identity: home.identity()?,
        known: home.known_peers()?,
        accept_new: args.accept_new,
    };
    let watch = Stopwatch::start();
    let stream = dialer.connect(screen).await?;
    let sent = session::send_over(stream, watch, patience, sources, screen, done).await;
    sent.map_err(|error| explain(error, Some(dialer.identity.fingerprint())))
}

fn open(path: &str) -> Result<Source, SendError> {
    if path == "-" { Source::stdin() } else { Source::open(Path::new(path)) }
}

fn report(json: bool, screen: &Screen, outcome: Outcome) {
    match outcome {
        Outcome::Sent(sent) if json => screen.print(&report::json_line(&sent)),
        Outcome::Sent(sent) => {
            let Sent { file, seconds, blake3, .. } = &sent;
            let (size, rate) = (report::size(sent.bytes), report::rate(sent.goodput_bps));
            let resent = report::size(sent.retransmitted_bytes);
            screen.say(&format!(
                "{file}: {size} in {seconds:.2} s, {rate}, {resent} retransmitted, blake3 {blake3} confirmed"
            ));
        }
        Outcome::Skipped(file) if json => {
            screen.print(&report::json_line(&serde_json::json!({ "file": file, "skipped": true })));
        }
        Outcome::Skipped(file) => screen.say(&format!("{file}: skipped, because the receiver has a file of this name")),
    }
}

/// Adds to an error what a person can do about it. `ours` is the key that was presented.
fn explain(error: SendError, ours: Option<Fingerprint>) -> anyhow::Error {
    let refused = match &error {
        SendError::Connection { error: ProtocolError::Connection(error), .. } => tls_error(error),
        _ => None,
    };
    match (refused, ours) {
        (Some(TlsError::Refused), Some(ours)) => anyhow!(
            "the receiver does not allow this machine to send; its key is {ours}, for `longhaul receive --allow` or a \
             line in the receiver's allowed-peers"
        ),
        _ => error.into(),
    }
}

/// A receiver as it is named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    host: String,
    port: u16,
}

impl Target {
    fn parse(text: &str) -> Result<Self, WrongUse> {
        let fault = || WrongUse(format!("{text:?} is not a receiver, HOST or HOST:PORT"));
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self { host: address.ip().to_string(), port: address.port() });
        }
        if let Ok(address) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            return Ok(Self { host: address.to_string(), port: PORT });
        }
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| fault())?),
            None => (text, PORT),
        };
        // The name is the first word of a line in `known-peers`.
        if host.is_empty() || host.starts_with('#') || host.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(fault());
        }
        Ok(Self { host: host.to_lowercase(), port })
    }
}

/// The form in `known-peers`.
impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Opens the connection to a receiver whose key is known or becomes known.
struct Dialer<'a> {
    transport: &'a TransportArgs,
    addresses: &'a [SocketAddr],
    /// Name of the receiver in `known-peers`.
    name: String,
    identity: Identity,
    known: KnownPeers,
    accept_new: bool,
}

impl Dialer<'_> {
    async fn connect(&self, screen: &Screen) -> Result<SecureStream> {
        if let Some(peer) = self.known.find(&self.name) {
            return match self.attempt(Some(peer.key), self.transport).await? {
                Err(TlsError::WrongKey { presented, .. }) => Err(self.changed(peer.line, peer.key, presented)),
                result => result.with_context(|| self.failed()),
            };
        }
        // The first attempt learns the key and ends. Logs and captures are for the connection that carries the files.
        let key = match self.attempt(None, &self.transport.unlogged()).await? {
            Err(TlsError::UnknownKey(key)) => key,
            result => return result.with_context(|| self.failed()),
        };
        if !self.accept_new {
            self.ask(key).await?;
        }
        let stream = self.attempt(Some(key), self.transport).await?.with_context(|| self.failed())?;
        // The server has proved now that it has the key.
        self.known.add(&self.name, key)?;
        screen.say(&format!("{}: remembered the key {key} in {}", self.name, self.known.path().display()));
        Ok(stream)
    }

    async fn attempt(
        &self,
        key: Option<Fingerprint>,
        transport: &TransportArgs,
    ) -> Result<Result<SecureStream, TlsError>> {
        let connector = SecureConnector::new(&self.identity, key)?;
        let stream = transport.connect(self.addresses).await?;
        let connecting = timeout(transport.patience(), connector.connect(stream));
        Ok(connecting.await.unwrap_or(Err(TlsError::TimedOut)))
    }

    fn failed(&self) -> String {
        format!("no encrypted connection to {}", self.name)
    }

    fn changed(&self, line: usize, known: Fingerprint, presented: Fingerprint) -> anyhow::Error {
        let (name, file) = (&self.name, self.known.path().display());
        anyhow!(
            "the key of {name} has changed: it is {presented}, but {file}, line {line}, has {known}. Somebody may \
             intercept the connection, or the receiver has got a new key. Compare with the output of `longhaul \
             identity` at the receiver; if it is the new key, remove line {line} and send again"
        )
    }

    /// Asks the person at the terminal whether `key` is that of the receiver.
    async fn ask(&self, key: Fingerprint) -> Result<()> {
        let name = &self.name;
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            bail!(
                "the key of {name} is not known, and there is no terminal to ask: it is {key}. Compare with the output \
                 of `longhaul identity` at the receiver; if it is the same, send with --accept-new"
            );
        }
        eprint!(
            "The key of {name} is not known. It is\n  {key}\nCompare with the output of `longhaul identity` at the \
             receiver.\nIs it the same (yes/no)? "
        );
        io::stderr().flush()?;
        let answer = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            io::stdin().lock().read_line(&mut line).map(|_| line)
        });
        match answer.await.context("cannot read the answer")??.trim() {
            "yes" => Ok(()),
            answer if answer == key.to_string() => Ok(()),
            _ => bail!("the key of {name} is not accepted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_have_one_form() {
        for (text, form) in [
            ("192.0.2.7", "192.0.2.7:7000"),
            ("192.0.2.7:1", "192.0.2.7:1"),
            ("Relay.Example", "relay.example:7000"),
            ("relay.example:65535", "relay.example:65535"),
            ("::1", "[::1]:7000"),
            ("[2001:DB8::1]", "[2001:db8::1]:7000"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(Target::parse(text).unwrap().to_string(), form);
        }
        for bad in ["", ":80", "host:", "host:x", "host:65536", "a b", "#:1", "a:b:c", "x\n:1"] {
            assert!(Target::parse(bad).is_err(), "{bad}");
        }
    }
}
