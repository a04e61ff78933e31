//! Servers that answer before they have read the request, while others upload.

use std::io::ErrorKind;

use longhaul::{TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::common::soon;

const CLIENTS: usize = 50;
const ROUNDS: usize = 2;
const ANSWER: &[u8] = b"HTTP/1.1 413 Content Too Large\r\nconnection: close\r\n\r\nno\r\n";

/// How the server ends the connection.
#[derive(Clone, Copy, Debug)]
enum End {
    ShutDownAndDrop,
    Drop,
    HalvesReadFirst,
    HalvesWriteFirst,
}

async fn answer(mut stream: TcpStream, end: End) {
    stream.read_exact(&mut [0; 1000]).await.unwrap();
    stream.write_all(ANSWER).await.unwrap();
    match end {
        End::ShutDownAndDrop => stream.shutdown().await.unwrap(),
        End::Drop => {}
        End::HalvesReadFirst => {
            let (read, write) = stream.into_split();
            drop(read);
            tokio::task::yield_now().await;
            drop(write);
        }
        End::HalvesWriteFirst => {
            let (read, write) = stream.into_split();
            drop(write);
            tokio::task::yield_now().await;
            drop(read);
        }
    }
}

/// Uploads until the server has ended the connection; returns what it has answered.
async fn upload(to: std::net::SocketAddr) -> Vec<u8> {
    let (mut read, mut write) = TcpStream::connect(to).await.unwrap().into_split();
    let uploading = tokio::spawn(async move {
        let part = vec![1; 64 << 10];
        while write.write_all(&part).await.is_ok() {}
    });
    let mut answer = Vec::new();
    if let Err(error) = read.read_to_end(&mut answer).await {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    uploading.await.unwrap();
    answer
}

/// Returns how many answers have arrived.
async fn answers(end: End, closes_listener: bool) -> usize {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let mut tasks = JoinSet::new();
        for _ in 0..CLIENTS * ROUNDS {
            let (stream, _) = listener.accept().await.unwrap();
            tasks.spawn(answer(stream, end));
        }
        if closes_listener {
            drop(listener);
            tasks.join_all().await;
        } else {
            tasks.join_all().await;
            std::future::pending::<()>().await;
        }
    });
    let mut arrived = 0;
    for _ in 0..ROUNDS {
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            clients.spawn(upload(to));
        }
        arrived += soon(clients.join_all()).await.iter().filter(|answer| *answer == ANSWER).count();
    }
    serving.abort();
    arrived
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn early_answers_arrive_beside_uploads() {
    for end in [End::ShutDownAndDrop, End::Drop, End::HalvesReadFirst, End::HalvesWriteFirst] {
        assert_eq!(answers(end, false).await, CLIENTS * ROUNDS, "{end:?}");
    }
    assert_eq!(answers(End::ShutDownAndDrop, true).await, CLIENTS * ROUNDS, "the listener is dropped first");
}
