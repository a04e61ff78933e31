//! Ends behind NATs that a rendezvous introduces to each other, in network namespaces.
use std::fs;
use std::process::{Command, Output};

use crate::codes::code;
use crate::machine::{Machine, Receiver, failed};

const MEET: &str = "203.0.113.1";

/// NATs by their mapping and filtering (RFC 3489, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nat {
    FullCone,
    AddressRestricted,
    PortRestricted,
    Symmetric,
}

impl Nat {
    /// Returns the rules of a NAT between `lan` and `wan` for the host `inner`.
    fn rules(self, inner: &str) -> String {
        let mapping = if self == Self::Symmetric { "masquerade random,fully-random" } else { "masquerade" };
        let admitted = match self {
            Self::FullCone => format!("iif wan udp dport 1024-65535 dnat to {inner}"),
            Self::AddressRestricted => format!("iif wan ip saddr @seen udp dport 1024-65535 dnat to {inner}"),
            Self::PortRestricted | Self::Symmetric => String::new(),
        };
        format!(
            "table ip t {{
                set seen {{ type ipv4_addr; flags timeout; timeout 5m; }}
                chain in {{ type filter hook input priority 0; iif wan drop; }}
                chain through {{ type filter hook forward priority 0; iif lan add @seen {{ ip daddr }}; }}
                chain to {{ type nat hook prerouting priority -100; {admitted}; }}
                chain from {{ type nat hook postrouting priority 100; oif wan {mapping}; }}
            }}"
        )
    }
}

