//! Runs the same steps with tokio's TCP and with longhaul, and checks where they agree and where they differ
//! intentionally (see the table in `docs/guide.md`).

use std::io::ErrorKind;

use crate::common::soon;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Creates both ends of a connection and its listener.
macro_rules! connection {
    ($net:ident) => {{
        let listener = $net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        let (client, server) = tokio::join!($net::TcpStream::connect(to), listener.accept());
        (client.unwrap(), server.unwrap().0, listener)
    }};
}

/// Replaces an error by its kind.
fn kind<T>(result: std::io::Result<T>) -> Result<T, ErrorKind> {
    result.map_err(|error| error.kind())
}

mod kernel {
    pub use tokio::net::{TcpListener, TcpSocket, TcpStream};
}

macro_rules! bind_again {
    ($net:ident) => {{
        let (mut client, server, listener) = connection!($net);
        let at = listener.local_addr().unwrap();
        assert_eq!(
            kind($net::TcpListener::bind(at).await.map(drop)),
            Err(ErrorKind::AddrInUse),
            "the address has a listener"
        );
        // Our end has ended, but the client keeps its own open.
        drop((server, listener));
        assert_eq!(soon(client.read(&mut [0])).await.unwrap(), 0);
        let listener = $net::TcpListener::bind(at).await.unwrap();
        let (second, accepted) = tokio::join!($net::TcpStream::connect(at), listener.accept());
        let (mut second, mut accepted) = (second.unwrap(), accepted.unwrap().0);
        second.write_all(b"x").await.unwrap();
        assert_eq!(soon(accepted.read_u8()).await.unwrap(), b'x');
        // Again, with the option that tokio's listener sets by itself, and while a stream is still open.
        drop(listener);
        let socket = $net::TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(at).unwrap();
        assert_eq!(socket.local_addr().unwrap(), at);
        let listener = socket.listen(5).unwrap();
        second.write_all(b"y").await.unwrap();
        assert_eq!(soon(accepted.read_u8()).await.unwrap(), b'y');
        let (third, accepted) = tokio::join!($net::TcpStream::connect(at), listener.accept());
        drop((third.unwrap(), accepted.unwrap(), client));
    }};
}

#[tokio::test]
async fn an_address_can_be_bound_again_while_clients_keep_their_ends() {
    bind_again!(kernel);
    bind_again!(longhaul);
}

#[tokio::test]
async fn nothing_can_be_reached_at_port_0_or_at_a_group() {
    for to in ["127.0.0.1:0", "[::1]:0", "224.0.0.1:7000", "255.255.255.255:7000"] {
        let expected = kind(tokio::net::TcpStream::connect(to).await.map(drop)).unwrap_err();
        assert_eq!(kind(longhaul::TcpStream::connect(to).await.map(drop)), Err(expected), "{to}");
        let connector = longhaul::TcpConnector::bind("[::]:0").await.unwrap();
        assert_eq!(kind(connector.connect(to).await.map(drop)), Err(expected), "{to} from a connector");
    }
}

/// Returns the results of two reads, a write and `peer_addr` after the peer has reset the connection.
macro_rules! after_a_reset {
    ($net:ident) => {{
        let (client, mut server, _listener) = connection!($net);
        let peer = client.local_addr().unwrap();
        #[allow(deprecated, reason = "tokio's blocks the thread for other times than zero")]
        client.set_linger(Some(std::time::Duration::ZERO)).unwrap();
        drop(client);
        let mut buf = [0; 8];
        let reads = [kind(soon(server.read(&mut buf)).await), kind(soon(server.read(&mut buf)).await)];
        let write = kind(soon(server.write(b"x")).await);
        (reads, write, kind(server.peer_addr()).map(|addr| addr == peer))
    }};
}

#[tokio::test]
async fn after_a_reset_longhaul_reports_it_each_time() {
    let reset = Err(ErrorKind::ConnectionReset);
    let tokios = after_a_reset!(kernel);
    assert_eq!(tokios, ([reset, Ok(0)], Err(ErrorKind::BrokenPipe), Err(ErrorKind::NotConnected)));
    assert_eq!(after_a_reset!(longhaul), ([reset, reset], reset, Ok(true)));
}

/// Returns the results of empty reads without data, with data, and at the end of the stream.
macro_rules! empty_reads {
    ($net:ident) => {{
        let (mut client, mut server, _listener) = connection!($net);
        let before = crate::common::poll_times(server.read(&mut []), 20).await;
        client.write_all(b"x").await.unwrap();
        server.readable().await.unwrap();
        let with_data = crate::common::poll_times(server.read(&mut []), 200).await;
        let data = soon(server.read(&mut [0, 0])).await;
        client.shutdown().await.unwrap();
        server.readable().await.unwrap();
        let at_end = crate::common::poll_times(server.read(&mut []), 200).await;
        [before.map(kind), with_data.map(kind), Some(kind(data)), at_end.map(kind)]
    }};
}

