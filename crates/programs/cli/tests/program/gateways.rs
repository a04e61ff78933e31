//! A group of gateways behind a load balancer without memory: a router whose multipath route hashes addresses and ports, so
//! that each change of the group sends a part of the live tunnels to other gateways. Needs root.
//!
//! One namespace is the balancer; each gateway and each forwarder has its own. The service address 10.99.0.1 is on the
//! loopback interface of every gateway. `LONGHAUL_LONG` makes 2,000 tunnels instead of 60, or as many as
//! `LONGHAUL_TUNNELS` says.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use longhaul_linkem::relay::{Options, Running};
use longhaul_netns::{NetNs, veth};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{sleep, timeout};

use crate::machine::{Machine, Receiver};
use crate::relay;

const SERVICE: &str = "10.99.0.1:7443";
/// The echo server, at the balancer.
const TARGET: &str = "10.97.0.1:9000";
/// Number of gateways with a namespace, of which the last one is added during the test.
const GATEWAYS: usize = 4;

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn ip(arguments: &str) {
    run("ip", &arguments.split(' ').collect::<Vec<_>>());
}

fn setting(name: &str, value: &str) {
    fs::write(format!("/proc/sys/net/ipv4/{name}"), value).unwrap();
}

/// A router with a network 10.98.NET.0/24 for each gateway (from 1) and each forwarder (from 101).
struct Network {
    balancer: NetNs,
    gateways: Vec<NetNs>,
    clients: Vec<NetNs>,
}

impl Network {
    fn new(clients: usize) -> Option<Self> {
        if !needs::veth() || !needs::program("ip") {
            return None;
        }
        let balancer = NetNs::anonymous().unwrap();
        let node = |net: usize| {
            let node = NetNs::anonymous().unwrap();
            let [near, far] = [1, 2].map(|host| Ipv4Addr::new(10, 98, net as u8, host));
            veth::join((&balancer, &format!("to{net}"), near), (&node, "out", far)).unwrap();
            node.run(|| {
                ip(&format!("route add default via 10.98.{net}.1"));
                setting("conf/all/rp_filter", "0");
                setting("conf/out/rp_filter", "0");
            })
            .unwrap();
            node
        };
        let gateways: Vec<_> = (1..=GATEWAYS).map(node).collect();
        let clients = (101..=100 + clients).map(node).collect();
        gateways.iter().for_each(|gateway| gateway.run(|| ip("addr add 10.99.0.1/32 dev lo")).unwrap());
        balancer
            .run(|| {
                setting("ip_forward", "1");
                setting("fib_multipath_hash_policy", "1");
                ip("addr add 10.97.0.1/32 dev lo");
            })
            .unwrap();
        Some(Self { balancer, gateways, clients })
    }

    /// Divides the service among these gateways, counted from 1.
    fn balance(&self, gateways: &[usize]) {
        let hops: Vec<_> = gateways.iter().map(|net| format!("nexthop via 10.98.{net}.2")).collect();
        self.balancer.run(|| ip(&format!("route replace 10.99.0.1/32 {}", hops.join(" ")))).unwrap();
    }
}

/// Returns the internal address of a gateway's process.
fn member(net: usize, generation: u16) -> String {
    format!("10.98.{net}.2:{}", 7444 + generation)
}

struct Fleet {
    network: Network,
    there: Machine,
    here: Machine,
    group: PathBuf,
}

impl Fleet {
    fn new(clients: usize) -> Option<Self> {
        let network = Network::new(clients)?;
        let (there, here) = (Machine::new(), Machine::new());
        let group = there.path("group");
        let members: Vec<_> = (1..=GATEWAYS).flat_map(|net| [member(net, 0), member(net, 1)]).collect();
        let made = there.run(&["gateway", "--group", group.to_str().unwrap(), "--create-group", &members.join(",")]);
        assert!(made.status.success(), "{made:?}");
        Some(Self { network, there, here, group })
    }

    fn gateway(&self, net: usize) -> Receiver {
        let (key, group) = (self.here.key(), self.group.to_str().unwrap());
        let mut arguments = vec!["--listen", SERVICE, "--permit", TARGET, "--allow", &key, "--group", group];
        arguments.extend(["--drain", "3600", "--max-connections", "4096", "--metrics", "127.0.0.1:0"]);
        let mut gateway = self.network.gateways[net - 1].run(|| self.there.gateway(&arguments)).unwrap();
        gateway.ignore();
        gateway
    }

