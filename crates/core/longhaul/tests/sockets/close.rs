//! Closing, resetting and losing connections.

use std::io::ErrorKind;
use std::time::Duration;

use crate::common::{Relay, connect, pair, pattern, soon};
use longhaul::{KeepAlive, TcpListener, TcpSocket, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn half_closed_streams_still_carry_the_other_way() {
    let (mut a, mut b) = pair().await;
    a.write_all(b"question").await.unwrap();
    a.shutdown().await.unwrap();
    let mut question = Vec::new();
    soon(b.read_to_end(&mut question)).await.unwrap();
    assert_eq!(question, b"question");
    let answer = pattern(2 << 20);
    let copy = answer.clone();
    let server = tokio::spawn(async move {
        b.write_all(&copy).await.unwrap();
        b.close().await
    });
    let mut got = Vec::new();
    soon(a.read_to_end(&mut got)).await.unwrap();
    assert!(got == answer);
    soon(server).await.unwrap().unwrap();
}

#[tokio::test]
async fn shutting_down_again_changes_nothing() {
    let (mut a, mut b) = pair().await;
    a.write_all(b"x").await.unwrap();
    for _ in 0..3 {
        a.shutdown().await.unwrap();
        a.flush().await.unwrap();
    }
    let mut all = Vec::new();
    soon(b.read_to_end(&mut all)).await.unwrap();
    assert_eq!(all, b"x");
    a.shutdown().await.unwrap();
    b.shutdown().await.unwrap();
    soon(a.closed()).await.unwrap();
    a.shutdown().await.unwrap();
    soon(a.close()).await.unwrap();
}

#[tokio::test]
async fn data_written_before_the_drop_arrives() {
    let (mut a, mut b) = pair().await;
    let data = pattern(2 << 20);
    a.write_all(&data).await.unwrap();
    drop(a);
    let mut got = Vec::new();
    soon(b.read_to_end(&mut got)).await.unwrap();
    assert!(got == data);
}

#[tokio::test]
async fn dropping_unread_data_resets() {
    let (mut a, b) = pair().await;
    a.write_all(b"nobody reads this").await.unwrap();
    soon(b.readable()).await.unwrap();
    drop(b);
    assert_eq!(soon(a.read(&mut [0])).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(a.write(b"x").await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(soon(a.closed()).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(soon(a.close()).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn data_that_arrives_after_the_drop_resets() {
    let (mut a, b) = pair().await;
    drop(b);
    assert_eq!(soon(a.read(&mut [0])).await.unwrap(), 0, "the end of the peer's stream comes first");
    a.write_all(b"x").await.unwrap();
    assert_eq!(soon(a.closed()).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn zero_linger_aborts() {
    let (mut a, mut b) = pair().await;
    a.write_all(b"x").await.unwrap();
    soon(b.read_exact(&mut [0])).await.unwrap();
    a.set_zero_linger().unwrap();
    drop(a);
    assert_eq!(soon(b.read(&mut [0])).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn an_accepted_stream_inherits_the_listeners_linger() {
    let server = TcpSocket::new_v4().unwrap();
    server.set_zero_linger().unwrap();
    server.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = server.listen(1).unwrap();
    let (mut a, b) = connect(&listener, TcpSocket::new_v4().unwrap()).await;
    drop(b);
    assert_eq!(soon(a.read(&mut [0])).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn closing_waits_for_the_acknowledgment() {
    let (mut a, mut b) = pair().await;
    let data = pattern(8 << 20);
    let copy = data.clone();
    let closing = tokio::spawn(async move {
        a.write_all(&copy).await.unwrap();
        a.close().await
    });
    let mut got = Vec::new();
    soon(b.read_to_end(&mut got)).await.unwrap();
    assert!(got == data);
    // Our side is still open: `close` waits only for the acknowledgment by the peer's TCP.
    soon(closing).await.unwrap().unwrap();
}

#[tokio::test]
async fn closed_waits_for_both_directions() {
    let (mut a, mut b) = pair().await;
    let waits = tokio::spawn(async move {
        b.shutdown().await.unwrap();
        b.closed().await.unwrap();
    });
    assert_eq!(soon(a.read(&mut [0])).await.unwrap(), 0);
    assert!(!waits.is_finished());
    a.shutdown().await.unwrap();
    soon(a.closed()).await.unwrap();
    soon(waits).await.unwrap();
}

#[tokio::test]
async fn a_runtime_that_ends_resets_its_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let (open, opened) = tokio::sync::oneshot::channel();
    let (die, death) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let stream = runtime.block_on(async {
            let stream = TcpStream::connect(to).await.unwrap();
            open.send(()).unwrap();
            stream
        });
        death.recv().unwrap();
        drop(runtime);
        stream
    });
    let (mut server, _) = soon(listener.accept()).await.unwrap();
    opened.await.unwrap();
    die.send(()).unwrap();
    assert_eq!(soon(server.read(&mut [0])).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    // The stream outlives its runtime, and its methods return without hanging.
    let stream = other.join().unwrap();
    assert!(stream.try_read(&mut [0]).is_err());
    assert_ne!(stream.try_write(b"x").unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// A stream that was shut down before its runtime ended is complete for the peer, although nobody answers any more.
#[tokio::test]
async fn a_runtime_that_ends_after_shutdown_has_sent_everything() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let other = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut stream = TcpStream::connect(to).await.unwrap();
            stream.write_all(b"all of it").await.unwrap();
            stream.shutdown().await.unwrap();
        });
    });
    let (mut server, _) = soon(listener.accept()).await.unwrap();
    other.join().unwrap();
    let mut got = String::new();
    soon(server.read_to_string(&mut got)).await.unwrap();
    assert_eq!(got, "all of it");
}

#[tokio::test]
async fn a_dropped_listener_resets_connections_it_did_not_accept() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let mut accepted = TcpStream::connect(to).await.unwrap();
    let mut waiting = TcpStream::connect(to).await.unwrap();
    let (mut server, _) = soon(listener.accept()).await.unwrap();
    drop(listener);
    assert_eq!(soon(waiting.read(&mut [0])).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    server.write_all(b"x").await.unwrap();
    soon(accepted.read_exact(&mut [0])).await.unwrap();
}

#[tokio::test]
async fn closing_a_listener_waits_for_written_data() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (mut a, mut b) = connect(&listener, TcpSocket::new_v4().unwrap()).await;
    let data = pattern(1 << 20);
    b.write_all(&data).await.unwrap();
    drop(b);
    let closing = tokio::spawn(listener.close());
    let mut got = Vec::new();
    soon(a.read_to_end(&mut got)).await.unwrap();
    assert!(got == data);
    drop(a);
    soon(closing).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_silent_peer_is_given_up_after_the_user_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let relay = Relay::new(listener.local_addr().unwrap()).await;
    let (client, server) = tokio::join!(TcpStream::connect(relay.address), listener.accept());
    let (mut client, _server) = (client.unwrap(), server.unwrap());
    client.set_user_timeout(Some(Duration::from_millis(700))).unwrap();
    relay.cut();
    client.write_all(b"anybody there?").await.unwrap();
    assert_eq!(soon(client.read(&mut [0])).await.unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(soon(client.close()).await.unwrap_err().kind(), ErrorKind::TimedOut);
}

#[tokio::test]
async fn a_vanished_peer_is_noticed_by_the_keep_alive() {
    tokio::join!(vanish(false), vanish(true));
}

/// Lets a peer vanish from an idle connection whose keep-alive was set before it was opened, or later.
async fn vanish(while_open: bool) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let relay = Relay::new(listener.local_addr().unwrap()).await;
    let mut socket = TcpSocket::new_v4().unwrap();
    // A peer answers at most two probes per second (RFC 5961, section 7), so that these times are raised to one
    // second.
    let often = Duration::from_millis(100);
    let keep_alive = KeepAlive::default().with_idle(often).with_interval(often).with_probes(2);
    if !while_open {
        socket.config().keep_alive(Some(keep_alive));
    }
    let (client, server) = tokio::join!(socket.connect(relay.address), listener.accept());
    let (mut client, _server) = (client.unwrap(), server.unwrap());
    if while_open {
        client.set_keep_alive(Some(keep_alive)).unwrap();
    }
    // A peer that is alive answers.
    assert!(tokio::time::timeout(Duration::from_millis(2500), client.read(&mut [0])).await.is_err());
    relay.cut();
    assert_eq!(soon(client.read(&mut [0])).await.unwrap_err().kind(), ErrorKind::TimedOut);
}

/// Returns a socket bound to `port`, as soon as the system allows it.
async fn bound_to(port: u16) -> TcpSocket {
    loop {
        let socket = TcpSocket::new_v4().unwrap();
        match socket.bind(([127, 0, 0, 1], port).into()) {
            Ok(()) => return socket,
            Err(error) => assert_eq!(error.kind(), ErrorKind::AddrInUse),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// RFC 6191: the server stays in TIME-WAIT for a minute, but accepts a new SYN with a later timestamp.
#[tokio::test]
async fn a_port_may_be_used_again_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for _ in 0..30 {
        let socket = soon(bound_to(port)).await;
        let (mut client, mut server) = soon(connect(&listener, socket)).await;
        server.shutdown().await.unwrap();
        assert_eq!(soon(client.read(&mut [0])).await.unwrap(), 0);
        client.shutdown().await.unwrap();
        assert_eq!(soon(server.read(&mut [0])).await.unwrap(), 0);
    }
}
