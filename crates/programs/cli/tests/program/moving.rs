//! Transfers and tunnels whose client moves: behind a NAT that forgets its bindings, and to other addresses. Three network
//! namespaces, `client` - `nat` - `server`; needs root and `nft`.
//!
//! With `LONGHAUL_LONG`, the tests of transfers together with tunnels have 100 changes.

mod bond;
mod spare;
mod stall;

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::path::Path as FilePath;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

use longhaul_netns::{NetNs, veth};

use crate::forward::{contents, echo, listen};
use crate::machine::{Machine, Receiver, json_lines};

/// Name of the server, with an address of each family, and the address of the first.
const NAME: &str = "far:7000";
const HOSTS: &str = "127.0.0.1 localhost\n10.97.2.2 far\nfd97:2::2 far\n";
const SERVER: &str = "10.97.2.2:7000";
const NAT: &str =
    "table ip nat { chain post { type nat hook postrouting priority srcnat; oifname out2 masquerade fully-random; }; }";
/// Rules of the router: every 20th packet is lost, or all.
const LOSS: &str =
    "table inet lossy { chain pass { type filter hook forward priority 0; numgen random mod 20 0 drop; }; }";
const OUTAGE: &str = "table inet cut { chain pass { type filter hook forward priority 0; drop; }; }";

/// Client, NAT and server. On link NET, the near end is 10.97.NET.1 and the far end 10.97.NET.2, and the same with
/// fd97:NET::1 and fd97:NET::2, except that the client has no IPv6 address at first.
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

fn is_long() -> bool {
    std::env::var_os("LONGHAUL_LONG").is_some()
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

    /// Adds IPv6 to all links but the client's. Returns `None` if there is no IPv6 here.
    fn with_ipv6() -> Option<Self> {
        let path = Self::new().filter(|_| needs::ipv6() && needs::mounts())?;
        let routes = |commands: &'static [&str]| move || commands.iter().for_each(|command| ip(command));
        let router = ["-6 addr add fd97:1::2/64 dev in1 nodad", "-6 addr add fd97:2::1/64 dev out2 nodad"];
        path.nodes[1]
            .run(|| {
                // `forget` sets an interface down.
                let setting = |name: &str| fs::write(format!("/proc/sys/net/ipv6/conf/{name}"), "1").unwrap();
                setting("all/forwarding");
                setting("out2/keep_addr_on_down");
                router.iter().for_each(|command| ip(command));
            })
            .unwrap();
        let server = routes(&["-6 addr add fd97:2::2/64 dev in2 nodad", "-6 route add default via fd97:2::1"]);
        path.nodes[2].run(server).unwrap();
        Some(path)
    }

    /// Makes the NAT forget all bindings, which it does when its outer interface goes down.
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

    /// Replaces the client's addresses by one of a family.
    fn readdress(&self, is_ipv6: bool, host: usize) {
        let add = if is_ipv6 {
            [
                format!("-6 addr add fd97:1::{host}/64 dev out1 nodad"),
                "-6 route replace default via fd97:1::2".to_owned(),
            ]
        } else {
            [format!("addr add 10.97.1.{host}/24 dev out1"), "route add default via 10.97.1.2".to_owned()]
        };
        self.nodes[0]
            .run(|| {
                ip("-4 addr flush dev out1");
                ip("-6 addr flush dev out1 scope global");
                add.iter().for_each(|command| ip(command));
            })
            .unwrap();
    }

    /// Applies a rule of the router for a time.
    fn filter(&self, rules: &str, time: Duration) {
        let table = rules.split(' ').nth(2).unwrap();
        self.nodes[1].run(|| run("nft", &[rules])).unwrap();
        sleep(time);
        self.nodes[1].run(|| run("nft", &[&format!("delete table inet {table}")])).unwrap();
    }

    fn receive(&self, there: &Machine, options: &[&str]) -> Receiver {
        self.nodes[2].run(|| there.receive_at("[::]:7000", options)).unwrap()
    }

    /// Starts a program of the client, which knows the server's name.
    fn start(&self, here: &Machine, arguments: &[&str]) -> Child {
        let hosts = here.path("hosts");
        fs::write(&hosts, HOSTS).unwrap();
        let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
        let program = here.command(arguments);
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]).arg(&hosts).arg(program.get_program()).args(program.get_args());
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.nodes[0].run(|| command.spawn().unwrap()).unwrap()
    }
}

