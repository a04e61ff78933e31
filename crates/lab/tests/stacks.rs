//! A stack that a program adds to the laboratory.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::net::SocketAddr;

use longhaul_lab::experiment::Experiment;
use longhaul_lab::runner;
use longhaul_lab::stack::{Stack, Transfer, register};
use longhaul_sim::{Agent, Packet, Progress};
use longhaul_units::{Span, Time};
use longhaul_wire::Ecn;

/// Payload of a datagram: 1,000 bytes with its headers.
const PAYLOAD: usize = 972;

/// Sends a datagram per millisecond without any congestion control.
#[derive(Debug)]
struct Steady;

impl Stack for Steady {
    fn name(&self) -> &'static str {
        "steady"
    }

    fn check(&self, congestion: &str) -> Result<(), String> {
        if congestion == "none" { Ok(()) } else { Err(format!("steady has no controller {congestion:?}")) }
    }

    fn connect(&self, transfer: &Transfer<'_>) -> [Box<dyn Agent>; 2] {
        let end = |next, left| End { addresses: transfer.addresses, next, left, progress: Progress::default() };
        [Box::new(end(Some(transfer.start), transfer.bytes)), Box::new(end(None, transfer.bytes))]
    }
}

#[derive(Debug)]
struct End {
    addresses: [SocketAddr; 2],
    next: Option<Time>,
    /// Bytes still to send or to receive.
    left: u64,
    progress: Progress,
}

impl Agent for End {
    fn due(&mut self) -> Option<Time> {
        self.next.filter(|_| self.left > 0)
    }

    fn receive(&mut self, now: Time, packet: &Packet) {
        self.left = self.left.saturating_sub(packet.payload_len() as u64);
        self.progress.read += packet.payload_len() as u64;
        self.progress.ended_at = (self.left == 0).then_some(now);
    }

    fn transmit(&mut self, now: Time, send: &mut dyn FnMut(Packet)) {
        if self.due().is_some_and(|due| due <= now) {
            let [from, to] = self.addresses;
            send(Packet { from, to, ecn: Ecn::NotEct, dscp: 0, payload: vec![7; PAYLOAD], zeros: 0 });
            self.left = self.left.saturating_sub(PAYLOAD as u64);
            self.progress.packets += 1;
            self.next = Some(now + Span::from_millis(1));
        }
    }

    fn progress(&self) -> Progress {
        self.progress
    }
}

fn experiment(flows: &str) -> String {
    format!(
        r#"id = "steady"
title = "A stack beside longhaul"
source = "nobody"
runs = 1
quick-runs = 1
duration = "10s"
bottleneck = "--rate 20mbit --rtt 50ms --queue 1bdp"
{flows}
[metrics]
goodput = {{ value = "goodput(x, 1s, 9s)", unit = "Mb/s" }}
completion = {{ value = "completion(y)", unit = "s" }}
cwnd = {{ value = "cwnd(x)", unit = "bytes" }}
carried = {{ value = "carried()", unit = "Mb/s" }}
"#
    )
}

#[test]
fn stacks_run_beside_longhaul() {
    register(vec![Box::new(Steady)]);
    let text = experiment(
        r#"
[[flows]]
name = "x"
stack = "steady"
congestion = "none"

[[flows]]
name = "y"
congestion = "steady/none"
bytes = "97200B"
start = "2s"

[[flows]]
name = "z"
congestion = "cubic"
bytes = "1MB"
after = "y"
"#,
    );
    let read = Experiment::read("steady.toml", &text).unwrap();
    let records = runner::run(&read, 1, 1).unwrap();
    let values: Vec<Option<f64>> =
        records[0].values.iter().map(|value| value.map(|value| (value * 1e3).round() / 1e3)).collect();
    // Metrics are in the order of their names: 1 MB and the steady flows' packets are carried; the last of 100 packets
    // is sent after 99 ms and arrives after 25.4 ms; a stack's window is not known; 972 bytes per millisecond.
    let [carried, completion, cwnd, goodput] = values[..] else { panic!("{values:?}") };
    assert!((completion.unwrap() - 0.124).abs() < 0.003, "{values:?}");
    assert!((goodput.unwrap() - 7.776).abs() < 0.01, "{values:?}");
    assert!(cwnd.is_none() && carried.unwrap() > 8.8, "{values:?}");
}

#[test]
fn wrong_stacks_are_refused_with_the_place() {
    register(vec![Box::new(Steady)]);
    let told = |flow: &str, more: &str| {
        let text = experiment(&format!(
            "{more}\n[[flows]]\nname = 'x'\n{flow}\n[[flows]]\nname = 'y'\ncongestion = 'cubic'\n"
        ));
        Experiment::read("steady.toml", &text).unwrap_err().to_string()
    };
    let unknown = told("stack = 'unsteady'\ncongestion = 'none'", "");
    assert!(unknown.contains("\"unsteady\" is none of longhaul, kernel, picoquic, steady"), "{unknown}");
    for flow in ["stack = 'steady'\ncongestion = 'cubic'", "congestion = 'steady/cubic'"] {
        let refused = told(flow, "");
        assert!(refused.contains("flows.congestion: steady has no controller \"cubic\""), "{refused}");
    }
    let real = told("stack = 'steady'\ncongestion = 'none'", "real-time = true");
    assert!(real.contains("steady runs only in virtual time"), "{real}");
    let shared = told("congestion = 'steady/none'\n[[flows]]\nname = 'w'\ncongestion = 'steady/none'\nhosts = 'x'", "");
    assert!(shared.contains("only flows of longhaul can share hosts"), "{shared}");
}
