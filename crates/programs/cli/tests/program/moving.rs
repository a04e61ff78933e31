//! Transfers and tunnels whose client moves: behind a NAT that forgets its bindings, and to other addresses. Three network
//! namespaces, `client` - `nat` - `server`; needs root and `nft`.

use std::fs;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use longhaul_netns::{NetNs, veth};

use crate::machine::{Machine, Receiver, json_lines};

const SERVER: &str = "10.97.2.2:7000";
const NAT: &str =
    "table ip nat { chain post { type nat hook postrouting priority srcnat; oifname out2 masquerade fully-random; }; }";

/// Client, NAT and server. On link NET, the near end is 10.97.NET.1 and the far end 10.97.NET.2.
struct Path {
    nodes: [NetNs; 3],
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn ip(arguments: &str) {
    run("ip", &arguments.split(' ').collect::<Vec<_>>());
}

impl Path {
    /// Returns `None` if it cannot be made here.
    fn new() -> Option<Self> {
        if !needs::veth() || !needs::program("nft") {
            return None;
        }
        let nodes = [(); 3].map(|()| NetNs::anonymous().unwrap());
        for (net, pair) in (1..).zip(nodes.windows(2)) {
            let [near, far] = [1, 2].map(|host| Ipv4Addr::new(10, 97, net, host));
            veth::join((&pair[0], &format!("out{net}"), near), (&pair[1], &format!("in{net}"), far)).unwrap();
        }
        let setting = |name: &str| fs::write(format!("/proc/sys/net/ipv4/{name}"), "1").unwrap();
        nodes[0]
            .run(|| {
                setting("conf/all/promote_secondaries");
                ip("route add default via 10.97.1.2");
            })
            .unwrap();
        nodes[1]
            .run(|| {
                setting("ip_forward");
                run("nft", &[NAT]);
            })
            .unwrap();
        Some(Self { nodes })
    }

    /// Lets the NAT forget all bindings: it does when its outer interface goes down.
    fn forget(&self) {
        self.nodes[1].run(|| ["down", "up"].map(|state| ip(&format!("link set out2 {state}")))).unwrap();
    }

    /// Gives the client another address in place of the last one.
    fn renumber(&self, nth: usize) {
        let host = |nth: usize| if nth == 0 { 1 } else { 10 + nth };
        self.nodes[0]
            .run(|| {
                ip(&format!("addr add 10.97.1.{}/24 dev out1", host(nth)));
                ip(&format!("addr del 10.97.1.{}/24 dev out1", host(nth - 1)));
            })
            .unwrap();
    }

    fn receive(&self, there: &Machine, options: &[&str]) -> Receiver {
        self.nodes[2].run(|| there.receive_at(SERVER, options)).unwrap()
    }
}

/// Sends a file while `change` acts every half second, and compares what arrives.
fn send_over(changes: usize, change: impl Fn(&Path, usize)) {
    let Some(path) = Path::new() else { return };
    let (there, here) = (Machine::new(), Machine::new());
    let receiver = path.receive(&there, &["--allow", &here.key(), "--once"]);
    // Two seconds more than the changes take.
    let bytes = 40_000_000 / 8 * (2 + changes / 2);
    let file = here.file("file", bytes);
    let mut command =
        here.command(&["send", "--accept-new", SERVER, &file, "--limit", "40M", "--retry", "0s", "--json"]);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = path.nodes[0].run(|| command.spawn().unwrap()).unwrap();
    for nth in 1..=changes {
        sleep(Duration::from_millis(500));
        change(&path, nth);
    }
    let sent = child.wait_with_output().unwrap();
    assert!(sent.status.success(), "{sent:?}");
    let contents = fs::read(&file).unwrap();
    assert!(fs::read(there.path("out/file")).unwrap() == contents);
    let reported = json_lines(&sent.stdout);
    assert_eq!(reported[0]["blake3"].as_str(), Some(&*blake3::hash(&contents).to_hex()));
    assert_eq!(receiver.end().0, Some(0));
}

#[test]
fn a_transfer_outlives_the_bindings_of_a_nat() {
    send_over(6, |path, _| path.forget());
}

#[test]
fn a_transfer_follows_the_address_of_its_host() {
    send_over(6, |path, nth| path.renumber(nth));
}

#[test]
fn a_transfer_outlives_changes_of_both() {
    send_over(6, |path, nth| {
        path.forget();
        path.renumber(nth);
    });
}
