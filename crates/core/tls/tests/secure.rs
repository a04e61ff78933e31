//! Secure connections over real sockets.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use longhaul::{LocalPath, TcpListener, TcpSocket, TcpStream};
use longhaul_tls::{
    Fingerprint, HandshakeLimits, Identity, SecureConnector, SecureListener, SecureStream, TlsError, tls_error,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

struct Server {
    key: Fingerprint,
    address: SocketAddr,
    accepted: mpsc::UnboundedReceiver<SecureStream>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    async fn start(limits: HandshakeLimits, allowed: impl Fn(&Fingerprint) -> bool + Send + Sync + 'static) -> Self {
        Self::start_sharded(1, limits, allowed).await
    }

    async fn start_sharded(
        shards: usize,
        limits: HandshakeLimits,
        allowed: impl Fn(&Fingerprint) -> bool + Send + Sync + 'static,
    ) -> Self {
        let identity = Identity::generate().unwrap();
        let listener = TcpListener::bind_sharded("127.0.0.1:0", shards).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut listener = SecureListener::new(listener, &identity, allowed).unwrap().with_limits(limits);
        let (queue, accepted) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                if queue.send(stream).is_err() {
                    return;
                }
            }
        });
        Self { key: identity.fingerprint(), address, accepted, task }
    }

    async fn connect(&self, connector: &SecureConnector) -> Result<SecureStream, TlsError> {
        connector.connect(TcpStream::connect(self.address).await.unwrap()).await
    }
}

/// Returns handshake limits with a time that no test reaches.
fn patient() -> HandshakeLimits {
    HandshakeLimits::default().with_time(Duration::from_secs(3600))
}

#[tokio::test]
async fn both_ends_know_each_other_and_data_arrives_until_the_orderly_end() {
    let client = Identity::generate().unwrap();
    let allowed = client.fingerprint();
    let mut server = Server::start(patient(), move |key| *key == allowed).await;
    let connector = SecureConnector::new(&client, Some(server.key)).unwrap();
    let mut here = server.connect(&connector).await.unwrap();
    let mut there = server.accepted.recv().await.unwrap();
    assert_eq!((here.peer(), there.peer()), (server.key, client.fingerprint()));
    assert_eq!(here.export("a").unwrap(), there.export("a").unwrap());
    assert_ne!(here.export("a").unwrap(), here.export("b").unwrap());
    assert!(here.info().unwrap().bytes_sent > 0);

    let data: Vec<u8> = (0..1_000_000_u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
    let sent = data.clone();
    let sending = tokio::spawn(async move {
        here.write_all(&sent).await.unwrap();
        here.shutdown().await.unwrap();
        let mut answer = Vec::new();
        here.read_to_end(&mut answer).await.unwrap();
        here.close().await.unwrap();
        answer
    });
    let mut received = Vec::new();
    there.read_to_end(&mut received).await.unwrap();
    assert!(received == data);
    there.write_all(b"thanks").await.unwrap();
    there.close().await.unwrap();
    assert_eq!(sending.await.unwrap(), b"thanks");
}

/// A client may send data immediately after its last message of the handshake. A slow server reads both at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn data_that_arrives_with_the_end_of_the_handshake_does_not_exceed_its_limit() {
    const DATA: usize = 40_000;
    let late = |_: &Fingerprint| {
        // Meanwhile, the driver receives the data on another thread.
        std::thread::sleep(Duration::from_millis(300));
        true
    };
    let mut server = Server::start(patient(), late).await;
    let connector = SecureConnector::new(&Identity::generate().unwrap(), Some(server.key)).unwrap();
    let mut here = server.connect(&connector).await.unwrap();
    here.write_all(&[7; DATA]).await.unwrap();
    here.flush().await.unwrap();
    let mut answer = [0];
    let mut there = tokio::select! {
        there = server.accepted.recv() => there.unwrap(),
        refused = here.read(&mut answer) => panic!("{refused:?}"),
    };
    let mut received = vec![0; DATA];
    there.read_exact(&mut received).await.unwrap();
    assert_eq!(received, [7; DATA]);
}

