//! Forwards from ports of the gateway to targets near this end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use longhaul_tls::SecureStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::listen::LocalForward;
use super::pool::{Connect, PoolConfig};
use crate::monitor::TunnelGuard;
use crate::progress::{Detail, Screen};
use crate::tunnel::{self, Ended, Event, Frame, Group, Listen, Lookups, Reason, Target, Tunnel, TunnelError};

/// Number of idle tunnels that are offered to the gateway.
const OFFERED: usize = 4;
/// Minimum and maximum pause between attempts to reach the gateway.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
const LOOKUPS: usize = 16;

/// The gateway does not listen, however often it is asked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(String);

/// Returns whether a later attempt to let the gateway listen may succeed.
pub(crate) fn may_listen_later(error: &anyhow::Error) -> bool {
    error.downcast_ref().map_or(!error.is::<Refused>(), TunnelError::is_outage)
}

/// Forwards from ports of the gateway.
pub(crate) struct Remote {
    forwards: Vec<LocalForward>,
    connect: Connect,
    /// Limits look-ups, because the gateway chooses their number and time.
    lookups: Lookups,
    config: PoolConfig,
    screen: Screen,
    group: Group,
    next: AtomicUsize,
}

/// Listeners of a gateway, closed when dropped.
pub(crate) struct Listeners(Tunnel<SecureStream>);

impl Remote {
    /// Creates forwards without listeners. `first` is the number of the first connection to the gateway.
    pub(crate) fn new(
        forwards: Vec<LocalForward>,
        connect: Connect,
        first: usize,
        config: PoolConfig,
        screen: Screen,
    ) -> Result<Arc<Self>> {
        let mut group = Group::default();
        getrandom::fill(&mut group).context("there is no randomness")?;
        let next = AtomicUsize::new(first);
        let lookups = Lookups::new(LOOKUPS);
        Ok(Arc::new(Self { forwards, connect, config, screen, group, next, lookups }))
    }

