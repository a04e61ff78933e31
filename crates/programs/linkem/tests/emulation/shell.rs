//! Tests of commands behind the link. They need namespaces and TUN devices.
//!
//! The commands behind the link are the ignored tests at the end of this file, run with this same program.
#![expect(clippy::disallowed_methods, reason = "tests of real time")]

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::behind::{LINKEM, behind, shell, text};
use longhaul_sys::linux::{RecvBatch, UdpSocket};
use longhaul_sys::pool::RecvPool;
use socket2::{Domain, Protocol, Socket, Type};

/// Timeout, longer than any step takes even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Number and length of the datagrams that may be merged.
const DATAGRAMS: usize = 20;
const LEN_OF_ONE: usize = 1000;

/// Accepts the next client, with timeouts for its connection and its data.
fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    listener.set_nonblocking(true)?;
    let began = Instant::now();
    let stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if error.kind() != ErrorKind::WouldBlock || began.elapsed() > PATIENCE => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

#[test]
fn exit_codes_are_the_commands() {
    if !needs::tun() {
        return;
    }
    let table: [(&[&str], i32); 6] = [
        (&["true"], 0),
        (&["sh", "-c", "exit 7"], 7),
        (&["sh", "-c", "kill -TERM $$"], 128 + 15),
        (&["sh", "-c", "kill -KILL $$"], 128 + 9),
        (&["/no/such/program"], 127),
        (&["/etc"], 126),
    ];
    for (command, code) in table {
        let output = shell("--rtt 1ms", command).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{command:?}: {}", text(&output.stderr));
    }
    let output = shell("--rtt 1ms", &["cat"]).stdin(Stdio::piped()).spawn().and_then(|mut child| {
        child.stdin.take().unwrap().write_all(b"through")?;
        child.wait_with_output()
    });
    assert_eq!(text(&output.unwrap().stdout), "through");
}

#[test]
fn a_ping_takes_the_round_trip_time() {
    if !needs::tun() {
        return;
    }
    let output = behind("--rate 100mbit --rtt 150ms", "behind_the_link_a_ping", 0);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let millis = out.lines().find_map(|line| line.split_once("least ")).unwrap().1.trim().parse::<f64>().unwrap();
    assert!(millis >= 150.0, "{millis} ms");
    // Four pings of 108 bytes, and no other packet.
    assert!(err.contains("up: 4 packets, 432 bytes in; 4 packets, 432 bytes out; 0 inside"), "{err}");
    assert!(err.contains("down: 4 packets, 432 bytes in"), "{err}");
}

#[test]
fn a_ping_passes_in_ipv6_and_nothing_else_does() {
    if !needs::tun() || !needs::ipv6() {
        return;
    }
    let output = behind("--rate 100mbit --rtt 150ms", "behind_the_link_a_ping_in_ipv6", 0);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let millis = out.lines().find_map(|line| line.split_once("least ")).unwrap().1.trim().parse::<f64>().unwrap();
    assert!(millis >= 150.0, "{millis} ms");
    // Four pings of 128 bytes: no neighbour or router discovery, and no multicast groups joined.
    assert!(err.contains("up: 4 packets, 512 bytes in; 4 packets, 512 bytes out; 0 inside"), "{err}");
    assert!(err.contains("down: 4 packets, 512 bytes in"), "{err}");
    assert!(err.contains("the outside is at 198.18.") && err.contains(" and 2001:2:"), "{err}");
}

#[test]
fn a_forwarding_host_sends_nothing_either() {
    if !needs::tun() || !needs::ipv6() {
        return;
    }
    // With forwarding enabled, the kernel reports its membership in the all-routers group at once.
    let on = "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding";
    let script = format!("{on} && exec {LINKEM} shell --rtt 1ms -- sh -c 'echo $LONGHAUL_OUTSIDE6; sleep 0.3'");
    let output = shell("--rtt 1ms", &["sh", "-c", &script]).output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out.starts_with("2001:2:"), "{out}{err}");
    assert_eq!(err.matches("down: 0 packets").count(), 2, "{err}");
    assert_eq!(err.matches("up: 0 packets").count(), 2, "{err}");
}

