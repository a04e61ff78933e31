//! Far end of tunnels: opens the connections to the targets, and listens for forwarders.

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
    /// What may be reached.
    pub permits: Permits,
    /// Time after which a stream without traffic is reset.
    pub idle: Duration,
    /// Maximum time to connect to a target, and that a connection to a listener waits for a tunnel.
    pub patience: Duration,
    /// Observes the tunnels.
    pub monitor: Monitor,
    /// Where forwarders may listen.
    pub listen: ListenPermits,
    /// The listeners of forwarders.
    pub groups: Groups,
}

/// A forwarder.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the program sets all fields")]
pub struct Peer {
    /// Its key.
    pub key: Fingerprint,
    /// Its name.
    pub name: String,
    /// Address of the tunnel.
    pub address: SocketAddr,
    /// Limits of the rate of its streams.
    pub limits: Limits,
    /// Limit of its simultaneous lookups of names.
    pub lookups: Lookups,
    /// Whether it may open streams.
    pub may_forward: bool,
    /// Whether it may listen.
    pub may_listen: bool,
}

/// Event of a tunnel, for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The target was connected.
    Opened(&'a Target),
    /// The target was not connected. The address is the one that failed, if there was any.
    Refused(&'a Target, Reason),
    /// The stream has ended.
    Ended(&'a Target, Ended),
    /// The gateway listens for connections to a target of the forwarder.
    Listening(SocketAddr, &'a Target),
    /// The gateway does not listen where the forwarder asked for it.
    NotListening(&'a Target, Reason),
}

impl Gateway {
    /// Serves a tunnel until the peer ends it, which it is told to do when `ending` becomes true. Returns the connection.
    ///
    /// # Errors
    /// Returns why the tunnel failed.
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

/// What a peer uses a tunnel for.
enum Purpose {
    /// For streams that it opens. The peer has ended the tunnel.
    Ended,
    /// To ask for listeners, of which this is the first one.
    Listeners(Listen),
    /// For connections to the listeners of this group.
    Offered(Group),
}

/// A tunnel that is being served.
struct Session<'a> {
    gateway: &'a Gateway,
    peer: &'a Peer,
    seen: &'a TunnelGuard,
    /// Whether the program is to end.
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
                // The peer may have opened a stream meanwhile, which is still served.
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
                // A reset of a stream that had ended already.
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

    /// Relays the stream that was opened on `tunnel`.
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

/// Waits until the value is true.
async fn becomes(value: &mut watch::Receiver<bool>) {
    if value.wait_for(|value| *value).await.is_err() {
        std::future::pending::<()>().await;
    }
}
