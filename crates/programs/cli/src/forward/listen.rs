//! Addresses on which connections are accepted, in the syntax of ssh.

use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::pool::Pool;
use super::proxy::{self, ProxyError};
use crate::tunnel::{self, Target};

/// Maximum number of clients per port that have not sent their complete request.
const NEGOTIATING: usize = 256;
const MAX_BIND: usize = 255;

/// Form of a forward to a fixed target.
const TO_TARGET: &str = "[BIND:]PORT:HOST:HOSTPORT";

/// A port to listen on, and the destination of its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Forward<T> {
    /// Name or address to listen on, without brackets; `None` for the loopback address.
    pub(crate) bind: Option<String>,
    /// Port to listen on; 0 for any free port.
    pub(crate) port: u16,
    pub(crate) target: T,
}

/// A forward to a fixed target: `[BIND:]PORT:HOST:HOSTPORT`.
pub(crate) type LocalForward = Forward<Target>;

/// A port whose clients name their targets: `[BIND:]PORT`.
pub(crate) type DynamicForward = Forward<()>;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a forward, {form}; IPv6 addresses are in brackets")]
pub(crate) struct ParseForwardError {
    text: String,
    form: &'static str,
}

impl FromStr for LocalForward {
    type Err = ParseForwardError;

    fn from_str(text: &str) -> Result<Self, ParseForwardError> {
        let target = |words: &mut Vec<String>| {
            let (port, host) = (words.pop()?, words.pop()?);
            Target::new(&host, port.parse().ok()?).ok()
        };
        Self::parse(text, target).ok_or_else(|| ParseForwardError { text: text.to_owned(), form: TO_TARGET })
    }
}

impl FromStr for DynamicForward {
    type Err = ParseForwardError;

    fn from_str(text: &str) -> Result<Self, ParseForwardError> {
        Self::parse(text, |_| Some(())).ok_or_else(|| ParseForwardError { text: text.to_owned(), form: "[BIND:]PORT" })
    }
}

/// Parses a forward from a port of the gateway to a target that this end connects to.
pub(crate) fn parse_remote(text: &str) -> Result<LocalForward, ParseForwardError> {
    let forward: LocalForward = text.parse()?;
    match &forward.bind {
        Some(bind) if bind.len() > MAX_BIND => Err(ParseForwardError { text: text.to_owned(), form: TO_TARGET }),
        _ => Ok(forward),
    }
}

impl<T> Forward<T> {
    /// Parses a forward, whose last words are parsed by `target`.
    fn parse(text: &str, target: impl FnOnce(&mut Vec<String>) -> Option<T>) -> Option<Self> {
        let mut words = words(text)?;
        let target = target(&mut words)?;
        let port = words.pop()?.parse().ok()?;
        let bind = words.pop();
        words.is_empty().then_some(Self { bind, port, target })
    }
}

/// A port that accepts connections.
#[derive(Debug)]
pub(crate) struct Source {
    listener: TcpListener,
    targets: Targets,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Targets {
    One(Target),
    /// Each client names its target in a request.
    Named,
    /// Each connection keeps the destination that it had before the packet filter diverted it to this address.
    #[cfg(target_os = "linux")]
    Original(SocketAddr),
}

impl Source {
    /// Listens on `port` of `bind`, by default of the loopback address. Without a target, clients name their targets by
    /// SOCKS version 5 or HTTP CONNECT.
    pub(crate) async fn listen(bind: Option<&str>, port: u16, target: Option<Target>) -> io::Result<Self> {
        let targets = target.map_or(Targets::Named, Targets::One);
        Ok(Self { listener: TcpListener::bind((bind.unwrap_or("127.0.0.1"), port)).await?, targets })
    }

