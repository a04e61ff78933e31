//! `longhaul doctor` as its users run it: on this machine, and towards `longhaul receive --reflect` over emulated links.
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Output};
use std::time::Duration;

use longhaul_linkem::relay::{Options, Running};
use serde_json::Value;
use tempfile::TempDir;

use crate::machine::{Machine, json_lines};
use crate::process::{Process, listening, program, receive};

/// A reflector behind a link.
struct Scene {
    _process: Process,
    _out: TempDir,
    relay: Running,
}

impl Scene {
    fn new(link: &str) -> Self {
        Self::with_idle(link, Duration::from_secs(300))
    }

    /// Creates a scene whose relay forgets a client that has been silent for `idle`, as a NAT does.
    fn with_idle(link: &str, idle: Duration) -> Self {
        let out = TempDir::new().unwrap();
        let (mut process, address) = listening(receive("127.0.0.1:0", out.path(), &["--reflect"]).spawn().unwrap());
        process.ignore();
        let mut options = Options::new("127.0.0.1:0".parse().unwrap(), address.parse().unwrap());
        options.idle = idle;
        let relay = crate::relay::start(link, &options);
        Self { _process: process, _out: out, relay }
    }

    fn doctor(&self, options: &str) -> Findings {
        Findings::of(&doctor(self.relay.local_addr(), options))
    }
}

fn doctor(address: SocketAddr, options: &str) -> Output {
    let mut command = program("doctor");
    command.args([&address.to_string(), "--json"]).args(options.split_whitespace()).output().unwrap()
}

struct Findings(Vec<Value>);

impl Findings {
    /// Parses the findings, and checks that the exit code says whether there is a problem.
    fn of(output: &Output) -> Self {
        let findings = json_lines(&output.stdout);
        let wrong = findings.iter().any(|finding| finding["verdict"] == "wrong");
        assert_eq!(output.status.code(), Some(i32::from(wrong)), "{output:?}");
        Self(findings)
    }

    fn of_check(&self, check: &str) -> (&str, &str) {
        let finding = self.0.iter().find(|finding| finding["check"] == check);
        let finding = finding.unwrap_or_else(|| panic!("no {check} in {:?}", self.0));
        (finding["verdict"].as_str().unwrap(), finding["found"].as_str().unwrap())
    }

    fn command(&self, check: &str) -> Option<&str> {
        self.0.iter().find(|finding| finding["check"] == check)?["command"].as_str()
    }
}

#[test]
fn a_path_without_faults_has_no_findings() {
    let findings = Scene::new("--rtt 20ms").doctor("--bandwidth 2M --rtt 20ms");
    for check in ["udp", "ecn", "dscp", "path-mtu", "udp-rate", "receive-buffer", "send-buffer"] {
        assert_eq!(findings.of_check(check).0, "ok", "{:?}", findings.0);
    }
    assert!(findings.of_check("path-mtu").1.contains("1500 bytes"));
}

#[test]
fn a_path_that_clears_fields_of_the_header_is_found_out() {
    let findings = Scene::new("--bleach-up both").doctor("--bandwidth 1M");
    let (verdict, found) = findings.of_check("ecn");
    assert!(verdict == "wrong" && found.contains("ECT(0) arrives as Not-ECT"), "{found}");
    let (verdict, found) = findings.of_check("dscp");
    assert!(verdict == "note" && found.contains("EF arrives as 0"), "{found}");
    // The reverse path is not tested.
    let findings = Scene::new("--bleach-down both").doctor("--bandwidth 1M");
    assert_eq!((findings.of_check("ecn").0, findings.of_check("dscp").0), ("ok", "ok"));
    let findings = Scene::new("--bleach-up dscp").doctor("--bandwidth 1M");
    assert_eq!((findings.of_check("ecn").0, findings.of_check("dscp").0), ("ok", "note"));
}

#[test]
fn the_path_mtu_is_found_to_the_byte() {
    let findings = Scene::new("--mtu 1337B").doctor("--bandwidth 1M");
    let (verdict, found) = findings.of_check("path-mtu");
    assert!(verdict == "ok" && found.starts_with("packets of 1337 bytes pass"), "{found}");
    let findings = Scene::new("--mtu 1000B").doctor("--bandwidth 1M");
    let (verdict, found) = findings.of_check("path-mtu");
    assert!(verdict == "wrong" && found.starts_with("packets of 1000 bytes pass"), "{found}");
}

#[test]
fn a_policer_is_told_from_a_full_link() {
    let findings = Scene::new("--rtt 20ms --policer-up 2mbit,40kB").doctor("--bandwidth 32M");
    let (verdict, found) = findings.of_check("udp-rate");
    assert!(verdict == "wrong" && found.contains("without a queueing delay"), "{found}");
    let findings = Scene::new("--rtt 20ms --rate-up 2mbit --queue-up 30kB").doctor("--bandwidth 32M");
    let (verdict, found) = findings.of_check("udp-rate");
    assert!(verdict == "note" && found.contains("as at a full link"), "{found}");
    assert_eq!(findings.command("udp-rate"), None);
}

