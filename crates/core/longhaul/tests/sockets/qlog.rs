//! qlog files of connections.

use std::path::{Path, PathBuf};

use crate::common::{connect, pair_through, pair_with, pattern, soon};
use longhaul::{TcpSocket, TcpState};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn records(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.starts_with('\x1e') && text.ends_with('\n'), "RFC 7464, section 2.2");
    text.split('\x1e').skip(1).map(|record| serde_json::from_str(record).unwrap()).collect()
}

/// Waits until a log has ended and returns its records.
async fn ended(file: &Path) -> Vec<Value> {
    let over = || std::fs::read_to_string(file).is_ok_and(|text| text.contains("tcp:connection_closed"));
    while !over() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    records(file)
}

fn logs_in(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn named<'a>(records: &'a [Value], name: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["name"] == format!("tcp:{name}")).map(|record| &record["data"]).collect()
}

#[tokio::test]
async fn both_sides_log_the_whole_connection() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("qlog-{}", std::process::id()));
    let (client, server) = (TcpSocket::new_v4().unwrap(), TcpSocket::new_v4().unwrap());
    client.set_qlog_dir(&dir);
    server.set_qlog_dir(&dir);
    let (mut a, mut b) = pair_with(client, server).await;
    let port = a.local_addr().unwrap().port();
    let data = pattern(4 << 20);
    let reader = tokio::spawn(async move {
        let mut got = Vec::new();
        b.read_to_end(&mut got).await.unwrap();
        b.close().await.unwrap();
        got.len()
    });
    a.write_all(&data).await.unwrap();
    a.shutdown().await.unwrap();
    assert_eq!(soon(a.read(&mut [0])).await.unwrap(), 0);
    assert_eq!(soon(reader).await.unwrap(), 4 << 20);
    drop(a);
    // The drivers finish their logs.
    let files = soon(async {
        loop {
            let files = if dir.exists() { logs_in(&dir) } else { Vec::new() };
            let over =
                |file: &PathBuf| std::fs::read_to_string(file).is_ok_and(|t| t.contains("tcp:connection_closed"));
            if files.len() == 2 && files.iter().all(over) {
                break files;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    let name = |i: usize| files[i].file_name().unwrap().to_str().unwrap().to_owned();
    let id = name(0).strip_suffix("_client.sqlog").unwrap().to_owned();
    assert_eq!(name(1), format!("{id}_server.sqlog"));
    assert_eq!(id.len(), 16);

    let client = records(&files[0]);
    let header = &client[0];
    assert_eq!(header["file_schema"], "urn:ietf:params:qlog:file:sequential");
    assert_eq!(header["trace"]["common_fields"]["group_id"], id.as_str());
    assert_eq!(header["trace"]["vantage_point"]["type"], "client");
    assert!(header["trace"]["event_schemas"][0].as_str().unwrap().ends_with("/qlog/tcp"));
    let times: Vec<f64> = client[1..].iter().map(|record| record["time"].as_f64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(named(&client, "connection_started")[0]["local"]["port"], port);
    assert_eq!(named(&client, "parameters_set")[0]["congestion_control"], "copa-cubic");
    let states: Vec<_> = named(&client, "connection_state_updated").iter().map(|s| s["new"].clone()).collect();
    assert_eq!(states[0], "established");
    assert!(states.contains(&"time-wait".into()), "{states:?}");
    let phases = named(&client, "congestion_state_updated");
    assert_eq!(phases[0]["new"], "swift-start-probe");
    let metrics = named(&client, "recovery_metrics_updated");
    assert!(metrics.len() > 1);
    for field in ["min_rtt", "smoothed_rtt", "congestion_window", "bytes_in_flight", "pacing_rate", "rto"] {
        assert!(metrics.iter().any(|m| m[field].is_number()), "{field}");
    }
    assert_eq!(named(&client, "connection_closed")[0]["trigger"], "clean");

    let server = records(&files[1]);
    assert_eq!(server[0]["trace"]["vantage_point"]["type"], "server");
    assert_eq!(named(&server, "connection_started")[0]["remote"]["port"], port);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Both logs contain every segment and every byte that the connections have counted.
#[tokio::test]
async fn every_segment_is_logged() {
    const LEN: u64 = 2 << 20;
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("qlog-segments-{}", std::process::id()));
    let (client, server) = (TcpSocket::new_v4().unwrap(), TcpSocket::new_v4().unwrap());
    let files = [dir.join("client"), dir.join("server")];
    client.set_qlog_file(&files[0]);
    server.set_qlog_file(&files[1]);
    let (mut a, mut b) = pair_with(client, server).await;
    let reader = tokio::spawn(async move {
        let mut got = Vec::new();
        b.read_to_end(&mut got).await.unwrap();
        b.shutdown().await.unwrap();
        b
    });
    a.write_all(&pattern(LEN as usize)).await.unwrap();
    a.shutdown().await.unwrap();
    assert_eq!(soon(a.read(&mut [0])).await.unwrap(), 0);
    let b = soon(reader).await.unwrap();
    // The last ACK has been sent. Once the server has received it, no further segment is sent.
    while b.info().unwrap().state != TcpState::Closed {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let infos = [a.info().unwrap(), b.info().unwrap()];
    drop((a, b));
    // The SYN that opens a connection at the server is counted by the endpoint, not by the connection.
    for ((file, info), uncounted) in files.iter().zip(&infos).zip([0, 1]) {
        let log = soon(ended(file)).await;
        let (sent, received) = (named(&log, "segment_sent"), named(&log, "segment_received"));
        let before = &named(&log, "connection_started")[0]["segments_before"];
        assert_eq!((&before["sent"], &before["received"]), (&0.into(), &0.into()));
        assert_eq!(sent.len() as u64, info.segs_out);
        assert_eq!(received.len() as u64, info.segs_in + uncounted);
        let first = if uncounted == 0 { sent[0] } else { received[0] };
        assert_eq!(first["header"]["flags"][0], "syn");
        let payload = |s: &&&Value| s["header"]["payload_length"].as_u64().unwrap();
        let bytes = |list: &[&Value]| list.iter().map(|s| payload(&s)).sum::<u64>();
        assert_eq!(bytes(&sent), info.bytes_sent);
        assert_eq!(bytes(&received), info.bytes_received + info.rcv_duplicate_bytes);
        let repeated = sent.iter().filter(|s| s["retransmission"] == true).map(|s| payload(&s)).sum::<u64>();
        assert_eq!(repeated, info.bytes_retrans);
        let acked = named(&log, "segments_acked").iter().map(|ack| ack["acked_bytes"].as_u64().unwrap()).sum::<u64>();
        assert_eq!(acked, info.bytes_acked);
        // Each ACK that delivers data moves the retransmission timer, and each leaves its mark on the metrics.
        assert!(!named(&log, "timer_updated").is_empty());
        let metrics = named(&log, "recovery_metrics_updated");
        let newest = |field: &str| metrics.iter().rev().find_map(|m| m[field].as_u64());
        assert_eq!(newest("congestion_window"), Some(info.snd_cwnd_bytes));
        assert!(named(&log, "segment_dropped").is_empty() && named(&log, "events_dropped").is_empty());
    }
    assert_eq!(infos[1].bytes_received, LEN);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Losses are logged with their bytes, and so are the retransmissions that recover them.
#[tokio::test]
async fn losses_are_logged() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("qlog-losses-{}", std::process::id()));
    let client = TcpSocket::new_v4().unwrap();
    client.set_qlog_file(&file);
    let (mut a, mut b, _relay) = pair_through(client, TcpSocket::new_v4().unwrap(), 50).await;
    let reader = tokio::spawn(async move {
        let mut got = Vec::new();
        b.read_to_end(&mut got).await.unwrap();
        b.close().await.unwrap();
        got
    });
    let data = pattern(1 << 20);
    a.write_all(&data).await.unwrap();
    a.shutdown().await.unwrap();
    assert_eq!(soon(a.read(&mut [0])).await.unwrap(), 0);
    assert!(soon(reader).await.unwrap() == data);
    let info = a.info().unwrap();
    drop(a);
    let log = soon(ended(&file)).await;
    let lost: u64 = named(&log, "segment_lost").iter().map(|loss| loss["lost_bytes"].as_u64().unwrap()).sum();
    assert!(lost > 0);
    assert_eq!(lost, info.lost_bytes);
    assert!(named(&log, "segment_sent").iter().any(|segment| segment["retransmission"] == true));
    for event in ["recovery_started", "recovery_ended"] {
        assert!(!named(&log, event).is_empty(), "{event}");
    }
    std::fs::remove_file(&file).unwrap();
}

/// Datagrams that are delayed until the retransmission timeout make the timeout spurious (RFC 3522).
#[tokio::test]
async fn spurious_timeouts_are_logged() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("qlog-spurious-{}", std::process::id()));
    let client = TcpSocket::new_v4().unwrap();
    client.set_qlog_file(&file);
    let (mut a, mut b, relay) = pair_through(client, TcpSocket::new_v4().unwrap(), usize::MAX).await;
    a.write_all(b"x").await.unwrap();
    soon(b.read_exact(&mut [0])).await.unwrap();
    relay.hold();
    a.write_all(&pattern(10_000)).await.unwrap();
    while a.info().unwrap().timeouts == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    relay.release().await;
    soon(b.read_exact(&mut [0; 10_000])).await.unwrap();
    a.shutdown().await.unwrap();
    assert_eq!(soon(b.read(&mut [0])).await.unwrap(), 0);
    b.close().await.unwrap();
    assert_eq!(soon(a.read(&mut [0])).await.unwrap(), 0);
    let info = a.info().unwrap();
    drop(a);
    let log = soon(ended(&file)).await;
    let spurious = named(&log, "spurious_loss_detected");
    assert_eq!(spurious.len() as u64, info.spurious_recoveries);
    assert_eq!(spurious[0]["trigger"], "timeout");
    assert!(spurious.iter().all(|event| event["episodes"] == 1));
    std::fs::remove_file(&file).unwrap();
}

/// With a listener, only the first connection is logged to a file.
#[tokio::test]
async fn a_log_file_is_for_one_connection() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("qlog-one-{}", std::process::id()));
    let server = TcpSocket::new_v4().unwrap();
    server.set_qlog_file(&file);
    server.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = server.listen(16).unwrap();
    let mut ports = Vec::new();
    for _ in 0..2 {
        let (mut a, mut b) = connect(&listener, TcpSocket::new_v4().unwrap()).await;
        ports.push(a.local_addr().unwrap().port());
        a.write_all(b"x").await.unwrap();
        soon(b.read_exact(&mut [0])).await.unwrap();
    }
    drop(listener);
    let log = soon(ended(&file)).await;
    let started = named(&log, "connection_started");
    assert_eq!(started.len(), 1);
    assert_eq!(started[0]["remote"]["port"], ports[0]);
    std::fs::remove_file(&file).unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_unwritable_directory_only_costs_the_log() {
    let client = TcpSocket::new_v4().unwrap();
    client.set_qlog_dir("/proc/nowhere");
    let (mut a, mut b) = pair_with(client, TcpSocket::new_v4().unwrap()).await;
    a.write_all(b"x").await.unwrap();
    soon(b.read_exact(&mut [0])).await.unwrap();
}
