use std::sync::atomic::AtomicBool;
use std::sync::{LazyLock, Mutex};

use tokio::io::{AsyncReadExt, DuplexStream, duplex};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::*;
use crate::tunnel::{MAGIC, Target};

const HOUR: Duration = Duration::from_secs(3600);
/// Maximum number of bytes that two sockets buffer.
const LIMIT: usize = 256 << 10;
/// Size of the pipe that replaces the socket at the reading end, in bytes.
const SOCKET: usize = 1 << 20;

/// A forwarded connection whose peer is the other end of a pipe.
struct Pipe {
    stream: Mutex<DuplexStream>,
    failed: Notify,
    finished: AtomicBool,
}

impl Pipe {
    fn new(stream: DuplexStream) -> Arc<Self> {
        Arc::new(Self { stream: Mutex::new(stream), failed: Notify::new(), finished: AtomicBool::new(false) })
    }
}

impl Local for Arc<Pipe> {
    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        pin!(&mut *self.stream.lock().unwrap()).poll_read(cx, buf)
    }

    fn poll_write(&self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        pin!(&mut *self.stream.lock().unwrap()).poll_write(cx, data)
    }

    fn end(&self) -> io::Result<()> {
        let mut stream = self.stream.lock().unwrap();
        let ended = pin!(&mut *stream).poll_shutdown(&mut Context::from_waker(std::task::Waker::noop()));
        assert!(ended.is_ready());
        Ok(())
    }

    fn failed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.failed.notified())
    }

    fn finish(&self) {
        self.finished.store(true, Ordering::Relaxed);
    }
}

/// Returns a tunnel with stream number `stream`, and the peer's end of its connection after the start.
async fn tunnel(stream: u32) -> (Tunnel<DuplexStream>, DuplexStream) {
    tunnel_over(duplex(1024), stream).await
}

async fn tunnel_over(
    (here, mut there): (DuplexStream, DuplexStream),
    stream: u32,
) -> (Tunnel<DuplexStream>, DuplexStream) {
    there.write_all(&MAGIC).await.unwrap();
    let mut tunnel = Tunnel::start(here).await.unwrap();
    let mut magic = [0; MAGIC.len()];
    there.read_exact(&mut magic).await.unwrap();
    assert_eq!(magic, MAGIC);
    (0..stream).for_each(|_| tunnel.begin());
    (tunnel, there)
}

fn flow(idle: Duration, traffic: &Traffic) -> Flow<'_> {
    static UNLIMITED: LazyLock<Limits> = LazyLock::new(Limits::default);
    Flow { idle, limits: &UNLIMITED, traffic }
}

