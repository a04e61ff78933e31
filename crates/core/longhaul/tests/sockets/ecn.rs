//! CE marks on real sockets: a relay between client and server marks whole batches, as a router's queue does, and
//! forwards them as batches, so that the receiver's kernel coalesces them.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use longhaul::{Config, Congestion, TcpListener, TcpStream};
use longhaul_sys::linux::{ErrorClass, Received, RecvBatch, Transmit, UdpSocket};
use longhaul_sys::pool::RecvPool;
use longhaul_wire::{CheshireCodec, Codec, Flags};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::common::needs_system_sockets;

/// Codepoints ECT(1) and ECT(0) of the ECN field (RFC 3168, section 5).
const ECT: [u8; 2] = [1, 2];
const CE: u8 = 3;
/// The relay marks one out of this many batches with several datagrams.
const EVERY: u64 = 16;

#[derive(Default)]
struct Marks {
    datagrams: AtomicU64,
    /// Batches that contained the marked datagrams.
    batches: AtomicU64,
    /// Datagrams marked by the client itself to test whether its peer echoes marks.
    asked: AtomicU64,
    /// Segments with which the client reported a window reduction.
    reduced: AtomicU64,
    stop: AtomicBool,
}

fn bind() -> UdpSocket {
    let socket = UdpSocket::new(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
    socket.set_recv_buffer(4 << 20).unwrap();
    socket.set_send_buffer(4 << 20).unwrap();
    socket
}

/// Forwards the datagrams received on `from`, marked by `mark`, and returns their source.
fn pass(
    from: &UdpSocket,
    to: &UdpSocket,
    destination: Option<SocketAddr>,
    batch: &mut RecvBatch,
    mut mark: impl FnMut(u8, &Received<'_>) -> u8,
) -> Option<SocketAddr> {
    match from.recv(batch) {
        Ok(_) => {}
        Err(error) if ErrorClass::of(&error) == ErrorClass::WouldBlock => return None,
        Err(error) => panic!("{error}"),
    }
    let mut source = None;
    for message in batch.messages() {
        let meta = *message.meta;
        source = Some(meta.addr);
        let slices = [IoSlice::new(message.data())];
        let tos = mark(meta.tos.unwrap_or(0), &message);
        let segment_size = meta.coalesced().then_some(meta.stride as u16);
        let Some(destination) = destination.or(source) else { continue };
        let transmit = Transmit { destination: Some(destination), tos, src_ip: None, segment_size, slices: &slices };
        while let Err(error) = to.send(&transmit) {
            assert_eq!(ErrorClass::of(&error), ErrorClass::WouldBlock, "{error}");
            thread::yield_now();
        }
    }
    source
}

/// Returns whether `datagram` is a segment of an open connection with CWR set (RFC 3168, section 6.1.2).
fn says_reduced(datagram: &[u8]) -> bool {
    let (header, _) = CheshireCodec::parse(datagram).unwrap();
    header.flags.contains(Flags::CWR) && !header.flags.contains(Flags::SYN)
}

/// Starts a relay in front of `server`, and returns its address, its statistics and its thread.
fn relay(server: SocketAddr) -> (SocketAddr, Arc<Marks>, JoinHandle<()>) {
    let (front, back) = (bind(), bind());
    let address = front.local_addr();
    let marks = Arc::new(Marks::default());
    let kept = Arc::clone(&marks);
    let thread = thread::spawn(move || {
        let mut batch = RecvBatch::new(&RecvPool::new(8, 64), 4);
        let (mut client, mut several) = (None, 0);
        while !marks.stop.load(Ordering::Relaxed) {
            let up = pass(&front, &back, Some(server), &mut batch, |tos, message| {
                let datagrams = message.datagrams().count();
                let reduced = message.datagrams().filter(|datagram| says_reduced(datagram)).count();
                marks.reduced.fetch_add(reduced as u64, Ordering::Relaxed);
                several += u64::from(datagrams > 1);
                marks.asked.fetch_add(if tos & CE == CE { datagrams as u64 } else { 0 }, Ordering::Relaxed);
                if datagrams == 1 || several % EVERY != 0 || !ECT.contains(&(tos & 3)) {
                    return tos;
                }
                marks.datagrams.fetch_add(datagrams as u64, Ordering::Relaxed);
                marks.batches.fetch_add(1, Ordering::Relaxed);
                tos | CE
            });
            client = up.or(client);
            let down = client.and_then(|_| pass(&back, &front, client, &mut batch, |tos, _| tos));
            if up.is_none() && down.is_none() {
                thread::sleep(Duration::from_micros(100));
            }
        }
    });
    (address, kept, thread)
}

/// Transfers 8 MiB through the relay to a server at `listen`.
async fn marked_stream(listen: &str) -> io::Result<()> {
    const LEN: usize = 8 << 20;
    let listener = TcpListener::bind(listen).await?;
    let port = listener.local_addr()?.port();
    let (address, marks, thread) = relay(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    // CUBIC has a slow-start threshold as soon as it has reacted to a mark.
    let mut config = Config::default();
    config.congestion(Congestion::cubic());
    let (client, accepted) = tokio::join!(TcpStream::connect_with(address, &config), listener.accept());
    let (mut client, mut server) = (client?, accepted?.0);
    assert!(client.info()?.options.ecn && server.info()?.options.ecn, "both ask for ECN by default");
    let reader = tokio::spawn(async move {
        let (mut buffer, mut got) = (vec![0; 256 << 10], 0);
        loop {
            match server.read(&mut buffer).await? {
                0 => return io::Result::Ok((server, got)),
                n => got += n,
            }
        }
    });
    client.write_all(&vec![7; LEN]).await?;
    client.shutdown().await?;
    let (server, got) = reader.await.unwrap()?;
    assert_eq!(got, LEN);

    let (sender, receiver) = (client.info()?, server.info()?);
    marks.stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    let (datagrams, batches) = (marks.datagrams.load(Ordering::Relaxed), marks.batches.load(Ordering::Relaxed));
    assert!(batches > 0 && datagrams > batches, "{datagrams} marked in {batches} batches");
    if receiver.socket.kernel_drops == 0 {
        let asked = marks.asked.load(Ordering::Relaxed);
        assert_eq!(receiver.received_ce, datagrams + asked, "{asked} asked, marks of {batches} merged batches");
    }
    assert!(marks.reduced.load(Ordering::Relaxed) > 0, "the server echoes, and the client reacts: {sender:?}");
    assert!(sender.snd_ssthresh_bytes.is_some(), "{sender:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_mark_of_a_merged_batch_reaches_a_wildcard_listener() {
    if !needs_system_sockets() {
        return;
    }
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let stream = tokio::time::timeout(Duration::from_secs(60), marked_stream(listen));
        stream.await.expect("it hangs").unwrap();
    }
}
