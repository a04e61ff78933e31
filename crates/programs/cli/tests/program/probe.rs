//! `probe` as users run it: against `receive --reflect`, over loopback and over an emulated link.

use std::net::{SocketAddr, UdpSocket};
use std::process::Output;
use std::thread;

use longhaul::{TcpSocket, TcpStream};
use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Process, json, listening, program, receive};
use crate::relay::relay;

/// A running receiver, killed when dropped.
struct Receiver {
    _process: Process,
    address: SocketAddr,
    out: TempDir,
}

impl Receiver {
    fn start(options: &[&str]) -> Self {
        let out = TempDir::new().unwrap();
        let (mut process, address) = listening(receive("127.0.0.1:0", out.path(), options).spawn().unwrap());
        process.ignore();
        Self { _process: process, address: address.parse().unwrap(), out }
    }

    /// Counts the files in the receiver's directory, including unfinished ones.
    fn received(&self) -> usize {
        let count = |path: &std::path::Path| std::fs::read_dir(path).map_or(0, Iterator::count);
        let entries = std::fs::read_dir(self.out.path()).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| if path.is_dir() { count(&path) } else { 1 }).sum()
    }

    /// Waits until no file is left: an aborted upload is removed when the receiver notices its end.
    fn keeps_nothing(&self) {
        while self.received() > 0 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

fn probe(address: &str, options: &[&str]) -> Output {
    program("probe").arg(address).args(options).output().unwrap()
}

/// Returns the last error line of a program that failed without a report.
fn complaint(output: &Output) -> String {
    assert!(output.stdout.is_empty());
    crate::process::complaint(output)
}

/// Returns whether a report is free of doubts. If the machine was too busy to measure, the report says so, and its
/// numbers prove nothing.
fn is_trusted(report: &Value) -> bool {
    let doubts = report["doubts"].as_array().unwrap();
    if !doubts.is_empty() {
        assert!(report["methods"].as_array().unwrap().iter().any(|found| found["converged"] == false), "{report}");
    }
    needs::quiet_machine(doubts.is_empty())
}

/// The link of the relay has 20 Mbit/s. On a busy machine, packets are milliseconds late, so the bounds are wide.
#[test]
fn capacity_and_round_trip_of_a_link_are_found() {
    let receiver = Receiver::start(&["--reflect"]);
    let relay = relay("--rate 20mbit --rtt 40ms", receiver.address);
    let output = probe(&relay.local_addr().to_string(), &["-v", "--json", "--time", "20"]);
    let report = json(&output);
    let found = &report["methods"][0];
    assert_eq!(found["method"], "capprobe");
    let capacity = found["capacity_bps"]["value"].as_f64().unwrap();
    assert!(!is_trusted(&report) || (5e6..80e6).contains(&capacity), "{report}");
    let width = |end: &str| (found["capacity_bps"][end].as_f64().unwrap() / capacity - 1.0).abs();
    assert!(width("low") > 0.0099 && width("high") > 0.0099, "no range is without width: {report}");
    assert_eq!(report["direction"], "there");
    assert!(report["base_rtt_us"].as_f64().unwrap() >= 40_000.0, "{report}");
    assert!(report["packets"].as_u64().unwrap() > found["packets"].as_u64().unwrap());
    assert_eq!(report["largest_packet"], 1500);
    assert!(found["base_rtt_us"].as_f64().unwrap() >= 40_000.0, "{report}");
    // On a busy machine, too few undisturbed pairs may arrive for a confident result.
    let confident = found["confidence"].as_f64().unwrap() >= 0.5;
    assert!(found["converged"] == false || confident, "{report}");
    assert_eq!(found["converged_after_s"].is_null(), found["converged"] == false, "{report}");
    assert!(report["buffer_delay_us"].is_null(), "nothing was lost");
    assert!(String::from_utf8_lossy(&output.stderr).contains("capprobe: "), "progress");
}

#[test]
fn every_method_ends_when_its_time_is_up_and_reports_for_people() {
    let receiver = Receiver::start(&["--reflect"]);
    let relay = relay("--rate 20mbit --rtt 40ms", receiver.address);
    let output = probe(&relay.local_addr().to_string(), &["-v", "--method", "all", "--time", "1"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("The path ") || text.starts_with("No rate "), "{text}");
    for method in ["capprobe", "pathrate", "pathload", "pathchirp", "tcpprobe"] {
        assert!(text.contains(&format!("{method}: ")), "{method} in {text}");
    }
    for line in ["capacity", "available", "confidence", "base RTT", "buffer, delay", "buffer, bytes", "random loss"] {
        assert!(text.matches(&format!("\n  {line} ")).count() >= 5, "{line:?} in {text}");
    }
}

/// The transfer fills the 20 Mbit/s of the link and its buffer of 60 kB. The receiver keeps no file.
#[test]
fn a_transfer_to_a_plain_receiver_measures_the_link() {
    let receiver = Receiver::start(&[]);
    let relay = relay("--rate 20mbit --rtt 40ms --queue 60kB", receiver.address);
    let output = probe(&relay.local_addr().to_string(), &["-v", "--method", "tcpprobe", "--json"]);
    let report = json(&output);
    let found = &report["methods"][0];
    assert_eq!((&found["method"], &found["arrival_times"]), (&"tcpprobe".into(), &true.into()));
    assert!(found["delivery_bps"].as_f64().unwrap() < 20.5e6, "no more than the link carries: {report}");
    if is_trusted(&report) {
        let capacity = found["capacity_bps"]["value"].as_f64().unwrap();
        assert!((5e6..80e6).contains(&capacity), "{report}");
        assert!(found["delivery_bps"].as_f64().unwrap() > 1e6, "{report}");
        // 60 kB take 24 ms at 20 Mbit/s. The estimate has bins of a fraction of that, and a busy host adds delay.
        let delay = report["buffer_delay_us"].as_f64().unwrap_or_default();
        assert!((16_000.0..40_000.0).contains(&delay), "{report}");
        let bytes = found["buffer_bytes"].as_f64().unwrap_or_default() / capacity * 20e6;
        assert!((40e3..100e3).contains(&bytes), "{report}");
    }
    assert!(report["base_rtt_us"].as_f64().unwrap() >= 40_000.0, "{report}");
    assert!(report["largest_packet"].is_null(), "no reflector was asked");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("tcpprobe: 1 s, "), "progress: {said}");
    receiver.keeps_nothing();
}

/// The forward path loses 3 % of the packets at random. A busy machine may send too few packets to find out, or find no
/// rate: then the exit code is that of a failure, but there is still a report.
#[test]
fn random_loss_is_told_by_its_share() {
    let receiver = Receiver::start(&["--reflect"]);
    let relay = relay("--rate 50mbit --rtt 10ms --loss-up 3%", receiver.address);
    let address = relay.local_addr().to_string();
    let output = probe(&address, &["--method", "pathload", "--json", "--time", "8"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    if !needs::quiet_machine(report["packets"].as_u64().unwrap() >= 1000) {
        return;
    }
    let loss = report["random_loss"].as_f64().unwrap_or_else(|| panic!("{report}"));
    assert!((0.015..0.05).contains(&loss), "{report}");
}

#[test]
fn all_makes_do_with_a_receiver_that_does_not_reflect() {
    let receiver = Receiver::start(&[]);
    let output = probe(&receiver.address.to_string(), &["--method", "all", "--json", "--time", "2"]);
    assert_eq!(json(&output)["methods"][0]["method"], "tcpprobe");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("speaks longhaul, but does not answer probes"), "{said}");
}

/// Starts a peer that has none of longhaul's own options and reads until the end.
fn plain_peer() -> SocketAddr {
    let (tell, told) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut socket = TcpSocket::new_v4().unwrap();
            socket.config().extensions(false);
            socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
            let listener = socket.listen(1).unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            let (mut stream, _): (TcpStream, _) = listener.accept().await.unwrap();
            tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
        })
    });
    told.recv().unwrap()
}

