//! Transfers over two paths at the same time (`--bond`): each leads through a namespace with a relay that emulates a
//! link. Both relays have the same address, and the client's interface decides between them.
//!
//! The tests print the rate; with `LONGHAUL_LONG`, of a larger file over 40 Mb/s with 600 ms and 20 Mb/s with 50 ms.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use longhaul_link::spec::Direction;
use longhaul_linkem::relay::{Options, Running};
use longhaul_netns::{NetNs, veth};

use super::{has_arrived, ip, is_long, run};
use crate::machine::{Machine, failed, json_lines};
use crate::relay;

const RELAY: &str = "10.98.9.9:7000";

/// Client, server, and a relay between them on each of the interfaces `path0` and `path1`.
struct Paths {
    client: NetNs,
    server: NetNs,
    relays: Vec<(Running, NetNs)>,
}

impl Paths {
    /// Returns `None` if they cannot be made here.
    fn new(links: [&str; 2]) -> Option<Self> {
        if !needs::veth() {
            return None;
        }
        let [client, server] = [(); 2].map(|()| NetNs::anonymous().unwrap());
        let relays = (0_u8..2).map(|nth| {
            let between = NetNs::anonymous().unwrap();
            let address = |net: u8, host| Ipv4Addr::new(10, 98, 2 * nth + net, host);
            veth::join((&client, &format!("path{nth}"), address(0, 1)), (&between, "in0", address(0, 2))).unwrap();
            veth::join((&between, "out0", address(1, 1)), (&server, &format!("end{nth}"), address(1, 2))).unwrap();
            let metric = 10 * (nth + 1);
            let route = format!("route add 10.98.9.9 via {} dev path{nth} metric {metric}", address(0, 2));
            client.run(|| ip(&route)).unwrap();
            let to = SocketAddr::from((address(1, 2), 7000));
            let start = || {
                ip("addr add 10.98.9.9/32 dev lo");
                relay::start(links[usize::from(nth)], &Options::new(RELAY.parse().unwrap(), to))
            };
            (between.run(start).unwrap(), between)
        });
        let relays = relays.collect();
        Some(Self { client, server, relays })
    }
}

