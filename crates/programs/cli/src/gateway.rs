//! Far end of tunnels: connects to targets, and listens on behalf of forwarders.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use longhaul_tls::Fingerprint;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;

use self::listen::ListenPermits;
use self::permit::Permits;
use self::remote::{Groups, Listen};
use crate::monitor::{Monitor, Observed, TunnelGuard, warm_up};
use crate::tunnel::rate::Limits;
use crate::tunnel::{self, Ended, Flow, Frame, Group, Lookups, Reason, Target, Traffic, Tunnel, TunnelError};

pub mod listen;
pub mod permit;
pub mod remote;

/// Far end of tunnels.
pub struct Gateway {
    /// Targets that may be connected.
    pub permits: Permits,
    /// Time after which a stream without traffic is reset.
    pub idle: Duration,
    /// Maximum time to connect to a target, and maximum time that a connection to a listener waits for a tunnel.
    pub patience: Duration,
    /// Observes the tunnels.
    pub monitor: Monitor,
    /// Addresses on which forwarders may listen.
    pub listen: ListenPermits,
    /// The listeners of forwarders.
    pub groups: Groups,
}

/// A forwarder that is connected to the gateway.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the program sets all fields")]
pub struct Peer {
    /// Key of the forwarder.
    pub key: Fingerprint,
    /// Name of the forwarder.
    pub name: String,
    /// Address of the tunnel.
    pub address: SocketAddr,
    /// Rate limits of its streams.
    pub limits: Limits,
    /// Limit of its simultaneous name look-ups.
    pub lookups: Lookups,
    /// Whether the forwarder may open streams.
    pub may_forward: bool,
    /// Whether the forwarder may ask the gateway to listen.
    pub may_listen: bool,
}

/// Event of a tunnel, for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The target was connected.
    Opened(&'a Target),
    /// The target was not connected.
    Refused(&'a Target, Reason),
    /// The stream has ended.
    Ended(&'a Target, Ended),
    /// The gateway listens for connections to a target of the forwarder.
    Listening(SocketAddr, &'a Target),
    /// The gateway does not listen where the forwarder asked for it.
    NotListening(&'a Target, Reason),
}

impl Gateway {
    /// Serves a tunnel until the peer ends it, and returns the connection. When `ending` becomes true, asks the peer to
    /// end the tunnel.
    pub async fn serve<S: AsyncRead + AsyncWrite + Unpin + Observed>(
        &self,
        stream: S,
        peer: &Peer,
        ending: watch::Receiver<bool>,
        mut event: impl FnMut(Event<'_>),
    ) -> Result<Option<S>, TunnelError> {
        let mut tunnel = Tunnel::start(stream).await?;
        let seen = self.monitor.tunnel(&peer.name, peer.address, &tunnel);
        let mut session = Session { gateway: self, peer, seen: &seen, ending };
        match session.streams(&mut tunnel, &mut event).await? {
            Purpose::Ended => {}
            Purpose::Listeners(first) => remote::listen(&mut session, &mut tunnel, first, &mut event).await?,
            Purpose::Offered(group) => remote::offered(&mut session, &mut tunnel, group, &mut event).await?,
        }
        Ok(tunnel.into_inner())
    }
}

enum Purpose {
    Ended,
    /// Requests to listen, of which this is the first one.
    Listeners(Listen),
    /// Streams of the gateway, for connections to the listeners of this group.
    Offered(Group),
}

struct Session<'a> {
    gateway: &'a Gateway,
    peer: &'a Peer,
    seen: &'a TunnelGuard,
    ending: watch::Receiver<bool>,
}

impl Session<'_> {
    /// Serves the streams that the peer opens, until it ends the tunnel or uses it for something else.
    async fn streams<S: AsyncRead + AsyncWrite + Unpin + Observed>(
        &mut self,
        tunnel: &mut Tunnel<S>,
        event: &mut impl FnMut(Event<'_>),
    ) -> Result<Purpose, TunnelError> {
        let mut said = false;
        let mut used = false;
        loop {
            let frame = tokio::select! {
                frame = tunnel.next() => frame?,
                // The peer may have opened a stream meanwhile; it is still served.
                () = becomes(&mut self.ending), if !said => {
                    tunnel.send(&Frame::Bye).await?;
                    said = true;
                    continue;
                }
            };
            match frame {
                Some(Frame::Open(target)) => {
                    tunnel.begin();
                    used = true;
                    match self.connect(&target).await {
                        Ok(local) => {
                            event(Event::Opened(&target));
                            let ended = self.relay(tunnel, local, &target).await?;
                            event(Event::Ended(&target, ended));
                        }
                        Err(reason) => {
                            self.gateway.monitor.refuse(reason);
                            event(Event::Refused(&target, reason));
                            tunnel.refuse(reason).await?;
                        }
                    }
                }
                Some(Frame::Ping) => tunnel.send(&Frame::Pong).await?,
                // A late reset of a stream that has ended.
                Some(Frame::Reset { .. }) => {}
                Some(Frame::Listen { group, bind, port, target }) if !used => {
                    return Ok(Purpose::Listeners(Listen { group, bind, port, target }));
                }
                Some(Frame::Offer(group)) if !used => return Ok(Purpose::Offered(group)),
                Some(_) => return Err(TunnelError::Protocol("a frame is not allowed between streams")),
                None => return Ok(Purpose::Ended),
            }
        }
    }

    async fn relay<S: AsyncRead + AsyncWrite + Unpin + Observed>(
        &self,
        tunnel: &mut Tunnel<S>,
        local: TcpStream,
        target: &Target,
    ) -> Result<Ended, TunnelError> {
        let traffic = Arc::new(Traffic::default());
        warm_up(tunnel, self.seen);
        let stream = self.seen.stream(target, &traffic);
        let flow = Flow { idle: self.gateway.idle, limits: &self.peer.limits, traffic: &traffic };
        let relayed = tunnel::relay(tunnel, local, flow).await;
        stream.ended(relayed.as_ref().ok().copied());
        relayed
    }

    async fn connect(&self, target: &Target) -> Result<TcpStream, Reason> {
        let permits = &self.gateway.permits;
        if !self.peer.may_forward || !permits.may_permit(target) {
            return Err(Reason::NotPermitted);
        }
        let permitted = |address| permits.permits(target, address);
        tunnel::connect(target, &self.peer.lookups, self.gateway.patience, permitted).await
    }
}

async fn becomes(value: &mut watch::Receiver<bool>) {
    if value.wait_for(|value| *value).await.is_err() {
        std::future::pending::<()>().await;
    }
}