    /// Returns the answer of a gateway's metrics server.
    fn get(&self, net: usize, gateway: &Receiver, path: &str) -> String {
        let address = gateway.before.split("metrics at http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
        let get = || {
            let mut client = std::net::TcpStream::connect(&address).unwrap();
            client.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            answer
        };
        self.network.gateways[net - 1].run(get).unwrap()
    }

    fn metric(&self, net: usize, gateway: &Receiver, name: &str) -> u64 {
        let text = self.get(net, gateway, "/metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{name} in {text}")).parse().unwrap()
    }

    /// Starts a forwarder, behind a link with this round-trip time.
    fn forward(&self, client: usize, rtt: &str) -> (Receiver, Running) {
        self.network.clients[client]
            .run(|| {
                let mut options = Options::new("127.0.0.1:7443".parse().unwrap(), SERVICE.parse().unwrap());
                options.clients = 2000;
                let link = relay::start(&format!("--rate 200mbit --rtt {rtt} --queue 20000p"), &options);
                let arguments = ["-L", &format!("0:{TARGET}"), "--max-connections", "1024", "--timeout", "60"];
                let mut forward = self.here.forward("127.0.0.1:7443", &arguments);
                forward.ignore();
                (forward, link)
            })
            .unwrap()
    }
}

/// Observations of the streams of all tunnels.
#[derive(Default)]
struct Seen {
    echoes: AtomicU64,
    broken: AtomicU64,
    /// Streams that work again after they were broken, with the time from the first write after the loss of their gateway.
    back: Mutex<Vec<Duration>>,
    lost_at: Mutex<Option<Instant>>,
    ends: AtomicBool,
}

/// A client of a forwarder, in its namespace.
struct Client {
    space: NetNs,
    address: SocketAddr,
}

impl Client {
    async fn connect(self: &Arc<Self>) -> std::io::Result<tokio::net::TcpStream> {
        let here = Arc::clone(self);
        let connect = move || here.space.run(|| std::net::TcpStream::connect(here.address)).unwrap();
        let stream = tokio::task::spawn_blocking(connect).await.unwrap()?;
        stream.set_nonblocking(true)?;
        tokio::net::TcpStream::from_std(stream)
    }