#[test]
fn a_peer_that_does_not_tell_when_segments_arrive_is_named() {
    let relay = relay("--rate 20mbit --rtt 10ms", plain_peer());
    let output = probe(&relay.local_addr().to_string(), &["--method", "tcpprobe", "--json", "--time", "4"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(" does not tell when segments arrive: "), "{said}");
    let report = json(&output);
    let found = &report["methods"][0];
    assert_eq!((&found["arrival_times"], &found["converged"]), (&false.into(), &false.into()), "{report}");
    assert!(found["confidence"].as_f64().unwrap() < 0.5, "{report}");
}

/// The time is too short for any packet pair.
#[test]
fn what_has_learnt_nothing_fails_with_its_report() {
    let receiver = Receiver::start(&["--reflect"]);
    let relay = relay("--rate 20mbit --rtt 1500ms", receiver.address);
    let output = probe(&relay.local_addr().to_string(), &["--json", "--time", "1"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["methods"][0]["capacity_bps"].is_null() && report["base_rtt_us"].is_number(), "{report}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.ends_with(
            "longhaul probe: no method has found a rate: --time gives them longer, --method names another\n"
        ),
        "{said}"
    );
}

#[test]
fn a_path_that_drops_large_packets_is_measured_with_small_ones() {
    let receiver = Receiver::start(&["--reflect"]);
    let relay = relay("--rate 20mbit --rtt 10ms --mtu 600B", receiver.address);
    let output = probe(&relay.local_addr().to_string(), &["--json", "--time", "2"]);
    assert_eq!(json(&output)["largest_packet"], 576);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the path drops packets larger than 576 bytes (one of 1280 got no answer)"), "{said}");
}

#[test]
fn a_transfer_over_a_path_that_drops_large_packets_is_made_of_small_ones() {
    let receiver = Receiver::start(&[]);
    let relay = relay("--rate 20mbit --rtt 10ms --mtu 600B", receiver.address);
    let output = probe(&relay.local_addr().to_string(), &["--method", "tcpprobe", "--json", "--time", "1"]);
    assert!(json(&output)["methods"][0]["capacity_bps"]["value"].is_number(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("takes a transfer, but nothing of it arrives: the path drops its packets"), "{said}");
}

#[test]
fn a_path_that_drops_everything_of_a_transfer_is_said_to() {
    let receiver = Receiver::start(&[]);
    let relay = relay("--rate 20mbit --rtt 10ms --mtu 300B", receiver.address);
    let address = relay.local_addr().to_string();
    let said = complaint(&probe(&address, &["--method", "tcpprobe"]));
    assert_eq!(said, format!("longhaul probe: {address} takes a transfer, but the path drops packets of 576 bytes"));
}

fn closed() -> String {
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap();
    closed.local_addr().unwrap().to_string()
}

#[test]
fn a_host_where_nobody_listens_is_said_to_refuse() {
    let address = closed();
    let said = complaint(&probe(&address, &[]));
    assert_eq!(
        said,
        format!(
            "longhaul probe: {address} refuses: no program has that UDP port (start `longhaul receive --reflect --code --listen {address}` there)"
        )
    );
}

#[test]
fn a_host_that_says_nothing_is_given_up() {
    let mute = UdpSocket::bind("127.0.0.1:0").unwrap();
    let said = complaint(&probe(&mute.local_addr().unwrap().to_string(), &["--json"]));
    assert!(said.contains("does not answer: is `longhaul receive --reflect` running there"), "{said}");
}

#[test]
fn a_transfer_that_nobody_takes_ends_with_a_sentence() {
    let address = closed();
    let said = complaint(&probe(&address, &["--method", "tcpprobe"]));
    let refused = "refuses: nothing there takes a transfer (start `longhaul receive --plaintext --listen";
    assert_eq!(said, format!("longhaul probe: {address} {refused} {address}` there)"));
    let mute = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = mute.local_addr().unwrap().to_string();
    let said = complaint(&probe(&address, &["--method", "tcpprobe", "--json"]));
    assert!(said.contains("does not answer: is `longhaul receive --plaintext` running there"), "{said}");
}

#[test]
fn all_says_why_the_first_method_failed_if_none_works() {
    let address = closed();
    let output = probe(&address, &["--method", "all"]);
    let said = complaint(&output);
    assert!(said.contains("refuses: no program has that UDP port"), "{said}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("tcpprobe: "), "{output:?}");
}

#[test]
fn a_receiver_that_does_not_reflect_is_told_apart() {
    let receiver = Receiver::start(&[]);
    let said = complaint(&probe(&receiver.address.to_string(), &[]));
    assert!(said.contains("speaks longhaul, but does not answer probes"), "{said}");
}

#[test]
fn mistakes_of_the_command_line_are_named() {
    let output = probe("127.0.0.1:9", &["--method", "pingpong"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("pingpong") && said.contains("capprobe"), "{said}");
    assert_eq!(probe("127.0.0.1:9", &["--time", "0"]).status.code(), Some(2));
    assert!(complaint(&probe("nowhere", &[])).contains("\"nowhere\" is not an address (HOST:PORT)"));
}
