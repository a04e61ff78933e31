//! Opens encrypted connections to peers that are named on the command line.

use std::io::{self, IsTerminal as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use longhaul_tls::{Authority, AuthorityError, Fingerprint, Identity, SecureConnector, SecureStream, TlsError};
use tokio::time::timeout;

use super::lists::{KnownPeers, ListError};
use super::{Screen, WrongUse};
use crate::address;
use crate::output;
use crate::progress::Line;
use crate::sync::lock;
use crate::transport::TransportArgs;

/// Maximum number of attempts if the peer resets connections before both ends are authenticated.
pub(super) const ATTEMPTS: u32 = 6;
/// First pause after such a reset. Later pauses double.
const PAUSE: Duration = Duration::from_millis(250);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Target {
    /// Parses `HOST` or `HOST:PORT`, where `port` is the default.
    pub(super) fn parse(text: &str, port: u16) -> Result<Self, WrongUse> {
        let fault = || WrongUse(format!("{text:?} is not an address, HOST or HOST:PORT"));
        let (host, given) = address::split(text).ok_or_else(fault)?;
        let port = given.unwrap_or(port);
        let (bare, zone) = address::without_zone(host);
        if let Ok(address) = bare.parse::<IpAddr>() {
            if zone.is_some() && !address::is_ipv6(host) {
                return Err(fault());
            }
            // Interface names are case-sensitive.
            let host = zone.map_or_else(|| address.to_string(), |zone| format!("{address}%{zone}"));
            return Ok(Self { host, port });
        }
        // The host is the first word of a line in `known-peers`.
        if host.is_empty() || host.starts_with('#') || host.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(fault());
        }
        Ok(Self { host: host.to_lowercase(), port })
    }

    /// Returns the target, without its port if the port is `port`.
    pub(super) fn short(&self, port: u16) -> String {
        if self.port == port { self.host.clone() } else { self.to_string() }
    }

    /// Looks up the addresses, which may have changed since the last time.
    pub(super) async fn lookup(&self) -> Result<Vec<SocketAddr>> {
        address::lookup(&self.host, self.port).await.with_context(|| format!("cannot find {}", self.host))
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&address::join(&self.host, self.port))
    }
}

/// Returns the authority of `--ca`, with the name that its certificate for `target` must contain.
pub(super) fn authority(file: Option<&Path>, target: &Target) -> Result<Option<(Authority, String)>, AuthorityError> {
    let name = address::without_zone(&target.host).0.to_owned();
    file.map(|file| Ok((Authority::open(file)?, name))).transpose()
}

pub(super) struct Dialer<'a> {
    pub(super) transport: &'a TransportArgs,
    pub(super) target: &'a Target,
    pub(super) name: String,
    /// Role of the peer, for messages.
    pub(super) role: &'static str,
    pub(super) identity: Identity,
    pub(super) known: KnownPeers,
    pub(super) accept_new: bool,
    /// Maximum number of attempts if the peer resets connections before they are encrypted, as a peer with too many
    /// connections does.
    pub(super) attempts: u32,
    /// Authority for the certificates of peers, and the name that the certificate must have.
    pub(super) authority: Option<(Authority, String)>,
    /// Line that is shown until the peer answers.
    pub(super) waiting: Mutex<Option<Line>>,
}

