//! `longhaul forward`.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use longhaul_tls::{Fingerprint, SecureConnector, SecureStream, TlsError};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::args::{ForwardArgs, GATEWAY_PORT};
use super::dial::{Dialer, Target, is_outage};
use super::{Screen, WrongUse, near};
use crate::forward::{Connect, Pool, PoolConfig, Remote, Source, may_listen_later, unreachable};
use crate::forward::{Control, Terms};
use crate::monitor::{Monitor, Phase, Role};
use crate::progress::Detail;
use crate::report::round_trip;
use crate::transport::TransportArgs;
use crate::tunnel::Tunnel;
use crate::tunnel::rate::Limits;

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
    // Binds all ports first, so that a port in use is detected before anything is sent.
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
    let transport = args.transport.over(args.via.paths(false)?, args.via.warm);
    // Fails before the program waits for the gateway if a capture or log cannot be written.
    drop(transport.socket(SocketAddr::from(([0, 0, 0, 0], 0)))?);
    let dialer = near::dialer(&gateway, &args.access, &transport, screen)?;
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
        monitor: Arc::clone(&monitor),
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
            Err(error) if may_listen_later(&error) => {
                screen.event(Detail::Quiet, &format!("the gateway does not listen yet; trying again: {error:#}"));
                None
            }
            listeners => Some(listeners?),
        };
        remote.spawn(ports.run(listeners, ending));
    }
    let mut tasks = JoinSet::new();
    if let Some(place) = near::place(&dialer) {
        let options = near::options(&args.access, &transport).unwrap_or_else(|| "-".to_owned());
        match Control::listen(place).await {
            Ok(control) => _ = tasks.spawn(control.run(Arc::clone(&pool), Terms { gateway: key, options })),
            Err(error) => tracing::info!(target: "longhaul::forward", "not open for `longhaul stdio`: {error}"),
        }
    }
    for source in sources {
        screen.warn(&format!("{}, {through}", source.purpose()?));
        tasks.spawn(source.run(Arc::clone(&pool)));
    }
    monitor.set_phase(Phase::Ready);
    let mut maintain = pin!(pool.maintain());
    tokio::select! {
        biased;
        () = &mut terminated => {}
        () = &mut maintain => {}
    }
    // Connections in progress may end in order.
    monitor.set_phase(Phase::Draining);
    tasks.shutdown().await;
    end.send_replace(true);
    screen.say("ending when all connections have ended");
    let settled = async {
        tokio::select! {
            () = async { pool.settled().await; while remote.join_next().await.is_some() {} } => {}
            () = &mut maintain => {}
        }
    };
    let drained = super::signals::drain(settled, super::signals::DRAIN, screen).await;
    pool.end();
    drained
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

/// Opens the first tunnel, and returns it with the key of the gateway. Retries if the gateway or its name is not
/// available yet. Returns permanent errors.
async fn reach(
    dialer: &Dialer<'_>,
    args: &ForwardArgs,
    screen: &Screen,
) -> Result<(Fingerprint, Tunnel<SecureStream>)> {
    let (mut pause, mut said) = (PAUSE.0, false);
    loop {
        let error = match near::open(dialer, &args.access, screen).await {
            // A gateway creates its code at the start, and the code can be used only once.
            Err(error) if args.access.code.is_none() && is_outage(&error) => error,
            result => return result,
        };
        if !std::mem::replace(&mut said, true) {
            screen.event(Detail::Quiet, &unreachable(&dialer.target.short(GATEWAY_PORT), &error));
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
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
