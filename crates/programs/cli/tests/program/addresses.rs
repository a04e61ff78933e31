//! Names with several addresses, and addresses with zones, in a network namespace (Linux).
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::machine::{Machine, Receiver};
use crate::perf::{Server, perf};
use crate::process::Watchdog;

/// Namespace in which `two.example` has two addresses: an IPv6 address that swallows packets, and the IPv4 loopback
/// address. Removed when dropped.
struct Space {
    name: String,
    /// Files that replace those of /etc in the namespace.
    etc: PathBuf,
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
        let _ = fs::remove_dir_all(&self.etc);
    }
}

impl Space {
    /// Returns `None` if the namespace cannot be created here.
    fn new(name: &str) -> Option<Self> {
        if !needs::veth() || !needs::ipv6() {
            return None;
        }
        let name = format!("lh-{name}-{}", std::process::id());
        let made = Command::new("ip").args(["netns", "add", &name]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let space = Self { etc: PathBuf::from("/etc/netns").join(&name), name };
        fs::create_dir_all(&space.etc).unwrap();
        fs::write(space.etc.join("hosts"), "2001:db8::1 two.example\n127.0.0.1 two.example\n").unwrap();
        fs::write(space.etc.join("nsswitch.conf"), "hosts: files\n").unwrap();
        for command in [
            "ip link set lo up",
            // The other end of the link drops packets with a foreign hardware address.
            "ip link add dead type veth peer name end",
            "ip link set end addrgenmode none up; ip link set dead addrgenmode none up",
            "ip addr add 192.0.2.2/24 dev dead; ip -6 addr add fe80::7/64 dev dead nodad",
            // Resolvers sort this address before an IPv4 address (RFC 6724), unless it is one of fc00::/7.
            "ip -6 addr add 2001:db8::2/64 dev dead nodad",
            "ip -6 neigh add 2001:db8::1 lladdr 02:00:00:00:00:01 dev dead nud permanent",
        ] {
            let done = space.shell(command);
            assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
        }
        Some(space)
    }

    fn within(&self) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).stdin(Stdio::null());
        command
    }

    fn shell(&self, script: &str) -> Output {
        self.within().args(["sh", "-c", script]).output().unwrap()
    }

    fn start(&self, machine: &Machine, arguments: &[&str]) -> Receiver {
        machine.start_in(&self.name, arguments)
    }

    /// Runs a program. A step that runs into a timeout would take an hour.
    fn run(&self, machine: &Machine, arguments: &[&str]) -> Output {
        let program = machine.command(arguments);
        let mut command = self.within();
        command.arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let _watchdog = Watchdog::over(&child);
        child.wait_with_output().unwrap()
    }
}

const HOUR: [&str; 2] = ["--timeout", "3600"];

#[test]
fn one_dead_address_of_a_name_delays_nothing() {
    let Some(space) = Space::new("two") else { return };
    let (there, here) = (Machine::new(), Machine::new());
    let out = there.path("out").into_os_string().into_string().unwrap();
    let mut receiver = space
        .start(&there, &["receive", "--listen", "127.0.0.1:7000", "--reflect", "--allow", &here.key(), "--out", &out]);
    receiver.wait_for("Ready on UDP ");
    // `one` is sent with an unknown key: the connection is to the address from which the key was learned. `two` is sent
    // with a known key.
    for name in ["one", "two"] {
        let capture = here.path("capture.pcap").into_os_string().into_string().unwrap();
        let file = here.file(name, 10_000);
        let send = ["send", "--accept-new", "two.example", &file, "--pcap", &capture];
        let sent = space.run(&here, &[&send[..], &HOUR].concat());
        assert!(sent.status.success(), "{sent:?}");
        // One capture contains the attempts to all addresses.
        let capture = fs::read(&capture).unwrap();
        let has = |address: &[u8]| capture.windows(address.len()).any(|window| window == address);
        assert!(
            (name == "one" || has(&[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])) && has(&[127, 0, 0, 1])
        );
    }
    assert_eq!(there.names(), ["one", "two"]);
    let checked = space.run(&here, &["doctor", "two.example", "--bandwidth", "1M"]);
    let findings = String::from_utf8(checked.stdout).unwrap();
    assert!(findings.contains(" ms to two.example; 1.0 Mb/s pass"), "{findings}");
    let probed = space.run(&here, &["probe", "-v", "two.example:7000", "--time", "1"]);
    let report = String::from_utf8_lossy(&probed.stdout);
    assert!(report.contains("127.0.0.1:7000"), "{report} {probed:?}");

    let mut server = space.start(&there, &["perf", "-s", "-4", "-1"]);
    let measured = loop {
        // The server may not be listening yet.
        let client = ["perf", "-c", "two.example", "-n", "100K"];
        let measured = space.run(&here, &[&client[..], &HOUR].concat());
        if measured.status.success() || server.child.try_wait().unwrap().is_some() {
            break measured;
        }
    };
    assert!(measured.status.success(), "{measured:?}");
    assert!(server.child.wait().unwrap().success());
}