/// Writes until the pipe is full; returns the number of bytes.
async fn fill(to: &mut DuplexStream, part: &[u8]) -> usize {
    let mut written = 0;
    while let Ok(result) = timeout(Duration::from_secs(1), to.write(&part[written % part.len()..])).await {
        written += result.unwrap();
        assert!(written <= 2 * LIMIT, "the buffers have no limit");
    }
    written
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_that_is_not_read_stops_the_forwarded_connection() {
    let (mut tunnel, _there) = tunnel(1).await;
    let (local, mut client) = duplex(SOCKET);
    let (local, traffic) = (Pipe::new(local), Traffic::default());
    client.write_all(&vec![7; SOCKET]).await.unwrap();
    tokio::select! {
        ended = relay(&mut tunnel, Box::new(Arc::clone(&local)), flow(HOUR, &traffic)) => panic!("{ended:?}"),
        more = fill(&mut client, &[7; 512]) => assert!((1024..=LIMIT).contains(&more), "{more}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_forwarded_connection_that_is_not_read_stops_the_tunnel() {
    let (mut tunnel, mut there) = tunnel_over(duplex(SOCKET), 1).await;
    let (local, _client) = duplex(1024);
    let (local, traffic) = (Pipe::new(local), Traffic::default());
    let frames = Frame::Data(&[7; 509]).encode();
    there.write_all(&frames.repeat(SOCKET / frames.len())).await.unwrap();
    tokio::select! {
        ended = relay(&mut tunnel, Box::new(Arc::clone(&local)), flow(HOUR, &traffic)) => panic!("{ended:?}"),
        more = fill(&mut there, &frames) => assert!((1024..=LIMIT).contains(&more), "{more}"),
    }
}

#[tokio::test(start_paused = true)]
async fn resets_of_earlier_streams_and_late_answers_are_ignored() {
    let (mut tunnel, mut there) = tunnel(2).await;
    let (local, mut client) = duplex(1024);
    let (local, traffic) = (Pipe::new(local), Traffic::default());
    let reset = Frame::Reset { stream: 1, reason: Reason::Refused };
    let frames = [Frame::Pong, reset, Frame::Data(b"answer"), Frame::Bye, Frame::End];
    let bytes: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
    there.write_all(&bytes).await.unwrap();
    client.write_all(b"request").await.unwrap();
    client.shutdown().await.unwrap();
    let ended = relay(&mut tunnel, Box::new(Arc::clone(&local)), flow(HOUR, &traffic)).await.unwrap();
    assert_eq!((ended, local.finished.load(Ordering::Relaxed), tunnel.is_leaving()), (Ended::Orderly, true, true));
    drop((tunnel, local));
    let (mut got, mut sent) = (Vec::new(), Vec::new());
    client.read_to_end(&mut got).await.unwrap();
    there.read_to_end(&mut sent).await.unwrap();
    assert_eq!(got, b"answer");
    assert_eq!(sent, [Frame::Data(b"request").encode(), Frame::End.encode()].concat());
    assert_eq!((traffic.sent.into_inner(), traffic.received.into_inner()), (7, 6));
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_is_reset_after_its_time_and_a_busy_one_is_not() {
    let (mut tunnel, mut there) = tunnel(3).await;
    let (local, mut client) = duplex(1024);
    let (local, traffic) = (Pipe::new(local), Traffic::default());
    let idle = Duration::from_secs(8);
    let clock = tokio::time::sleep(Duration::ZERO).deadline();
    let peer = async {
        for _ in 0..10 {
            client.write_all(b"x").await.unwrap();
            tokio::time::sleep(idle - Duration::from_secs(1)).await;
        }
        let mut sent = vec![0; 10 * 4 + HEAD + 5];
        there.read_exact(&mut sent).await.unwrap();
        let reset = Frame::Reset { stream: 3, reason: Reason::Idle }.encode();
        assert!(sent.ends_with(&reset), "{sent:?}");
        there.write_all(&Frame::Reset { stream: 3, reason: Reason::Reset }.encode()).await.unwrap();
    };
    let (ended, ()) = tokio::join!(relay(&mut tunnel, Box::new(Arc::clone(&local)), flow(idle, &traffic)), peer);
    assert_eq!(ended.unwrap(), Ended::Here(Reason::Idle));
    assert!(!local.finished.load(Ordering::Relaxed));
    let took = tokio::time::sleep(Duration::ZERO).deadline() - clock;
    // The last byte was sent after 9 * 7 s = 63 s.
    assert!((63 + 8..=63 + 10).contains(&took.as_secs()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_end_a_reset_stream_loses_the_tunnel() {
    let (mut tunnel, mut there) = tunnel(1).await;
    let (local, _client) = duplex(1024);
    let (local, traffic) = (Pipe::new(local), Traffic::default());
    local.failed.notify_one();
    let frames = Frame::Data(&[7; 512]).encode();
    let ended = tokio::select! {
        ended = relay(&mut tunnel, Box::new(Arc::clone(&local)), flow(HOUR, &traffic)) => ended,
        () = async { loop { there.write_all(&frames).await.unwrap(); tokio::time::sleep(Duration::from_millis(1)).await; } } => unreachable!(),
    };
    assert!(matches!(ended, Err(TunnelError::Unsettled)), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn frames_that_are_not_allowed_end_the_tunnel() {
    let open = Frame::Open(Target::new("h", 1).unwrap()).encode();
    for bytes in
        [open, Frame::Ping.encode(), [Frame::End.encode(), Frame::Data(b"x").encode()].concat(), vec![99, 0, 0]]
    {
        let (mut tunnel, mut there) = tunnel(1).await;
        let (local, _client) = duplex(1024);
        let (local, traffic) = (Pipe::new(local), Traffic::default());
        there.write_all(&bytes).await.unwrap();
        let ended = relay(&mut tunnel, Box::new(Arc::clone(&local)), flow(HOUR, &traffic)).await;
        assert!(matches!(ended, Err(TunnelError::Protocol(_))), "{bytes:?}: {ended:?}");
        assert!(!local.finished.load(Ordering::Relaxed));
    }
}
