//! `longhaul stdio`.

use std::io;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use longhaul_tls::SecureStream;

use super::args::{GATEWAY_PORT, StdioArgs};
use super::code::CodeArg;
use super::dial::{self, Dialer};
use super::{Reported, Screen, WrongUse, near, signals};
use crate::forward::Forwarder;
use crate::tunnel::rate::Limits;
use crate::tunnel::{self, Ended, Flow, Reason, Standard, Stdio, Target, Traffic, Tunnel, TunnelError};

/// The gateway ends idle connections, and so may programs.
const NEVER: Duration = Duration::MAX;

pub(super) async fn run(args: &StdioArgs, screen: &Screen) -> Result<()> {
    if matches!(args.access.code, Some(CodeArg::Ask)) {
        let what = "standard input carries the connection, so that no code is read from it; use --code CODE";
        return Err(WrongUse(what.to_owned()).into());
    }
    let gateway = dial::Target::parse(&args.gateway, GATEWAY_PORT)?;
    let dialer = near::dialer(&gateway, &args.access, &args.transport, screen)?;
    tokio::select! {
        ended = carry(&dialer, args, screen) => conclude(&args.target, &gateway, ended?),
        // ssh ends its command by SIGHUP after the last data.
        () = signals::hung_up(args.transport.patience()) => Err(Reported.into()),
    }
}

/// Carrier of standard input and output.
enum Carrier {
    Forwarder(Forwarder),
    Tunnel(Tunnel<SecureStream>),
}

/// Carries standard input and output. Returns how the stream ended, or why its carrier failed.
async fn carry(dialer: &Dialer<'_>, args: &StdioArgs, screen: &Screen) -> Result<Result<Ended, String>> {
    let carrier = match forwarder(dialer, args).await {
        Some(found) => Carrier::Forwarder(found),
        None => Carrier::Tunnel(
            near::open(dialer, &args.access, screen).await.map_err(|error| advise(error, dialer.target.port))?.1,
        ),
    };
    let mut standard = Standard::take().context("cannot use standard input and output")?;
    let written = standard.written();
    let ended = match carrier {
        Carrier::Forwarder(found) => found.hand_over(standard, &args.target).await.map_err(TunnelError::from),
        Carrier::Tunnel(tunnel) => relay(tunnel, standard, &args.target).await.map(Ok),
    };
    written.await.context("cannot write to standard output")?;
    Ok(ended.unwrap_or_else(|error| Err(error.to_string())))
}

/// Returns the running forwarder that may carry the connection.
async fn forwarder(dialer: &Dialer<'_>, args: &StdioArgs) -> Option<Forwarder> {
    if args.access.code.is_some() || args.transport.is_logged() {
        return None;
    }
    let found = Forwarder::find(&near::place(dialer)?).await?;
    let is_known = dialer.known.find(&dialer.name).is_none_or(|peer| peer.key == found.terms.gateway);
    let fits = near::options(&args.access, &args.transport).is_none_or(|options| options == found.terms.options);
    (is_known && fits).then_some(found)
}

/// Carries standard input and output over a tunnel, which ends afterwards.
async fn relay(mut tunnel: Tunnel<SecureStream>, standard: Standard, target: &Target) -> Result<Ended, TunnelError> {
    let local = Stdio::new(standard.input, standard.output, None)?;
    tunnel.open(target.clone()).await?;
    let flow = Flow { idle: NEVER, limits: &Limits::default(), traffic: &Traffic::default() };
    let ended = tunnel::relay(&mut tunnel, Box::new(local), flow).await?;
    if let (Ended::Orderly, Some(stream)) = (ended, tunnel.into_inner()) {
        // Waits until all data has been acknowledged.
        crate::transport::Connection::close(stream).await?;
    }
    Ok(ended)
}

/// Adds advice for the user to an error of the connection to the gateway, where `port` is the gateway's port.
fn advise(error: anyhow::Error, port: u16) -> anyhow::Error {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, TimedOut};
    match error.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(ConnectionRefused | TimedOut) => {
            anyhow!("{error:#}; does `longhaul gateway` run there, and does a firewall pass UDP port {port}?")
        }
        Some(ConnectionReset) => anyhow!("{error:#}; does it have too many connections (--max-connections)?"),
        _ => error,
    }
}

/// Reports why a connection did not end in order, with advice.
fn conclude(target: &Target, gateway: &dial::Target, ended: Result<Ended, String>) -> Result<()> {
    let reason = match ended {
        Ok(Ended::Orderly) => return Ok(()),
        // The reader of standard output has exited, as in `| head`.
        Ok(Ended::Here(Reason::Reset)) => return Err(Reported.into()),
        Ok(Ended::Here(reason) | Ended::There(reason)) => reason,
        Err(error) => return Err(anyhow!("the connection to {target} through {gateway} failed: {error}; try again")),
    };
    let advice = match reason {
        Reason::Refused => "does a server listen there?".to_owned(),
        Reason::NotPermitted => format!("`longhaul gateway --permit {target}` would permit it"),
        Reason::NotFound => "the gateway has to know the name".to_owned(),
        Reason::TimedOut | Reason::Unreachable => "the gateway has to reach it".to_owned(),
        Reason::Crowded => "see --max-connections".to_owned(),
        _ => return Err(anyhow!("the connection to {target} through {gateway} was cut: {reason}; try again")),
    };
    Err(anyhow!("no connection to {target} through {gateway}: {reason}; {advice}"))
}
