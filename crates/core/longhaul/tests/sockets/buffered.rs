//! Reading from the receive buffers in place (`AsyncBufRead`).

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use longhaul::{OwnedReadHalf, TcpSocket};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, copy_buf};

use crate::common::{pair, pair_with, soon};

fn numbers(len: u32) -> Vec<u8> {
    (0..len).flat_map(u32::to_le_bytes).collect()
}

/// Waits until `len` bytes can be read.
async fn arrived(half: &OwnedReadHalf, len: u64) {
    while half.as_ref().info().unwrap().unread_bytes < len {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn copy_buf_copies_everything_from_either_half() {
    let data = numbers(1 << 19);
    for owned in [false, true] {
        let (mut client, mut server) = pair().await;
        let sender = async {
            server.write_all(&data).await.unwrap();
            server.shutdown().await.unwrap();
        };
        let mut copy = Vec::new();
        let receiver = async {
            if owned {
                copy_buf(&mut client.into_split().0, &mut copy).await.unwrap()
            } else {
                copy_buf(&mut client.split().0, &mut copy).await.unwrap()
            }
        };
        let (_, copied) = soon(async { tokio::join!(sender, receiver) }).await;
        assert_eq!(copied, data.len() as u64);
        assert!(copy == data, "owned: {owned}");
    }
}

#[tokio::test]
async fn shown_data_stays_unread_until_it_is_consumed() {
    let (client, mut server) = pair().await;
    let (mut reader, _writer) = client.into_split();
    server.write_all(b"0123456789").await.unwrap();
    arrived(&reader, 10).await;
    for _ in 0..2 {
        assert_eq!(soon(reader.fill_buf()).await.unwrap(), b"0123456789", "showing consumes nothing");
        assert_eq!(reader.as_ref().info().unwrap().unread_bytes, 10);
    }
    reader.consume(4);
    assert_eq!(reader.as_ref().info().unwrap().unread_bytes, 6);
    assert_eq!(soon(reader.fill_buf()).await.unwrap(), b"456789");
    // The other ways to read see what is left.
    let mut rest = [0; 6];
    soon(reader.read_exact(&mut rest)).await.unwrap();
    assert_eq!(&rest, b"456789");
    drop(server);
    assert!(soon(reader.fill_buf()).await.unwrap().is_empty(), "the end of the stream");
}

/// A reader that is dropped between both steps, such as by `select!`, has consumed nothing.
#[tokio::test]
async fn a_cancelled_reader_loses_nothing() {
    let (client, mut server) = pair().await;
    let (mut reader, writer) = client.into_split();
    poll_fn(|cx| {
        assert!(Pin::new(&mut reader).poll_fill_buf(cx).is_pending());
        Poll::Ready(())
    })
    .await;
    server.write_all(b"one\ntwo\nthree").await.unwrap();
    server.shutdown().await.unwrap();
    arrived(&reader, 13).await;
    assert!(soon(reader.fill_buf()).await.unwrap().starts_with(b"one"));
    let mut stream = reader.reunite(writer).unwrap();
    let (reader, _) = stream.split();
    let mut lines = reader.lines();
    let mut read = Vec::new();
    while let Some(line) = soon(lines.next_line()).await.unwrap() {
        read.push(line);
    }
    assert_eq!(read, ["one", "two", "three"]);
}

/// Data that `try_read` has taken meanwhile is not consumed a second time.
#[tokio::test]
async fn data_that_was_read_otherwise_is_consumed_once() {
    let (client, mut server) = pair().await;
    let (mut reader, _writer) = client.into_split();
    server.write_all(b"0123456789").await.unwrap();
    arrived(&reader, 10).await;
    assert_eq!(soon(reader.fill_buf()).await.unwrap().len(), 10);
    assert_eq!(reader.try_read(&mut [0; 6]).unwrap(), 6);
    reader.consume(4);
    assert_eq!(soon(reader.fill_buf()).await.unwrap(), b"6789");
    reader.consume(100);
    assert_eq!(reader.as_ref().info().unwrap().unread_bytes, 0, "at most what was shown");
}

/// A reader that consumes in place opens the window again, so that more data than the receive buffer holds arrives.
#[tokio::test]
async fn consuming_opens_the_window() {
    let mut small = TcpSocket::new_v4().unwrap();
    small.config().recv_buffer(64 << 10).recv_buffer_max(64 << 10);
    let (client, mut server) = pair_with(small, TcpSocket::new_v4().unwrap()).await;
    let (mut reader, _writer) = client.into_split();
    let data = numbers(1 << 18);
    let sent = data.clone();
    let sender = tokio::spawn(async move { server.write_all(&sent).await });
    let mut received = Vec::new();
    while received.len() < data.len() {
        let shown = soon(reader.fill_buf()).await.unwrap();
        assert!(!shown.is_empty(), "the stream ends after {} bytes", received.len());
        let part = shown.len().min(1000);
        received.extend_from_slice(&shown[..part]);
        reader.consume(part);
    }
    assert!(received == data);
    sender.await.unwrap().unwrap();
}