#[test]
fn a_nat_that_forgets_quickly_is_found_out() {
    let scene = Scene::with_idle("--rtt 10ms", Duration::from_millis(500));
    // The relay checks for silent clients once per second.
    let findings = scene.doctor("--bandwidth 1M --nat 3s");
    let (verdict, found) = findings.of_check("nat-binding");
    assert!(verdict == "wrong" && found.contains("another address or port after"), "{found}");
    assert!(findings.command("nat-binding").unwrap().starts_with("longhaul send --timeout "));
    let findings = Scene::new("--rtt 10ms").doctor("--bandwidth 1M --nat 2s");
    let (verdict, found) = findings.of_check("nat-binding");
    assert!(verdict == "ok" && found.contains("after 2 s of silence"), "{found}");
}

/// A host that does not answer probes gets few packets.
#[test]
fn a_blocked_path_is_found_out_with_few_packets() {
    let findings = Scene::new("--loss-up 100%").doctor("");
    let (verdict, found) = findings.of_check("udp");
    assert!(verdict == "wrong" && found.contains("does not answer"), "{found}");
    let mute = UdpSocket::bind("127.0.0.1:0").unwrap();
    mute.set_nonblocking(true).unwrap();
    let findings = Findings::of(&doctor(mute.local_addr().unwrap(), ""));
    assert_eq!(findings.of_check("udp").0, "wrong");
    assert!(findings.command("udp").unwrap().starts_with("longhaul receive --reflect"));
    let mut buffer = [0; 1 << 16];
    let bytes: usize = std::iter::from_fn(|| mute.recv(&mut buffer).ok()).sum();
    assert!(0 < bytes && bytes < 2000, "{bytes}");
}

#[test]
fn a_receiver_that_does_not_reflect_is_told_from_a_closed_port() {
    let out = TempDir::new().unwrap();
    let (process, address) = listening(receive("127.0.0.1:0", out.path(), &[]).spawn().unwrap());
    let findings = Findings::of(&doctor(address.parse().unwrap(), ""));
    assert!(findings.of_check("udp").1.contains("does not answer probes"));
    drop(process);
    let findings = Findings::of(&doctor(address.parse().unwrap(), ""));
    assert!(findings.of_check("udp").1.contains("refuses"));
    // A receiver that is started as advised does not end.
    let advised = findings.0.iter().find_map(|finding| finding["command"].as_str()).unwrap();
    let words = advised.split(' ').skip(1).chain(["--out", out.path().to_str().unwrap()]);
    assert_eq!(Machine::new().start(&words.collect::<Vec<_>>()).listening().address, address);
}

#[test]
fn small_buffers_are_wrong_and_the_command_says_how_large_they_have_to_be() {
    let output = program("doctor").args(["--json", "--bandwidth", "1000G", "--rtt", "1s"]).output().unwrap();
    let findings = Findings::of(&output);
    for (check, setting) in [("receive-buffer", "rmem_max"), ("send-buffer", "wmem_max")] {
        assert_eq!(findings.of_check(check).0, "wrong");
        let command = format!("sudo sysctl -w net.core.{setting}=2147483647");
        assert_eq!(findings.command(check), Some(command.as_str()));
    }
    // The findings as lines for people.
    let output = program("doctor").args(["--bandwidth", "1000G", "--rtt", "1s"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let is_command = |line: &str| line == "     sudo sysctl -w net.core.rmem_max=2147483647";
    assert!(text.starts_with("1. receive-buffer: a socket gets ") && text.lines().any(is_command), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80 && text.contains("\n2. send-buffer: ")), "{text}");
}

/// A process inherits the timer slack of the shell that starts it, so the printed command has an effect if it runs in
/// the shell.
#[test]
fn the_timer_slack_is_that_of_the_process_and_the_command_mends_it() {
    let run = |before: &str| {
        let script = format!("{before}exec \"$0\" doctor --json");
        Findings::of(&Command::new("sh").args(["-c", &script, env!("CARGO_BIN_EXE_longhaul")]).output().unwrap())
    };
    let slow = "echo 5000000 > /proc/$$/timerslack_ns\n";
    let findings = run(slow);
    let (verdict, found) = findings.of_check("timer-slack");
    let what = format!("timers whose slack can be read ({found}); run the tests on Linux as root");
    if !needs::that(verdict != "unknown", "timer-slack", &what) {
        return;
    }
    assert_eq!((verdict, found.contains("5000 us")), ("wrong", true), "{found}");
    let command = findings.command("timer-slack").unwrap();
    assert_eq!(run(&format!("{slow}{command}\n")).of_check("timer-slack").0, "ok");
}

#[test]
fn wrong_use_is_refused() {
    for options in [&["--nat", "1m"][..], &["host", "--nat", "1h"], &["host", "--nat", "0"], &["host:x"]] {
        let output = program("doctor").args(options).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}