impl Dialer<'_> {
    /// Shows the peer's name on a terminal until [`answered`](Self::answered).
    pub(super) fn wait(&self, screen: &Screen) {
        let line = screen.line();
        line.show(&[format!("Connecting to {}", self.name)]);
        *lock(&self.waiting) = Some(line);
    }

    pub(super) fn answered(&self) {
        lock(&self.waiting).take();
    }

    pub(super) async fn connect(&self, screen: &Screen) -> Result<SecureStream> {
        if let Some(peer) = self.known.find(&self.name) {
            return match self.attempt(Some(peer.key), self.transport).await? {
                Err(TlsError::WrongKey { presented, .. }) => Err(self.changed(peer.line, peer.key, presented)),
                result => result.with_context(|| self.failed()),
            };
        }
        let (stream, learned) = if self.accept_new && self.authority.is_none() {
            (self.connect_any().await?, true)
        } else {
            let accept = async |key| if self.accept_new { Ok(()) } else { self.ask(key).await };
            self.connect_new(accept).await?
        };
        if learned {
            // The server has now proved that it has the key.
            self.remember(stream.peer(), screen)?;
        }
        Ok(stream)
    }

    /// Connects to a peer with any key.
    pub(super) async fn connect_any(&self) -> Result<SecureStream> {
        let connector = SecureConnector::accepting_any(&self.identity)?;
        let (_, connected) = self.dial(&self.target.lookup().await?, &connector, self.transport).await?;
        connected.with_context(|| self.failed())
    }

    /// Connects to a peer whose key is not known. The first attempt succeeds only by the authority. Otherwise it learns
    /// the key, which `accept` may refuse. Also returns whether the key was learned.
    async fn connect_new(&self, accept: impl AsyncFnOnce(Fingerprint) -> Result<()>) -> Result<(SecureStream, bool)> {
        // Without an authority, the first attempt has no log and no capture: those are for the connection that carries
        // the files.
        let first = if self.authority.is_some() { self.transport.clone() } else { self.transport.unlogged() };
        let (address, key) = match self.dial(&self.target.lookup().await?, &self.connector(None)?, &first).await? {
            (address, Err(TlsError::UnknownKey(key))) => (address, key),
            (_, result) => return Ok((result.with_context(|| self.failed())?, false)),
        };
        accept(key).await?;
        // Another address of the name may belong to a machine with another key.
        let stream = self.dial(&[address], &self.connector(Some(key))?, self.transport).await?.1;
        Ok((stream.with_context(|| self.failed())?, true))
    }

    /// Adds the key of the peer to the known keys. If the file cannot be written, the connection is still used. Fails
    /// if the file is not valid or has since received a different key for the peer.
    pub(super) fn remember(&self, key: Fingerprint, screen: &Screen) -> Result<(), ListError> {
        let name = &self.name;
        match self.known.add(name, key) {
            Ok(()) => screen.say(&format!("{name}: remembered the key {key} in {}", self.known.path().display())),
            Err(error @ (ListError::File { .. } | ListError::Nowhere)) => {
                screen.warn(&format!("warning: the key {key} of {name} is not remembered: {error}"));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    pub(super) async fn attempt(
        &self,
        key: Option<Fingerprint>,
        transport: &TransportArgs,
    ) -> Result<Result<SecureStream, TlsError>> {
        Ok(self.dial(&self.target.lookup().await?, &self.connector(key)?, transport).await?.1)
    }

    /// Connects to the first of `addresses` that answers. Returns that address and the outcome of the handshake.
    async fn dial(
        &self,
        addresses: &[SocketAddr],
        connector: &SecureConnector,
        transport: &TransportArgs,
    ) -> Result<(SocketAddr, Result<SecureStream, TlsError>)> {
        let (mut left, mut pause) = (self.attempts, PAUSE);
        loop {
            let attempt = async {
                let stream = transport.connect(addresses).await?;
                let address = stream.peer_addr()?;
                let connecting = timeout(transport.patience(), connector.connect(stream));
                anyhow::Ok((address, connecting.await.unwrap_or(Err(TlsError::TimedOut))))
            };
            let result = attempt.await;
            let error = match &result {
                Ok((_, Err(TlsError::Connection(error)))) => Some(error),
                Ok(_) => None,
                Err(error) => error.root_cause().downcast_ref::<io::Error>(),
            };
            left = left.saturating_sub(1);
            if left == 0 || error.is_none_or(|error| error.kind() != io::ErrorKind::ConnectionReset) {
                return result;
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    /// Returns the connector to a peer with this key, or with a certificate of the authority.
    pub(super) fn connector(&self, key: Option<Fingerprint>) -> Result<SecureConnector, TlsError> {
        match &self.authority {
            Some((authority, name)) => SecureConnector::trusting(&self.identity, key, authority, name),
            None => SecureConnector::new(&self.identity, key),
        }
    }

    pub(super) fn failed(&self) -> String {
        format!("no encrypted connection to {}", self.name)
    }

    fn changed(&self, line: usize, known: Fingerprint, presented: Fingerprint) -> anyhow::Error {
        let (name, role, file) = (&self.name, self.role, self.known.path().display());
        anyhow!(
            "the key of {name} has changed: it is {presented}, but {file}, line {line}, has {known}. Somebody may \
             intercept the connection, or the {role} has got a new key. Compare with the output of `longhaul \
             identity` at the {role}; if it is the new key, remove line {line} and try again"
        )
    }

    async fn ask(&self, key: Fingerprint) -> Result<()> {
        self.answered();
        let (name, role) = (&self.name, self.role);
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            bail!(
                "the key of {name} is not known, and there is no terminal to ask: it is {key}. Compare with the output \
                 of `longhaul identity` at the {role}; if it is the same, use --accept-new"
            );
        }
        write!(
            io::stderr(),
            "The key of {name} is not known. It is\n  {key}\nCompare with the output of `longhaul identity` at the \
             {role}.\nIs it the same (yes/no)? "
        )
        .context("cannot ask whether the key is right")?;
        let answer = output::read_line().await.context("cannot read the answer")?;
        match answer == "yes" || answer == key.to_string() {
            true => Ok(()),
            false => bail!("the key of {name} is not accepted"),
        }
    }
}

/// Returns whether a later attempt may succeed, after a failed connection or name look-up.
pub(super) fn is_outage(error: &anyhow::Error) -> bool {
    // `InvalidInput` means a refused congestion control, which will be refused again.
    let may_pass = |error: &io::Error| error.kind() != io::ErrorKind::InvalidInput;
    match error.downcast_ref::<TlsError>() {
        Some(error) => matches!(error, TlsError::TimedOut | TlsError::Connection(_)),
        None => error.downcast_ref().is_some_and(may_pass),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_have_one_form() {
        for (text, form) in [
            ("192.0.2.7", "192.0.2.7:7000"),
            ("192.0.2.7:1", "192.0.2.7:1"),
            ("Relay.Example", "relay.example:7000"),
            ("relay.example:65535", "relay.example:65535"),
            ("::1", "[::1]:7000"),
            ("[2001:DB8::1]", "[2001:db8::1]:7000"),
            ("[::1]:80", "[::1]:80"),
            ("FE80::1%Eth0", "[fe80::1%Eth0]:7000"),
            ("[fe80::1%wlan0.7]:80", "[fe80::1%wlan0.7]:80"),
        ] {
            assert_eq!(Target::parse(text, 7000).unwrap().to_string(), form);
        }
        for bad in [
            "",
            ":80",
            "host:",
            "host:x",
            "host:65536",
            "a b",
            "#:1",
            "a:b:c",
            "x\n:1",
            "fe80::1%",
            "fe80::1%a b",
            "192.0.2.7%eth0",
        ] {
            assert!(Target::parse(bad, 7000).is_err(), "{bad}");
        }
    }
}