/// Sends a file while `change` acts every half second, and compares what arrives.
fn send_over(path: Option<Path>, to: &str, changes: usize, change: impl Fn(&Path, usize)) {
    let Some(path) = path else { return };
    let (there, here) = (Machine::new(), Machine::new());
    let receiver = path.receive(&there, &["--allow", &here.key(), "--once"]);
    // Two seconds more than the changes take.
    let bytes = 40_000_000 / 8 * (2 + changes / 2);
    let file = here.file("file", bytes);
    let child = path.start(&here, &["send", "--accept-new", to, &file, "--limit", "40M", "--retry", "0s", "--json"]);
    for nth in 1..=changes {
        sleep(Duration::from_millis(500));
        change(&path, nth);
    }
    has_arrived(child, &file, &there.path("out/file"));
    assert_eq!(receiver.end().0, Some(0));
}

/// Waits for the end of a sender and compares the file with that of the receiver. Returns the sender's time in seconds.
fn has_arrived(sender: Child, file: &str, out: &FilePath) -> f64 {
    let sent = sender.wait_with_output().unwrap();
    assert!(sent.status.success(), "{sent:?}");
    let contents = fs::read(file).unwrap();
    assert!(fs::read(out).unwrap() == contents);
    let reported = json_lines(&sent.stdout);
    assert_eq!(reported[0]["blake3"].as_str(), Some(&*blake3::hash(&contents).to_hex()));
    reported[0]["seconds"].as_f64().unwrap()
}

#[test]
fn a_transfer_outlives_the_bindings_of_a_nat() {
    send_over(Path::new(), SERVER, 6, |path, _| path.forget());
}

#[test]
fn a_transfer_follows_the_address_of_its_host() {
    send_over(Path::new(), SERVER, 6, |path, nth| path.renumber(nth));
}

#[test]
fn a_transfer_outlives_changes_of_both() {
    send_over(Path::new(), SERVER, 6, |path, nth| {
        path.forget();
        path.renumber(nth);
    });
}

#[test]
fn a_transfer_continues_over_the_other_address_family() {
    send_over(Path::with_ipv6(), NAME, 6, |path, nth| path.readdress(nth % 2 == 1, 10 + nth));
}

/// A stream through a tunnel is silent for longer than the NAT keeps a binding. What the server or the client then sends
/// arrives. With `LONGHAUL_LONG`, it is silent for ten minutes, and a binding lasts 30 s as with many NATs.
#[test]
fn an_idle_stream_outlives_the_binding_of_a_nat() {
    let Some(path) = Path::new() else { return };
    let (binding, silence) = if is_long() { ("30", 600) } else { ("2", 7) };
    let limit = || {
        for name in ["udp_timeout", "udp_timeout_stream"] {
            fs::write(format!("/proc/sys/net/netfilter/nf_conntrack_{name}"), binding).unwrap();
        }
    };
    path.nodes[1].run(limit).unwrap();
    let (there, here) = (Machine::new(), Machine::new());
    let (listener, target) = path.nodes[2].run(listen).unwrap();
    let (key, permit, local) = (here.key(), target.to_string(), format!("0:{target}"));
    let serve = || there.gateway(&["--listen", "10.97.2.2:7001", "--allow", &key, "--permit", &permit]);
    let _gateway = path.nodes[2].run(serve).unwrap();
    let forward = path.nodes[0].run(|| here.forward("10.97.2.2:7001", &["-L", &local])).unwrap();
    let client = path.nodes[0].run(|| TcpStream::connect(&forward.address).unwrap()).unwrap();
    let server = listener.accept().unwrap().0;
    for (number, (mut from, mut to)) in (0..).zip([(&server, &client), (&client, &server)]) {
        sleep(Duration::from_secs(silence));
        let (sent, mut received) = (contents(number, 5000), vec![0; 5000]);
        from.write_all(&sent).unwrap();
        to.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        to.read_exact(&mut received).unwrap();
        assert!(received == sent);
    }
}

