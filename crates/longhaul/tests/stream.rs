//! Streams over loopback sockets.
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test may fail by panicking, and shares its helpers")]

use longhaul::{TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (client, server) = tokio::join!(TcpStream::connect(addr), listener.accept());
    (client.unwrap(), server.unwrap().0)
}

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
