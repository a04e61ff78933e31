//! `longhaul forward`.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use longhaul_tls::{Fingerprint, SecureConnector, SecureStream, TlsError, tls_error};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::args::{ForwardArgs, GATEWAY_PORT};
use super::dial::{self, Dialer, Target, is_outage};
use super::home::Home;
use super::{Screen, WrongUse};
use crate::forward::{Connect, Pool, PoolConfig, Remote, Source, unreachable};
use crate::monitor::{Monitor, Role};
use crate::progress::Detail;
use crate::report::round_trip;
use crate::transport::TransportArgs;
use crate::tunnel::rate::Limits;
use crate::tunnel::{Tunnel, TunnelError};

/// Number of idle tunnels that are kept ready.
const WARM: usize = 8;
/// Minimum and maximum pause between attempts to reach a gateway that is not available yet.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Number of the first connection for ports of the gateway. The pool counts its connections from 0.
const FIRST_REMOTE: usize = 1 << 20;

pub(super) async fn run(args: &ForwardArgs, screen: &Screen) -> Result<()> {
    #[cfg(target_os = "linux")]
    if let Some(port) = args.transparent.filter(|_| args.print_rules) {
        return crate::output::print(&crate::forward::rules(port));
    }
    let Some(gateway) = &args.gateway else {
        return Err(
            WrongUse("a gateway is needed: longhaul forward -L PORT:HOST:PORT GATEWAY[:PORT]".to_owned()).into()
        );
    };
    let gateway = Target::parse(gateway, GATEWAY_PORT)?;
    // Binds all ports first, so that a port that is taken is found before anything is sent.
    let local = args.local.iter().map(|forward| (&forward.bind, forward.port, Some(forward.target.clone())));
    let dynamic = args.dynamic.iter().map(|forward| (&forward.bind, forward.port, None));
    let mut sources = Vec::new();
    for (bind, port, target) in local.chain(dynamic) {
        let source = Source::listen(bind.as_deref(), port, target).await;
        let source = source.with_context(|| match bind {
            Some(bind) => format!("cannot listen on {bind}, port {port}"),
            None => format!("cannot listen on port {port}"),
        })?;
        let address = source.address()?;
        if !address.ip().is_loopback() {
            screen.warn(&format!("warning: anyone who reaches {address} can use it"));
        }
        sources.push(source);
    }
    #[cfg(target_os = "linux")]
    sources.extend(transparent(args, screen)?);
    let mut terminated = pin!(super::signals::terminated());
    let monitor = Monitor::new(Role::Forward);
    let _servers = args.monitor.start(&monitor, screen).await?;
    if sources.is_empty() && args.remote.is_empty() {
        let what = "there is nothing to forward; use -L PORT:HOST:PORT, -D PORT or -R PORT:HOST:PORT";
        return Err(WrongUse(what.to_owned()).into());
    }
    let transport = args.transport.clone();
    let (identity, home) = Home::open(args.code.is_some(), screen)?;
    // Fails before the program waits for the gateway if a capture or log cannot be written.
    drop(transport.socket(SocketAddr::from(([0, 0, 0, 0], 0)))?);
    let dialer = Dialer {
        transport: &transport,
        target: &gateway,
        name: gateway.to_string(),
        role: "gateway",
        identity,
        known: Home::known_peers(home.as_ref())?,
        accept_new: args.accept_new,
        attempts: dial::ATTEMPTS,
        authority: dial::authority(args.ca.as_deref(), &gateway)?,
    };
    let reached = tokio::select! {
        () = &mut terminated => return Ok(()),
        reached = reach(&dialer, args, screen) => reached,
    };
    let (key, tunnel) = reached?;
    let connector = dialer.connector(Some(key))?;
    let config = PoolConfig {
        warm: if sources.is_empty() { 0 } else { WARM },
        max: args.max_connections.into(),
        idle: Duration::from_secs(args.idle.into()),
        patience: transport.patience(),
        gateway: gateway.short(GATEWAY_PORT),
        limits: Limits::default().and(args.max_rate),
        monitor,
    };
    let connect = connect(&transport, gateway.clone(), connector);
    let rtt = tunnel.inspect(|stream| stream.info().ok()?.rtt).flatten();
    let rtt = rtt.map(|rtt| format!(" ({})", round_trip(rtt))).unwrap_or_default();
    let through = format!("through {}{rtt}", config.gateway);
    let pool = Pool::new(config.clone(), Arc::clone(&connect), screen.clone());
    pool.add(tunnel);
    let (end, ending) = watch::channel(false);
    let mut remote = JoinSet::new();
    if !args.remote.is_empty() {
        let ports = Remote::new(args.remote.clone(), connect, FIRST_REMOTE, config, screen.clone())?;
        let listeners = match ports.listen().await {
            Err(error) if error.is_outage() => {
                screen.event(Detail::Quiet, &format!("the gateway does not listen yet; trying again: {error}"));
                None
            }
            listeners => Some(listeners?),
        };
        remote.spawn(ports.run(listeners, ending));
    }
    let mut tasks = JoinSet::new();
    for source in sources {
        screen.warn(&format!("{}, {through}", source.purpose()?));
        tasks.spawn(source.run(Arc::clone(&pool)));
    }
    let mut maintain = pin!(pool.maintain());
    tokio::select! {
        biased;
        () = &mut terminated => {}
        () = &mut maintain => {}
    }
    // Connections in progress may end in order.
    tasks.shutdown().await;
    end.send_replace(true);
    screen.say("ending when all connections have ended");
    let settled = async {
        tokio::select! {
            () = async { pool.settled().await; while remote.join_next().await.is_some() {} } => {}
            () = &mut maintain => {}
        }
    };
    super::signals::drain(settled, screen).await
}

