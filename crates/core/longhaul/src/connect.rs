//! Opens connections to one address, or to the first address of a name that answers.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use longhaul_tcp::Config;
use tokio::net::ToSocketAddrs;
use tokio::time::timeout;

use crate::driver::Driver;
use crate::handle::Handle;
use crate::io::{Io, Role, canonical};
use crate::setup::{Habits, Setup};
use crate::shared::Shared;
use crate::stream::TcpStream;

/// Time for which an attempt runs before the next address is tried in parallel: the Connection Attempt Delay, for which
/// RFC 8305, section 5, recommends 250 ms.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Returns the outcome of the first `attempt` that succeeds, as [`TcpStream::connect`] does for the addresses of a name
/// (Happy Eyeballs, RFC 8305). Use it for connections with other settings or other protocols.
///
/// The addresses of both families alternate. Each attempt starts when an earlier one has failed, or 250 ms after it.
/// When one succeeds, the others are dropped.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// # let (host, port) = ("127.0.0.1", listener.local_addr()?.port());
/// let addresses = tokio::net::lookup_host((host, port)).await?;
/// let kernel_tcp = longhaul::race(addresses, tokio::net::TcpStream::connect::<std::net::SocketAddr>).await?;
/// # assert_eq!(kernel_tcp.peer_addr()?.port(), port);
/// # Ok(())
/// # }
/// ```
///
/// Cancel safety: if the future is dropped, all attempts are.
///
/// # Errors
/// Returns the error of the attempt that failed last, or one of the kind `InvalidInput` if there is no address.
pub async fn race<T, E, F>(
    addresses: impl IntoIterator<Item = SocketAddr>,
    attempt: impl Fn(SocketAddr) -> F,
) -> Result<T, E>
where
    E: From<io::Error>,
    F: Future<Output = Result<T, E>>,
{
    let mut waiting = interleave(addresses).into_iter();
    let mut attempts: Vec<Pin<Box<F>>> = Vec::new();
    let mut failed = None;
    loop {
        // Start an attempt with the next address, if there is one.
        attempts.extend(waiting.next().map(|address| Box::pin(attempt(address))));
        if attempts.is_empty() {
            return Err(failed.unwrap_or_else(|| no_address().into()));
        }
        // If there is no further address, wait for an attempt; otherwise wait at most for the delay.
        let outcome = if waiting.len() == 0 {
            Some(first(&mut attempts).await)
        } else {
            timeout(ATTEMPT_DELAY, first(&mut attempts)).await.ok()
        };
        match outcome {
            Some(Ok(stream)) => return Ok(stream),
            Some(Err(error)) => failed = Some(error),
            None => {}
        }
    }
}

/// Waits for the first of `attempts` to complete and removes it.
async fn first<F: Future>(attempts: &mut Vec<Pin<Box<F>>>) -> F::Output {
    std::future::poll_fn(|cx| {
        for index in 0..attempts.len() {
            if let Poll::Ready(outcome) = attempts[index].as_mut().poll(cx) {
                drop(attempts.remove(index));
                return Poll::Ready(outcome);
            }
        }
        Poll::Pending
    })
    .await
}

/// Alternates between address families, beginning with that of the first address. Within a family the resolver's
/// order is kept (RFC 8305, section 4).
fn interleave(addresses: impl IntoIterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut addresses = addresses.into_iter().peekable();
    let first_is_v4 = addresses.peek().is_some_and(SocketAddr::is_ipv4);
    let (first, second): (Vec<_>, Vec<_>) = addresses.partition(|address| address.is_ipv4() == first_is_v4);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut all = Vec::new();
    while first.len() + second.len() > 0 {
        all.extend(first.next());
        all.extend(second.next());
    }
    all
}

/// Returns the other of `addresses` if they are `addr` and one address of the other family. A longer list may be of
/// several hosts, of which only one knows the connection.
fn other_family(addresses: &[SocketAddr], addr: SocketAddr) -> Option<SocketAddr> {
    let (same, other): (Vec<_>, Vec<_>) =
        addresses.iter().map(|address| canonical(*address)).partition(|address| address.is_ipv4() == addr.is_ipv4());
    match (&*same, &*other) {
        ([same], [other]) if *same == addr => Some(*other),
        _ => None,
    }
}

