//! A qlog on a disk that does not respond. The test has a process of its own because all logs and captures of a process
//! share the writing thread.
#![cfg(all(unix, feature = "qlog"))]
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test may fail by panicking, and shares its helpers")]

#[path = "sockets/common.rs"]
mod common;

use std::path::Path;
use std::process::Command;

use common::{pair_with, pattern, soon};
use longhaul::TcpSocket;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A FIFO without a reader stands for the disk: opening it for writing blocks until there is a reader. Meanwhile the
/// connection sends more segments than can be queued. The records that are written in the end are complete.
#[tokio::test]
async fn a_stalled_disk_only_costs_records() {
    let pipe = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("qlog-stall-{}", std::process::id()));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (client, server) = (TcpSocket::new_v4().unwrap(), TcpSocket::new_v4().unwrap());
    client.set_qlog_file(&pipe);
    let (mut a, mut b) = pair_with(client, server).await;
    // 16 MiB of records can be queued, with more than 200 bytes per segment. One or two segments carry 32 KiB of the
    // stream.
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
    const PIECES: usize = 160;
    for _ in 0..PIECES {
        soon(a.write_all(&piece)).await.unwrap();
    }
    a.shutdown().await.unwrap();
    assert_eq!(soon(a.read(&mut [0])).await.unwrap(), 0);
    assert_eq!(soon(reader).await.unwrap(), PIECES << 20);
    let segments = a.info().unwrap().segs_out;
    drop(a);

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