/// Listens for connections that the packet filter diverts, on all available loopback addresses.
#[cfg(target_os = "linux")]
fn transparent(args: &ForwardArgs, screen: &Screen) -> Result<Vec<Source>> {
    use std::net::{Ipv4Addr, Ipv6Addr};

    let Some(port) = args.transparent else { return Ok(Vec::new()) };
    let (source, error) = Source::transparent((Ipv4Addr::LOCALHOST, port).into())
        .with_context(|| format!("cannot listen on port {port}"))?;
    if let Some(error) = error {
        screen.warn(&format!("warning: only REDIRECT is possible, but not TPROXY, which needs CAP_NET_ADMIN: {error}"));
    }
    let mut sources = vec![source];
    match Source::transparent((Ipv6Addr::LOCALHOST, port).into()) {
        Ok((source, _)) => sources.push(source),
        Err(error) => screen.say(&format!("IPv6 connections cannot be diverted: {error}")),
    }
    Ok(sources)
}

/// Builds the first tunnel, and returns it with the key of the gateway. Tries again if the gateway or its name is not
/// available yet. Returns errors that are permanent.
async fn reach(
    dialer: &Dialer<'_>,
    args: &ForwardArgs,
    screen: &Screen,
) -> Result<(Fingerprint, Tunnel<SecureStream>)> {
    let (mut pause, mut said) = (PAUSE.0, false);
    loop {
        let error = match open(dialer, args, screen).await {
            // A gateway creates its code at the start, and the code cannot be used again.
            Err(error) if args.code.is_none() && is_outage(&error) => error,
            result => return result,
        };
        if !std::mem::replace(&mut said, true) {
            screen.event(Detail::Quiet, &unreachable(&dialer.target.short(GATEWAY_PORT), &error));
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

async fn open(dialer: &Dialer<'_>, args: &ForwardArgs, screen: &Screen) -> Result<(Fingerprint, Tunnel<SecureStream>)> {
    let stream = match &args.code {
        Some(code) => dialer.connect_by_code(&code.get().await?, args.remember, screen).await?,
        None => dialer.connect(screen).await?,
    };
    let key = stream.peer();
    let tunnel = timeout(dialer.transport.patience(), Tunnel::start(stream)).await;
    match tunnel.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into())) {
        Ok(tunnel) => Ok((key, tunnel)),
        Err(TunnelError::Connection(error)) if tls_error(&error).is_none() => Err(error.into()),
        Err(error) => Err(explain(error, dialer.identity.fingerprint())),
    }
}

fn connect(transport: &TransportArgs, gateway: Target, connector: SecureConnector) -> Connect {
    let shared = Arc::new((transport.clone(), gateway, connector));
    Arc::new(move |number| {
        let shared = Arc::clone(&shared);
        Box::pin(async move {
            let (transport, gateway, connector) = &*shared;
            // The addresses of the name may have changed.
            let addresses = gateway.lookup().await?;
            // Number 0 is the first connection of the program, which was opened elsewhere.
            let stream = transport.for_connection(number + 1).connect(&addresses).await?;
            Ok(timeout(transport.patience(), connector.connect(stream)).await.unwrap_or(Err(TlsError::TimedOut))?)
        })
    })
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
