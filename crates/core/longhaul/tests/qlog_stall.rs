//! Logs and captures on a disk that does not respond. The tests have a process of their own, in which one runs at a time,
//! because all logs and captures of a process share the writing thread.
#![cfg(all(unix, feature = "qlog"))]
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test may fail by panicking, and shares its helpers")]

#[path = "sockets/common.rs"]
mod common;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{pair_with, pattern, soon};
use longhaul::TcpSocket;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Mutex;

/// Held by the test that runs.
static DISK: Mutex<()> = Mutex::const_new(());

/// Creates a FIFO, which stands for a file on the disk.
fn fifo(name: &str) -> PathBuf {
    let pipe = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    pipe
}

/// Sends this many MiB, and returns the number of segments sent.
async fn transfer(client: TcpSocket, pieces: usize) -> u64 {
    let (mut a, mut b) = pair_with(client, TcpSocket::new_v4().unwrap()).await;
    let piece = pattern(1 << 20);
    let reader = tokio::spawn(async move {
        let mut buffer = vec![0; 1 << 20];
        let mut got = 0;
        loop {
            match b.read(&mut buffer).await.unwrap() {
                0 => break,
                n => got += n,
            }
        }
        b.close().await.unwrap();
        got
    });
    for _ in 0..pieces {
        soon(a.write_all(&piece)).await.unwrap();
    }
    a.shutdown().await.unwrap();
    assert_eq!(soon(a.read(&mut [0])).await.unwrap(), 0);
    assert_eq!(soon(reader).await.unwrap(), pieces << 20);
    a.info().unwrap().segs_out
}

/// Opening a FIFO for writing blocks until there is a reader. Meanwhile the connection sends more segments than can be queued. The
/// records that are written in the end are complete.
#[tokio::test]
async fn a_stalled_disk_only_costs_records() {
    let (_alone, pipe) = (DISK.lock().await, fifo("qlog-stall"));
    let client = TcpSocket::new_v4().unwrap();
    client.set_qlog_file(&pipe);
    // 16 MiB of records can be queued, with more than 200 bytes per segment. One or two segments carry 32 KiB of the
    // stream.
    let segments = transfer(client, 160).await;
    let file = pipe.clone();
    let text = soon(tokio::task::spawn_blocking(move || std::fs::read_to_string(file))).await.unwrap().unwrap();
    let records: Vec<Value> = text.split('\x1e').skip(1).map(|record| serde_json::from_str(record).unwrap()).collect();
    assert!(text.starts_with('\x1e') && text.ends_with('\n'), "RFC 7464, section 2.2");
    assert_eq!(records[0]["file_schema"], "urn:ietf:params:qlog:file:sequential");
    let sent = records.iter().filter(|record| record["name"] == "tcp:segment_sent").count() as u64;
    assert!(0 < sent && sent < segments, "{sent} of {segments}");
    // The end of the log has its place even if the queue is full, and tells how much is missing.
    let name = |record: &Value| record["name"].as_str().unwrap_or_default().to_owned();
    assert_eq!(name(&records[records.len() - 1]), "tcp:connection_closed");
    let at = records.iter().position(|record| name(record) == "tcp:events_dropped").unwrap();
    let dropped: u64 = records.iter().filter_map(|record| record["data"]["count"].as_u64()).sum();
    assert!(dropped >= segments - sent, "{dropped} records with {} segments", segments - sent);
    // All values that a reader has missed follow.
    let mut rest = records[at..].iter();
    let metrics = rest.find(|record| name(record) == "tcp:recovery_metrics_updated").unwrap();
    for field in ["min_rtt", "congestion_window", "bytes_in_flight", "startup_phase", "peer_window"] {
        assert!(!metrics["data"][field].is_null(), "{field}");
    }
    std::fs::remove_file(&pipe).unwrap();
}

/// Writing to a FIFO blocks when it is full. What a capture has of the segments meanwhile is complete packets.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_stalled_disk_only_costs_packets() {
    use std::os::unix::fs::OpenOptionsExt as _;

    /// `O_NONBLOCK` of Linux: opening the FIFO waits for no writer.
    const NONBLOCK: i32 = 0o4000;

    let (_alone, pipe) = (DISK.lock().await, fifo("pcap-stall"));
    let mut reader = std::fs::OpenOptions::new().read(true).custom_flags(NONBLOCK).open(&pipe).unwrap();
    let client = TcpSocket::new_v4().unwrap();
    client.set_pcap(&pipe).unwrap();
    // 16 MiB of packets can be queued.
    let segments = transfer(client, 64).await;
    let read = move || {
        let mut capture = Vec::new();
        loop {
            match reader.read_to_end(&mut capture) {
                Ok(_) => return capture,
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    };
    let capture = soon(tokio::task::spawn_blocking(read)).await.unwrap();
    // Each packet has its length in the third field of its header, after the two of the time.
    let (mut rest, mut packets) = (&capture[24..], 0);
    while let Some((header, packet)) = rest.split_at_checked(16) {
        let length = u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
        assert_eq!(packet[0], 0x45, "IPv4 without options");
        (rest, packets) = (&packet[length..], packets + 1);
    }
    assert!(rest.is_empty() && 0 < packets && packets < segments, "{packets} of {segments}");
    std::fs::remove_file(&pipe).unwrap();
}
