//! Listeners that share an address, as on the hosts behind a load balancer, which hand their strays over.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::common::{pattern, soon};
use longhaul::{Stray, StrayHandler, StrayIntake, TcpListener, TcpSocket, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Passes strays to the other listener, on another thread, as another host would take them.
#[derive(Default)]
struct Other {
    intake: OnceLock<StrayIntake>,
    strays: AtomicU64,
    syns: AtomicU64,
    /// Strays that the other one does not know.
    unknown: Mutex<Vec<(SocketAddr, Vec<u8>)>>,
}

struct Handler(Arc<Other>);

impl StrayHandler for Handler {
    fn hand_over(&self, stray: &Stray<'_>) -> bool {
        let other = Arc::clone(&self.0);
        let Some(intake) = other.intake.get().cloned() else { return false };
        other.strays.fetch_add(1, Ordering::Relaxed);
        other.syns.fetch_add(u64::from(stray.is_syn), Ordering::Relaxed);
        let (remote, local, size, data) = (stray.remote, stray.local, stray.segment_size, stray.data.to_vec());
        tokio::spawn(async move {
            let mut copy = Stray::new(remote, local, &data);
            copy.segment_size = size;
            if !intake.accept(&copy) {
                other.unknown.lock().unwrap().push((remote, data));
            }
        });
        true
    }
}

fn listen(at: SocketAddr, other: &Arc<Other>, always_cookies: bool) -> TcpListener {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseport(true).unwrap();
    socket.share_address([7; 32], Arc::new(Handler(Arc::clone(other))));
    socket.set_always_cookies(always_cookies);
    socket.bind(at).unwrap();
    socket.listen(64).unwrap()
}

/// Two listeners with one address. The kernel chooses one by a hash of the addresses, as a balancer does.
fn two(always_cookies: bool) -> (TcpListener, TcpListener, [Arc<Other>; 2]) {
    let others = [(); 2].map(|()| Arc::new(Other::default()));
    let one = listen("0.0.0.0:0".parse().unwrap(), &others[0], always_cookies);
    let two = listen(one.local_addr().unwrap(), &others[1], always_cookies);
    assert!(others[0].intake.set(two.intake()).is_ok() && others[1].intake.set(one.intake()).is_ok());
    (one, two, others)
}

async fn connect(one: &TcpListener, two: &TcpListener) -> (TcpStream, TcpStream) {
    let to = SocketAddr::from(([127, 0, 0, 1], one.local_addr().unwrap().port()));
    let server = async {
        tokio::select! {
            accepted = one.accept() => accepted.unwrap().0,
            accepted = two.accept() => accepted.unwrap().0,
        }
    };
    let (client, server) = soon(async { tokio::join!(TcpStream::connect(to), server) }).await;
    (client.unwrap(), server)
}

async fn exchange((client, server): &mut (TcpStream, TcpStream), len: usize) {
    let (data, mut got) = (pattern(len), vec![0; len]);
    let (wrote, read) = soon(async { tokio::join!(client.write_all(&data), server.read_exact(&mut got)) }).await;
    wrote.unwrap();
    read.unwrap();
    assert!(got == data);
    let (wrote, read) = soon(async { tokio::join!(server.write_all(&data), client.read_exact(&mut got)) }).await;
    wrote.unwrap();
    read.unwrap();
    assert!(got == data);
}

/// A third listener takes a part of the connections' segments away, and its end gives them back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_continue_while_their_segments_reach_the_other_listener() {
    for always_cookies in [false, true] {
        let others = [(); 2].map(|()| Arc::new(Other::default()));
        let one = listen("0.0.0.0:0".parse().unwrap(), &others[0], always_cookies);
        assert!(others[1].intake.set(one.intake()).is_ok());
        let to = SocketAddr::from(([127, 0, 0, 1], one.local_addr().unwrap().port()));
        let mut pairs = Vec::new();
        for _ in 0..20 {
            let (client, server) = soon(async { tokio::join!(TcpStream::connect(to), one.accept()) }).await;
            pairs.push((client.unwrap(), server.unwrap().0));
        }
        let two = listen(one.local_addr().unwrap(), &others[1], always_cookies);
        assert!(others[0].intake.set(two.intake()).is_ok());
        for pair in &mut pairs {
            exchange(pair, 300_000).await;
        }
        // With probability 2^-20, none of twenty goes to the second one.
        assert!(others[1].strays.load(Ordering::Relaxed) > 0);
        assert_eq!((one.info().resets_sent, two.info().resets_sent), (0, 0));
        // A listener that is dropped accepts nothing more. SYNs that reach its socket are accepted by the other one.
        drop(one);
        for _ in 0..20 {
            let client = soon(async { tokio::join!(TcpStream::connect(to), two.accept()) }).await;
            pairs.push((client.0.unwrap(), client.1.unwrap().0));
        }
        assert!(others[0].syns.load(Ordering::Relaxed) > 0);
        for pair in &mut pairs {
            exchange(pair, 10_000).await;
        }
        assert_eq!(two.info().resets_sent, 0);
    }
}

/// A stray of an unknown connection is handed over once, and answered with a reset only if it is refused.
#[tokio::test]
async fn what_nobody_knows_is_handed_over_once() {
    let (one, two, others) = two(false);
    let pair = connect(&one, &two).await;
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.set_nonblocking(true).unwrap();
    let to = pair.0.peer_addr().unwrap();
    let from = stranger.local_addr().unwrap();
    // An ACK of 9 with the sequence number 5, without options.
    let ack = [0x50, 0x10, 1, 0, 0, 0, 0, 5, 0, 0, 0, 9];
    stranger.send_to(&ack, to).unwrap();
    let unknown = || others.iter().map(|other| other.unknown.lock().unwrap().len()).sum::<usize>();
    soon(async {
        while unknown() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!((unknown(), one.info().resets_sent + two.info().resets_sent), (1, 0));
    one.intake().refuse(&Stray::new(from, Some(to.ip()), &ack));
    assert_eq!(one.info().resets_sent, 1);
    // A family that the socket does not have is refused without an effect.
    let six = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 9));
    one.intake().refuse(&Stray::new(six, None, &ack));
    one.intake().refuse(&Stray::new(from, Some(six.ip()), &ack));
    assert_eq!((one.info().resets_sent, one.info().stray_segments), (1, 1));
}
