//! Cooperative scheduling: tasks that always find something to do let the other tasks of their runtime run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{pair, soon};
use bytes::Bytes;
use longhaul::{TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};

/// Number of calls that never have to wait. tokio allows a task about 128 of them before it has to yield.
const CALLS: u64 = 4096;
const BUDGET: u64 = 128;

/// Returns how often another task of this runtime ran during `work`.
async fn turns_of_others<F: Future>(work: F) -> (F::Output, u64) {
    let turns = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&turns);
    let other = tokio::spawn(async move {
        loop {
            counter.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    tokio::task::yield_now().await;
    let before = turns.load(Ordering::Relaxed);
    let output = work.await;
    let after = turns.load(Ordering::Relaxed);
    other.abort();
    (output, after - before)
}

/// Returns a connection whose second end has `len` bytes to read.
async fn with_unread(len: u64) -> (TcpStream, TcpStream) {
    let (mut a, b) = pair().await;
    a.write_all(&vec![7; len as usize]).await.unwrap();
    soon(async {
        while b.info().unwrap().unread_bytes < len {
            tokio::task::yield_now().await;
        }
    })
    .await;
    (a, b)
}

#[tokio::test]
async fn small_reads_of_a_full_buffer() {
    let (_a, mut b) = with_unread(CALLS).await;
    let read = async {
        for _ in 0..CALLS {
            assert_eq!(b.read_u8().await.unwrap(), 7);
        }
    };
    let ((), turns) = turns_of_others(read).await;
    assert!(turns >= CALLS / BUDGET / 2, "{turns}");
}

#[tokio::test]
async fn reads_of_shared_bytes_peeks_and_readiness() {
    let (_a, mut b) = with_unread(CALLS).await;
    let read = async {
        for _ in 0..CALLS {
            assert_eq!(b.read_bytes(1).await.unwrap().len(), 1);
        }
    };
    let ((), turns) = turns_of_others(read).await;
    assert!(turns >= CALLS / BUDGET / 2, "read_bytes: {turns}");

    let (_a, b) = with_unread(1).await;
    let peek = async {
        for _ in 0..CALLS {
            assert_eq!(b.peek(&mut [0]).await.unwrap(), 1);
        }
    };
    let ((), turns) = turns_of_others(peek).await;
    assert!(turns >= CALLS / BUDGET / 2, "peek: {turns}");
    for interest in [Interest::READABLE, Interest::WRITABLE] {
        let ready = async {
            for _ in 0..CALLS {
                assert!(!b.ready(interest).await.unwrap().is_empty());
            }
        };
        let ((), turns) = turns_of_others(ready).await;
        assert!(turns >= CALLS / BUDGET / 2, "{interest:?}: {turns}");
    }
}

#[tokio::test]
async fn small_writes_with_room_for_them() {
    let (mut a, b) = pair().await;
    let write = async {
        for _ in 0..CALLS {
            a.write_u8(1).await.unwrap();
        }
    };
    let ((), turns) = turns_of_others(write).await;
    assert!(turns >= CALLS / BUDGET / 2, "write: {turns}");
    let write = async {
        for _ in 0..CALLS {
            a.write_bytes(Bytes::from_static(b"x")).await.unwrap();
        }
    };
    let ((), turns) = turns_of_others(write).await;
    assert!(turns >= CALLS / BUDGET / 2, "write_bytes: {turns}");
    drop(b);
}

#[tokio::test]
async fn accepts_of_a_full_backlog() {
    const CONNECTIONS: u64 = 500;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(soon(TcpStream::connect(to)).await.unwrap());
    }
    // The last client is connected a moment before the listener notices it.
    let last = clients.last().unwrap().local_addr().unwrap();
    let mut servers = Vec::new();
    let accept = async {
        loop {
            let (stream, from) = listener.accept().await.unwrap();
            servers.push(stream);
            if from == last {
                break;
            }
        }
    };
    let ((), turns) = turns_of_others(soon(accept)).await;
    assert!(turns >= CONNECTIONS / BUDGET / 2, "{turns}");
}
