//! Logs of connections.
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test may fail by panicking, and shares its helpers")]

mod common;

use std::path::{Path, PathBuf};

use common::{pair_with, pattern, soon};
use longhaul::TcpSocket;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn records(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.starts_with('\x1e') && text.ends_with('\n'), "RFC 7464, section 2.2");
    text.split('\x1e').skip(1).map(|record| serde_json::from_str(record).unwrap()).collect()
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
async fn both_sides_tell_the_connections_story() {
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
    // The drivers see to the ends of their logs.
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
    assert_eq!(named(&client, "parameters_set")[0]["congestion_control"], "cubic");
    let states: Vec<_> = named(&client, "connection_state_updated").iter().map(|s| s["new"].clone()).collect();
    assert_eq!(states[0], "established");
    assert!(states.contains(&"time-wait".into()), "{states:?}");
    let phases = named(&client, "congestion_state_updated");
    assert_eq!(phases[0]["new"], "slow-start");
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

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_place_that_cannot_be_written_costs_the_log_only() {
    let client = TcpSocket::new_v4().unwrap();
    client.set_qlog_dir("/proc/nowhere");
    let (mut a, mut b) = pair_with(client, TcpSocket::new_v4().unwrap()).await;
    a.write_all(b"x").await.unwrap();
    soon(b.read_exact(&mut [0])).await.unwrap();
}
