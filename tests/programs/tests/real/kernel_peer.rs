//! Linux's TCP as the peer: longhaul is on one side of the shim, and the kernel's TCP, in its own network namespace, on
//! the other. Needs root and TUN.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use longhaul::{Config, TcpInfo, TcpListener, TcpStream};
use longhaul_examples::shim::{Impairment, Routes, Shim};
use longhaul_netns::{NetNs, Tun};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

const KERNEL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1)), 9000);
/// Address of longhaul's client as seen by the kernel.
const STRANGER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2)), 7000);
const MIB: usize = 1 << 20;

type KernelStream = std::net::TcpStream;
type KernelListener = std::net::TcpListener;

/// The kernel's TCP and longhaul's, connected by the shim.
struct World {
    namespace: NetNs,
    shim: Shim,
    listener: KernelListener,
    /// Address at which longhaul's clients reach the kernel's listener.
    door: SocketAddr,
    server: TcpListener,
    config: Config,
}

impl World {
    /// Returns `None` if it cannot be made here.
    async fn new(impairment: Impairment, config: Config) -> Option<Self> {
        if !needs::tun() {
            return None;
        }
        let namespace = NetNs::anonymous().unwrap();
        let open = || -> io::Result<(Tun, KernelListener)> {
            let tun = Tun::open("kernel%d")?;
            tun.link().set_address(Ipv4Addr::new(10, 77, 0, 1), 24)?;
            tun.link().set_up()?;
            Ok((tun, KernelListener::bind(KERNEL)?))
        };
        let (tun, listener) = namespace.run(open).unwrap().unwrap();
        let server = TcpListener::bind_with("127.0.0.1:0", &config).await.unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let door = socket.local_addr().unwrap();
        let ours = server.local_addr().unwrap();
        let routes = Routes { kernel: KERNEL, stranger: STRANGER.ip(), server: Some(ours) };
        let shim = Shim::start(tun, socket, routes, impairment).unwrap();
        Some(Self { namespace, shim, listener, door, server, config })
    }

    /// Opens a connection from longhaul's side. Returns both of its ends.
    async fn connect(&self) -> (TcpStream, KernelStream) {
        let ours = TcpStream::connect_with(self.door, &self.config).await.unwrap();
        let listener = self.listener.try_clone().unwrap();
        let (theirs, _) = spawn_blocking(move || listener.accept()).await.unwrap().unwrap();
        (ours, theirs)
    }

    /// Opens a connection from the kernel's side. Returns both of its ends.
    async fn accept(&self) -> (TcpStream, KernelStream) {
        let connect = || self.namespace.run(|| KernelStream::connect(STRANGER)).unwrap().unwrap();
        let theirs = tokio::task::block_in_place(connect);
        let (ours, _) = self.server.accept().await.unwrap();
        (ours, theirs)
    }
}

/// Returns `len` bytes that do not repeat within a short distance.
fn pattern(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let words = std::iter::repeat_with(|| {
        // Knuth's MMIX generator is more random in its upper half.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 32) as u32).to_le_bytes()
    });
    words.flatten().take(len).collect()
}

fn lossy() -> Impairment {
    Impairment { loss: 0.02, reorder: 0.02, seed: 7 }
}

/// Runs blocking calls on the kernel's stream and returns the stream.
async fn theirs<R: Send + 'static>(
    mut stream: KernelStream,
    act: impl FnOnce(&mut KernelStream) -> R + Send + 'static,
) -> (KernelStream, R) {
    spawn_blocking(move || {
        let result = act(&mut stream);
        (stream, result)
    })
    .await
    .unwrap()
}

/// Sends `len` bytes in each direction, one after the other.
async fn exchange(ours: &mut TcpStream, kernel: KernelStream, len: usize) -> KernelStream {
    let data = pattern(len);
    let read = theirs(kernel, move |stream| {
        let mut data = vec![0; len];
        stream.read_exact(&mut data).map(|()| data)
    });
    let (written, (kernel, received)) = tokio::join!(ours.write_all(&data), read);
    written.unwrap();
    assert!(received.unwrap() == data, "what the kernel received is not what we sent");

    let copy = data.clone();
    let write = theirs(kernel, move |stream| stream.write_all(&copy));
    let mut received = vec![0; len];
    let (read, (kernel, written)) = tokio::join!(ours.read_exact(&mut received), write);
    written.unwrap();
    read.unwrap();
    assert!(received == data, "what we received is not what the kernel sent");
    kernel
}