    pub(crate) async fn listen(&self) -> Result<Listeners> {
        let Self { forwards, group, screen, config, .. } = self;
        let mut tunnel = self.connect().await?;
        for LocalForward { bind, port, target } in forwards {
            // Without an address, the gateway listens on its loopback address.
            let (bind, target) = (bind.clone().unwrap_or_default(), target.clone());
            let listen = Listen { group: *group, bind: bind.clone(), port: *port, target: target.clone() };
            tunnel.send(&Frame::Listen(listen)).await.map_err(TunnelError::from)?;
            let place = |port: u16| match bind.as_str() {
                "" => format!("port {port}"),
                bind => format!("{bind}, port {port}"),
            };
            match tunnel.next().await? {
                Some(Frame::Listening(port)) => {
                    screen.warn(&format!("{} of {} leads to {target}", place(port), config.gateway));
                }
                Some(Frame::Reset { reason, .. }) => {
                    let why = match reason {
                        Reason::NotPermitted => {
                            "it is not permitted; see --permit-listen and `listen` in allowed-peers"
                        }
                        Reason::Crowded => "there are too many listeners",
                        _ => "the address cannot be used, or the port is taken",
                    };
                    let place = place(*port);
                    return Err(Refused(format!("the gateway does not listen on {place} for {target}: {why}")).into());
                }
                Some(Frame::Bye) | None => {
                    return Err(TunnelError::from(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)).into());
                }
                Some(_) => return Err(TunnelError::Protocol("a frame is not allowed as the answer to LISTEN").into()),
            }
        }
        Ok(Listeners(tunnel))
    }

    /// Connects to the targets for connections that the gateway accepts. If the gateway is lost or not listening yet,
    /// asks it to listen again. When `ending` becomes true, closes the listeners, and returns when all connections have
    /// ended.
    pub(crate) async fn run(self: Arc<Self>, mut listeners: Option<Listeners>, mut ending: watch::Receiver<bool>) {
        let mut tunnels = JoinSet::new();
        loop {
            let session = async {
                let listeners = match listeners.take() {
                    Some(listeners) => listeners,
                    None => self.listen_again().await,
                };
                self.offer(listeners, &ending, &mut tunnels).await;
            };
            let mut ended = ending.clone();
            tokio::select! {
                () = session => self.screen.event(Detail::Quiet, "the gateway does not listen any more; trying again"),
                _ = ended.wait_for(|ending| *ending) => break,
            }
        }
        // Idle tunnels end by themselves.
        let _ = ending.wait_for(|ending| *ending).await;
        while tunnels.join_next().await.is_some() {}
    }

    async fn listen_again(&self) -> Listeners {
        let mut backoff = BACKOFF.0;
        loop {
            match self.listen().await {
                Ok(listeners) => return listeners,
                Err(error) => tracing::info!(target: "longhaul::forward", "{error:#}"),
            }
            sleep(backoff).await;
            backoff = (backoff * 2).min(BACKOFF.1);
        }
    }

    async fn offer(self: &Arc<Self>, listeners: Listeners, ending: &watch::Receiver<bool>, tunnels: &mut JoinSet<()>) {
        let Listeners(mut control) = listeners;
        let (places, all) = (Arc::new(Semaphore::new(OFFERED)), Arc::new(Semaphore::new(self.config.max)));
        let build = async {
            let mut backoff = BACKOFF.0;
            loop {
                let (place, room) = (Arc::clone(&places).acquire_owned().await, Arc::clone(&all).acquire_owned().await);
                let (Ok(place), Ok(room)) = (place, room) else { return };
                match self.connect().await {
                    Ok(tunnel) => {
                        backoff = BACKOFF.0;
                        let (remote, places, ending) = (Arc::clone(self), Arc::clone(&places), ending.clone());
                        tunnels.spawn(async move {
                            remote.serve(tunnel, place, &places, ending).await;
                            drop(room);
                        });
                    }
                    Err(error) => {
                        tracing::info!(target: "longhaul::forward", "no tunnel for the gateway's ports: {error:#}");
                        sleep(backoff).await;
                        backoff = (backoff * 2).min(BACKOFF.1);
                    }
                }
                while tunnels.try_join_next().is_some() {}
            }
        };
        let watch = async {
            while let Ok(Some(frame)) = control.next().await {
                if matches!(frame, Frame::Bye) {
                    break;
                }
            }
        };
        tokio::select! {
            () = build => {}
            () = watch => {}
        }
    }

    async fn connect(&self) -> Result<Tunnel<SecureStream>> {
        let start =
            async { Ok(Tunnel::start((self.connect)(self.next.fetch_add(1, Ordering::Relaxed)).await?).await?) };
        // The connection, the handshake and the greeting each take at least one round trip.
        timeout(self.config.patience * 3, start).await.map_err(|_| anyhow!("it does not answer"))?
    }

    /// Serves the streams that the gateway opens on a tunnel, until the tunnel is no longer needed.
    async fn serve(
        &self,
        mut tunnel: Tunnel<SecureStream>,
        place: OwnedSemaphorePermit,
        places: &Arc<Semaphore>,
        mut ending: watch::Receiver<bool>,
    ) {
        let Some(address) = tunnel.inspect(|stream| stream.tcp().peer_addr().ok()).flatten() else { return };
        let seen = self.config.monitor.tunnel(&self.config.gateway, address, &tunnel);
        let mut place = Some(place);
        let served = async {
            tunnel.send(&Frame::Offer(self.group)).await?;
            let mut said = false;
            while !tunnel.is_leaving() {
                let next = tokio::select! {
                    next = wait(&mut tunnel) => next?,
                    _ = ending.wait_for(|ending| *ending), if !said => Next::Leave,
                };
                match next {
                    Next::Open(target) => {
                        // Another tunnel is offered in place of this one.
                        place = None;
                        self.forward(&mut tunnel, &target, &seen).await?;
                        place = Arc::clone(places).try_acquire_owned().ok();
                    }
                    Next::Leave => {}
                    Next::Ended => break,
                }
                // The gateway may have opened a stream in the meantime; it is still served.
                if !said && (place.is_none() || *ending.borrow()) {
                    tunnel.send(&Frame::Bye).await?;
                    said = true;
                }
            }
            Ok::<_, TunnelError>(())
        };
        match served.await {
            Ok(()) => {
                if let Some(stream) = tunnel.into_inner() {
                    tunnel::close(stream).await;
                }
            }
            Err(error) => {
                seen.failed();
                tracing::info!(target: "longhaul::forward", "a tunnel failed: {error}");
            }
        }
    }

    async fn forward(
        &self,
        tunnel: &mut Tunnel<SecureStream>,
        target: &Target,
        seen: &TunnelGuard,
    ) -> Result<(), TunnelError> {
        // The gateway names targets, but this end connects only to targets of its own forwards.
        let known = self.forwards.iter().any(|forward| forward.target == *target);
        let connect = async {
            match known {
                true => tunnel::connect(target, &self.lookups, self.config.patience, |_| true).await,
                false => Err(Reason::NotPermitted),
            }
        };
        let event = |event: Event<'_>| match event {
            Event::Refused(target, reason) => self.screen.event(Detail::Usual, &format!("{target}: {reason}")),
            Event::Ended(target, Ended::Here(reason) | Ended::There(reason)) => {
                tracing::debug!(target: "longhaul::forward", "{target}: {reason}");
            }
            _ => {}
        };
        seen.serve(tunnel, target, connect, (self.config.idle, &self.config.limits), event).await
    }
}

enum Next {
    Open(Target),
    Leave,
    Ended,
}

/// Waits until the gateway opens a stream or ends the tunnel.
///
/// Cancel safety: this function is cancel safe.
async fn wait(tunnel: &mut Tunnel<SecureStream>) -> Result<Next, TunnelError> {
    loop {
        match tunnel.next().await? {
            Some(Frame::Open(target)) => return Ok(Next::Open(target)),
            // A late reset of a stream that has ended.
            Some(Frame::Reset { .. } | Frame::Pong) => {}
            Some(Frame::Bye) | None => return Ok(Next::Ended),
            Some(_) => return Err(TunnelError::Protocol("a frame is not allowed on an offered tunnel")),
        }
    }
}
