//! Captures and event logs of the stacks, read by other programs.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::fs;
use std::path::Path;
use std::process::Command;

const EXPERIMENT: &str = r#"
id = "captured"
title = "Both stacks"
source = "longhaul"
runs = 1
quick-runs = 1
duration = "5s"
bottleneck = "--rate 10mbit --rtt 40ms --queue 1bdp"

[[flows]]
name = "x"
stack = "noq"
congestion = "copa"
bytes = "1MB"
start = "1s"

[[flows]]
name = "y"
stack = "quinn"
congestion = "own-cubic"
bytes = "1MB"
start = "1s"

[metrics]
goodput = { value = "goodput(x)", unit = "Mb/s" }
"#;

fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn tshark_reads_the_captures_and_logs_begin_with_the_run() {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("captures");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("captured.toml"), EXPERIMENT).unwrap();
    let path = |name: &str| place.join(name).to_str().unwrap().to_owned();
    output_of(env!("CARGO_BIN_EXE_quic-lab"), &["run", &path("captured.toml"), "--captures", &path("out")]);
    for flow in 0..2 {
        let log = fs::read_to_string(path(&format!("out/captured/0-1-{flow}.sqlog"))).unwrap();
        let events: Vec<serde_json::Value> =
            log.split('\u{1e}').skip(1).map(|record| serde_json::from_str(record).unwrap()).collect();
        let sent: Vec<&serde_json::Value> = events
            .iter()
            .filter(|event| event["name"].as_str().is_some_and(|name| name.ends_with("packet_sent")))
            .collect();
        // 1 MB in packets of at most 1,452 bytes. Times are in milliseconds since the start of the run.
        let [first, last] = [sent[0], sent[sent.len() - 1]].map(|event| event["time"].as_f64().unwrap());
        assert!(sent.len() > 680 && (first - 1000.0).abs() < 0.01, "{flow}: {} sent, {}", sent.len(), sent[0]);
        assert!((1800.0..5000.0).contains(&last), "{flow}: {last}");

        let pcap = path(&format!("out/captured/0-1-{flow}.pcap"));
        if !needs::program("tshark") {
            continue;
        }
        let options = ["-n", "-r", &pcap, "-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"];
        let faults = "udp.checksum.status == 0 || ip.checksum.status == 0 || !quic";
        assert_eq!(output_of("tshark", &[&options[..], &["-Y", faults]].concat()), "");
        let fields = ["-T", "fields", "-e", "frame.time_epoch", "-e", "ip.src", "-e", "udp.length"];
        let packets = output_of("tshark", &[&options[..], &fields].concat());
        let packets: Vec<(f64, &str, u64)> = packets
            .lines()
            .map(|line| {
                let fields: Vec<&str> = line.split('\t').collect();
                (fields[0].parse().unwrap(), fields[1], fields[2].parse().unwrap())
            })
            .collect();
        let (start, sender, first) = packets[0];
        assert!((start - 1.0).abs() < 1e-6 && first == 1208, "an Initial packet of 1,200 bytes: {start} s, {first}");
        let answer = packets.iter().find(|(_, from, _)| *from != sender).unwrap().0;
        assert!((1.04..1.05).contains(&answer), "{answer}");
        let bytes: u64 = packets.iter().filter(|(_, from, _)| *from == sender).map(|(_, _, len)| len - 8).sum();
        assert!((1_000_000..1_200_000).contains(&bytes), "{flow}: {bytes}");
    }
}
