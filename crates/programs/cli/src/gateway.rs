//! Far end of tunnels: connects to targets, and listens on behalf of forwarders.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use longhaul_tls::Fingerprint;
use tokio::net::TcpStream;
use tokio::sync::watch;

use self::listen::ListenPermits;
use self::permit::Permits;
use self::remote::Groups;
use crate::monitor::{Monitor, TunnelGuard};
use crate::transport::Transport;
use crate::tunnel::rate::Limits;
use crate::tunnel::{self, Event, Frame, Group, Listen, Lookups, Reason, Target, Tunnel, TunnelError};

pub(crate) mod listen;
pub(crate) mod members;
pub(crate) mod permit;
pub(crate) mod remote;

pub(crate) struct Gateway {
    pub(crate) permits: Permits,
    /// Time after which a stream without traffic is reset.
    pub(crate) idle: Duration,
    /// Maximum time to connect to a target, and maximum time that a connection to a listener waits for a tunnel.
    pub(crate) patience: Duration,
    pub(crate) monitor: Arc<Monitor>,
    pub(crate) listen: ListenPermits,
    pub(crate) groups: Groups,
}

#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) key: Fingerprint,
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) limits: Limits,
    pub(crate) lookups: Lookups,
    pub(crate) may_forward: bool,
    pub(crate) may_listen: bool,
}

impl Gateway {
    /// Serves a tunnel until the peer ends it, and returns the connection. When `ending` becomes true, asks the peer to
    /// end the tunnel.
    pub(crate) async fn serve<S: Transport + Send + 'static>(
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
    async fn streams<S: Transport + Send + 'static>(
        &mut self,
        tunnel: &mut Tunnel<S>,
        event: &mut impl FnMut(Event<'_>),
    ) -> Result<Purpose, TunnelError> {
        let mut said = false;
        let mut used = false;
        loop {
            let frame = tokio::select! {
                frame = tunnel.next() => frame?,
                // The peer may have opened a stream in the meantime; it is still served.
                () = becomes(&mut self.ending), if !said => {
                    tunnel.send(&Frame::Bye).await?;
                    said = true;
                    continue;
                }
            };
            match frame {
                Some(Frame::Open(target)) => {
                    used = true;
                    let (connect, terms) = (self.connect(&target), self.terms());
                    self.seen.serve(tunnel, &target, connect, terms, &mut *event).await?;
                }
                Some(Frame::Ping) => tunnel.send(&Frame::Pong).await?,
                // A late reset of a stream that has ended.
                Some(Frame::Reset { .. }) => {}
                Some(Frame::Listen(listen)) if !used => return Ok(Purpose::Listeners(listen)),
                Some(Frame::Offer(group)) if !used => return Ok(Purpose::Offered(group)),
                Some(_) => return Err(TunnelError::Protocol("a frame is not allowed between streams")),
                None => return Ok(Purpose::Ended),
            }
        }
    }

    /// Returns the time after which a stream without traffic is reset, and its rate limits.
    fn terms(&self) -> (Duration, &Limits) {
        (self.gateway.idle, &self.peer.limits)
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
