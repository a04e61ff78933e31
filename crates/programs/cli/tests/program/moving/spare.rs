//! Programs with several local paths (`--via`): the client's link to the NAT, and one of its own to the server.

use std::fs;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use longhaul_netns::veth;

use super::{OUTAGE, Path, SERVER, has_arrived, ip, run};
use crate::forward::{echo, exchange, listen};
use crate::machine::{Machine, failed};

/// Addresses of the client, as the kernel lists them.
const FIRST: &str = "0101610A";
const SPARE: &str = "0103610A";
/// Counts datagrams without contents that arrive over the second path.
const EMPTY: &str =
    "table inet seen { chain arrive { type filter hook input priority 0; iif in3 udp length 8 counter; }; }";

impl Path {
    /// Adds the link `spare` with 10.97.3.1 and 10.97.3.2. By itself, the client uses the other one.
    fn with_spare() -> Option<Self> {
        let path = Self::new()?;
        let [near, far] = [1, 2].map(|host| Ipv4Addr::new(10, 97, 3, host));
        veth::join((&path.nodes[0], "spare", near), (&path.nodes[2], "in3", far)).unwrap();
        path.nodes[0].run(|| ip("route add default via 10.97.3.2 dev spare metric 100")).unwrap();
        Some(path)
    }
}

/// The first path becomes silent, and later the second one goes down. No connection may be opened anew.
#[test]
fn a_transfer_turns_to_the_path_that_works() {
    let Some(path) = Path::with_spare() else { return };
    let (there, here) = (Machine::new(), Machine::new());
    path.nodes[2].run(|| run("nft", &[EMPTY])).unwrap();
    let receiver = path.receive(&there, &["--allow", &here.key(), "--once"]);
    let file = here.file("file", 30_000_000);
    let via = ["--via", "out1", "--via", "spare", "--warm"];
    let send = ["send", "--accept-new", SERVER, &file, "--limit", "40M", "--retry", "0s", "--json"];
    let mut command = here.command(&[&send[..], &via].concat());
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let sender = path.nodes[0].run(|| command.spawn().unwrap()).unwrap();
    sleep(Duration::from_millis(1500));
    let warm = path.nodes[2].run(|| Command::new("nft").args(["list", "table", "inet", "seen"]).output()).unwrap();
    let warm = String::from_utf8(warm.unwrap().stdout).unwrap();
    assert!(warm.contains("counter packets 1 "), "an empty datagram over the second path: {warm}");
    path.nodes[1].run(|| run("nft", &[OUTAGE])).unwrap();
    for _ in 0..500 {
        if sockets(&path, SPARE) > 0 {
            break;
        }
        sleep(Duration::from_millis(20));
    }
    assert_eq!((sockets(&path, FIRST), sockets(&path, SPARE)), (0, 1));
    sleep(Duration::from_millis(1000));
    path.nodes[1].run(|| run("nft", &["delete table inet cut"])).unwrap();
    path.nodes[0].run(|| ip("link set spare down")).unwrap();
    has_arrived(sender, &file, &there.path("out/file"));
    assert_eq!(receiver.end().0, Some(0));
}

/// Returns how many connected UDP sockets of the client have this address, as the kernel writes it.
fn sockets(path: &Path, address: &str) -> usize {
    let listed = path.nodes[0].run(|| fs::read_to_string("/proc/thread-self/net/udp").unwrap()).unwrap();
    listed.lines().filter(|line| line.contains(&format!(" {address}:"))).count()
}

/// A link-local address is one of its interface only, which a check of the path must not miss.
#[test]
fn a_path_between_link_local_addresses_does_not_move() {
    let Some(path) = Path::with_spare().filter(|_| needs::ipv6()) else { return };
    let (there, here) = (Machine::new(), Machine::new());
    let shown = |node: usize, arguments: &'static str| {
        let show = || Command::new("ip").args(arguments.split(' ')).output().unwrap();
        String::from_utf8(path.nodes[node].run(show).unwrap().stdout).unwrap()
    };
    path.nodes[0].run(|| ip("-6 addr add fe80::97:1/64 dev spare nodad")).unwrap();
    path.nodes[2].run(|| ip("-6 addr add fe80::97:2/64 dev in3 nodad")).unwrap();
    let scope = shown(0, "-o link show dev spare").split(':').next().unwrap().to_owned();
    let listen = || there.receive_at("[::]:7000", &["--allow", &here.key(), "--once"]);
    let receiver = path.nodes[2].run(listen).unwrap();
    let (server, file) = (format!("[fe80::97:2%{scope}]:7000"), here.file("file", 3_000_000));
    let mut command = here.command(&["send", "--accept-new", &server, &file, "--limit", "20M", "--via", "spare"]);
    command.env("RUST_LOG", "longhaul=debug");
    let sent = path.nodes[0].run(|| command.output().unwrap()).unwrap();
    let said = String::from_utf8_lossy(&sent.stderr);
    assert!(sent.status.success(), "{said}");
    assert_eq!(said.matches("a connection moves").count(), 0, "{said}");
    assert_eq!(receiver.end().0, Some(0));
}

#[test]
fn a_forwarder_distributes_its_connections_among_paths() {
    let Some(path) = Path::with_spare() else { return };
    let (there, here) = (Machine::new(), Machine::new());
    let serve = || {
        let (listener, target) = listen();
        echo(listener);
        let permit = target.to_string();
        (there.gateway(&["--listen", "10.97.2.2:7001", "--allow", &here.key(), "--permit", &permit]), target)
    };
    let (_gateway, target) = path.nodes[2].run(serve).unwrap();
    let local = format!("0:{target}");
    let forward = || here.forward("10.97.2.2:7001", &["-L", &local, "--via", "10.97.1.1,spare"]);
    let forward = path.nodes[0].run(forward).unwrap();
    // Tunnels are opened one after the other.
    for _ in 0..500 {
        if sockets(&path, FIRST) >= 4 && sockets(&path, SPARE) >= 4 {
            break;
        }
        sleep(Duration::from_millis(20));
    }
    let counts = [FIRST, SPARE].map(|address| sockets(&path, address));
    assert!(counts.iter().all(|count| *count >= 4), "{counts:?}");
    let client = path.nodes[0].run(|| std::net::TcpStream::connect(&forward.address).unwrap()).unwrap();
    assert_eq!(exchange(client, b"over one of them"), b"over one of them");
}

#[test]
fn paths_of_others_are_refused_before_anything_starts() {
    let here = Machine::new();
    let refusals: [(&[&str], &str); 5] = [
        (&["--via", "nosuch0"], "this machine has no network interface nosuch0"),
        (&["--via", "192.0.2.99"], "192.0.2.99 is not an address of this machine"),
        (&["--via", "127.0.0.1,127.0.0.1", "--plaintext"], "--via can be given only once with --plaintext"),
        (&["--via", "127.0.0.1", "--warm"], "there is only one"),
        (&["--warm"], "--via"),
    ];
    for (options, expected) in refusals {
        let said = failed(&here.run(&[&["send", "127.0.0.1:9", "/etc/hostname"], options].concat()), 2);
        assert!(said.contains(expected), "{options:?}: {said}");
    }
}