    /// Listens on `address` for connections that the packet filter diverts there. Also returns the error that rules out
    /// TPROXY, if there is one.
    #[cfg(target_os = "linux")]
    pub(crate) fn transparent(address: SocketAddr) -> io::Result<(Self, Option<io::Error>)> {
        let (listener, error) = super::transparent::listen(address)?;
        let targets = Targets::Original(listener.local_addr()?);
        Ok((Self { listener, targets }, error))
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns a sentence about the destination of connections to this port.
    pub(crate) fn purpose(&self) -> io::Result<String> {
        let address = self.address()?;
        Ok(match &self.targets {
            Targets::One(target) => {
                let scheme = match target.port() {
                    80 => "http://",
                    443 => "https://",
                    _ => "",
                };
                format!("{scheme}{address} leads to {target}")
            }
            Targets::Named => format!("{address} leads to any target, by SOCKS5 or HTTP CONNECT"),
            #[cfg(target_os = "linux")]
            Targets::Original(_) => format!("{address} leads diverted connections to their targets"),
        })
    }

    /// Accepts connections and forwards them through `pool`. Does not return.
    pub(crate) async fn run(self, pool: Arc<Pool>) {
        let Self { listener, targets } = self;
        let places = Arc::new(Semaphore::new(NEGOTIATING));
        let failed = |error| tracing::warn!(target: "longhaul::forward", "cannot accept a connection: {error}");
        let serve = |client, from| {
            let (pool, places, targets) = (Arc::clone(&pool), Arc::clone(&places), targets.clone());
            async move {
                if let Err(error) = forward(client, targets, &pool, &places).await {
                    tracing::info!(target: "longhaul::forward", "{from}: {error}");
                }
            }
        };
        tunnel::accept(listener, failed, serve).await;
    }
}

async fn forward(mut client: TcpStream, targets: Targets, pool: &Pool, places: &Semaphore) -> Result<(), ProxyError> {
    let target = match targets {
        Targets::One(target) => target,
        #[cfg(target_os = "linux")]
        Targets::Original(listener) => {
            super::transparent::destination(&client, listener)?.ok_or(ProxyError::NotDiverted)?
        }
        Targets::Named => {
            let _place = places.try_acquire().map_err(|_| io::Error::from(io::ErrorKind::ResourceBusy))?;
            client.set_nodelay(true)?;
            proxy::negotiate(&mut client, pool.patience()).await?
        }
    };
    tunnel::prepare(&client)?;
    pool.forward(Box::new(client), target).await;
    Ok(())
}

/// Splits a text at the colons outside of brackets, and removes the brackets.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = text;
    loop {
        let (word, after) = match rest.strip_prefix('[') {
            Some(bracketed) => {
                let (word, after) = bracketed.split_once(']')?;
                match after.strip_prefix(':') {
                    Some(after) => (word, Some(after)),
                    None if after.is_empty() => (word, None),
                    None => return None,
                }
            }
            None => rest.split_once(':').map_or((rest, None), |(word, after)| (word, Some(after))),
        };
        words.push(word.to_owned());
        match after {
            Some(after) => rest = after,
            None => return Some(words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwards_have_the_syntax_of_ssh() {
        for (text, bind, port, target) in [
            ("8080:relay.example:80", None, 8080, "relay.example:80"),
            ("0:192.0.2.1:80", None, 0, "192.0.2.1:80"),
            ("127.0.0.2:8080:h:80", Some("127.0.0.2"), 8080, "h:80"),
            ("[::1]:8080:[2001:db8::1]:80", Some("::1"), 8080, "[2001:db8::1]:80"),
            ("8080:[2001:db8::1]:80", None, 8080, "[2001:db8::1]:80"),
        ] {
            let forward: LocalForward = text.parse().unwrap();
            let expected = (bind.map(str::to_owned), port, target.parse().unwrap());
            assert_eq!((forward.bind, forward.port, forward.target), expected);
        }
        for bad in
            ["", "80", "80:h", "80:h:0", "x:h:80", "65536:h:80", "a:b:80:h:80", "80:[h:80", "80:[::1]x:80", ":::"]
        {
            assert!(bad.parse::<LocalForward>().is_err(), "{bad}");
        }
        for (text, bind, port) in [("1080", None, 1080), ("[::1]:0", Some("::1"), 0), ("h:1080", Some("h"), 1080)] {
            let forward: DynamicForward = text.parse().unwrap();
            assert_eq!((forward.bind.as_deref(), forward.port), (bind, port));
        }
        for bad in ["", "x", "h:", "a:b:1080", "65536"] {
            assert!(bad.parse::<DynamicForward>().is_err(), "{bad}");
        }
    }
}