/// The gateway, its target and the target of the forwarder have names with a dead address.
#[test]
fn tunnels_use_the_address_that_answers() {
    if !needs::program("python3") {
        return;
    }
    let Some(space) = Space::new("tunnels") else { return };
    let (there, here) = (Machine::new(), Machine::new());
    there.key();
    fs::write(there.data("allowed-peers"), format!("{} ship forward,listen\n", here.key())).unwrap();
    let echo = "import socket\ns = socket.create_server(('127.0.0.1', 8000))\n\
                while True:\n  c = s.accept()[0]\n  c.sendall(c.recv(100))\n  c.close()";
    let mut echo = space.within().args(["python3", "-c", echo]).spawn().unwrap();
    let ask = "import socket, sys\nc = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n\
               c.sendall(b'question')\nprint(c.recv(100))";
    let mut gateway = space.start(&there, &[&["gateway", "--permit", "localhost:any"][..], &HOUR].concat());
    gateway.wait_for("Ready on UDP ");
    let forward =
        ["forward", "--accept-new", "-L", "8001:two.example:8000", "-R", "8002:two.example:8000", "two.example"];
    let mut forward = space.start(&here, &[&forward[..], &HOUR].concat());
    forward.wait_for("port 8002 of two.example leads to two.example:8000");
    forward.wait_for("127.0.0.1:8001 leads to two.example:8000, through two.example (");
    for port in ["8001", "8002"] {
        let answer = space.within().args(["python3", "-c", ask, port]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&answer.stdout), "b'question'\n", "{port}: {answer:?}");
    }
    let _ = echo.kill();
    let _ = echo.wait();
}

#[test]
fn link_local_addresses_have_zones() {
    let Some(space) = Space::new("zones") else { return };
    let (there, here) = (Machine::new(), Machine::new());
    let out = there.path("out").into_os_string().into_string().unwrap();
    let listen = ["receive", "--listen", "[fe80::7%dead]:7000", "--reflect", "--allow", &here.key(), "--out", &out];
    let mut receiver = space.start(&there, &listen);
    receiver.wait_for("Ready on UDP ");
    let file = here.file("file", 10_000);
    for target in ["fe80::7%dead", "[fe80::7%dead]:7000"] {
        let sent = space.run(&here, &["send", "--accept-new", target, &file]);
        assert!(sent.status.success(), "{target}: {sent:?}");
    }
    let known = fs::read_to_string(here.data("known-peers")).unwrap();
    assert!(known.lines().count() == 1 && known.starts_with("[fe80::7%dead]:7000 "), "{known}");
    let checked = space.run(&here, &["doctor", "fe80::7%dead", "--bandwidth", "1M"]);
    let findings = String::from_utf8(checked.stdout).unwrap();
    assert!(findings.contains(" ms to fe80::7%dead; 1.0 Mb/s pass"), "{findings}");
    let probed = space.run(&here, &["probe", "[fe80::7%dead]:7000", "--time", "1"]);
    assert!(!probed.stdout.is_empty(), "{probed:?}");
    for (server, client) in [("fe80::7%dead", &["-n", "100K"][..]), ("::", &["-u", "-n", "100K", "-b", "10M"])] {
        let mut serving = space.start(&there, &["perf", "-s", "-1", "-B", server]);
        let client = [&["perf", "-c", "fe80::7%dead", "-B", "fe80::7%dead"][..], client].concat();
        let measured = loop {
            let measured = space.run(&here, &client);
            if measured.status.success() || serving.child.try_wait().unwrap().is_some() {
                break measured;
            }
        };
        assert!(measured.status.success(), "{server}: {measured:?}");
        assert!(serving.child.wait().unwrap().success());
    }
    let mut gateway = space.start(
        &there,
        &["gateway", "--allow", &here.key(), "--permit", "[fe80::]/10:any", "--listen", "[fe80::7%dead]:7443"],
    );
    gateway.wait_for("Ready on UDP ");
    // The target answers with a reset, because nothing listens there.
    let forward = ["forward", "--accept-new", "-L", "[fe80::7%dead]:8001:[fe80::7%dead]:8000", "fe80::7%dead"];
    let mut forward = space.start(&here, &forward);
    forward.wait_for("leads to");
    space.shell("echo > /dev/tcp/fe80::7%dead/8001 || curl --max-time 10 'http://[fe80::7%25dead]:8001/'");
    forward.wait_for("[fe80::7%dead]:8000: the target refused the connection");
}

/// The server listens on all addresses, and answers from the one that the client has addressed.
#[test]
fn udp_answers_come_from_the_address_that_was_asked() {
    let server = Server::start(&["-1"]);
    let mut client = perf(&["-c", "127.0.0.2", "-p", &server.port, "-u", "-n", "50K", "-b", "10M", "-J", "--bidir"]);
    let output = client.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["start"]["connected"][0]["remote_host"], "127.0.0.2");
    assert_eq!(server.end(), Some(0));
}
