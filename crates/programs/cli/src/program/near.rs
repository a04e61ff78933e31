//! Tunnels that are opened to a gateway.

use std::io;
use std::sync::Mutex;

use anyhow::{Context, Result, anyhow};
use longhaul_tls::{Fingerprint, SecureStream, TlsError, tls_error};
use tokio::time::timeout;

use super::Screen;
use super::args::AccessArgs;
use super::dial::{self, Dialer, Target};
use super::home::{self, Home};
use crate::forward::Place;
use crate::transport::TransportArgs;
use crate::tunnel::{Tunnel, TunnelError};

/// Returns the dialer to a gateway, with the key of this machine.
pub(super) fn dialer<'a>(
    gateway: &'a Target,
    access: &AccessArgs,
    transport: &'a TransportArgs,
    screen: &Screen,
) -> Result<Dialer<'a>> {
    let (identity, home) = Home::open(access.code.is_some(), screen)?;
    Ok(Dialer {
        transport,
        target: gateway,
        name: gateway.to_string(),
        role: "gateway",
        identity,
        known: Home::known_peers(home.as_ref())?,
        accept_new: access.accept_new,
        attempts: dial::ATTEMPTS,
        authority: dial::authority(access.ca.as_deref(), gateway)?,
        waiting: Mutex::default(),
    })
}

/// Opens a tunnel, and returns it with the key of the gateway.
pub(super) async fn open(
    dialer: &Dialer<'_>,
    access: &AccessArgs,
    screen: &Screen,
) -> Result<(Fingerprint, Tunnel<SecureStream>)> {
    let stream = match &access.code {
        Some(code) => dialer.connect_by_code(&code.get().await?, access.remember, screen).await?,
        None => dialer.connect(screen).await?,
    };
    let key = stream.peer();
    let tunnel = timeout(dialer.transport.patience(), Tunnel::start(stream)).await;
    match tunnel.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into())) {
        Ok(tunnel) => Ok((key, tunnel)),
        Err(TunnelError::Connection(error)) if tls_error(&error).is_none() => {
            Err(error).with_context(|| dialer.failed())
        }
        Err(error) => Err(explain(error, dialer.identity.fingerprint())),
    }
}

/// Returns the place of the control socket of forwarders with the same key and gateway, if there is a directory for it.
pub(super) fn place(dialer: &Dialer<'_>) -> Option<Place> {
    Some(Place::new(&home::runtime_directory()?, &dialer.name, dialer.identity.fingerprint()))
}

/// Returns a digest of the options of connections, or `None` if they have their defaults.
pub(super) fn options(access: &AccessArgs, transport: &TransportArgs) -> Option<String> {
    let (kind, ca) = (transport.kind(), &access.ca);
    let given = kind.is_some() || ca.is_some();
    given.then(|| blake3::hash(format!("{kind:?} {ca:?}").as_bytes()).to_hex().to_string())
}

/// Adds advice for the user to an error. `ours` is the key that was presented.
fn explain(error: TunnelError, ours: Fingerprint) -> anyhow::Error {
    match &error {
        TunnelError::Connection(failed) if matches!(tls_error(failed), Some(TlsError::Refused)) => anyhow!(
            "the gateway does not allow this machine to forward; its key is {ours}, for `longhaul gateway --allow` or \
             a line in the gateway's allowed-peers"
        ),
        _ => error.into(),
    }
}
