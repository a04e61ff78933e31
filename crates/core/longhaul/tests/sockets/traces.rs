//! Tracing events of connections.

use std::io;
use std::sync::{Arc, Mutex};

use crate::common::{pair_through, pattern, soon};
use longhaul::{TcpSocket, TcpState};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tracing::Level;

/// Text that a subscriber has written.
#[derive(Clone, Debug, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl io::Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Text {
    /// Returns the lines of the end with this role.
    fn lines(&self, role: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let span = format!("connection{{role=\"{role}\"");
        text.lines().filter(|line| line.contains(&span)).map(str::to_owned).collect()
    }
}

/// Transfers data with a subscriber of this level while every `nth` datagram is lost. Returns the subscriber's text and
/// the client's number of sent segments.
async fn traced(level: Level, nth: usize) -> (Text, u64) {
    let text = Text::default();
    let writer = text.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_writer(move || writer.clone());
    // The runtime has one thread, so that the subscriber sees both ends.
    let guard = tracing::subscriber::set_default(subscriber.finish());
    let (client, server) = (TcpSocket::new_v4().unwrap(), TcpSocket::new_v4().unwrap());
    let (mut a, mut b, _relay) = pair_through(client, server, nth).await;
    let reader = tokio::spawn(async move {
        let mut got = Vec::new();
        b.read_to_end(&mut got).await.unwrap();
        b.shutdown().await.unwrap();
        b
    });
    a.write_all(&pattern(200_000)).await.unwrap();
    a.shutdown().await.unwrap();
    assert_eq!(soon(a.read(&mut [0])).await.unwrap(), 0);
    let b = soon(reader).await.unwrap();
    while b.info().unwrap().state != TcpState::Closed {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let segments = a.info().unwrap().segs_out;
    drop((a, b));
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    drop(guard);
    (text, segments)
}

#[tokio::test]
async fn each_segment_is_traced() {
    let (text, segments) = traced(Level::TRACE, usize::MAX).await;
    let client = text.lines("client");
    let count = |what: &str| client.iter().filter(|line| line.contains(what)).count() as u64;
    assert_eq!(count("longhaul::connection: segment sent"), segments);
    for event in ["segment received", "metrics updated", "data acknowledged", "timer set"] {
        assert!(count(event) > 0, "{event}");
    }
    assert!(client.iter().any(|line| line.contains("state changed") && line.contains("new=ESTABLISHED")));
    assert!(client.iter().any(|line| line.contains("parameters set") && line.contains("congestion=\"copa-cubic\"")));
    assert!(client.iter().any(|line| line.contains("released by the application")));
    let server = text.lines("server");
    assert!(server.iter().any(|line| line.contains("segment received flags=SYN|ECE|CWR ")), "{server:?}");
    assert!(server.last().unwrap().contains("closed"), "{server:?}");
}

#[tokio::test]
async fn at_the_debug_level_only_changes_are_traced() {
    let (text, segments) = traced(Level::DEBUG, 20).await;
    let client = text.lines("client");
    assert!(segments > 20 && !client.is_empty());
    for event in ["state changed", "recovery started", "recovery ended", "phase changed old="] {
        assert!(client.iter().any(|line| line.contains(event)), "{event}: {client:?}");
    }
    assert!(!client.iter().any(|line| line.contains("segment sent") || line.contains("metrics")), "{client:?}");
}
