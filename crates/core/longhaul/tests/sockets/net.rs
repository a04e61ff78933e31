//! Addresses, sockets, and many connections.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::common::{connect, pattern, soon};
use longhaul::{Config, TcpConnector, TcpListener, TcpSocket, TcpStream};
use longhaul_wire::{CheshireCodec, Codec, Flags, Header};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;

async fn echo_once(a: &mut TcpStream, b: &mut TcpStream) {
    let mut buf = [0; 4];
    a.write_all(b"ping").await.unwrap();
    soon(b.read_exact(&mut buf)).await.unwrap();
    b.write_all(&buf).await.unwrap();
    soon(a.read_exact(&mut buf)).await.unwrap();
    assert_eq!(&buf, b"ping");
}

#[tokio::test]
async fn ipv6_carries_a_stream() {
    let listener = TcpListener::bind("[::1]:0").await.unwrap();
    let (mut a, mut b) = connect(&listener, TcpSocket::new_v6().unwrap()).await;
    assert!(a.local_addr().unwrap().is_ipv6() && a.peer_addr().unwrap().is_ipv6());
    assert_eq!(a.local_addr().unwrap(), b.peer_addr().unwrap());
    b.set_ttl(9).unwrap();
    assert_eq!(b.ttl().unwrap(), 9);
    echo_once(&mut a, &mut b).await;
    let data = pattern(1 << 20);
    let copy = data.clone();
    tokio::spawn(async move {
        a.write_all(&copy).await.unwrap();
        a.close().await.unwrap();
    });
    let mut got = Vec::new();
    soon(b.read_to_end(&mut got)).await.unwrap();
    assert!(got == data);
}

/// Answers must be sent from the address that the client has used, or its socket discards them.
#[tokio::test]
async fn a_wildcard_listener_answers_from_the_address_that_received() {
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for last in [1, 2] {
        let to = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), port);
        let (a, b) = soon(async { tokio::join!(TcpStream::connect(to), listener.accept()) }).await;
        let (mut a, (mut b, from)) = (a.unwrap(), b.unwrap());
        assert_eq!(b.local_addr().unwrap(), to);
        assert_eq!(from, a.local_addr().unwrap());
        echo_once(&mut a, &mut b).await;
    }
}

#[tokio::test]
async fn a_dual_stack_listener_serves_both() {
    let listener = TcpListener::bind("[::]:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for to in [SocketAddr::new("127.0.0.1".parse().unwrap(), port), SocketAddr::new("::1".parse().unwrap(), port)] {
        let (a, b) = soon(async { tokio::join!(TcpStream::connect(to), listener.accept()) }).await;
        let (mut a, (mut b, _)) = (a.unwrap(), b.unwrap());
        assert_eq!(b.local_addr().unwrap(), to);
        echo_once(&mut a, &mut b).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_connections_at_once() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    // The backlog is shorter than the number of simultaneous clients: the others are served with SYN cookies.
    let listener = socket.listen(16).unwrap();
    let to = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let mut streams = Vec::new();
        for _ in 0..200 {
            let (mut stream, _) = listener.accept().await.unwrap();
            streams.push(tokio::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                tokio::io::copy(&mut reader, &mut writer).await.unwrap();
                stream.close().await.unwrap();
            }));
        }
        for stream in streams {
            stream.await.unwrap();
        }
        listener.close().await.unwrap();
    });
    let clients: Vec<_> = (0..200_usize)
        .map(|i| {
            tokio::spawn(async move {
                let mut stream = TcpStream::connect(to).await.unwrap();
                let data = pattern(20_000 + i * 10);
                stream.write_all(&data).await.unwrap();
                stream.shutdown().await.unwrap();
                let mut got = Vec::new();
                stream.read_to_end(&mut got).await.unwrap();
                assert!(got == data, "{i}");
            })
        })
        .collect();
    for client in clients {
        soon(client).await.unwrap();
    }
    soon(server).await.unwrap();
}

#[tokio::test]
async fn settings_apply_with_any_of_several_addresses() {
    let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let (taken, free) = (other.local_addr().unwrap(), ([127, 0, 0, 1], 0).into());
    let config = Config::default().nodelay(true).clone();
    let listener = TcpListener::bind_with(&[taken, free][..], &config).await.unwrap();
    // Nobody can be reached at port 0.
    let to = [free, listener.local_addr().unwrap()];
    let connector = TcpConnector::bind("127.0.0.1:0").await.unwrap();
    for own_socket in [true, false] {
        let client = async {
            let to = &to[..];
            if own_socket {
                TcpStream::connect_with(to, &config).await
            } else {
                connector.connect_with(to, &config).await
            }
        };
        let (a, b) = soon(async { tokio::join!(client, listener.accept()) }).await;
        let (mut a, (mut b, _)) = (a.unwrap(), b.unwrap());
        assert!(a.nodelay().unwrap() && b.nodelay().unwrap());
        echo_once(&mut a, &mut b).await;
    }
}