#[tokio::test]
async fn empty_reads() {
    let tokios = empty_reads!(kernel);
    let ours = empty_reads!(longhaul);
    assert_eq!(tokios, ours);
}

/// Socket activation: a supervisor opens the socket and the program listens on it.
#[tokio::test]
async fn a_listener_takes_over_a_socket() {
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = udp.local_addr().unwrap();
    let listener = longhaul::TcpListener::from_std(udp).unwrap();
    assert_eq!(listener.local_addr().unwrap(), at);
    listener.set_ttl(33).unwrap();
    assert_eq!(listener.ttl().unwrap(), 33);
    let (client, server) = tokio::join!(longhaul::TcpStream::connect(at), listener.accept());
    let (mut client, mut server) = (client.unwrap(), server.unwrap().0);
    assert_eq!(server.ttl().unwrap(), 33);
    client.write_all(b"x").await.unwrap();
    assert_eq!(soon(server.read_u8()).await.unwrap(), b'x');

    let unbound = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
    assert_eq!(kind(longhaul::TcpListener::from_std(unbound.into()).map(drop)), Err(ErrorKind::InvalidInput));
    let connected = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    connected.connect(at).unwrap();
    assert_eq!(kind(longhaul::TcpSocket::from_std(connected).map(drop)), Err(ErrorKind::InvalidInput));
}

#[tokio::test]
async fn socket_options_survive_conversion_from_and_to_std() {
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = udp.local_addr().unwrap();
    socket2::SockRef::from(&udp).set_tos_v4(0x28).unwrap();
    let socket = longhaul::TcpSocket::from_std(udp).unwrap();
    assert_eq!((socket.tos_v4().unwrap(), socket.local_addr().unwrap()), (0x28, at));
    socket.set_tos_v4(0x48).unwrap();
    assert_eq!((socket.tos_v4().unwrap(), socket.tclass_v6().unwrap()), (0x48, 0x48));
    let fresh = longhaul::TcpSocket::new_v4().unwrap();
    fresh.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    for socket in [socket, fresh] {
        let address = socket.local_addr().unwrap();
        let udp = socket.into_std();
        assert_eq!(udp.local_addr().unwrap(), address);
        // Like tokio's sockets, and unlike those of the standard library, they do not block.
        #[cfg(unix)]
        assert!(socket2::SockRef::from(&udp).nonblocking().unwrap());
    }
    let connector = longhaul::TcpConnector::from_std(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
    let listener = longhaul::TcpListener::bind("127.0.0.1:0").await.unwrap();
    soon(connector.connect(listener.local_addr().unwrap())).await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn descriptors_are_the_udp_sockets() {
    use std::os::fd::AsFd;
    let listener = longhaul::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = |fd: std::os::fd::BorrowedFd<'_>| socket2::SockRef::from(&fd).local_addr().unwrap().as_socket().unwrap();
    assert_eq!(addr(listener.as_fd()), listener.local_addr().unwrap());
    let connector = longhaul::TcpConnector::bind("127.0.0.1:0").await.unwrap();
    assert_eq!(addr(connector.as_fd()), connector.local_addr().unwrap());
    let socket = longhaul::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    assert_eq!(addr(socket.as_fd()), socket.local_addr().unwrap());
}

/// Reads four bytes with an operation passed to `try_io` and `async_io`.
macro_rules! by_operation {
    ($net:ident) => {{
        use tokio::io::Interest;
        let (mut client, server, _listener) = connection!($net);
        let client_ref: &$net::TcpStream = client.as_ref();
        assert!(client_ref.peer_addr().is_ok());
        let read = || {
            let mut buf = [0; 4];
            server.try_read(&mut buf).map(|read| (read, buf))
        };
        let early = kind(server.try_io(Interest::READABLE, read));
        client.write_all(b"four").await.unwrap();
        let waited = kind(soon(server.async_io(Interest::READABLE, read)).await);
        (early, waited)
    }};
}

#[tokio::test]
async fn try_io_and_async_io() {
    let tokios = by_operation!(kernel);
    assert_eq!(tokios, (Err(ErrorKind::WouldBlock), Ok((4, *b"four"))));
    assert_eq!(by_operation!(longhaul), tokios);
}
