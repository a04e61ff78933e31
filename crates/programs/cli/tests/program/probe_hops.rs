//! `probe --hops` over routers, which are network namespaces joined by veth pairs.

use std::net::Ipv4Addr;
use std::process::{Command, Output};

use longhaul_netns::{NetNs, veth};
use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Process, json, listening, program, receive};

/// Address of the far end.
const SERVER: &str = "10.97.3.2:7000";

/// Route of three hops, `user` - `first` - `second` - `server`, with a link between neighbours. On link NET, the near
/// end is 10.97.NET.1 and the far end 10.97.NET.2.
struct Route {
    nodes: [NetNs; 4],
}

/// Runs a program.
fn run(program: &str, arguments: &str) {
    let output = Command::new(program).args(arguments.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "{program} {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Route {
    /// Returns `None` if it cannot be made here.
    fn new() -> Option<Self> {
        if !needs::veth() {
            return None;
        }
        let route = Self { nodes: [(); 4].map(|()| NetNs::anonymous().unwrap()) };
        for (net, pair) in (1..).zip(route.nodes.windows(2)) {
            let [near, far] = [1, 2].map(|host| Ipv4Addr::new(10, 97, net, host));
            let (out, into) = (format!("out{net}"), format!("in{net}"));
            veth::join((&pair[0], &out, near), (&pair[1], &into, far)).unwrap();
        }
        let router = || {
            // Disables the ICMP rate limits, to get one report per packet instead of one per second.
            for (name, value) in [("ip_forward", "1"), ("icmp_ratelimit", "0"), ("icmp_ratemask", "0")] {
                std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value).unwrap();
            }
        };
        route.nodes[1].run(router).unwrap();
        route.nodes[2].run(router).unwrap();
        let ways = [(0, "default", 1, 2), (1, "10.97.3.0/24", 2, 2), (2, "10.97.1.0/24", 2, 1), (3, "default", 3, 1)];
        for (node, to, net, host) in ways {
            let command = format!("route add {to} via 10.97.{net}.{host}");
            route.nodes[node].run(|| run("ip", &command)).unwrap();
        }
        Some(route)
    }

    fn probe(&self, options: &str) -> Output {
        let mut command = program("probe");
        command.arg(SERVER).args(options.split_whitespace());
        self.nodes[0].run(|| command.output()).unwrap().unwrap()
    }
}

/// A receiver at the far end, killed when dropped.
struct Receiver {
    _process: Process,
    _out: TempDir,
}

impl Receiver {
    fn start(route: &Route) -> Self {
        let out = TempDir::new().unwrap();
        let mut command = receive(SERVER, out.path(), &["--reflect"]);
        let (mut process, _) = listening(route.nodes[3].run(|| command.spawn()).unwrap().unwrap());
        process.ignore();
        Self { _process: process, _out: out }
    }
}

fn addresses(report: &Value) -> Vec<&str> {
    report["hops"]["hops"].as_array().unwrap().iter().map(|hop| hop["address"].as_str().unwrap_or("silent")).collect()
}

fn queueing(report: &Value) -> Vec<f64> {
    let hops = report["hops"]["hops"].as_array().unwrap();
    hops.iter().map(|hop| hop["queueing_us"].as_f64().unwrap()).collect()
}

/// From the first router on, the path has 8 Mbit/s and a buffer of 40 ms, which the transfer of tcpprobe fills.
#[test]
fn the_hop_behind_the_bottleneck_is_named() {
    let Some(route) = Route::new() else { return };
    let slow = "qdisc add dev out2 root tbf rate 8mbit burst 3000 limit 40000";
    route.nodes[1].run(|| run("tc", slow)).unwrap();
    let _receiver = Receiver::start(&route);

    // Without load, there is no queue.
    let idle = json(&route.probe("--hops --json --time 3"));
    assert_eq!(addresses(&idle), ["10.97.1.2", "10.97.2.2", "10.97.3.2"]);
    assert_eq!((&idle["hops"]["loaded"], &idle["hops"]["queue_at"]), (&Value::Bool(false), &Value::Null), "{idle}");

    let report = json(&route.probe("--method tcpprobe --hops --json"));
    assert_eq!(report["hops"]["queue_at"], 2, "{report}");
    assert_eq!(report["hops"]["loaded"], true);
    let queueing = queueing(&report);
    assert!(queueing[0] < queueing[1] && queueing[1] > 2000.0, "{report}");
    assert_eq!(report["methods"][0]["method"], "tcpprobe");

    let text = String::from_utf8(route.probe("--method tcpprobe --hops --time 4").stdout).unwrap();
    assert!(text.contains("  packets queue on the way to hop 2 (10.97.2.2): "), "{text}");
}

/// Hops are found even if the destination port is closed.
#[test]
fn hops_need_no_reflector() {
    let Some(route) = Route::new() else { return };
    let output = route.probe("--hops --json --time 2");
    let report = json(&output);
    assert_eq!(addresses(&report), ["10.97.1.2", "10.97.2.2", "10.97.3.2"]);
    assert!(report["methods"].as_array().unwrap().is_empty());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("probe: 10.97.3.2:7000 refuses: "), "{said}");
}
