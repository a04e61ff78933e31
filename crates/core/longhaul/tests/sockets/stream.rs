//! Streams over loopback sockets.

use crate::common::{pair, pattern, soon};
use longhaul::{TcpSocket, TcpStream, UdpBackend};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn bytes_go_both_ways_and_the_end_is_seen() {
    let (mut a, mut b) = pair().await;
    a.write_all(b"ping").await.unwrap();
    let mut buf = [0; 4];
    b.read_exact(&mut buf).await.unwrap();
    assert_eq!(&buf, b"ping");
    b.write_all(b"pong").await.unwrap();
    a.read_exact(&mut buf).await.unwrap();
    assert_eq!(&buf, b"pong");
    a.shutdown().await.unwrap();
    assert_eq!(b.read(&mut buf).await.unwrap(), 0);
    b.write_all(b"half").await.unwrap();
    a.read_exact(&mut buf).await.unwrap();
    assert_eq!(&buf, b"half");
    b.close().await.unwrap();
    assert_eq!(a.read(&mut buf).await.unwrap(), 0);
}

#[tokio::test]
async fn sixteen_mebibytes_arrive_intact() {
    let (mut a, mut b) = pair().await;
    let data: Vec<u8> = (0..16usize << 20).map(|i| (i ^ (i >> 7) ^ (i >> 16)) as u8).collect();
    let copy = data.clone();
    let sender = tokio::spawn(async move {
        a.write_all(&copy).await.unwrap();
        a.close().await.unwrap();
    });
    let mut got = Vec::new();
    b.read_to_end(&mut got).await.unwrap();
    assert!(got == data);
    // The sender's `close` may be waiting for our FIN and its acknowledgment.
    drop(b);
    sender.await.unwrap();
}

#[tokio::test]
async fn a_closed_port_refuses_the_connection() {
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = TcpStream::connect(free).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

/// An end that uses `quinn-udp` and one that uses the system's calls understand each other.
#[tokio::test]
async fn both_udp_backends_interoperate() {
    let backends = [UdpBackend::Default, UdpBackend::Quinn];
    let pairs = backends.into_iter().flat_map(|client| backends.map(|server| (client, server)));
    for (client_backend, server_backend) in pairs {
        let sockets = [client_backend, server_backend].map(|backend| {
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_udp_backend(backend);
            socket
        });
        let [client_socket, server_socket] = sockets;
        let (mut client, mut server) = crate::common::pair_with(client_socket, server_socket).await;
        let data = pattern(300_000);
        let (sent, received) = tokio::join!(
            async {
                client.write_all(&data).await.unwrap();
                client.shutdown().await.unwrap();
                client
            },
            async {
                let mut received = Vec::new();
                soon(server.read_to_end(&mut received)).await.unwrap();
                received
            }
        );
        assert!(received == data);
        drop(sent);
    }
}
