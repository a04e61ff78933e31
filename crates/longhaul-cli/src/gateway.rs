//! Far end of tunnels: opens the connections to the targets.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use self::permit::Permits;
use crate::monitor::{Monitor, Observed};
use crate::tunnel::rate::Limits;
use crate::tunnel::{self, Ended, Flow, Frame, Reason, Target, Traffic, Tunnel, TunnelError};

pub mod permit;

/// Maximum time to resolve a target's name and to connect to it.
const CONNECT: Duration = Duration::from_secs(10);

/// Far end of tunnels.
pub struct Gateway {
    /// What may be reached.
    pub permits: Permits,
    /// Time after which a stream without traffic is reset.
    pub idle: Duration,
    /// Observes the tunnels.
    pub monitor: Monitor,
}

/// A forwarder.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the program sets all fields")]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Address of the tunnel.
    pub address: SocketAddr,
    /// Limits of the rate of its streams.
    pub limits: Limits,
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
}

impl Gateway {
    /// Serves the streams of a tunnel until the peer ends it, which it is told to do when `ending` becomes true. Returns the
    /// connection.
    ///
    /// # Errors
    /// Returns why the tunnel failed.
    pub async fn serve<S: AsyncRead + AsyncWrite + Unpin + Observed>(
        &self,
        stream: S,
        peer: &Peer,
        mut ending: watch::Receiver<bool>,
        mut event: impl FnMut(Event<'_>),
    ) -> Result<Option<S>, TunnelError> {
        let mut tunnel = Tunnel::start(stream).await?;
        let seen = self.monitor.tunnel(&peer.name, &peer.address.to_string(), &tunnel);
        let mut said = false;
        loop {
            let frame = tokio::select! {
                frame = tunnel.next() => frame?,
                // The peer may have opened a stream meanwhile, which is still served.
                () = becomes(&mut ending), if !said => {
                    tunnel.send(&Frame::Bye).await?;
                    said = true;
                    continue;
                }
            };
            match frame {
                Some(Frame::Open(target)) => {
                    tunnel.begin();
                    match self.connect(&target).await {
                        Ok(local) => {
                            event(Event::Opened(&target));
                            let traffic = Arc::new(Traffic::default());
                            let stream = seen.stream(&target, &traffic);
                            let flow = Flow { idle: self.idle, limits: &peer.limits, traffic: &traffic };
                            let relayed = tunnel::relay(&mut tunnel, local, flow).await;
                            stream.ended(relayed.as_ref().ok().copied());
                            event(Event::Ended(&target, relayed?));
                        }
                        Err(reason) => {
                            self.monitor.refuse(reason);
                            event(Event::Refused(&target, reason));
                            tunnel.refuse(reason).await?;
                        }
                    }
                }
                Some(Frame::Ping) => tunnel.send(&Frame::Pong).await?,
                // A reset of a stream that had ended already.
                Some(Frame::Reset { .. }) => {}
                Some(_) => return Err(TunnelError::Protocol("a frame is not allowed between streams")),
                None => return Ok(tunnel.into_inner()),
            }
        }
    }

    async fn connect(&self, target: &Target) -> Result<TcpStream, Reason> {
        timeout(CONNECT, self.try_connect(target)).await.unwrap_or(Err(Reason::TimedOut))
    }

    async fn try_connect(&self, target: &Target) -> Result<TcpStream, Reason> {
        if !self.permits.may_permit(target) {
            return Err(Reason::NotPermitted);
        }
        let found = tokio::net::lookup_host((target.host(), target.port())).await;
        let found: Vec<SocketAddr> = found.map_err(|_| Reason::NotFound)?.collect();
        let mut reason = if found.is_empty() { Reason::NotFound } else { Reason::NotPermitted };
        for address in found {
            if !self.permits.permits(target, address) {
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(stream) => return tunnel::prepare(&stream).map(|()| stream).map_err(|error| reason_of(&error)),
                Err(error) => reason = reason_of(&error),
            }
        }
        Err(reason)
    }
}

fn reason_of(error: &io::Error) -> Reason {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Reason::Refused,
        io::ErrorKind::TimedOut => Reason::TimedOut,
        _ => Reason::Unreachable,
    }
}

/// Waits until the value is true.
async fn becomes(value: &mut watch::Receiver<bool>) {
    if value.wait_for(|value| *value).await.is_err() {
        std::future::pending::<()>().await;
    }
}