/// Sends a file over both paths while `change` acts. Prints the time.
fn send_over(links: [&str; 2], bytes: usize, change: impl FnOnce(&Paths)) {
    let Some(paths) = Paths::new(links) else { return };
    let (there, here) = (Machine::new(), Machine::new());
    let receive = || there.receive_at("0.0.0.0:7000", &["--allow", &here.key(), "--once"]);
    let receiver = paths.server.run(receive).unwrap();
    let file = here.file("file", bytes);
    let mut command = here.command(&["send", "--accept-new", RELAY, &file, "--json", "--retry", "0s"]);
    command.args(["--via", "path0,path1", "--bond"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let sender = paths.client.run(|| command.spawn().unwrap()).unwrap();
    change(&paths);
    let seconds = has_arrived(sender, &file, &there.path("out/file"));
    eprintln!("{links:?}: {bytes} bytes in {seconds:.1} s, {:.1} Mb/s", bytes as f64 * 8e-6 / seconds);
    assert_eq!(receiver.end().0, Some(0));
    for (relay, _) in paths.relays {
        let (engine, _) = relay.stop().unwrap();
        // More than a handshake.
        assert!(engine.stats(Direction::Up).delivered_bytes > 100_000);
    }
}

fn links() -> ([&'static str; 2], usize) {
    if is_long() {
        return (["--rate 40mbit --rtt 600ms --queue 1bdp", "--rate 20mbit --rtt 50ms --queue 1bdp"], 1_000_000_000);
    }
    (["--rate 40mbit --rtt 100ms --queue 1bdp", "--rate 20mbit --rtt 20ms --queue 1bdp"], 20_000_000)
}

#[test]
fn a_transfer_uses_all_paths() {
    let (links, bytes) = links();
    send_over(links, bytes, |_| ());
}

/// The first path ends when about half has been sent.
#[test]
fn a_bonded_transfer_survives_the_end_of_a_path() {
    let (links, bytes) = links();
    send_over(links, bytes, |paths| {
        sleep(Duration::from_secs_f64(bytes as f64 * 8.0 / 60e6 / 2.0));
        paths.client.run(|| ip("link set path0 down")).unwrap();
    });
}

#[test]
fn a_receiver_of_one_transfer_takes_all_connections_of_a_bond() {
    let (there, here) = (Machine::new(), Machine::new());
    let file = here.file("file", 3_000_000);
    let receiver = there.receive(&["--once", "--allow", &here.key()]);
    let sent = here.send(&receiver, &["--via", "127.0.0.1,127.0.0.1", "--bond", &file]);
    let said = String::from_utf8_lossy(&sent.stderr);
    assert!(sent.status.success() && !said.contains("without this path"), "{said}");
    assert_eq!(receiver.end().0, Some(0));
    assert!(std::fs::read(there.path("out/file")).unwrap() == std::fs::read(&file).unwrap());
}

/// The other path begins at once, so that its receiver does not wait in vain, and the user learns of the silent one.
#[test]
fn a_path_that_swallows_everything_is_left_out() {
    for (silent, expected) in [(1, "sending without this path"), (0, "trying the next path")] {
        if !needs::programs(&["nft"]) {
            return;
        }
        let Some(paths) = Paths::new(links().0) else { return };
        let hole = "table inet hole { chain in { type filter hook input priority 0; drop; }; }";
        paths.relays[silent].1.run(|| run("nft", &[hole])).unwrap();
        let (there, here) = (Machine::new(), Machine::new());
        let receive = || there.receive_at("0.0.0.0:7000", &["--allow", &here.key(), "--timeout", "5"]);
        let _receiver = paths.server.run(receive).unwrap();
        let file = here.file("file", 8_000_000);
        let mut command = here.command(&["send", "--accept-new", RELAY, &file, "--timeout", "6", "--limit", "8M"]);
        command.args(["--via", "path0,path1", "--bond", "--retry", "0s"]);
        let sent = paths.client.run(|| command.output().unwrap()).unwrap();
        let said = String::from_utf8_lossy(&sent.stderr);
        assert!(sent.status.success() && said.contains(expected), "{silent}: {said}");
        assert!(std::fs::read(there.path("out/file")).unwrap() == std::fs::read(&file).unwrap());
    }
}

/// Connections that join a bond, or are too late for it, have no results of their own.
#[test]
fn the_receiver_says_once_what_has_come_over_several_connections() {
    let (there, here) = (Machine::new(), Machine::new());
    let receiver = there.receive(&["--json", "--allow", &here.key()]);
    for len in [1, 3_000_000, 2, 3] {
        let file = here.file(&format!("file{len}"), len);
        let sent =
            here.run(&["send", "--accept-new", &receiver.address, &file, "--via", "127.0.0.1,127.0.0.1", "--bond"]);
        assert!(sent.status.success(), "{sent:?}");
    }
    receiver.signal("-TERM");
    let (_, said, output) = receiver.end();
    let files: Vec<_> = json_lines(&output).iter().filter_map(|line| line["files"].as_u64()).collect();
    assert_eq!(files, [1; 4], "{said}");
}

#[test]
fn a_bond_needs_several_paths_and_keys() {
    let here = Machine::new();
    for (options, expected) in [
        (&["--via", "127.0.0.1"][..], "--bond needs more than one --via"),
        (&["--via", "127.0.0.1,127.0.0.1", "--plaintext"], "only the keys of an encrypted connection"),
        (&[], "--via"),
    ] {
        let said = failed(&here.run(&[&["send", "127.0.0.1:9", "/etc/hostname", "--bond"], options].concat()), 2);
        assert!(said.contains(expected), "{options:?}: {said}");
    }
}
