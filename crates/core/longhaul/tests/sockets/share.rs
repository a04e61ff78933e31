//! Windows that connections to the same host share (RFC 9040, section 7).
use std::time::Duration;

use longhaul::TcpSocket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::{pair_through, pattern, soon};

const DATA: usize = 120_000;

/// Shares `window` with a new connection, and returns how many bytes it sends without an acknowledgment.
async fn sent_at_once(congestion: &str, window: Option<u64>) -> u64 {
    let mut client = TcpSocket::new_v4().unwrap();
    client.config().congestion(congestion.parse().unwrap());
    let (mut a, mut b, relay) = pair_through(client, TcpSocket::new_v4().unwrap(), usize::MAX).await;
    let before = a.info().unwrap().snd_cwnd_bytes;
    if let Some(window) = window {
        a.share_window(window).unwrap();
    }
    relay.hold();
    soon(a.write_all(&pattern(DATA))).await.unwrap();
    // Whatever is sent for the first time before the timeout needs no acknowledgment.
    let sent = soon(async {
        loop {
            let info = a.info().unwrap();
            if info.timeouts > 0 {
                break info.bytes_sent - info.bytes_retrans;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let sent = sent.await;
    // With data in flight, what others have found is too late.
    let cwnd = a.info().unwrap().snd_cwnd_bytes;
    a.share_window(10_000_000).unwrap();
    assert_eq!(a.info().unwrap().snd_cwnd_bytes, cwnd, "{congestion}, {before} bytes before");
    relay.release().await;
    let mut got = vec![0; DATA];
    soon(b.read_exact(&mut got)).await.unwrap();
    assert!(got == pattern(DATA));
    sent
}

#[tokio::test]
async fn bbr_starts_with_a_shared_window() {
    // The initial window is ten segments; a tail loss probe may add one or two.
    for (congestion, window, least, most) in [
        ("bbr", Some(50_000), 48_000, 54_000),
        ("bbr", None, 11_000, 18_000),
        ("bbr", Some(5000), 11_000, 18_000),
        ("cubic", Some(50_000), 11_000, 18_000),
    ] {
        let sent = sent_at_once(congestion, window).await;
        assert!((least..=most).contains(&sent), "{congestion}, {window:?}: {sent} bytes");
    }
}
