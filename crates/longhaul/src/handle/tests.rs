//! Tests that count the batches of a writer.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::{TcpListener, TcpSocket, TcpStream};

/// Bytes per write: 45 segments and a quarter, of which a batch carries 44.
const BLOCK: usize = 64 << 10;
/// Bytes that open the congestion window.
const WARM_UP: usize = 2 << 20;

/// Connects two streams. The client sends segments of 1448 bytes without the Nagle algorithm, and has a window for several
/// batches.
async fn warm_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut socket = TcpSocket::new_v4().unwrap();
    socket.config().base_plpmtu(1472).max_plpmtu(1472).nodelay(true);
    let (client, server) = tokio::join!(socket.connect(listener.local_addr().unwrap()), listener.accept());
    let (mut client, (mut server, _)) = (client.unwrap(), server.unwrap());
    let (block, mut received) = (vec![7; WARM_UP], vec![0; WARM_UP]);
    let (sent, read) = tokio::join!(client.write_all(&block), server.read_exact(&mut received));
    sent.unwrap();
    read.unwrap();
    while client.info().unwrap().in_flight_bytes > 0 {
        tokio::task::yield_now().await;
    }
    (client, server)
}

/// Writes blocks without letting another task run, and returns the number of batches sent meanwhile.
async fn batches_of(client: &mut TcpStream, blocks: usize) -> usize {
    let block = vec![7; BLOCK];
    let before = client.handle.shared.lock().batches;
    for _ in 0..blocks {
        let mut written = 0;
        poll_fn(|cx| {
            let Poll::Ready(result) = Pin::new(&mut *client).poll_write(cx, &block) else { panic!("no room") };
            written = result.unwrap();
            Poll::Ready(())
        })
        .await;
        assert_eq!(written, BLOCK);
    }
    client.handle.shared.lock().batches - before
}

/// After each write that is larger than a batch, the driver would otherwise send the rest in a batch of its own.
#[tokio::test]
async fn what_a_write_leaves_over_is_sent_with_the_next_one() {
    let blocks = 3;
    // The pacer sends more often if the writer is kept from the processor.
    for attempt in 1.. {
        let (mut client, mut server) = warm_pair().await;
        let batches = batches_of(&mut client, blocks).await;
        // What is left over leaves when the writer pauses.
        let mut received = vec![0; blocks * BLOCK];
        server.read_exact(&mut received).await.unwrap();
        assert!(received.iter().all(|&byte| byte == 7));
        if batches <= blocks {
            break;
        }
        assert!(attempt < 10, "{batches} batches");
    }
}