/// Calls `open` for `addr`'s addresses in turn, and returns the first success.
pub(crate) async fn first_bound<T>(
    addr: impl ToSocketAddrs,
    mut open: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = None;
    for addr in tokio::net::lookup_host(addr).await? {
        match open(addr) {
            Ok(opened) => return Ok(opened),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(no_address))
}

fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the name has no address")
}

/// Returns the wildcard address with port 0, in the family of `peer`.
pub(crate) fn unspecified(peer: SocketAddr) -> SocketAddr {
    if peer.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() }
}

/// Opens a connection from its own UDP socket.
pub(crate) async fn connect_over(socket: std::net::UdpSocket, addr: SocketAddr, setup: Setup) -> io::Result<TcpStream> {
    let [local, peer] = reach(&socket, addr)?;
    setup.check()?;
    let shared = setup.open(socket, Role::Connected, None)?;
    let alternative = other_family(&setup.server, addr);
    let paths = setup.paths.clone();
    let (habits, config) = setup.split();
    shared.lock().begin_client(local, peer, alternative, paths);
    let stream = open(&shared, &habits, config, [local, peer])?;
    Driver::spawn(shared);
    connected(stream).await
}

/// Connects a UDP socket and returns the local and the peer's address as the system reports them. The system knows
/// whether there is a route, and it replaces the unspecified address by one of this host.
pub(crate) fn reach(socket: &std::net::UdpSocket, addr: SocketAddr) -> io::Result<[SocketAddr; 2]> {
    check(addr)?;
    socket.connect(addr)?;
    // The system may add a scope id (the interface) to an IPv6 address.
    let is_final = matches!(addr.ip(), IpAddr::V4(ip) if !ip.is_unspecified());
    let peer = if is_final { addr } else { socket.peer_addr().unwrap_or(addr) };
    Ok([canonical(socket.local_addr()?), canonical(peer)])
}

/// Rejects addresses that cannot be a TCP peer, with the errors of kernel TCP.
fn check(addr: SocketAddr) -> io::Result<()> {
    let ip = addr.ip().to_canonical();
    if addr.port() == 0 {
        return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "port 0 is not a valid destination"));
    }
    if ip.is_multicast() || ip == Ipv4Addr::BROADCAST {
        return Err(io::Error::new(
            io::ErrorKind::NetworkUnreachable,
            "cannot connect to a multicast or broadcast address",
        ));
    }
    Ok(())
}

pub(crate) fn open(
    shared: &Arc<Shared>,
    habits: &Habits,
    config: Arc<Config>,
    [local, peer]: [SocketAddr; 2],
) -> io::Result<TcpStream> {
    let mut state = shared.lock();
    if let Some(kind) = state.fatal {
        return Err(kind.into());
    }
    let now = Io::now();
    let tuple = shared.tuple(peer, Some(local.ip()));
    // Shards of a listener have the same port.
    let is_elsewhere = state.endpoint.owner(&tuple, &[]).is_some();
    let Some(id) = (if is_elsewhere { None } else { state.endpoint.connect(now, tuple, config) }) else {
        let taken = is_elsewhere || state.endpoint.find(&tuple).is_some();
        return Err(if taken {
            in_use(peer)
        } else {
            io::Error::other("the socket has reached its limit of connections")
        });
    };
    state.handles += 1;
    habits.observe(&mut state, now, id, [local, peer]);
    drop(state);
    let handle = Handle::new(shared, id, [local, peer], habits);
    shared.settle(shared.lock(), now);
    Ok(TcpStream { handle })
}

fn in_use(peer: SocketAddr) -> io::Error {
    let text = format!("this socket already has a connection to {peer}; only one is possible per pair of addresses");
    io::Error::new(io::ErrorKind::AddrInUse, text)
}