#[test]
fn without_ipv6_there_are_no_ipv6_addresses() {
    if !needs::tun() || !needs::ipv6() {
        return;
    }
    // The outer shell has IPv6, and disables it for the inner one.
    let off = "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6";
    let command = "echo \"$LONGHAUL_OUTSIDE6,$LONGHAUL_INSIDE6,$(cat /proc/net/if_inet6)\"";
    let script = format!("[ $LONGHAUL_INSIDE6 ] && {off} && exec {LINKEM} shell --rtt 1ms -- sh -c '{command}'");
    let output = shell("--rtt 1ms", &["sh", "-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let words: Vec<_> = said.trim().splitn(3, ',').collect();
    assert_eq!(words[..2], ["", ""], "{said}");
    assert!(!words[2].contains("link0"), "{said}");
}

const LEN: usize = 2_000_000;

fn pattern() -> Vec<u8> {
    (0..LEN as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[test]
fn the_kernels_tcp_passes_whole_and_at_the_links_rate() {
    if !needs::tun() {
        return;
    }
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let mut stream = accept(&listener).unwrap();
        let began = Instant::now();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        let took = began.elapsed();
        stream.write_all(&received).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        (received == pattern(), took)
    });
    let output = behind("--rate 20mbit --rtt 20ms --queue 2bdp --loss 0.1%", "behind_the_link_a_transfer", port);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{}{err}", text(&output.stdout));
    let (is_whole, took) = server.join().unwrap();
    assert!(is_whole);
    // 2 MB at 20 Mb/s take at least 0.8 s.
    assert!(took > Duration::from_millis(780), "{took:?}");
    // Offloads are off: no packet exceeds the MTU of 1500 bytes.
    let offered = err.lines().find_map(|line| line.strip_prefix("up: ")).unwrap();
    let numbers: Vec<u64> = offered.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(numbers[0] >= LEN.div_ceil(1460) as u64 && numbers[1] > LEN as u64, "{err}");
    assert!(!err.contains("lost before") && !err.contains("lost after"), "{err}");
}

#[test]
fn the_commands_last_bytes_arrive() {
    if !needs::tun() {
        return;
    }
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let mut received = Vec::new();
        accept(&listener)?.read_to_end(&mut received).map(|_| received)
    });
    let output = behind("--rtt 400ms", "behind_the_link_a_word", port);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    // Data and FIN arrive, although the command does not wait for them.
    assert_eq!(server.join().unwrap().unwrap(), b"farewell");
}

/// The device outside holds datagrams for others only if it is told to.
#[test]
fn the_outside_merges_datagrams_if_asked() {
    if !needs::tun() {
        return;
    }
    for (link, merges) in [("--rtt 1ms", false), ("--rtt 1ms --receive-hold 3ms", true)] {
        let socket = UdpSocket::new(std::net::UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        let output = behind(link, "behind_the_link_datagrams", socket.local_addr().port());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let (mut batch, mut merged, mut bytes) = (RecvBatch::new(&RecvPool::new(64, 64), 8), 0, 0);
        while bytes < DATAGRAMS * LEN_OF_ONE {
            match socket.recv(&mut batch) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                received => drop(received.unwrap()),
            }
            bytes += batch.messages().map(|message| message.meta.len).sum::<usize>();
            merged += batch.messages().filter(|message| message.meta.coalesced()).count();
        }
        assert_eq!(merged > 0, merges, "{link}: {merged}");
    }
}

#[test]
fn several_at_once_have_addresses_of_their_own_and_one_may_be_in_another() {
    if !needs::tun() {
        return;
    }
    let script = "echo $LONGHAUL_OUTSIDE; cat";
    let mut shells: Vec<_> =
        (0..3).map(|_| shell("--rtt 1ms", &["sh", "-c", script]).stdin(Stdio::piped()).spawn().unwrap()).collect();
    let mut outsides: Vec<_> = shells.iter_mut().map(|shell| line(shell).trim().parse::<Ipv4Addr>().unwrap()).collect();
    outsides.sort_unstable();
    outsides.dedup();
    assert_eq!(outsides.len(), 3);
    for shell in shells {
        // The command's input has ended.
        assert!(shell.wait_with_output().unwrap().status.success());
    }
    let nested = format!("echo $LONGHAUL_OUTSIDE; {LINKEM} shell --rtt 1ms -- sh -c 'echo $MAHIMAHI_BASE; exit 3'");
    let output = shell("--rtt 1ms", &["sh", "-c", &nested]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let out = text(&output.stdout);
    let addresses: Vec<_> = out.lines().collect();
    assert!(addresses.len() == 2 && addresses[0] != addresses[1], "{out}");
}

fn line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line
}