#[tokio::test]
async fn a_stream_that_ends_without_close_notify_is_an_error() {
    let client = Identity::generate().unwrap();
    let mut server = Server::start(patient(), |_| true).await;
    let connector = SecureConnector::new(&client, Some(server.key)).unwrap();
    for aborts in [false, true] {
        let mut here = server.connect(&connector).await.unwrap();
        here.write_all(b"half a").await.unwrap();
        here.flush().await.unwrap();
        let mut there = server.accepted.recv().await.unwrap();
        let mut received = [0; 6];
        there.read_exact(&mut received).await.unwrap();
        // The client must read the session tickets, too, because a stream that is dropped with unread data is reset.
        there.write_all(b"x").await.unwrap();
        there.flush().await.unwrap();
        here.read_exact(&mut [0]).await.unwrap();
        if aborts {
            here.abort();
        } else {
            // Ends the TCP stream in order, but not the TLS stream.
            drop(here);
        }
        let error = there.read(&mut received).await.unwrap_err();
        let wanted = if aborts { std::io::ErrorKind::ConnectionReset } else { std::io::ErrorKind::UnexpectedEof };
        assert_eq!(error.kind(), wanted);
    }
}

#[tokio::test]
async fn only_the_expected_server_is_accepted() {
    let server = Server::start(patient(), |_| true).await;
    let client = Identity::generate().unwrap();
    let other = Identity::generate().unwrap().fingerprint();
    let error = server.connect(&SecureConnector::new(&client, None).unwrap()).await.unwrap_err();
    assert!(matches!(error, TlsError::UnknownKey(key) if key == server.key), "{error}");
    let error = server.connect(&SecureConnector::new(&client, Some(other)).unwrap()).await.unwrap_err();
    let wrong =
        matches!(error, TlsError::WrongKey { expected, presented } if (expected, presented) == (other, server.key));
    assert!(wrong, "{error}");
    let stream = server.connect(&SecureConnector::accepting_any(&client).unwrap()).await.unwrap();
    assert_eq!(stream.peer(), server.key);
}

#[tokio::test]
async fn only_allowed_clients_are_accepted_and_the_others_learn_it() {
    let (known, stranger) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let allowed = known.fingerprint();
    let mut server = Server::start(patient(), move |key| *key == allowed).await;
    let connector = SecureConnector::new(&stranger, Some(server.key)).unwrap();
    let mut refused = server.connect(&connector).await.unwrap();
    let error = refused.read(&mut [0]).await.unwrap_err();
    assert!(matches!(tls_error(&error), Some(TlsError::Refused)), "{error:?}");
    let connector = SecureConnector::new(&known, Some(server.key)).unwrap();
    let _here = server.connect(&connector).await.unwrap();
    // The listener did not return the refused connection before this one.
    assert_eq!(server.accepted.recv().await.unwrap().peer(), allowed);
}

/// Returns whether the session was resumed, or `None` if the server refused the client. The client reads the tickets
/// that the server sends after the handshake together with the first data.
async fn exchange(server: &mut Server, connector: &SecureConnector) -> Option<bool> {
    let mut here = server.connect(connector).await.unwrap();
    let mut byte = [0];
    let read = here.read(&mut byte);
    tokio::select! {
        there = server.accepted.recv() => {
            let mut there = there.unwrap();
            assert_eq!(there.peer(), there.peer());
            there.write_all(b"x").await.unwrap();
            there.flush().await.unwrap();
            here.read_exact(&mut byte).await.unwrap();
            assert_eq!(here.is_resumed(), there.is_resumed());
            Some(here.is_resumed())
        }
        read = read => {
            assert!(read.is_err());
            None
        }
    }
}