/// A stream through a tunnel to an echo: sends a piece, compares what comes back, and waits, until `is_over`. Returns the
/// number of bytes of both directions.
fn chat(address: &str, seed: u32, is_over: &AtomicBool) -> u64 {
    let mut stream = TcpStream::connect(address).unwrap();
    // Longer than any outage.
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let (data, mut back, mut bytes) = (contents(seed, 2000), vec![0; 2000], 0);
    while !is_over.load(Ordering::Relaxed) {
        stream.write_all(&data).unwrap();
        stream.read_exact(&mut back).unwrap();
        assert!(back == data, "stream {seed}");
        bytes += 4000;
        sleep(Duration::from_millis(50));
    }
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut back).unwrap(), 0, "stream {seed}");
    bytes
}

/// Changes the path in one of five ways. Addresses are never used again.
fn change(path: &Path, nth: usize, outage: Duration) {
    let host = 10 + nth;
    match nth % 5 {
        0 => path.forget(),
        1 => path.readdress(false, host),
        2 => path.readdress(true, host),
        3 => {
            path.forget();
            path.readdress(false, host);
            path.filter(LOSS, Duration::from_secs(1));
        }
        _ => {
            path.readdress(nth.is_multiple_of(2), host);
            path.filter(OUTAGE, outage);
        }
    }
}

#[test]
fn a_transfer_and_the_streams_of_tunnels_survive_all_changes() {
    let Some(path) = Path::with_ipv6() else { return };
    let (changes, streams, bytes, outage) = if is_long() {
        (100, 50, 2_000_000_000, Duration::from_secs(10))
    } else {
        (10, 10, 60_000_000, Duration::from_secs(2))
    };
    let (there, here) = (Machine::new(), Machine::new());
    let key = here.key();
    let receiver = path.receive(&there, &["--allow", &key, "--once", "--timeout", "60"]);
    let serve = || {
        let (listener, target) = listen();
        echo(listener);
        let permit = target.to_string();
        (there.gateway(&["--listen", "[::]:7001", "--allow", &key, "--permit", &permit, "--timeout", "60"]), target)
    };
    let (_gateway, target) = path.nodes[2].run(serve).unwrap();
    let local = format!("0:{target}");
    let forward = path.start(&here, &["forward", "--accept-new", "far:7001", "-L", &local, "--timeout", "60"]);
    let forward = Receiver::new(forward).listening();
    let is_over = Arc::new(AtomicBool::new(false));
    let begin = |seed: u32| -> JoinHandle<u64> {
        let (address, is_over) = (forward.address.clone(), Arc::clone(&is_over));
        path.nodes[0].run(|| thread::spawn(move || chat(&address, seed, &is_over))).unwrap()
    };
    let mut chats: Vec<_> = (0..streams).map(begin).collect();
    let file = here.file("file", bytes);
    let send = ["send", "--accept-new", NAME, &file, "--limit", "80M", "--retry", "0s", "--timeout", "60", "--json"];
    let sender = path.start(&here, &send);
    for nth in 1..=changes {
        sleep(Duration::from_millis(1000));
        // This stream takes a tunnel, so that another one is being made during the change.
        chats.push(begin(1000 + nth as u32));
        change(&path, nth, outage);
    }
    has_arrived(sender, &file, &there.path("out/file"));
    assert_eq!(receiver.end().0, Some(0));
    is_over.store(true, Ordering::Relaxed);
    let echoed: u64 = chats.into_iter().map(|chat| chat.join().unwrap()).sum();
    eprintln!("{changes} changes: {bytes} bytes sent, {echoed} bytes in {} streams", streams as usize + changes);
}
