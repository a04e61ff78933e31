//! `probe` as its users run it: against `receive --reflect`, over loopback and over an emulated link.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Output, Stdio};

use longhaul_examples::files::TempDir;
use longhaul_link::spec::LinkOptions;
use longhaul_linkem::log::Logs;
use longhaul_linkem::relay::{Options, Running};
use serde_json::Value;

/// A receiver. It ends when dropped.
struct Receiver {
    child: Child,
    address: SocketAddr,
    _out: TempDir,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Receiver {
    fn start(options: &[&str]) -> Self {
        let out = TempDir::create().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_receive"));
        command.args(["--listen", "127.0.0.1:0", "--out"]).arg(out.path()).args(options);
        command.env_remove("QLOGFILE").env_remove("QLOGDIR");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let address = loop {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "the receiver ended");
            if let Some(address) = line.strip_prefix("listening on ") {
                break address.trim().parse().unwrap();
            }
        };
        Self { child, address, _out: out }
    }
}

fn probe(address: &str, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_probe")).arg(address).args(options).output().unwrap()
}

fn relay(link: &str, to: SocketAddr) -> Running {
    let words: Vec<_> = link.split_whitespace().collect();
    let mut options = LinkOptions::new();
    assert_eq!(options.read(&words).unwrap(), words.len());
    let path = options.build(|file| Err(format!("{file}: no files here"))).unwrap();
    Running::start(&Options::new((to.ip(), 0).into(), to), &path, Logs::default()).unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What a program that failed said last.
fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned()
}

/// The relay's link is 20 Mb/s. On a machine that is busy, packets are late by milliseconds: the bounds are wide.
#[test]
fn capacity_and_round_trip_of_a_link_are_found() {
    let receiver = Receiver::start(&["--reflect"]);
    let relay = relay("--rate 20mbit --rtt 40ms", receiver.address);
    let output = probe(&relay.local_addr().to_string(), &["--json", "--time", "20"]);
    let report = json(&output);
    let found = &report["methods"][0];
    assert_eq!(found["method"], "capprobe");
    let capacity = found["capacity_bps"]["value"].as_f64().unwrap();
    assert!((5e6..80e6).contains(&capacity), "{report}");
    assert!(report["base_rtt_us"].as_f64().unwrap() >= 40_000.0, "{report}");
    assert!(report["packets"].as_u64().unwrap() > found["packets"].as_u64().unwrap());
    assert_eq!(report["largest_packet"], 1500);
    assert!(report["buffer_delay_us"].is_null(), "nothing was lost");
    assert!(String::from_utf8_lossy(&output.stderr).contains("capprobe: "), "progress");
}

#[test]
fn every_method_ends_when_its_time_is_up_and_reports_for_people() {
    let receiver = Receiver::start(&["--reflect"]);
    let relay = relay("--rate 20mbit --rtt 40ms", receiver.address);
    let output = probe(&relay.local_addr().to_string(), &["--method", "all", "--time", "1"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    for line in ["capprobe: ", "pathrate: ", "pathload: ", "  capacity  ", "  base RTT  ", "  random loss  "] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
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
fn a_host_where_nobody_listens_is_said_to_refuse() {
    let address = {
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap();
        closed.local_addr().unwrap().to_string()
    };
    let said = complaint(&probe(&address, &[]));
    assert_eq!(
        said,
        format!(
            "probe: {address} refuses: no program has that UDP port (start `receive --reflect --listen {address}` there)"
        )
    );
}

#[test]
fn a_host_that_says_nothing_is_given_up() {
    let mute = UdpSocket::bind("127.0.0.1:0").unwrap();
    let said = complaint(&probe(&mute.local_addr().unwrap().to_string(), &["--json"]));
    assert!(said.contains("does not answer: is `receive --reflect` running there"), "{said}");
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