#[tokio::test]
async fn sessions_are_resumed_as_long_as_the_key_is_allowed() {
    let client = Identity::generate().unwrap();
    let allowed = Arc::new(AtomicBool::new(true));
    let now = Arc::clone(&allowed);
    let mut server = Server::start(patient(), move |_| now.load(Ordering::Relaxed)).await;
    let connector = SecureConnector::new(&client, Some(server.key)).unwrap();
    assert_eq!(exchange(&mut server, &connector).await, Some(false));
    assert_eq!(exchange(&mut server, &connector).await, Some(true));
    allowed.store(false, Ordering::Relaxed);
    assert_eq!(exchange(&mut server, &connector).await, None);
    allowed.store(true, Ordering::Relaxed);
    assert!(exchange(&mut server, &connector).await.is_some());
}

/// Peers that send nothing, or one byte, do not keep other peers of the same address out.
#[tokio::test]
async fn silent_peers_keep_nobody_out() {
    let limits = patient();
    let mut server = Server::start(limits, |_| true).await;
    let mut silent = Vec::new();
    for number in 0..limits.per_address + 2 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        if number % 2 == 0 {
            stream.write_all(&[0x16]).await.unwrap();
        }
        silent.push(stream);
    }
    let client = Identity::generate().unwrap();
    let connector = SecureConnector::new(&client, Some(server.key)).unwrap();
    let here = server.connect(&connector).await.unwrap();
    server.accepted.recv().await.unwrap();
    // Two silent peers were evicted in favour of others, and a third one in favour of the authenticated connection.
    let mut ended = 0;
    for mut evicted in silent {
        let mut buffer = [0];
        let read = evicted.read(&mut buffer);
        ended += usize::from(tokio::time::timeout(Duration::ZERO, read).await.is_ok());
    }
    assert_eq!(ended, 3);
    drop(here);
}

#[tokio::test]
async fn a_peer_that_says_nothing_or_too_much_is_dropped() {
    let server = Server::start(HandshakeLimits::default().with_time(Duration::from_millis(50)), |_| true).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let ended = silent.read(&mut [0]).await;
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");

    // The records contain the beginning of a message of 60,000 bytes, which never ends.
    let server = Server::start(patient(), |_| true).await;
    let mut large = TcpStream::connect(server.address).await.unwrap();
    let mut record = vec![0x16, 3, 1, 0x40, 0];
    record.extend([1, 0, 0xea, 0x60]);
    record.resize(5 + 0x4000, 0);
    for _ in 0..3 {
        large.write_all(&record).await.unwrap();
        record[5..].fill(0);
    }
    let mut answer = Vec::new();
    let _ = large.read_to_end(&mut answer).await;
    assert!(server.accepted.is_empty());
}

/// The client's end goes to other ports in the middle of a transfer in both directions, and the kernel passes their
/// datagrams to any socket of the listener.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connection_moves_while_data_is_on_its_way() {
    for shards in [1, 4] {
        echo_while_moving(shards).await;
    }
}