    /// Exchanges data over a stream until the end of the test, and over another one once that is broken.
    async fn exchange(self: Arc<Self>, seen: Arc<Seen>, nth: u64) {
        let mut broken_at = None;
        while !seen.ends.load(Ordering::Relaxed) {
            let Ok(mut stream) = self.connect().await else { continue };
            let mut round: u64 = nth << 32;
            while !seen.ends.load(Ordering::Relaxed) {
                round += 1;
                let mut data = [0; 64];
                data[..8].copy_from_slice(&round.to_be_bytes());
                let mut got = [0; 64];
                let written_at = now();
                let echoed = async {
                    stream.write_all(&data).await?;
                    stream.read_exact(&mut got).await
                };
                if timeout(Duration::from_secs(60), echoed).await.is_ok_and(|echoed| echoed.is_ok()) {
                    assert_eq!(got, data, "stream {nth}");
                    seen.echoes.fetch_add(1, Ordering::Relaxed);
                    if let Some(at) = broken_at.take() {
                        let lost_at = seen.lost_at.lock().unwrap().map_or(at, |lost_at| lost_at.max(at));
                        seen.back.lock().unwrap().push(lost_at.elapsed());
                    }
                    sleep(Duration::from_millis(if is_long() { 1000 } else { 200 })).await;
                } else {
                    if broken_at.is_none() {
                        seen.broken.fetch_add(1, Ordering::Relaxed);
                    }
                    broken_at = broken_at.or(Some(written_at));
                    break;
                }
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "programs run in real time, and the times are printed")]
fn now() -> Instant {
    Instant::now()
}

fn is_long() -> bool {
    std::env::var_os("LONGHAUL_LONG").is_some()
}

/// Returns the number of tunnels of the long run, which a machine may not carry with programs that are not optimised.
fn tunnels() -> usize {
    std::env::var("LONGHAUL_TUNNELS").map_or(2000, |tunnels| tunnels.parse().unwrap())
}

fn echo_server(network: &Network) {
    let listener = network.balancer.run(|| std::net::TcpListener::bind(TARGET).unwrap()).unwrap();
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                // A gateway may have been killed.
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
}

/// Tunnels continue while a gateway is added, another one drains, and one is replaced by a new process on its host. Those of
/// a gateway that is killed are replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tunnels_outlive_the_changes_of_a_group() {
    let (forwarders, streams) = if is_long() { (20, tunnels() / 20) } else { (4, 15) };
    let Some(fleet) = Fleet::new(forwarders) else { return };
    echo_server(&fleet.network);
    let mut gateways: Vec<_> = (1..=3).map(|net| fleet.gateway(net)).collect();
    fleet.network.balance(&[1, 2, 3]);
    // Half of the forwarders are far away.
    let rtts = ["20ms", "600ms"];
    let forwards: Vec<_> = (0..forwarders).map(|nth| fleet.forward(nth, rtts[nth % 2])).collect();
    let seen = rtts.map(|_| Arc::new(Seen::default()));
    let mut tasks = Vec::new();
    for (nth, (forward, _)) in forwards.iter().enumerate() {
        let space = fleet.network.clients[nth].run(NetNs::current).unwrap().unwrap();
        let client = Arc::new(Client { space, address: forward.address.parse().unwrap() });
        for stream in 0..streams {
            let number = (nth * streams + stream) as u64;
            tasks.push(tokio::spawn(Arc::clone(&client).exchange(Arc::clone(&seen[nth % 2]), number)));
        }
    }
    let all = forwarders * streams;
    let connections = |nets: &[(usize, &Receiver)]| -> Vec<u64> {
        nets.iter().map(|(net, gateway)| fleet.metric(*net, gateway, "longhaul_connections")).collect()
    };
    let nets = |gateways: &[Receiver]| connections(&[(1, &gateways[0]), (2, &gateways[1]), (3, &gateways[2])]);
    while nets(&gateways).iter().sum::<u64>() < all as u64 {
        sleep(Duration::from_millis(100)).await;
    }
    let pause = Duration::from_secs(if is_long() { 20 } else { 4 });
    let broken = || seen.iter().map(|seen| seen.broken.load(Ordering::Relaxed)).sum::<u64>();
    let echoes = || seen.iter().map(|seen| seen.echoes.load(Ordering::Relaxed)).sum::<u64>();
    let step = async |what: &str| {
        let before = echoes();
        sleep(pause).await;
        println!("{what}: {} echoes, {} broken", echoes() - before, broken());
        assert!(echoes() > before, "{what}");
    };
    println!("tunnels of the gateways: {:?}", nets(&gateways));
    step("three gateways").await;
    assert_eq!(broken(), 0);

    gateways.push(fleet.gateway(4));
    fleet.network.balance(&[1, 2, 3, 4]);
    step("one added").await;
    assert_eq!(broken(), 0, "one added");
    let taken: u64 = (1..=3).zip(&gateways).map(|(net, it)| fleet.metric(net, it, STRAYS_TAKEN)).sum();
    assert!(taken > 0, "no tunnel has met another gateway");

    gateways[0].signal("-TERM");
    fleet.network.balance(&[2, 3, 4]);
    step("one drains").await;
    assert_eq!(broken(), 0, "one drains");
    let health = |net, gateway| fleet.get(net, gateway, "/healthz");
    assert!(health(1, &gateways[0]).starts_with("HTTP/1.1 503 ") && health(2, &gateways[1]).ends_with("ready\n"));

    let next = fleet.gateway(2);
    gateways[1].signal("-TERM");
    step("one upgraded").await;
    assert_eq!(broken(), 0, "one upgraded");

    let lost = fleet.metric(3, &gateways[2], "longhaul_connections");
    seen.iter().for_each(|seen| *seen.lost_at.lock().unwrap() = Some(now()));
    gateways[2].child.kill().unwrap();
    fleet.network.balance(&[2, 4]);
    step("one killed").await;
    while seen.iter().map(|seen| seen.back.lock().unwrap().len()).sum::<usize>() < broken() as usize {
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(broken(), lost, "the tunnels of the killed gateway, and no others");
    for (rtt, seen) in rtts.iter().zip(&seen) {
        let mut back = seen.back.lock().unwrap().clone();
        back.sort();
        let middle = back.get(back.len() / 2);
        println!(
            "{} of {rtt} were lost, back after {:?}, {middle:?} (median), {:?}",
            back.len(),
            back.first(),
            back.last()
        );
    }
    seen.iter().for_each(|seen| seen.ends.store(true, Ordering::Relaxed));
    for task in tasks {
        task.await.unwrap();
    }
    drop((next, forwards));
}

const STRAYS_TAKEN: &str = "longhaul_strays_total{what=\"taken\"}";