/// Returns the negotiated options as reported by the kernel's `TCP_INFO`: option bits, and the two window scales.
fn kernel_options(stream: &KernelStream) -> (u8, [u8; 2]) {
    // `info` is the beginning of `struct tcp_info`, up to the window scales.
    let mut info = [0_u8; 7];
    let mut len = info.len() as libc::socklen_t;
    // SAFETY: the descriptor is open, and `info` has room for the `len` bytes that the kernel may write.
    let result = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut len)
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    (info[5], [info[6] & 0xf, info[6] >> 4])
}

/// Checks that both sides report timestamps, SACK and window scaling as in use.
fn assert_options(ours: &TcpStream, kernel: &KernelStream) {
    // TCPI_OPT_TIMESTAMPS, TCPI_OPT_SACK, TCPI_OPT_WSCALE of linux/tcp.h.
    let (options, scales) = kernel_options(kernel);
    assert_eq!(options & 0b111, 0b111, "in force by the kernel's word: {options:#b}");
    assert!(scales.iter().all(|scale| *scale > 0), "window scales {scales:?}");
    let options = info(ours).options;
    assert!(options.timestamps && options.sack && options.wscale, "{options:?}");
    assert!(!options.microseconds, "a stock peer's ticks are milliseconds");
}

fn info(ours: &TcpStream) -> TcpInfo {
    ours.info().unwrap()
}

/// Closes longhaul's side first, then the kernel's.
async fn close_ours_first(mut ours: TcpStream, kernel: KernelStream) {
    ours.shutdown().await.unwrap();
    let (kernel, end) = theirs(kernel, |stream| stream.read(&mut [0])).await;
    assert_eq!(end.unwrap(), 0);
    drop(kernel);
    assert_eq!(ours.read(&mut [0]).await.unwrap(), 0);
    ours.close().await.unwrap();
}