#[tokio::test]
async fn addresses_in_use_are_errors() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = listener.local_addr().unwrap();
    assert_eq!(TcpListener::bind(taken).await.unwrap_err().kind(), ErrorKind::AddrInUse);
    let socket = TcpSocket::new_v4().unwrap();
    assert_eq!(socket.bind(taken).unwrap_err().kind(), ErrorKind::AddrInUse);
    assert!(TcpSocket::new_v4().unwrap().connect("[::1]:9".parse().unwrap()).await.is_err(), "another family");
    assert_eq!(TcpListener::bind("192.0.2.1:0").await.unwrap_err().kind(), ErrorKind::AddrNotAvailable);
}

/// A port can be listened on again once its last connection has ended, at once with `SO_REUSEADDR`.
#[tokio::test]
async fn a_port_can_be_reused_after_its_last_connection() {
    let bind = |addr: SocketAddr| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(addr).map(|()| socket.listen(8).unwrap())
    };
    let listener = bind(([127, 0, 0, 1], 0).into()).unwrap();
    let addr = listener.local_addr().unwrap();
    let (mut a, mut b) = connect(&listener, TcpSocket::new_v4().unwrap()).await;
    // The server closes first, so that it is the side in TIME-WAIT.
    b.shutdown().await.unwrap();
    assert_eq!(soon(a.read(&mut [0])).await.unwrap(), 0);
    soon(a.close()).await.unwrap();
    drop((b, listener));
    let listener = bind(addr).unwrap();
    let (mut a, mut b) = connect(&listener, TcpSocket::new_v4().unwrap()).await;
    echo_once(&mut a, &mut b).await;
}

/// The ICMP error arrives before the SYN would be retransmitted, which would end this attempt.
#[tokio::test]
async fn a_refusal_is_reported_at_once() {
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut socket = TcpSocket::new_v4().unwrap();
    socket.config().syn_retries(0);
    assert_eq!(soon(socket.connect(free)).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn a_silent_peer_is_a_timeout() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut socket = TcpSocket::new_v4().unwrap();
    socket.config().syn_retries(0);
    let error = soon(socket.connect(silent.local_addr().unwrap())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

#[tokio::test]
async fn a_socket_that_was_not_bound_listens_on_some_port() {
    let listener = TcpSocket::new_v4().unwrap().listen(8).unwrap();
    let port = listener.local_addr().unwrap().port();
    assert_ne!(port, 0);
    let to = SocketAddr::from(([127, 0, 0, 1], port));
    let (a, b) = soon(async { tokio::join!(TcpStream::connect(to), listener.accept()) }).await;
    echo_once(&mut a.unwrap(), &mut b.unwrap().0).await;
}

fn segment(header: &Header) -> Vec<u8> {
    let mut bytes = vec![0; 60];
    let len = CheshireCodec::emit(header, &mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

async fn receive(socket: &UdpSocket) -> Header {
    let mut buf = [0; 1500];
    let len = soon(socket.recv(&mut buf)).await.unwrap();
    CheshireCodec::parse(&buf[..len]).unwrap().0
}

/// A client in the middle of its handshake is reset, too, when the listener is closed.
#[tokio::test]
async fn a_dropped_listener_leaves_no_handshake_behind() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let raw = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    raw.connect(listener.local_addr().unwrap()).await.unwrap();
    raw.send(&segment(&Header { flags: Flags::SYN, seq: 7, window: 1000, ..Header::default() })).await.unwrap();
    let answer = receive(&raw).await;
    assert_eq!((answer.flags.contains(Flags::SYN | Flags::ACK), answer.ack), (true, 8));
    let closing = tokio::spawn(listener.close());
    let reset = receive(&raw).await;
    assert!(reset.flags.contains(Flags::RST));
    soon(closing).await.unwrap().unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn packets_carry_the_type_of_service() {
    if !crate::common::needs_system_sockets() {
        return;
    }
    use longhaul_sys::linux::RecvBatch;
    use longhaul_sys::pool::RecvPool;

    let raw = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = raw.local_addr().unwrap();
    let raw = longhaul_sys::linux::UdpSocket::new(raw).unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    // DSCP EF, with ECN bits that must be ignored.
    socket.set_tos_v4(0b1011_1011).unwrap();
    assert_eq!(socket.tos_v4().unwrap(), 0b1011_1000);
    let attempt = tokio::spawn(socket.connect(to));
    let pool = RecvPool::new(4, 4);
    let mut batch = RecvBatch::new(&pool, 1);
    let tos = soon(async {
        loop {
            if raw.recv(&mut batch).is_ok_and(|received| received > 0) {
                break batch.messages().next().and_then(|message| message.meta.tos);
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(tos, Some(0b1011_1000));
    attempt.abort();
}
