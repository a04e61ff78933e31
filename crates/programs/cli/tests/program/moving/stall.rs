//! Pause of a connection whose client moves to other addresses of both ends, over emulated paths.
//!
//! Two relays share a link. One reaches the server by IPv4 and the other by IPv6, so that the server sees another
//! address after each move. The test prints the times of an echo; with `LONGHAUL_LONG`, of more of them on longer paths.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use longhaul::{TcpListener, TcpStream};
use longhaul_linkem::relay::Options;
use longhaul_tls::{Identity, SecureConnector, SecureListener, SecureStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::relay;

/// Returns the time that an echo of 100 bytes takes.
#[expect(clippy::disallowed_methods, reason = "the test measures real time")]
async fn echo(stream: &mut SecureStream) -> Duration {
    let start = Instant::now();
    stream.write_all(&[7; 100]).await.unwrap();
    stream.flush().await.unwrap();
    let mut echoed = [0; 100];
    stream.read_exact(&mut echoed).await.unwrap();
    assert_eq!(echoed, [7; 100]);
    start.elapsed()
}

/// Returns the median and the 99th percentile in milliseconds.
fn percentiles(mut times: Vec<Duration>) -> [f64; 2] {
    times.sort();
    [50, 99].map(|percent| times[(times.len() * percent / 100).min(times.len() - 1)].as_secs_f64() * 1e3)
}

async fn measure(round_trip: u64, moves: usize) {
    let identity = Identity::generate().unwrap();
    let listener = TcpListener::bind("[::]:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut listener = SecureListener::new(listener, &identity, |_| true).unwrap();
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let (mut reads, mut writes) = tokio::io::split(stream);
        let mut buffer = [0; 100];
        while reads.read_exact(&mut buffer).await.is_ok() {
            writes.write_all(&buffer).await.unwrap();
            writes.flush().await.unwrap();
        }
    });
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let [v4, v6] = ["127.0.0.1", "::1"].map(|host| SocketAddr::new(host.parse().unwrap(), port));
    let relay = relay::start(&format!("--rtt {round_trip}ms"), &Options::new(local, v4).and(local, v6));
    let relays = [0, 1].map(|nth| relay.local_addrs()[nth]);
    let connector = SecureConnector::new(&Identity::generate().unwrap(), Some(identity.fingerprint())).unwrap();
    let mut stream = connector.connect(TcpStream::connect(relays[0]).await.unwrap()).await.unwrap();
    let (mut still, mut moved): (Vec<_>, Vec<_>) = Default::default();
    for nth in 1..=moves {
        still.push(echo(&mut stream).await);
        // Moves are at least 100 ms apart.
        tokio::time::sleep(Duration::from_millis(110)).await;
        stream.tcp().relocate_to(relays[nth % 2]).unwrap();
        moved.push(echo(&mut stream).await);
        let peer: SocketAddr = stream.tcp().peer_addr().unwrap();
        assert_eq!(peer, relays[nth % 2]);
    }
    drop(stream);
    serving.abort();
    let [still, moved] = [still, moved].map(percentiles);
    eprintln!(
        "{round_trip} ms, {moves} moves: an echo takes {still:.1?} ms, after a move {moved:.1?} ms (median, p99)"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_echo_after_a_move_to_other_addresses() {
    if !needs::ipv6() {
        return;
    }
    if !super::is_long() {
        return measure(20, 10).await;
    }
    for (round_trip, moves) in [(20, 200), (100, 200), (600, 100)] {
        measure(round_trip, moves).await;
    }
}
