//! Router-assisted controllers over real sockets, through the relay and behind a shell's link, with a router of their
//! own kind and without one. The shell part needs namespaces and TUN devices.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::behind::{shell, text};
use longhaul::{TcpListener, TcpNetwork, TcpSocket};
use longhaul_link::spec::Direction::{Down, Up};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Timeout, longer than any step takes even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
const LEN: usize = 200_000;
const LINK: &str = "--rate 20mbit --rtt 20ms --queue 200p";
/// A controller, its router, and a router of another kind.
const KINDS: [(&str, &str, &str); 3] = [
    ("quick-start(rate=10000)+limited-slow-start+new-reno", "quick-start", "xcp"),
    ("rcp", "rcp(gamma=0.95)", "quick-start"),
    ("xcp", "xcp", "rcp"),
];

/// Starts a server that reads to the end and returns the number of bytes.
async fn server(listen: &str) -> (SocketAddr, JoinHandle<usize>) {
    let listener = TcpListener::bind(listen).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let reader = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await.unwrap();
        received.len()
    });
    (addr, reader)
}

/// Makes a short transfer that trusts its network's routers, and returns what the routers answered.
async fn transfer(congestion: &str, to: SocketAddr) -> TcpNetwork {
    longhaul_zoo::register().unwrap();
    let mut socket = TcpSocket::new_v4().unwrap();
    // RCP does not respond to losses; it is for controlled environments only.
    let config = socket.config().routers_answer(true).allow_unsafe_congestion(true);
    config.congestion(congestion.parse().unwrap());
    let mut stream = socket.connect(to).await.unwrap();
    stream.write_all(&vec![7; LEN]).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(stream.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    stream.info().unwrap().experiments().network.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_over_the_relay_hear_its_router_and_fail_closed_without() {
    for (congestion, own, other) in KINDS {
        for router in [Some(own), Some(other), None] {
            let options = router.map_or_else(|| LINK.to_owned(), |router| format!("{LINK} --router {router}"));
            let (addr, reader) = server("127.0.0.1:0").await;
            let relay = crate::common::relay(&options, addr);
            let network = timeout(PATIENCE, transfer(congestion, relay.local_addr())).await.unwrap();
            assert_eq!(timeout(PATIENCE, reader).await.unwrap().unwrap(), LEN, "{congestion} {router:?}");
            let (engine, _) = relay.stop().unwrap();
            let answered = engine.router_stats(Up).map(|stats| stats.answered);
            check(congestion, router == Some(own), network, answered);
            assert_eq!(engine.router_stats(Down).map_or(0, |stats| stats.answered), 0, "the server asks nothing");
        }
    }
}

/// Checks that a router of the right kind grants something and stamps every request, and that otherwise nothing is
/// granted.
fn check(congestion: &str, own: bool, network: TcpNetwork, answered: Option<u64>) {
    assert_eq!(network.refused, 0, "{congestion}: {network:?}");
    if own {
        assert!(network.granted > 0 && network.denied == 0, "{congestion}: {network:?}");
        assert!(answered.is_some_and(|answered| answered >= network.granted), "{congestion}: {network:?} {answered:?}");
    } else {
        assert!(network.granted == 0 && network.denied >= 1, "{congestion}: {network:?}");
        assert_eq!(answered.unwrap_or(0), 0, "{congestion}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_in_a_shell_hear_its_router_and_fail_closed_without() {
    if !needs::tun() {
        return;
    }
    for (congestion, own, _) in KINDS {
        for router in [true, false] {
            let options = if router { format!("{LINK} --router {own}") } else { LINK.to_owned() };
            let (addr, reader) = server("0.0.0.0:0").await;
            let this = std::env::current_exe().unwrap();
            let command =
                [this.to_str().unwrap(), "--exact", "routers::behind_the_link_a_request", "--ignored", "--nocapture"];
            let mut inside = shell(&options, &command);
            inside.env("TEST_PORT", addr.port().to_string()).env("TEST_CONGESTION", congestion);
            let output = tokio::task::spawn_blocking(move || inside.output().unwrap()).await.unwrap();
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            assert_eq!(output.status.code(), Some(0), "{congestion}: {out}{err}");
            assert_eq!(timeout(PATIENCE, reader).await.unwrap().unwrap(), LEN, "{congestion}: {out}{err}");
            let counts = numbers(&out, "network ");
            let [requests, granted, denied, refused] = counts[..] else { panic!("{congestion}: {out}{err}") };
            let answered = err.contains("router answered").then(|| numbers(&err, "  router answered ")[0]);
            let network = (requests, granted, denied, refused);
            assert_eq!(answered.is_some(), router, "{congestion}: {err}");
            assert!((granted > 0) == router && (denied > 0) != router && refused == 0, "{congestion}: {network:?}");
            assert!(answered.is_none_or(|answered| answered >= granted), "{congestion}: {network:?}, {err}");
        }
    }
}

/// Returns the numbers in the first line with this prefix.
fn numbers(text: &str, begins: &str) -> Vec<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(begins)).unwrap_or_default();
    line.split([' ', ',']).filter_map(|word| word.parse().ok()).collect()
}

#[tokio::test]
#[ignore = "runs behind a link, for another test"]
async fn behind_the_link_a_request() {
    let variable = |name: &str| std::env::var(name).ok();
    let Some(outside) = variable("LONGHAUL_OUTSIDE") else { return };
    let (outside, port): (Ipv4Addr, u16) = (outside.parse().unwrap(), variable("TEST_PORT").unwrap().parse().unwrap());
    let congestion = variable("TEST_CONGESTION").unwrap();
    let network = timeout(PATIENCE, transfer(&congestion, (outside, port).into())).await.unwrap();
    let TcpNetwork { requests, granted, denied, refused, .. } = network;
    println!("network {requests} {granted} {denied} {refused}");
}