#[cfg(target_os = "linux")]
async fn echo_while_moving(shards: usize) {
    let client = Identity::generate().unwrap();
    let mut server = Server::start_sharded(shards, patient(), |_| true).await;
    let connector = SecureConnector::new(&client, Some(server.key)).unwrap();
    let here = server.connect(&connector).await.unwrap();
    let there = server.accepted.recv().await.unwrap();
    let refused = there.tcp().relocate().unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::Unsupported, "only the client moves");
    let data: Vec<u8> = (0..2_000_000_u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
    let (mut here_reads, mut here_writes) = tokio::io::split(here);
    let (mut there_reads, mut there_writes) = tokio::io::split(there);
    let echo = tokio::spawn(async move {
        tokio::io::copy(&mut there_reads, &mut there_writes).await.unwrap();
        there_writes.shutdown().await.unwrap();
    });
    let mut echoed = Vec::new();
    let mut ports = Vec::new();
    for part in data.chunks(400_000) {
        let mut buffer = vec![0; part.len()];
        let reading = here_reads.read_exact(&mut buffer);
        let writing = async {
            here_writes.write_all(part).await.unwrap();
            here_writes.flush().await.unwrap();
        };
        tokio::join!(async { reading.await.unwrap() }, writing);
        echoed.extend_from_slice(&buffer);
        // The halves lend the stream only when they are joined again.
        let here = here_reads.unsplit(here_writes);
        let port = loop {
            match here.tcp().relocate() {
                Ok(local) => break local.port(),
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(here.tcp().local_addr().unwrap().port(), port);
        ports.push(port);
        (here_reads, here_writes) = tokio::io::split(here);
    }
    here_writes.shutdown().await.unwrap();
    assert_eq!(here_reads.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    echo.await.unwrap();
    assert!(echoed == data);
    ports.dedup();
    assert_eq!(ports.len(), 5);
}

/// Returns the IPv4 and the IPv6 address of a listener, a connector for it, and the task that accepts one connection.
#[cfg(target_os = "linux")]
async fn listen_on_both_families() -> Option<([SocketAddr; 2], SecureConnector, tokio::task::JoinHandle<SecureStream>)>
{
    if !needs::ipv6() {
        return None;
    }
    let identity = Identity::generate().unwrap();
    let listener = TcpListener::bind("[::]:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let addresses = [SocketAddr::from(([127, 0, 0, 1], port)), SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], port))];
    let mut listener = SecureListener::new(listener, &identity, |_| true).unwrap();
    let client = Identity::generate().unwrap();
    let connector = SecureConnector::new(&client, Some(identity.fingerprint())).unwrap();
    let accepting = tokio::spawn(async move { listener.accept().await.unwrap().0 });
    Some((addresses, connector, accepting))
}

/// The client's end goes from IPv4 to IPv6 and back, to a listener for both. Both ends know the new addresses.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connection_moves_to_the_other_address_family_and_back() {
    let Some(([v4, v6], connector, accepting)) = listen_on_both_families().await else { return };
    let mut here = connector.connect(TcpStream::connect(v4).await.unwrap()).await.unwrap();
    let mut there = accepting.await.unwrap();
    let mut servers = vec![v4];
    for server in [v6, v6, v4, v6, v4, v4] {
        let data: Vec<u8> = (0..300_000_u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        let mut echoed = vec![0; data.len()];
        let mut arrived = vec![0; data.len()];
        let writing = async {
            here.write_all(&data).await.unwrap();
            here.flush().await.unwrap();
        };
        tokio::join!(writing, async { there.read_exact(&mut arrived).await.unwrap() });
        assert!(arrived == data);
        // The answer is on its way when the client moves.
        there.write_all(&data).await.unwrap();
        there.flush().await.unwrap();
        while here.tcp().relocate_to(server).is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        here.read_exact(&mut echoed).await.unwrap();
        assert!(echoed == data);
        // What the client writes arrives after the move.
        here.write_all(b"x").await.unwrap();
        here.flush().await.unwrap();
        there.read_exact(&mut [0]).await.unwrap();
        servers.push(here.tcp().peer_addr().unwrap());
        let [near, far] = [here.tcp().local_addr().unwrap(), there.tcp().peer_addr().unwrap()];
        assert_eq!(near, far, "the server's peer is the client");
        assert_eq!(there.tcp().local_addr().unwrap(), server);
        assert_eq!(near.is_ipv4(), server.is_ipv4());
    }
    assert_eq!(servers, [v4, v6, v6, v4, v6, v4, v4]);
}

/// A local path that does not lead to the other address leaves the connection where it is.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connection_stays_if_its_local_path_has_another_family() {
    let Some(([v4, v6], connector, accepting)) = listen_on_both_families().await else { return };
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_local_paths(&[LocalPath::Address(v4.ip())], false);
    let mut here = connector.connect(socket.connect(v4).await.unwrap()).await.unwrap();
    let mut there = accepting.await.unwrap();
    here.write_all(b"to").await.unwrap();
    here.flush().await.unwrap();
    there.read_exact(&mut [0; 2]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(120)).await;
    assert_eq!(here.tcp().relocate_to(v6).unwrap_err().kind(), std::io::ErrorKind::NetworkUnreachable);
    for _ in 0..3 {
        there.write_all(b"back").await.unwrap();
        there.flush().await.unwrap();
        here.read_exact(&mut [0; 4]).await.unwrap();
    }
    assert_eq!(here.tcp().peer_addr().unwrap(), v4);
}
