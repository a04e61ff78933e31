//! Connections that the packet filter diverts, in network namespaces.
use std::fs;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use crate::machine::{Machine, failed};

const PORT: &str = "12345";

/// Three namespaces in a row: a client, a forwarder that routes for it, and a gateway. Only the gateway reaches the
/// targets behind it. Removed when dropped.
struct Network {
    names: [String; 3],
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

impl Network {
    /// Returns `None` if the namespaces cannot be created here.
    fn new() -> Option<Self> {
        if !needs::programs(&["nft", "curl", "python3"]) || !needs::veth() || !needs::ipv6() {
            return None;
        }
        let names = ["client", "near", "far"].map(|name| format!("lh-{name}-{}", std::process::id()));
        let network = Self { names };
        for name in &network.names {
            let made = Command::new("ip").args(["netns", "add", name]).output().unwrap();
            assert!(made.status.success(), "{made:?}");
        }
        let [client, near, far] = &network.names;
        for (space, command) in [
            (client, format!("ip link add up0 type veth peer name down0 netns {near}")),
            (near, format!("ip link add up1 type veth peer name down1 netns {far}")),
            (client, "ip addr add 10.77.1.2/24 dev up0; ip -6 addr add fd77:1::2/64 dev up0 nodad".to_owned()),
            (near, "ip addr add 10.77.1.1/24 dev down0; ip -6 addr add fd77:1::1/64 dev down0 nodad".to_owned()),
            (near, "ip addr add 10.77.2.1/24 dev up1; ip -6 addr add fd77:2::1/64 dev up1 nodad".to_owned()),
            (far, "ip addr add 10.77.2.2/24 dev down1; ip -6 addr add fd77:2::2/64 dev down1 nodad".to_owned()),
            (far, "ip addr add 10.99.0.1/32 dev lo; ip -6 addr add fd99::1/128 dev lo nodad".to_owned()),
            (client, "ip link set lo up; ip link set up0 up".to_owned()),
            (near, "ip link set lo up; ip link set down0 up; ip link set up1 up".to_owned()),
            (far, "ip link set lo up; ip link set down1 up".to_owned()),
            (client, "ip route add default via 10.77.1.1; ip -6 route add default via fd77:1::1".to_owned()),
            (near, "ip route add default via 10.77.2.2; ip -6 route add default via fd77:2::2".to_owned()),
            (near, "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding".to_owned()),
            // Only the gateway can reach the targets.
            (far, "nft 'table inet t { chain c { type filter hook input priority 0; iif down1 meta l4proto tcp drop; }; }'".to_owned()),
        ] {
            let done = network.run(space, &command);
            assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
        }
        Some(network)
    }

    fn within(&self, space: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", space]).stdin(std::process::Stdio::null());
        command
    }

    fn run(&self, space: &str, script: &str) -> Output {
        self.within(space).args(["sh", "-c", script]).output().unwrap()
    }
}

fn curl(network: &Network, space: &str, url: &str) -> Result<Vec<u8>, String> {
    let got = network.run(space, &format!("curl --silent --show-error --fail --noproxy '*' --max-time 20 '{url}'"));
    if got.status.success() { Ok(got.stdout) } else { Err(String::from_utf8_lossy(&got.stderr).into_owned()) }
}

/// Returns the rules that the program prints, and the commands in their comments.
fn rules(machine: &Machine) -> (String, String) {
    let printed = machine.run(&["forward", "--transparent", PORT, "--print-rules"]);
    assert!(printed.status.success(), "{printed:?}");
    let rules = String::from_utf8(printed.stdout).unwrap();
    let routes: Vec<_> =
        rules.lines().filter_map(|line| line.strip_prefix("# ip")).map(|rest| format!("ip{rest}")).collect();
    assert_eq!(routes.len(), 4);
    let routes = routes.join(" && ");
    (rules, routes)
}

#[test]
fn diverted_connections_reach_their_original_destinations() {
    let (there, here) = (Machine::new(), Machine::new());
    failed(&here.run(&["forward", "--print-rules", "192.0.2.1"]), 2);
    let (rules, routes) = rules(&here);
    let Some(network) = Network::new() else { return };
    let [client, near, far] = &network.names;
    fs::write(there.path("page"), "the page").unwrap();
    let mut servers: Vec<_> = ["10.99.0.1", "fd99::1"]
        .into_iter()
        .map(|address| {
            let mut server = network.within(far);
            server.args(["python3", "-m", "http.server", "--bind", address, "8000", "--directory"]);
            server.arg(there.path("")).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
            server.spawn().unwrap()
        })
        .collect();
    let here_key = here.key();
    let gateway = there
        .start_in(far, &["gateway", "--listen", "10.77.2.2:7443", "--permit", "any:8000", "--allow", &here_key])
        .listening();
    let forward =
        here.start_in(near, &["forward", "--accept-new", "--transparent", PORT, &gateway.address]).listening();
    let urls = ["http://10.99.0.1:8000/page", "http://[fd99::1]:8000/page"];
    // Without the rules, nothing arrives.
    let direct = network.run(near, &format!("curl --silent --noproxy '*' --max-time 1 {}", urls[0]));
    assert!(!direct.status.success());
    let file = here.path("rules");
    fs::write(&file, rules).unwrap();
    let loaded = network.run(near, &format!("nft -f {} && {routes}", file.display()));
    assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    // The servers may take a moment to start.
    let up = (0..100).any(|_| {
        thread::sleep(Duration::from_millis(100));
        curl(&network, far, urls[0]).is_ok() && curl(&network, far, urls[1]).is_ok()
    });
    assert!(up);
    // REDIRECT diverts connections of the forwarder's machine, TPROXY those of a machine behind it.
    for space in [near, client] {
        for url in urls {
            assert_eq!(curl(&network, space, url).as_deref(), Ok(&b"the page"[..]), "{space} {url}");
        }
    }
    // A connection to the port itself has no target.
    assert!(curl(&network, near, &format!("http://127.0.0.1:{PORT}/page")).is_err());
    drop((forward, gateway));
    for server in &mut servers {
        let _ = server.kill();
        let _ = server.wait();
    }
}
