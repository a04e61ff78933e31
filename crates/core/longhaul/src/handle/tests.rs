//! Tests that count the batches of writers.

use std::future::poll_fn;
use std::pin::Pin;
#[cfg(unix)]
use std::sync::mpsc;
use std::task::Poll;
#[cfg(unix)]
use std::thread;
use std::time::Duration;

use longhaul_cc::registry::Safety;
use longhaul_cc::{Ack, BuildParams, Control, Controller, ControllerFactory, Pace, Path, Snapshot, Timeout};
use longhaul_units::{Bytes, Rate};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::io::Io;
use crate::shared::{BATCHES_PER_TURN, BYTES_PER_TURN};
use crate::{TcpListener, TcpSocket, TcpStream};

/// Bytes per write: 45 segments and a quarter, of which a batch carries 44.
const BLOCK: usize = 64 << 10;
/// Bytes that open the peer's window.
const WARM_UP: usize = 2 << 20;
/// Congestion window: more than a test writes at once.
const WINDOW: u64 = 512 << 10;
/// Error codes of Linux.
#[cfg(target_os = "linux")]
const ENOBUFS: i32 = 105;
#[cfg(target_os = "linux")]
const EHOSTUNREACH: i32 = 113;
#[cfg(target_os = "linux")]
const EBADF: i32 = 9;

/// Connects two streams. The peer of the client has a window for several batches.
async fn warm_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (client, server) = tokio::join!(fixed_size_socket().connect(listener.local_addr().unwrap()), listener.accept());
    let (mut client, (mut server, _)) = (client.unwrap(), server.unwrap());
    let (block, mut received) = (vec![7; WARM_UP], vec![0; WARM_UP]);
    let (sent, read) = tokio::join!(client.write_all(&block), server.read_exact(&mut received));
    sent.unwrap();
    read.unwrap();
    all_acknowledged(&client).await;
    (client, server)
}

/// Returns a socket that sends segments of 1448 bytes, without the Nagle algorithm, and with a constant window.
fn fixed_size_socket() -> TcpSocket {
    let mut socket = TcpSocket::new_v4().unwrap();
    let fixed = longhaul_cc::Congestion::new(Fixed);
    socket.config().base_plpmtu(1472).max_plpmtu(1472).nodelay(true).congestion(fixed.into());
    socket
}

/// A constant window without pacing: how much is sent does not depend on when the writer gets the processor.
#[derive(Clone, Debug)]
struct Fixed;

impl ControllerFactory for Fixed {
    fn build(&self, _: &BuildParams) -> Box<dyn Controller> {
        Box::new(Self)
    }

    fn name(&self) -> String {
        "fixed".to_owned()
    }

    fn safety(&self) -> Safety {
        Safety::Internet
    }
}

impl Controller for Fixed {
    fn name(&self) -> String {
        "fixed".to_owned()
    }

