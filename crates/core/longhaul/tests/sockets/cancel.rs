//! Futures that are dropped before they complete, after each number of polls.

use std::io::ErrorKind;
use std::time::Duration;

use bytes::Buf;

use crate::common::{pair, pattern, poll_times, soon};
use longhaul::{Chunks, TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Writes in small pieces, so that the reader sometimes has to wait.
async fn trickle(mut stream: TcpStream, data: Vec<u8>) {
    for part in data.chunks(700) {
        stream.write_all(part).await.unwrap();
        tokio::task::yield_now().await;
    }
    stream.close().await.unwrap();
}

#[tokio::test]
async fn reads_lose_nothing() {
    for polls in 1..6 {
        let (a, mut b) = pair().await;
        let data = pattern(100_000);
        let writer = tokio::spawn(trickle(a, data.clone()));
        let mut got = Vec::new();
        let reading = async {
            loop {
                let mut buf = [0; 500];
                match poll_times(b.read(&mut buf), polls).await {
                    Some(Ok(0)) => break,
                    Some(read) => got.extend_from_slice(&buf[..read.unwrap()]),
                    None => tokio::task::yield_now().await,
                }
                match poll_times(b.read_bytes(300), polls).await {
                    Some(part) => got.extend_from_slice(&part.unwrap()),
                    None => tokio::task::yield_now().await,
                }
                let mut chunks = Chunks::default();
                match poll_times(b.read_chunks(&mut chunks, 700), polls).await {
                    Some(read) => got.extend_from_slice(&chunks.copy_to_bytes(read.unwrap())),
                    None => tokio::task::yield_now().await,
                }
                assert!(!chunks.has_remaining());
                // Peeking and waiting must not change anything.
                poll_times(b.peek(&mut buf), polls).await;
                poll_times(b.readable(), polls).await;
            }
        };
        soon(reading).await;
        assert!(got == data, "polls: {polls}");
        drop(b);
        soon(writer).await.unwrap();
    }
}

#[tokio::test]
async fn dropped_writes_have_no_effect() {
    for polls in 1..4 {
        let (mut a, mut b) = pair().await;
        let data = pattern(6 << 20);
        let copy = data.clone();
        let reader = tokio::spawn(async move {
            let mut got = Vec::new();
            b.read_to_end(&mut got).await.unwrap();
            got == copy
        });
        let mut sent = 0;
        let writing = async {
            while sent < data.len() {
                let end = data.len().min(sent + 300_000);
                match poll_times(a.write(&data[sent..end]), polls).await {
                    Some(written) => sent += written.unwrap(),
                    None => {
                        poll_times(a.writable(), polls).await;
                        tokio::task::yield_now().await;
                    }
                }
            }
            a.close().await.unwrap();
        };
        soon(writing).await;
        assert!(soon(reader).await.unwrap(), "polls: {polls}");
    }
}

#[tokio::test]
async fn no_connection_is_lost_between_two_accepts() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let clients: Vec<_> = (0..20).map(|_| tokio::spawn(TcpStream::connect(to))).collect();
    let mut accepted = Vec::new();
    let accepting = async {
        for polls in (1..4).cycle() {
            if accepted.len() == 20 {
                break;
            }
            match poll_times(listener.accept(), polls).await {
                Some(stream) => accepted.push(stream.unwrap()),
                None => tokio::task::yield_now().await,
            }
        }
    };
    soon(accepting).await;
    for client in clients {
        assert!(accepted.iter().any(|_| true));
        soon(client).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn an_attempt_to_connect_that_is_dropped_is_forgotten() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    for polls in 1..4 {
        let attempt = poll_times(TcpStream::connect(to), polls).await;
        if let Some(stream) = attempt {
            drop(stream.unwrap());
        }
    }
    // Attempts that reached the listener end at once; a real connection follows.
    let mut stream = soon(TcpStream::connect(to)).await.unwrap();
    stream.write_all(b"real").await.unwrap();
    let real = async {
        loop {
            let (mut accepted, _) = listener.accept().await.unwrap();
            let mut buf = [0; 4];
            match accepted.read(&mut buf).await {
                Ok(4) => break buf,
                Ok(0) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
                other => panic!("{other:?}"),
            }
        }
    };
    assert_eq!(&soon(real).await, b"real");
}

#[tokio::test]
async fn a_close_that_is_dropped_still_closes_in_order() {
    for polls in 1..4 {
        let (mut a, mut b) = pair().await;
        let data = pattern(1 << 20);
        a.write_all(&data).await.unwrap();
        poll_times(a.close(), polls).await;
        let mut got = Vec::new();
        soon(b.read_to_end(&mut got)).await.unwrap();
        assert!(got == data, "polls: {polls}");
    }
}

#[tokio::test]
async fn closed_can_be_polled_repeatedly() {
    let (a, mut b) = pair().await;
    for polls in 1..4 {
        assert!(poll_times(a.closed(), polls).await.is_none() || polls > 1);
        assert!(tokio::time::timeout(Duration::from_millis(5), a.closed()).await.is_err());
    }
    b.shutdown().await.unwrap();
    let mut a = a;
    a.shutdown().await.unwrap();
    soon(a.closed()).await.unwrap();
    soon(b.closed()).await.unwrap();
}

#[tokio::test]
async fn aborted_tasks_drop_their_streams() {
    let (mut a, mut b) = pair().await;
    let reading = tokio::spawn(async move { b.read(&mut [0; 10]).await });
    tokio::task::yield_now().await;
    reading.abort();
    assert!(soon(reading).await.unwrap_err().is_cancelled());
    assert_eq!(soon(a.read(&mut [0])).await.unwrap(), 0);
}