pub(crate) async fn connected(stream: TcpStream) -> io::Result<TcpStream> {
    std::future::poll_fn(|cx| stream.handle.poll_connected(cx)).await?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn address(text: &str) -> SocketAddr {
        SocketAddr::new(text.parse().unwrap(), 7000)
    }

    /// The example of RFC 8305, section 4, with a First Address Family Count of 1.
    #[test]
    fn address_families_alternate() {
        let given = ["2001:db8::1", "2001:db8::2", "2001:db8::3", "192.0.2.1", "192.0.2.2"].map(address);
        let expected = ["2001:db8::1", "192.0.2.1", "2001:db8::2", "192.0.2.2", "2001:db8::3"].map(address);
        assert_eq!(interleave(given), expected);
        let (v4, v6) = (address("192.0.2.1"), address("2001:db8::1"));
        assert_eq!(interleave([v4, v6]), [v4, v6]);
        assert_eq!(interleave([]), []);
    }

    #[test]
    fn the_other_family_is_known_if_a_server_has_one_address_of_each() {
        let [v4, v6, more] = ["192.0.2.1", "2001:db8::1", "2001:db8::2"].map(address);
        let mapped = address("::ffff:192.0.2.1");
        assert_eq!(other_family(&[v4, v6], v4), Some(v6));
        assert_eq!(other_family(&[v6, mapped], v6), Some(v4));
        for others in [&[][..], &[v4], &[v6, v4, more], &[v6, more]] {
            assert_eq!(other_family(others, v4), None, "{others:?}");
        }
    }

    /// For each address, the milliseconds that an attempt takes and its result.
    type Behaviour = fn(SocketAddr) -> (u64, Result<(), io::ErrorKind>);

    /// Returns the outcome, its time, and the time and port of each attempt. Times are in milliseconds.
    #[expect(clippy::disallowed_methods, reason = "the runtime's clock is paused: the test moves it")]
    async fn run(addresses: &[SocketAddr], behaviour: Behaviour) -> (io::Result<SocketAddr>, u128, Vec<(u128, u16)>) {
        let start = tokio::time::Instant::now();
        let tried = RefCell::new(Vec::new());
        let attempt = |address: SocketAddr| {
            tried.borrow_mut().push((start.elapsed().as_millis(), address.port()));
            let (delay, outcome) = behaviour(address);
            async move {
                tokio::time::sleep(Duration::from_millis(delay)).await;
                outcome.map(|()| address).map_err(io::Error::from)
            }
        };
        let outcome = race(addresses.iter().copied(), attempt).await;
        (outcome, start.elapsed().as_millis(), tried.into_inner())
    }

    fn ports(n: u16) -> Vec<SocketAddr> {
        (1..=n).map(|port| SocketAddr::from(([192, 0, 2, 1], port))).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_address_is_tried_after_250_ms_or_a_failure() {
        let (outcome, at, tried) = run(&ports(3), |address| match address.port() {
            1 => (60_000, Err(io::ErrorKind::TimedOut)),
            2 => (100, Err(io::ErrorKind::ConnectionRefused)),
            _ => (30, Ok(())),
        })
        .await;
        assert_eq!(outcome.unwrap().port(), 3);
        assert_eq!((at, tried), (380, vec![(0, 1), (250, 2), (350, 3)]));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_attempt_can_still_win() {
        let (outcome, at, tried) = run(&ports(2), |address| match address.port() {
            1 => (300, Ok(())),
            _ => (400, Ok(())),
        })
        .await;
        assert_eq!(outcome.unwrap().port(), 1);
        assert_eq!((at, tried), (300, vec![(0, 1), (250, 2)]));
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_error_is_returned_when_all_attempts_fail() {
        let (outcome, at, tried) = run(&ports(2), |address| match address.port() {
            1 => (1000, Err(io::ErrorKind::TimedOut)),
            _ => (10, Err(io::ErrorKind::ConnectionRefused)),
        })
        .await;
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!((at, tried), (1000, vec![(0, 1), (250, 2)]));
        let (outcome, ..) = run(&[], |_| (0, Ok(()))).await;
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