    fn on_ack(&mut self, _: &Ack<'_>, _: &Path) {}

    fn on_timeout(&mut self, _: &Timeout, _: &Path) {}

    fn control(&self) -> Control {
        let mut control = Control::window(Bytes(WINDOW));
        let mut pace = Pace::new(Rate::MAX);
        pace.quantum = Some(Bytes(1 << 30));
        control.pace = Some(pace);
        control
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::new("fixed")
    }
}

/// A task that holds the lock can write a stream to its log.
#[tokio::test]
async fn debug_output_waits_for_no_lock() {
    let (client, server) = warm_pair().await;
    let shown = format!("TcpStream {{ local: {}, peer: {}", client.handle.local, client.handle.peer);
    let state = client.handle.shared.lock();
    assert_eq!(format!("{client:?}"), format!("{shown} }}"));
    drop(state);
    assert_eq!(format!("{client:?}"), format!("{shown}, state: Established }}"));
    drop(server);
}

#[tokio::test]
async fn dropped_futures_that_waited_are_forgotten() {
    let (client, server) = warm_pair().await;
    let count = |client: &TcpStream| {
        let mut state = client.handle.shared.lock();
        let mut wakers = Vec::new();
        crate::shared::slot(&mut state.waiters, client.handle.id).take_all(&mut wakers);
        drop(state);
        wakers.len()
    };
    for _ in 0..100 {
        // Each in a task of its own, as a connection pool has them.
        let mut futures = Vec::new();
        for _ in 0..10 {
            futures.push(Box::pin(client.readable()));
        }
        let mut closed = Box::pin(client.closed());
        poll_fn(|cx| {
            assert!(futures.iter_mut().all(|future| future.as_mut().poll(cx).is_pending()));
            assert!(closed.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
    }
    assert_eq!(count(&client), 0);
    let mut waiting = Box::pin(client.readable());
    assert!(poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await);
    assert_eq!(count(&client), 1, "a future that exists is not");
    drop(server);
}

/// A read does not initialize the part of the buffer that it does not fill.
#[tokio::test]
async fn a_read_does_not_touch_the_rest_of_a_large_buffer() {
    let (mut client, mut server) = warm_pair().await;
    let mut memory = vec![std::mem::MaybeUninit::uninit(); 1 << 20];
    let mut buffer = tokio::io::ReadBuf::uninit(&mut memory);
    assert!(poll_fn(|cx| Poll::Ready(Pin::new(&mut client).poll_read(cx, &mut buffer).is_pending())).await);
    assert!(buffer.initialized().len() <= 1);
    server.write_all(&[7; 100]).await.unwrap();
    client.readable().await.unwrap();
    let peeked = poll_fn(|cx| client.poll_peek(cx, &mut buffer)).await.unwrap();
    assert_eq!((peeked, buffer.initialized().len(), buffer.filled()), (100, 100, &[7; 100][..]));
    poll_fn(|cx| Pin::new(&mut client).poll_read(cx, &mut buffer)).await.unwrap();
    assert_eq!((buffer.filled(), buffer.initialized().len()), (&[7; 200][..], 200));
    client.shutdown().await.unwrap();
}

/// A buffer of the application that panics in the middle of a write.
struct Faulty(usize);

impl bytes::Buf for Faulty {
    fn remaining(&self) -> usize {
        usize::MAX
    }

    fn chunk(&self) -> &[u8] {
        &[7; 1000]
    }

    fn advance(&mut self, _: usize) {
        self.0 -= 1;
        assert!(self.0 > 0, "a fault of the application");
    }
}

/// The lock is then poisoned, which is ignored: the engine is in order wherever it calls the application's code.
#[tokio::test]
async fn a_panic_of_the_applications_buffer_concerns_its_stream_only() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut pairs = Vec::new();
    for _ in 0..2 {
        pairs.push((TcpStream::connect(address).await.unwrap(), listener.accept().await.unwrap().0));
    }
    let (mut other, mut healthy) = pairs.pop().unwrap();
    let (mut client, mut server) = pairs.pop().unwrap();
    let fault = tokio::spawn(async move { server.write_bytes(Faulty(5)).await }).await.unwrap_err();
    assert!(fault.is_panic());
    let mut received = Vec::new();
    client.read_to_end(&mut received).await.unwrap();
    assert!(received.len() >= 4000 && received.iter().all(|byte| *byte == 7), "{} bytes", received.len());
    healthy.write_all(&[9; 100_000]).await.unwrap();
    let mut received = vec![0; 100_000];
    other.read_exact(&mut received).await.unwrap();
    assert!(received.iter().all(|byte| *byte == 9));
}

/// The sockets of dropped streams wait for the peer's end, but not any number of them.
#[tokio::test]
async fn only_some_dropped_streams_keep_their_sockets() {
    const COUNT: usize = 30;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (mut clients, mut servers) = (Vec::new(), Vec::new());
    for _ in 0..COUNT {
        clients.push(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap());
        servers.push(listener.accept().await.unwrap().0);
    }
    let sockets: Vec<_> = clients.iter().map(|client| std::sync::Arc::downgrade(&client.handle.shared)).collect();
    drop(clients);
    for server in &mut servers {
        assert_eq!(server.read(&mut [0]).await.unwrap_or(0), 0, "the end, or a reset after it");
    }
    // Other tests of this process may have such sockets, too.
    let open = || sockets.iter().filter(|socket| socket.strong_count() > 0).count();
    let falls_to = async |most| {
        while open() > most {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), falls_to(8)).await.unwrap();
    assert!(open() > 0, "the peer may go on sending for those that are left");
    drop(servers);
    tokio::time::timeout(Duration::from_secs(20), falls_to(0)).await.unwrap();
}

/// Waits until all data has been acknowledged.
async fn all_acknowledged(client: &TcpStream) {
    while client.info().unwrap().in_flight_bytes > 0 {
        tokio::task::yield_now().await;
    }
}

/// Runs `task` as a task of a runtime with one thread.
fn run(task: impl Future<Output = ()> + Send + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(runtime.spawn(task)).unwrap();
}

/// Lets the tasks that are ready run, without asking the kernel for others as `yield_now` does.
async fn turn_without_the_kernel() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Blocks the thread until a datagram waits in the stream's socket.
#[cfg(unix)]
fn wait_for_datagram(client: &TcpStream) {
    let socket = client.handle.shared.io.descriptor().try_clone_to_owned().unwrap();
    let socket = std::net::UdpSocket::from(socket);
    while socket.peek(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Writes blocks without letting another task run, and returns the number of batches sent meanwhile.
async fn batches_of(client: &mut TcpStream, blocks: usize) -> usize {
    let block = vec![7; BLOCK];
    let before = batches(client);
    for _ in 0..blocks {
        write_now(client, &block).await;
    }
    batches(client) - before
}

/// Writes blocks without letting another task run, as long as there is room. Returns whether all have been written.
async fn write_blocks(client: &mut TcpStream, blocks: usize) -> bool {
    let block = vec![7; BLOCK];
    let mut left = blocks * BLOCK;
    poll_fn(|cx| {
        while left > 0 {
            let part = &block[..left.min(BLOCK)];
            let Poll::Ready(result) = Pin::new(&mut *client).poll_write(cx, part) else { break };
            left -= result.unwrap();
        }
        Poll::Ready(left == 0)
    })
    .await
}

/// Writes all of `block` without letting another task run.
async fn write_now(client: &mut TcpStream, block: &[u8]) {
    let mut written = 0;
    poll_fn(|cx| {
        let Poll::Ready(result) = Pin::new(&mut *client).poll_write(cx, block) else { panic!("no room") };
        written = result.unwrap();
        Poll::Ready(())
    })
    .await;
    assert_eq!(written, block.len());
}

/// Returns the number of batches that the stream's socket has sent.
fn batches(client: &TcpStream) -> usize {
    client.handle.shared.lock().batches
}

/// After each write that is larger than a batch, the driver would otherwise send the rest in a batch of its own.
#[tokio::test]
async fn what_a_write_leaves_over_is_sent_with_the_next_one() {
    let blocks = 3;
    let (mut client, mut server) = warm_pair().await;
    assert_eq!(batches_of(&mut client, blocks).await, blocks);
    // The remaining data is sent when the writer pauses.
    let mut received = vec![0; blocks * BLOCK];
    server.read_exact(&mut received).await.unwrap();
    assert!(received.iter().all(|&byte| byte == 7));
}

/// A writer that never waits would otherwise send up to its congestion window before an ACK is received.
#[tokio::test]
async fn a_writer_leaves_data_beyond_a_turn_to_the_driver() {
    let writer = async {
        let (mut client, mut server) = warm_pair().await;
        let before = client.info().unwrap().bytes_sent;
        write_blocks(&mut client, 2 * BYTES_PER_TURN / BLOCK).await;
        let sent = (client.info().unwrap().bytes_sent - before) as usize;
        assert!(sent <= BYTES_PER_TURN + BLOCK, "{sent} bytes");
        server.read_exact(&mut [0; BLOCK]).await.unwrap();
    };
    tokio::spawn(writer).await.unwrap();
}

/// The writer is about to have a turn too, and may have more for the same batch.
#[tokio::test]
async fn the_driver_does_not_send_the_end_of_what_a_busy_writer_has_left() {
    let writer = async {
        let (written, batch) = (2 * BYTES_PER_TURN, 44 * 1448);
        let (mut client, _server) = warm_pair().await;
        assert!(write_blocks(&mut client, written / BLOCK).await);
        let unsent = || client.info().unwrap().notsent_bytes as usize;
        turn_without_the_kernel().await;
        assert_eq!(unsent(), written % batch);
        turn_without_the_kernel().await;
        assert_eq!(unsent(), 0);
    };
    tokio::spawn(writer).await.unwrap();
}

/// While a task is ready, a runtime with one thread may not ask the kernel which sockets are readable.
#[cfg(unix)]
#[test]
fn after_much_data_the_driver_receives_acks_at_once() {
    let (told, address) = mpsc::channel();
    let server = thread::spawn(move || {
        run(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            told.send(listener.local_addr().unwrap()).unwrap();
            let (mut server, _) = listener.accept().await.unwrap();
            tokio::io::copy(&mut server, &mut tokio::io::sink()).await.unwrap();
        });
    });
    let address = address.recv().unwrap();
    run(async move {
        let mut client = fixed_size_socket().connect(address).await.unwrap();
        client.write_all(&vec![7; WARM_UP]).await.unwrap();
        all_acknowledged(&client).await;
        assert!(write_blocks(&mut client, 2 * BYTES_PER_TURN / BLOCK).await);
        wait_for_datagram(&client);
        let before = client.info().unwrap().segs_in;
        turn_without_the_kernel().await;
        assert!(client.info().unwrap().segs_in > before, "no ACK was received");
    });
    server.join().unwrap();
}

/// The kernel is asked again after the pause, and not within the same turn.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_send_for_which_the_kernel_has_no_memory_ends_the_turn() {
    let (mut client, mut server) = warm_pair().await;
    fail(&client, &[ENOBUFS; 3]);
    write_now(&mut client, &[7]).await;
    assert_eq!(faults_left(&client), 2);
    assert_eq!(server.read_u8().await.unwrap(), 7);
    assert_eq!(faults_left(&client), 0);
    assert_eq!(client.handle.shared.lock().stats.send_faults, 3);
}

/// Nothing more is sent on a socket that no longer works, and its streams fail.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_failed_socket_ends_the_turn() {
    let (mut client, _server) = warm_pair().await;
    fail(&client, &[EBADF; 3]);
    write_now(&mut client, &[7; 2 * BLOCK]).await;
    assert_eq!(faults_left(&client), 2);
    client.write_u8(7).await.unwrap_err();
    assert_eq!(faults_left(&client), 2);
}

/// A batch that was not sent does not count.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_turn_counts_what_has_been_sent() {
    let writer = async {
        // One datagram, with the shortest and the longest header.
        for (faults, expected) in [(&[][..], 1448 + 20..=1448 + 60), (&[EHOSTUNREACH], 0..=0)] {
            let (mut client, _server) = warm_pair().await;
            let before = client.handle.shared.lock().sent;
            fail(&client, faults);
            write_now(&mut client, &[7; 1448]).await;
            assert_eq!(faults_left(&client), 0);
            let sent = client.handle.shared.lock().sent - before;
            assert!(expected.contains(&sent), "{sent}");
        }
    };
    tokio::spawn(writer).await.unwrap();
}

/// Lets the next send calls of a stream's socket fail with these error codes.
#[cfg(target_os = "linux")]
fn fail(client: &TcpStream, codes: &[i32]) {
    client.handle.shared.lock().faults = codes.iter().map(|code| std::io::Error::from_raw_os_error(*code)).collect();
}

#[cfg(target_os = "linux")]
fn faults_left(client: &TcpStream) -> usize {
    client.handle.shared.lock().faults.len()
}

/// The driver sends the data that exceeds one turn. Until it has had its turn, writes of tasks do not send; afterwards, all
/// data has been sent.
#[tokio::test]
async fn a_socket_that_is_behind_leaves_writes_to_the_driver() {
    tokio::spawn(async { assert_eq!(two_writes_too_many().await, [BATCHES_PER_TURN; 2]) }).await.unwrap();
}

/// When `block_on` returns, the driver of a single-threaded runtime may have no turn for a long time.
#[tokio::test]
async fn a_socket_that_is_behind_sends_if_the_runtime_may_stand_still() {
    assert_eq!(two_writes_too_many().await, [BATCHES_PER_TURN, BATCHES_PER_TURN + 2]);
}

/// Has data for a full turn and two batches more to send, of which two writes add the latter. Returns the number of
/// batches sent after each.
async fn two_writes_too_many() -> [usize; 2] {
    let connector = TcpSocket::new_v4().unwrap().connector().unwrap();
    let (mut clients, mut servers) = (Vec::new(), Vec::new());
    for _ in 0..BATCHES_PER_TURN + 3 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (client, server) = tokio::join!(connector.connect(listener.local_addr().unwrap()), listener.accept());
        clients.push(client.unwrap());
        servers.push(server.unwrap().0);
    }
    let before = batches(&clients[0]);
    // Data of several connections becomes due at once, as by a burst of ACKs.
    for client in &clients[3..] {
        let handle = &client.handle;
        let written = handle.shared.lock().with(Io::now(), handle.id, |connection, _| connection.write(&[7]));
        assert_eq!(written, Some(Ok(1)));
    }
    let mut sent = [0; 2];
    for (client, sent) in clients.iter_mut().zip(&mut sent) {
        write_now(client, &[7]).await;
        *sent = batches(client) - before;
    }
    for (_, server) in servers.iter_mut().enumerate().filter(|(number, _)| *number != 2) {
        assert_eq!(server.read_u8().await.unwrap(), 7);
    }
    let before = batches(&clients[2]);
    write_now(&mut clients[2], &[7]).await;
    assert_eq!(batches(&clients[2]) - before, 1);
    sent
}

/// A batch of more slices than one call may have is sent as one.
#[test]
fn a_batch_of_too_many_slices_is_copied() {
    run(async {
        let (mut client, mut server) = warm_pair().await;
        let data: Vec<u8> = (0..BLOCK as u32).map(|at| (at / 251 + at) as u8).collect();
        let mut received = vec![0; BLOCK];
        let before = client.info().unwrap().bytes_retrans;
        let (sent, read) =
            tokio::join!(client.write_bytes(bytes::Bytes::from(data.clone())), server.read_exact(&mut received));
        sent.unwrap();
        read.unwrap();
        assert!(received == data);
        // On a busy machine, a probe may repeat a segment.
        let repeated = client.info().unwrap().bytes_retrans - before;
        assert!(repeated < BLOCK as u64 / 4, "{repeated} bytes were sent again");
    });
}