/// Traces of a shell that are visible outside: device, namespaces and processes.
struct Traces {
    device: String,
    namespace: String,
    marker: String,
}

impl Traces {
    /// Reads the traces of a shell that runs [`leaver`].
    fn of(shell: &mut Child, marker: &str) -> Self {
        let line = line(shell);
        let (outside, namespace) = line.trim().split_once(' ').unwrap();
        let first = Ipv4Addr::new(198, 18, 0, 0).to_bits();
        let number = (outside.parse::<Ipv4Addr>().unwrap().to_bits() - first) / 4;
        Self { device: format!("linkem{number}"), namespace: namespace.to_owned(), marker: marker.to_owned() }
    }

    fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        if fs::read_to_string("/proc/net/dev").unwrap().contains(&format!("{}:", self.device)) {
            left.push(self.device.clone());
        }
        let addresses = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
        if addresses.lines().any(|line| line.ends_with(&format!(" {}", self.device))) {
            left.push(format!("addresses of {}", self.device));
        }
        for entry in fs::read_dir("/proc").unwrap() {
            let path = entry.unwrap().path();
            let is_in = |file: &str| {
                fs::read_link(path.join(file)).is_ok_and(|link| link.to_str() == Some(self.namespace.as_str()))
            };
            let command = fs::read(path.join("cmdline")).unwrap_or_default();
            if is_in("ns/net") || text(&command).contains(&self.marker) {
                left.push(format!("{} {}", path.display(), text(&command)));
            }
        }
        left
    }

    fn gone(&self) -> Result<(), Vec<String>> {
        let began = Instant::now();
        loop {
            match self.left() {
                left if left.is_empty() => return Ok(()),
                left if began.elapsed() > PATIENCE => return Err(left),
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

/// Returns a script that leaves processes behind: one in the background, and one in its own session that ignores
/// signals.
fn leaver(marker: &str, then: &str) -> String {
    format!(
        "sleep {marker} & (trap '' TERM INT HUP; setsid sleep {marker} </dev/null >/dev/null 2>&1 &) ; \
         echo $LONGHAUL_OUTSIDE $(readlink /proc/self/ns/net); {then}"
    )
}

#[test]
fn nothing_is_left_behind_however_it_ends() {
    if !needs::tun() {
        return;
    }
    let ends = [
        ("", "exit 5", Some(5)),
        ("-TERM", "wait", Some(128 + 15)),
        ("-INT", "wait", Some(128 + 15)),
        ("-HUP", "wait", Some(128 + 15)),
        // A command that ignores the signal is killed after 2 s.
        ("-TERM", "trap '' TERM; while :; do sleep 0.1; done", Some(128 + 15)),
        ("-KILL", "wait", None),
    ];
    for ((signal, then, code), number) in ends.into_iter().zip(1..) {
        let marker = format!("{number}0{}.5", std::process::id());
        let mut shell = shell("--rate 1mbit --rtt 100ms", &["sh", "-c", &leaver(&marker, then)])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let traces = Traces::of(&mut shell, &marker);
        if !signal.is_empty() {
            let before = traces.left();
            assert!(before.len() >= 5, "device, linkem, init, sh and sleeps are found: {before:?}");
            assert!(Command::new("kill").args([signal, &shell.id().to_string()]).status().unwrap().success());
        }
        let status = shell.wait().unwrap();
        assert_eq!(status.code(), code, "{signal} {then}");
        assert_eq!(traces.gone(), Ok(()), "{signal} {then}");
    }
}

#[test]
fn without_root_it_says_so() {
    if !needs::root() || !needs::program("setpriv") {
        return;
    }
    // The other user may not see the place where the program was built.
    let copy = std::env::temp_dir().join(format!("linkem-{}", std::process::id()));
    fs::copy(LINKEM, &copy).unwrap();
    let mut plain = Command::new("setpriv");
    plain.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy).args(["shell", "--", "true"]);
    let output = plain.output();
    fs::remove_file(copy).unwrap();
    let output = output.unwrap();
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("only root may") && err.contains("use sudo, or the relay"), "{err}");
}

/// Returns the outside's address if this process runs behind a link.
fn outside<A: std::str::FromStr>(variable: &str) -> Option<A> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
#[ignore = "runs behind a link, for another test"]
fn behind_the_link_a_ping() {
    if let Some(outside) = outside::<Ipv4Addr>("LONGHAUL_OUTSIDE") {
        pings(outside.into());
    }
}

#[test]
#[ignore = "runs behind a link, for another test"]
fn behind_the_link_a_ping_in_ipv6() {
    if let Some(outside) = outside::<Ipv6Addr>("LONGHAUL_OUTSIDE6") {
        pings(outside.into());
    }
}

fn pings(outside: IpAddr) {
    let (domain, protocol) = match outside {
        IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
        IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
    };
    let socket = Socket::new(domain, Type::RAW, Some(protocol)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect(&SocketAddr::from((outside, 0)).into()).unwrap();
    let least = (0..4_u8).map(|number| ping(&socket, outside, number)).min().unwrap();
    println!("least {}", least.as_secs_f64() * 1e3);
}

/// Sends an echo request (RFC 792, RFC 4443) with 80 bytes after its header, and returns the round-trip time.
fn ping(socket: &Socket, outside: IpAddr, number: u8) -> Duration {
    // The kernel returns IPv4 replies with their IP header. For IPv6 it omits the header and computes the checksum
    // itself.
    let (kind, reply) = if outside.is_ipv4() { (8, 20 + 88) } else { (128, 88) };
    let mut request = [0; 88];
    request[0] = kind;
    request[7] = number;
    // All other words are zero, so the checksum is the complement of the sum of two words.
    let checksum = !(u16::from_be_bytes([kind, 0]) + u16::from(number));
    request[2..4].copy_from_slice(&checksum.to_be_bytes());
    let began = Instant::now();
    socket.send(&request).unwrap();
    loop {
        // Other packets differ in length.
        match (&mut &*socket).read(&mut [0; 200]) {
            Ok(len) if len == reply => return began.elapsed(),
            Err(error) if error.kind() != ErrorKind::Interrupted => panic!("{error}"),
            _ => {}
        }
    }
}

#[test]
#[ignore = "runs behind a link, for another test"]
fn behind_the_link_a_transfer() {
    let Some(outside) = outside::<Ipv4Addr>("MAHIMAHI_BASE") else { return };
    let port: u16 = std::env::var("TEST_PORT").unwrap().parse().unwrap();
    let mut stream = TcpStream::connect((outside, port)).unwrap();
    let sent = pattern();
    stream.write_all(&sent).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut echo = Vec::new();
    stream.read_to_end(&mut echo).unwrap();
    assert!(echo == sent);
}

#[test]
#[ignore = "runs behind a link, for another test"]
fn behind_the_link_datagrams() {
    let Some(outside) = outside::<Ipv4Addr>("LONGHAUL_OUTSIDE") else { return };
    let port: u16 = std::env::var("TEST_PORT").unwrap().parse().unwrap();
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    for _ in 0..DATAGRAMS {
        socket.send_to(&[7; LEN_OF_ONE], (outside, port)).unwrap();
    }
}

#[test]
#[ignore = "runs behind a link, for another test"]
fn behind_the_link_a_word() {
    let Some(outside) = outside::<Ipv4Addr>("LONGHAUL_OUTSIDE") else { return };
    let port: u16 = std::env::var("TEST_PORT").unwrap().parse().unwrap();
    TcpStream::connect((outside, port)).unwrap().write_all(b"farewell").unwrap();
}
