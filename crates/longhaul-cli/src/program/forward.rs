//! `longhaul forward`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use longhaul_tls::{Fingerprint, SecureConnector, TlsError, tls_error};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::args::{ForwardArgs, GATEWAY_PORT};
use super::dial::{Dialer, Target};
use super::home::Home;
use super::{Screen, WrongUse};
use crate::forward::{Connect, LocalForward, Pool, PoolConfig};
use crate::transport::TransportArgs;
use crate::tunnel::{self, TunnelError};

/// Idle tunnels that are kept ready.
const WARM: usize = 8;
/// Maximum number of tunnels.
const MAX: usize = 64;
/// Time to wait after a failure to accept, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn run(args: &ForwardArgs, screen: &Screen) -> Result<()> {
    let Some(gateway) = &args.gateway else {
        return Err(
            WrongUse("a gateway is needed: longhaul forward -L PORT:HOST:PORT GATEWAY[:PORT]".to_owned()).into()
        );
    };
    let gateway = Target::parse(gateway, GATEWAY_PORT)?;
    if args.local.is_empty() {
        return Err(WrongUse("there is nothing to forward; use -L PORT:HOST:PORT".to_owned()).into());
    }
    // All ports are bound first, so that one that is taken is found before anything is sent.
    let mut listeners = Vec::new();
    for forward in &args.local {
        let listener = listen(forward).await?;
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            screen.warn(&format!("warning: anyone who reaches {address} can connect to {}", forward.target));
        }
        listeners.push((listener, forward.target.clone()));
    }
    let home = Home::find()?;
    let addresses = lookup(&gateway).await?;
    let dialer = Dialer {
        transport: &args.transport,
        addresses: &addresses,
        name: gateway.to_string(),
        role: "gateway",
        identity: home.identity()?,
        known: home.known_peers()?,
        accept_new: args.accept_new,
    };
    let stream = dialer.connect(screen).await?;
    let connector = SecureConnector::new(&dialer.identity, Some(stream.peer()))?;
    let config = PoolConfig {
        warm: WARM,
        max: MAX,
        idle: Duration::from_secs(args.idle.into()),
        patience: args.transport.patience(),
    };
    let pool = Pool::new(config, connect(&args.transport, gateway, connector), screen.clone());
    pool.adopt(stream).await.map_err(|error| explain(error, dialer.identity.fingerprint()))?;
    let mut tasks = JoinSet::new();
    for (listener, target) in listeners {
        screen.warn(&format!("listening on {} for {target}", listener.local_addr()?));
        tasks.spawn(accept(listener, target, pool.clone()));
    }
    pool.maintain().await;
    Ok(())
}

async fn lookup(gateway: &Target) -> Result<Vec<std::net::SocketAddr>> {
    let addresses = tokio::net::lookup_host((gateway.host.as_str(), gateway.port)).await;
    Ok(addresses.with_context(|| format!("cannot find {}", gateway.host))?.collect())
}

async fn listen(forward: &LocalForward) -> Result<TcpListener> {
    let host = forward.bind.as_deref().unwrap_or("127.0.0.1");
    let listener = TcpListener::bind((host, forward.port)).await;
    listener.with_context(|| format!("cannot listen on {host}, port {}", forward.port))
}

/// Returns the function that opens further connections to the gateway.
fn connect(transport: &TransportArgs, gateway: Target, connector: SecureConnector) -> Connect {
    let shared = Arc::new((transport.clone(), gateway, connector));
    Box::new(move |number| {
        let shared = Arc::clone(&shared);
        Box::pin(async move {
            let (transport, gateway, connector) = &*shared;
            // The name may have got another address.
            let addresses = lookup(gateway).await?;
            // The first connection of the program was not opened here.
            let stream = transport.for_connection(number + 1).connect(&addresses).await?;
            Ok(timeout(transport.patience(), connector.connect(stream)).await.unwrap_or(Err(TlsError::TimedOut))?)
        })
    })
}

async fn accept(listener: TcpListener, target: tunnel::Target, pool: Pool) {
    loop {
        match listener.accept().await {
            Ok((local, _)) => forward(local, target.clone(), &pool),
            Err(error) => {
                tracing::warn!(target: "longhaul::forward", "cannot accept a connection: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

fn forward(local: TcpStream, target: tunnel::Target, pool: &Pool) {
    // A connection that has failed already needs no reset.
    if tunnel::prepare(&local).is_ok() {
        let pool = pool.clone();
        tokio::spawn(async move { pool.forward(local, target).await });
    }
}

/// Adds to an error what a person can do about it. `ours` is the key that was presented.
fn explain(error: TunnelError, ours: Fingerprint) -> anyhow::Error {
    match &error {
        TunnelError::Connection(failed) if matches!(tls_error(failed), Some(TlsError::Refused)) => anyhow!(
            "the gateway does not allow this machine to forward; its key is {ours}, for `longhaul gateway --allow` or \
             a line in the gateway's allowed-peers"
        ),
        _ => error.into(),
    }
}
