//! Connectors: many connections from one UDP socket.

use std::io::ErrorKind;
use std::net::SocketAddr;

use crate::common::{Relay, pattern, soon};
use longhaul::{HostError, TcpConnector, TcpListener, TcpSocket, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn connect(connector: &TcpConnector, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let to = listener.local_addr().unwrap();
    let (client, server) = soon(async { tokio::join!(connector.connect(to), listener.accept()) }).await;
    (client.unwrap(), server.unwrap().0)
}

#[tokio::test]
async fn connections_of_one_socket_are_independent() {
    let connector = TcpConnector::bind("0.0.0.0:0").await.unwrap();
    let port = connector.local_addr().unwrap().port();
    let mut tasks = Vec::new();
    for i in 0..20_usize {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (mut client, mut server) = connect(&connector, &listener).await;
        assert_eq!(client.local_addr().unwrap(), SocketAddr::from(([127, 0, 0, 1], port)));
        assert_eq!(server.peer_addr().unwrap(), client.local_addr().unwrap());
        assert_eq!(client.peer_addr().unwrap(), listener.local_addr().unwrap());
        let data = pattern(100_000 + i);
        let copy = data.clone();
        tasks.push(tokio::spawn(async move {
            client.write_all(&copy).await.unwrap();
            client.close().await.unwrap();
        }));
        tasks.push(tokio::spawn(async move {
            let mut got = Vec::new();
            server.read_to_end(&mut got).await.unwrap();
            assert!(got == data);
            server.close().await.unwrap();
            drop(listener);
        }));
    }
    // The connections do not need the connector.
    drop(connector);
    for task in tasks {
        soon(task).await.unwrap();
    }
}

#[tokio::test]
async fn a_second_connection_to_the_same_port_is_refused_until_the_first_is_over() {
    let connector = TcpConnector::bind("127.0.0.1:0").await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let (mut client, mut server) = connect(&connector, &listener).await;
    let error = soon(connector.connect(to)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&to.to_string()), "{error}");
    server.shutdown().await.unwrap();
    assert_eq!(soon(client.read(&mut [0])).await.unwrap(), 0);
    soon(client.close()).await.unwrap();
    drop(server);
    connect(&connector, &listener).await;
}

/// The socket is not connected: only its error queue reports that a port is closed, and for which peer.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_refusal_does_not_affect_other_connections() {
    if !crate::common::needs_system_sockets() {
        return;
    }
    let connector = TcpConnector::bind("0.0.0.0:0").await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (mut client, mut server) = connect(&connector, &listener).await;
    let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = soon(connector.connect(closed)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(client.info().unwrap().host_error, None);
    client.write_all(b"still here").await.unwrap();
    let mut got = [0; 10];
    soon(server.read_exact(&mut got)).await.unwrap();
    assert_eq!(&got, b"still here");
}

#[tokio::test]
async fn a_connector_reaches_the_families_of_its_socket() {
    let v4 = TcpConnector::bind("0.0.0.0:0").await.unwrap();
    let error = v4.connect("[::1]:9").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let v6 = TcpConnector::bind("[::]:0").await.unwrap();
    for local in ["127.0.0.1:0", "[::1]:0"] {
        let listener = TcpListener::bind(local).await.unwrap();
        let (client, _server) = connect(&v6, &listener).await;
        assert_eq!(client.peer_addr().unwrap(), listener.local_addr().unwrap());
    }
}

#[tokio::test]
async fn settings_of_the_socket_apply_to_its_connections() {
    let mut socket = TcpSocket::new_v4().unwrap();
    socket.config().congestion(longhaul::Congestion::new_reno()).nodelay(true);
    socket.set_max_connections(Some(2));
    let connector = socket.connector().unwrap();
    assert_ne!(connector.local_addr().unwrap().port(), 0);
    let listeners = [TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap()];
    let (first, _a) = connect(&connector, &listeners[0]).await;
    let (_second, _b) = connect(&connector, &listeners[1]).await;
    assert_eq!(first.congestion().unwrap(), "new-reno");
    assert!(first.nodelay().unwrap());
    let third = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let error = soon(connector.connect(third.local_addr().unwrap())).await.unwrap_err();
    assert!(error.to_string().contains("limit of connections"), "{error}");
}

/// Covers a socket per connection and, where the system reports errors, a shared socket.
#[tokio::test]
async fn a_killed_peer_is_detected_at_the_next_write() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connector = TcpConnector::bind("0.0.0.0:0").await.unwrap();
    // On other systems, a socket with several peers is told of no errors.
    let kinds: &[bool] = if crate::common::system_sockets() { &[false, true] } else { &[false] };
    for &shared in kinds {
        let relay = Relay::new(listener.local_addr().unwrap()).await;
        let to = relay.address;
        let client = async { if shared { connector.connect(to).await } else { TcpStream::connect(to).await } };
        let (client, _server) = soon(async { tokio::join!(client, listener.accept()) }).await;
        let mut client = client.unwrap();
        relay.vanish().await;
        client.write_all(b"x").await.unwrap();
        soon(async {
            while client.info().unwrap().host_error != Some(HostError::Refused) {
                tokio::task::yield_now().await;
            }
        })
        .await;
        // The report may be forged, so that the port is asked before the connection ends.
        let error = soon(client.read(&mut [0])).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
}

/// As behind two NATs, which let datagrams of a peer in after the first one has gone out.
#[tokio::test]
async fn listeners_that_connect_to_each_other_have_one_connection() {
    let here = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let there = TcpListener::bind_sharded("0.0.0.0:0", 2).await.unwrap();
    let from = here.local_addr().unwrap();
    let to = SocketAddr::from(([127, 0, 0, 1], there.local_addr().unwrap().port()));
    let (connector, opposite) = (here.connector(), there.connector());
    let (client, server) = soon(async { tokio::join!(connector.connect(to), opposite.connect(from)) }).await;
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    assert_eq!((client.local_addr().unwrap(), client.peer_addr().unwrap()), (from, to));
    // Also on another shard, there is no second connection between the same addresses.
    let error = soon(opposite.connect(from)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    // Dropped listeners keep their connections, and connectors keep the sockets.
    drop((here, there));
    client.write_all(b"there").await.unwrap();
    server.write_all(b"here").await.unwrap();
    let mut got = [0; 5];
    soon(server.read_exact(&mut got)).await.unwrap();
    assert_eq!(&got, b"there");
    soon(client.read_exact(&mut got[..4])).await.unwrap();
    assert_eq!(&got[..4], b"here");
}