/// Closes the kernel's side first, then longhaul's.
async fn close_theirs_first(mut ours: TcpStream, kernel: KernelStream) {
    kernel.shutdown(Shutdown::Write).unwrap();
    assert_eq!(ours.read(&mut [0]).await.unwrap(), 0);
    let (closed, (_, end)) = tokio::join!(ours.close(), theirs(kernel, |stream| stream.read(&mut [0])));
    closed.unwrap();
    assert_eq!(end.unwrap(), 0);
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if holds() {
            return;
        }
        sleep(Duration::from_millis(5)).await;
    }
    panic!("not within 30 s: {what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn as_client() {
    let Some(world) = World::new(Impairment::default(), Config::default()).await else { return };
    let (mut ours, kernel) = world.connect().await;
    assert_options(&ours, &kernel);
    let kernel = exchange(&mut ours, kernel, 64 * MIB).await;
    close_ours_first(ours, kernel).await;
    let (ours, kernel) = world.connect().await;
    close_theirs_first(ours, kernel).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_server() {
    let Some(world) = World::new(Impairment::default(), Config::default()).await else { return };
    let (mut ours, kernel) = world.accept().await;
    assert_options(&ours, &kernel);
    let kernel = exchange(&mut ours, kernel, 64 * MIB).await;
    close_theirs_first(ours, kernel).await;
    let (ours, kernel) = world.accept().await;
    close_ours_first(ours, kernel).await;
}

/// Checks that both sides have recovered from losses, which also shows that the shim dropped packets.
fn assert_repaired(world: &World, ours: &TcpStream) {
    let stats = world.shim.stats();
    assert!(stats.lost > 100 && stats.reordered > 100, "{stats:?}");
    let info = info(ours);
    assert!(info.bytes_retrans > 0 && info.recoveries > 0, "{info:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn as_client_over_a_lossy_path() {
    let Some(world) = World::new(lossy(), Config::default()).await else { return };
    let (mut ours, kernel) = world.connect().await;
    assert_options(&ours, &kernel);
    let kernel = exchange(&mut ours, kernel, 64 * MIB).await;
    assert_repaired(&world, &ours);
    close_ours_first(ours, kernel).await;
    let (ours, kernel) = world.connect().await;
    close_theirs_first(ours, kernel).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_server_over_a_lossy_path() {
    let Some(world) = World::new(lossy(), Config::default()).await else { return };
    let (mut ours, kernel) = world.accept().await;
    assert_options(&ours, &kernel);
    let kernel = exchange(&mut ours, kernel, 64 * MIB).await;
    assert_repaired(&world, &ours);
    close_theirs_first(ours, kernel).await;
    let (ours, kernel) = world.accept().await;
    close_ours_first(ours, kernel).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_closed_by_us() {
    let Some(world) = World::new(Impairment::default(), Config::default()).await else { return };
    let (mut ours, kernel) = world.connect().await;
    ours.shutdown().await.unwrap();
    let (kernel, end) = theirs(kernel, |stream| stream.read(&mut [0])).await;
    assert_eq!(end.unwrap(), 0);
    let data = pattern(MIB);
    let copy = data.clone();
    let write = theirs(kernel, move |stream| stream.write_all(&copy).and_then(|()| stream.shutdown(Shutdown::Write)));
    let mut received = Vec::new();
    let (read, (_, written)) = tokio::join!(ours.read_to_end(&mut received), write);
    written.unwrap();
    read.unwrap();
    assert!(received == data);
    ours.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn half_closed_by_the_kernel() {
    let Some(world) = World::new(Impairment::default(), Config::default()).await else { return };
    let (mut ours, kernel) = world.accept().await;
    kernel.shutdown(Shutdown::Write).unwrap();
    assert_eq!(ours.read(&mut [0]).await.unwrap(), 0);
    let data = pattern(MIB);
    let read = theirs(kernel, |stream| {
        let mut received = Vec::new();
        stream.read_to_end(&mut received).map(|_| received)
    });
    let write = async {
        ours.write_all(&data).await?;
        ours.close().await
    };
    let (written, (_, received)) = tokio::join!(write, read);
    written.unwrap();
    assert!(received.unwrap() == data);
}

#[tokio::test(flavor = "multi_thread")]
async fn reset_by_the_kernel() {
    let Some(world) = World::new(Impairment::default(), Config::default()).await else { return };
    let (mut ours, kernel) = world.connect().await;
    SockRef::from(&kernel).set_linger(Some(Duration::ZERO)).unwrap();
    drop(kernel);
    assert_eq!(ours.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(ours.write_all(b"x").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn reset_by_us() {
    let Some(world) = World::new(Impairment::default(), Config::default()).await else { return };
    let (ours, kernel) = world.accept().await;
    ours.abort();
    let (_, read) = theirs(kernel, |stream| stream.read(&mut [0])).await;
    assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_by_the_kernel() {
    let Some(world) = World::new(Impairment::default(), Config::default()).await else { return };
    drop(world.listener);
    let error = TcpStream::connect(world.door).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kernels_window_closes() {
    let Some(world) = World::new(Impairment::default(), Config::default()).await else { return };
    SockRef::from(&world.listener).set_recv_buffer_size(64 << 10).unwrap();
    let (mut ours, kernel) = world.connect().await;
    let data = pattern(4 * MIB);
    ours.write_all(&data[..2 * MIB]).await.unwrap();
    until("the kernel's window is closed", || info(&ours).snd_wnd_bytes == 0 && info(&ours).unacked_segments == 0)
        .await;
    // This is long enough for window probes, which the kernel answers with a zero window.
    sleep(Duration::from_millis(1500)).await;
    assert_eq!(info(&ours).snd_wnd_bytes, 0);
    let len = data.len();
    let read = theirs(kernel, move |stream| {
        let mut received = vec![0; len];
        stream.read_exact(&mut received).map(|()| received)
    });
    let (written, (kernel, received)) = tokio::join!(ours.write_all(&data[2 * MIB..]), read);
    written.unwrap();
    assert!(received.unwrap() == data);
    close_ours_first(ours, kernel).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_window_closes() {
    let mut config = Config::default();
    config.recv_buffer(64 << 10).recv_buffer_max(64 << 10);
    let Some(world) = World::new(Impairment::default(), config).await else { return };
    let (mut ours, kernel) = world.accept().await;
    let data = pattern(4 * MIB);
    let copy = data.clone();
    let write = tokio::spawn(theirs(kernel, move |stream| stream.write_all(&copy)));
    until("our buffer is full", || info(&ours).unread_bytes > 60 << 10).await;
    // This is long enough for window probes of the kernel.
    sleep(Duration::from_millis(1500)).await;
    assert!(!write.is_finished(), "the kernel has sent more than our window and its own buffer hold");
    let mut received = vec![0; data.len()];
    ours.read_exact(&mut received).await.unwrap();
    assert!(received == data);
    let (kernel, written) = write.await.unwrap();
    written.unwrap();
    close_theirs_first(ours, kernel).await;
}

/// If one side does not read, its closed window must not stop data in the other direction.
#[tokio::test(flavor = "multi_thread")]
async fn the_kernel_does_not_read() {
    let Some(world) = World::new(Impairment::default(), Config::default()).await else { return };
    SockRef::from(&world.listener).set_recv_buffer_size(64 << 10).unwrap();
    let (ours, kernel) = world.connect().await;
    let (mut reader, mut writer) = tokio::io::split(ours);
    let unread = tokio::spawn(async move { writer.write_all(&pattern(16 * MIB)).await });
    // This is long enough for the window to close and for a window probe.
    sleep(Duration::from_millis(700)).await;
    let data = pattern(8 * MIB);
    let copy = data.clone();
    let write = theirs(kernel, move |stream| stream.write_all(&copy));
    let mut received = vec![0; data.len()];
    let both = async { tokio::join!(reader.read_exact(&mut received), write) };
    // If the kernel accepted no ACKs, it would send a window of data per window probe, that is, per minute.
    let (read, (_kernel, written)) = timeout(Duration::from_secs(60), both).await.expect("a stall");
    written.unwrap();
    read.unwrap();
    assert!(received == data);
    assert!(!unread.is_finished(), "the kernel has taken more than its buffer holds");
    unread.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn we_do_not_read() {
    let mut config = Config::default();
    config.recv_buffer(64 << 10).recv_buffer_max(64 << 10);
    let Some(world) = World::new(Impairment::default(), config).await else { return };
    let (mut ours, kernel) = world.accept().await;
    let writer = kernel.try_clone().unwrap();
    // This write ends with the connection.
    let unread = spawn_blocking(move || (&writer).write_all(&pattern(16 * MIB)));
    sleep(Duration::from_millis(700)).await;
    let data = pattern(8 * MIB);
    let read = theirs(kernel, |stream| {
        let mut received = vec![0; 8 * MIB];
        stream.read_exact(&mut received).map(|()| received)
    });
    let both = async { tokio::join!(ours.write_all(&data), read) };
    let (written, (kernel, received)) = timeout(Duration::from_secs(60), both).await.expect("a stall");
    written.unwrap();
    assert!(received.unwrap() == data);
    assert!(!unread.is_finished(), "the kernel has sent more than our window and its own buffer hold");
    kernel.shutdown(Shutdown::Both).unwrap();
    ours.abort();
    assert!(unread.await.unwrap().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kernel_vanishes() {
    let mut config = Config::default();
    config.user_timeout(Some(Duration::from_secs(2)));
    let Some(world) = World::new(Impairment::default(), config).await else { return };
    let (mut ours, kernel) = world.connect().await;
    let kernel = exchange(&mut ours, kernel, MIB).await;
    world.shim.cut(true);
    ours.write_all(b"is there anybody?").await.unwrap();
    let error = ours.read(&mut [0]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    drop(kernel);
}

#[tokio::test(flavor = "multi_thread")]
async fn we_vanish() {
    let Some(world) = World::new(Impairment::default(), Config::default()).await else { return };
    let (mut ours, kernel) = world.accept().await;
    let kernel = exchange(&mut ours, kernel, MIB).await;
    SockRef::from(&kernel).set_tcp_user_timeout(Some(Duration::from_secs(2))).unwrap();
    world.shim.cut(true);
    let (_, read) = theirs(kernel, |stream| {
        stream.write_all(b"is there anybody?")?;
        stream.read(&mut [0])
    })
    .await;
    assert_eq!(read.unwrap_err().kind(), ErrorKind::TimedOut);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_outage_is_survived() {
    let Some(world) = World::new(Impairment::default(), Config::default()).await else { return };
    let (mut ours, kernel) = world.connect().await;
    let kernel = exchange(&mut ours, kernel, MIB).await;
    world.shim.cut(true);
    let data = pattern(MIB);
    // With the default limit, the write would wait for the outage to end.
    ours.set_notsent_lowat(Some(u32::MAX)).unwrap();
    ours.write_all(&data).await.unwrap();
    until("we retransmit", || info(&ours).timeouts > 1).await;
    world.shim.cut(false);
    let (kernel, received) = theirs(kernel, |stream| {
        let mut received = vec![0; MIB];
        stream.read_exact(&mut received).map(|()| received)
    })
    .await;
    assert!(received.unwrap() == data);
    close_ours_first(ours, kernel).await;
}