/// The host of the rendezvous, which routes between the NATs of a sender and of a receiver. Removed when dropped.
struct Network {
    meet: String,
    /// Hosts and their NATs: of the sender, and of the receiver.
    sides: [[String; 2]; 2],
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in self.sides.iter().flatten().chain([&self.meet]) {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

impl Network {
    /// Returns `None` if the namespaces cannot be created here.
    fn new(nats: [Nat; 2]) -> Option<Self> {
        if !needs::programs(&["nft"]) || !needs::veth() {
            return None;
        }
        let name = |what: &str| format!("lh-{what}-{}-{:?}{:?}", std::process::id(), nats[0], nats[1]);
        let side = |what: &str| [name(what), name(&format!("{what}-nat"))];
        let network = Self { meet: name("meet"), sides: [side("send"), side("receive")] };
        for name in network.sides.iter().flatten().chain([&network.meet]) {
            let made = Command::new("ip").args(["netns", "add", name]).output().unwrap();
            assert!(made.status.success(), "{made:?}");
        }
        network.run(
            &network.meet,
            &format!("ip link set lo up; ip addr add {MEET}/32 dev lo; echo 1 > /proc/sys/net/ipv4/ip_forward"),
        );
        for (([host, nat], kind), side) in network.sides.iter().zip(nats).zip(1..) {
            let meet = &network.meet;
            network.run(
                nat,
                &format!(
                    "set -e
                    ip link add lan type veth peer name up0 netns {host}
                    ip link add wan type veth peer name down{side} netns {meet}
                    ip addr add 10.0.0.1/24 dev lan; ip addr add 198.51.100.{side}/32 dev wan
                    ip link set lan up; ip link set wan up
                    ip route add default dev wan
                    echo 1 > /proc/sys/net/ipv4/ip_forward
                    nft '{}'",
                    kind.rules("10.0.0.2")
                ),
            );
            network.run(
                host,
                "set -e; ip link set lo up; ip addr add 10.0.0.2/24 dev up0; ip link set up0 up; ip route add default via 10.0.0.1",
            );
            network.run(
                meet,
                &format!(
                    "set -e; ip link set down{side} up; ip route add 198.51.100.{side} dev down{side} src {MEET}
                    echo 1 > /proc/sys/net/ipv4/conf/down{side}/proxy_arp"
                ),
            );
        }
        Some(network)
    }

    fn run(&self, space: &str, script: &str) {
        let done = Command::new("ip").args(["netns", "exec", space, "sh", "-c", script]).output().unwrap();
        assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

/// Sends a file by a code and a rendezvous with `relays`. Returns what the sender says.
fn send(nats: [Nat; 2], relays: &str) -> Option<(Output, bool)> {
    let network = Network::new(nats)?;
    let [[here_space, _], [there_space, _]] = &network.sides;
    let (meet, here, there) = (Machine::new(), Machine::new(), Machine::new());
    let _rendezvous = meet.start_in(&network.meet, &["meet", "--relays", relays]).listening();
    let out = there.path("out");
    let mut receiver = there.start_in(
        there_space,
        &["receive", "--code", "--meet", MEET, "--out", out.to_str().unwrap(), "--listen", "0.0.0.0:7000"],
    );
    let code = code(&mut receiver);
    receiver.wait_for("Waiting for the sender");
    let file = here.file("file", 300_000);
    let sent = here.command_in(here_space, &["send", "--code", &code, "--meet", MEET, &file]).output().unwrap();
    let arrived = fs::read(out.join("file")).is_ok_and(|got| got == fs::read(&file).unwrap());
    Some((sent, arrived))
}

/// Checks a pair of NATs in both orders.
fn check(first: Nat, second: Nat) {
    // The mapping of a symmetric NAT for the other end is not known to it, and it differs from that for the rendezvous.
    let restricts = |nat| matches!(nat, Nat::PortRestricted | Nat::Symmetric);
    let is_direct = !(restricts(first) && restricts(second) && [first, second].contains(&Nat::Symmetric));
    for nats in [[first, second], [second, first]] {
        let Some((sent, arrived)) = send(nats, "0") else { return };
        let said = String::from_utf8_lossy(&sent.stderr).into_owned();
        assert_eq!(arrived, is_direct, "{nats:?}: {said}");
        if is_direct {
            assert!(sent.status.success() && said.contains("Connected to 198.51.100."), "{nats:?}: {said}");
        } else {
            assert!(failed(&sent, 1).contains("no direct connection passes the NATs"), "{said}");
            let (sent, arrived) = send(nats, "1").unwrap();
            let said = String::from_utf8_lossy(&sent.stderr).into_owned();
            assert!(arrived && said.contains("which relays"), "{nats:?}: {said}");
        }
        if first == second {
            return;
        }
    }
}

#[test]
fn ends_behind_nats_reach_each_other_or_are_relayed() {
    use Nat::{AddressRestricted, FullCone, PortRestricted, Symmetric};
    let pairs = [
        (PortRestricted, PortRestricted),
        (AddressRestricted, Symmetric),
        (PortRestricted, Symmetric),
        (FullCone, FullCone),
        (FullCone, AddressRestricted),
        (FullCone, PortRestricted),
        (FullCone, Symmetric),
        (AddressRestricted, AddressRestricted),
        (AddressRestricted, PortRestricted),
        (Symmetric, Symmetric),
    ];
    let count = if std::env::var_os("LONGHAUL_LONG").is_some() { pairs.len() } else { 3 };
    std::thread::scope(|scope| {
        for (first, second) in &pairs[..count] {
            scope.spawn(|| check(*first, *second));
        }
    });
}

/// Starts a rendezvous and a receiver that waits there, on loopback. Returns them with the code.
fn waiting(meet: &Machine, there: &Machine) -> (Receiver, Receiver, String) {
    let rendezvous = meet.start(&["meet", "--listen", "127.0.0.1:0"]).listening();
    let mut receiver = there.receive(&["--code", "--meet", &rendezvous.address]);
    let code = code(&mut receiver);
    receiver.wait_for("Waiting for the sender");
    (rendezvous, receiver, code)
}

/// Two hosts that have only IPv6 addresses.
#[test]
fn ends_with_ipv6_only_meet() {
    if !needs::veth() {
        return;
    }
    let space = format!("lh-six-{}", std::process::id());
    let far = format!("{space}-far");
    struct Spaces([String; 2]);
    impl Drop for Spaces {
        fn drop(&mut self) {
            for name in &self.0 {
                let _ = Command::new("ip").args(["netns", "del", name]).status();
            }
        }
    }
    let spaces = Spaces([space, far]);
    let [near, far] = &spaces.0;
    let script = format!(
        "set -e; ip netns add {near}; ip netns add {far}
        ip -n {near} link add six type veth peer name six netns {far}
        for space in {near} {far}; do ip -n $space link set lo up; ip -n $space link set six up; done
        ip -n {near} addr add 2001:db8::1/64 dev six nodad; ip -n {far} addr add 2001:db8::2/64 dev six nodad"
    );
    let done = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let (meet, here, there) = (Machine::new(), Machine::new(), Machine::new());
    let _rendezvous = meet.start_in(near, &["meet", "--listen", "[::]:7070"]).listening();
    let out = there.path("out");
    let host = "2001:db8::1";
    let receive = ["receive", "--code", "--meet", host, "--out", out.to_str().unwrap(), "--listen", "[::]:7000"];
    let mut receiver = there.start_in(far, &receive);
    let code = code(&mut receiver);
    receiver.wait_for("Waiting for the sender");
    let file = here.file("file", 300_000);
    let sent = here.command_in(near, &["send", "--code", &code, "--meet", host, &file]).output().unwrap();
    let said = String::from_utf8_lossy(&sent.stderr).into_owned();
    assert!(sent.status.success() && said.contains("Connected to [2001:db8::2]:7000."), "{said}");
    assert!(fs::read(out.join("file")).unwrap() == fs::read(&file).unwrap());
}

#[test]
fn a_rendezvous_refuses_with_a_reason() {
    let (meet, here, there) = (Machine::new(), Machine::new(), Machine::new());
    let file = here.file("file", 1000);
    let (rendezvous, receiver, code) = waiting(&meet, &there);
    let send = |code: &str| here.run(&["send", "--code", code, "--meet", &rendezvous.address, &file]);
    let other = format!("{}{}", if code.starts_with('0') { "1" } else { "0" }, &code[1..]);
    assert!(failed(&send(&other), 1).contains("no receiver waits with this code"));
    // A wrong word ends the attempt, and the receiver still waits for the right one.
    let wrong = if code.ends_with("-acorn") { "actor" } else { "acorn" };
    let wrong = format!("{}-{wrong}", code.rsplit_once('-').unwrap().0);
    assert!(failed(&send(&wrong), 1).contains("the code is wrong"));
    let sent = send(&code);
    assert!(sent.status.success(), "{sent:?}");
    assert_eq!(receiver.end().0, Some(0));
    assert!(failed(&send(&code), 1).contains("no receiver waits with this code"));
    // Without a rendezvous, with a port that nobody listens on, and with something else there.
    assert!(failed(&here.run(&["send", "--meet", &rendezvous.address, &file]), 2).contains("--code"));
    let target = there.receive(&["--allow", &here.key()]);
    let said = failed(&here.run(&["send", "--code", &code, "--meet", &target.address, "--timeout", "3", &file]), 1);
    assert!(said.contains("the connection to the rendezvous failed"), "{said}");
    assert!(said.matches("timed out").count() <= 1, "{said}");
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    let options = ["--meet", &silent, "--timeout", "1", "--code"];
    let out = here.path("out").into_os_string().into_string().unwrap();
    for command in [&["send", &file][..], &["receive", "--listen", "127.0.0.1:0", "--out", &out]] {
        let code = if command[0] == "send" { &[code.as_str()][..] } else { &[] };
        let said = failed(&here.run(&[command, &options, code].concat()), 1);
        assert!(said.contains(&silent) && said.contains("Does `longhaul meet` run there"), "{said}");
        assert_eq!(said.matches("timed out").count(), 1, "{said}");
    }
}

#[test]
fn a_rendezvous_forgets_those_who_say_nothing_it_understands() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let meet = Machine::new();
    let rendezvous = meet.start(&["meet", "--listen", "127.0.0.1:0"]).listening();
    let answer = |line: &[u8]| {
        runtime.block_on(async {
            let mut stream = longhaul::TcpStream::connect(rendezvous.address.as_str()).await.unwrap();
            stream.write_all(line).await.unwrap();
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer).await;
            answer
        })
    };
    for line in
        ["longmeet 2 send 4821\n", "longmeet 1 listen 4821\n", "longmeet 1 send 48210\n", "longmeet 1 send a821\n"]
    {
        assert_eq!(answer(line.as_bytes()), "no this is not understood\n", "{line:?}");
    }
    // A line that is too long has no answer.
    assert_eq!(answer(&[b'x'; 600]), "");
    assert_eq!(answer(b"longmeet 1 send 4821 nonsense 0.0.0.0:0\n"), "no no receiver waits with this code\n");
}
