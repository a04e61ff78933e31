//! Methods of streams and halves.

use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{connect, pair, pair_with, pattern, soon};
use bytes::{Buf, Bytes, BytesMut};
use longhaul::{Chunks, TcpListener, TcpSocket, TcpState, TcpStream};
use longhaul_cc::registry::Spec;
use longhaul_cc::{BuildParams, Congestion, Controller, ControllerFactory};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest, ReadBuf};

#[tokio::test]
async fn peek_leaves_the_data() {
    let (mut a, mut b) = pair().await;
    a.write_all(b"hello").await.unwrap();
    let mut buf = [0; 8];
    assert_eq!(b.peek(&mut buf).await.unwrap(), 5);
    let mut space = [0; 3];
    let mut read_buf = ReadBuf::new(&mut space);
    assert_eq!(std::future::poll_fn(|cx| b.poll_peek(cx, &mut read_buf)).await.unwrap(), 3);
    assert_eq!(read_buf.filled(), b"hel");
    assert_eq!(b.read(&mut buf).await.unwrap(), 5);
    assert_eq!(&buf[..5], b"hello");
    a.shutdown().await.unwrap();
    assert_eq!(b.peek(&mut buf).await.unwrap(), 0);
}

#[tokio::test]
async fn try_methods_never_wait() {
    let (a, b) = pair().await;
    let mut buf = [0; 4];
    assert_eq!(b.try_read(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(a.try_write(b"ab").unwrap(), 2);
    assert_eq!(a.try_write_vectored(&[IoSlice::new(b"cd"), IoSlice::new(b""), IoSlice::new(b"efg")]).unwrap(), 5);
    let mut got = Vec::new();
    while got.len() < 7 {
        b.readable().await.unwrap();
        let (mut x, mut y) = ([0; 1], [0; 2]);
        match b.try_read_vectored(&mut [IoSliceMut::new(&mut x), IoSliceMut::new(&mut y)]) {
            Ok(read) => got.extend_from_slice(&[x[0], y[0], y[1]][..read]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    assert_eq!(got, b"abcdefg");
    a.try_write(b"into a buffer").unwrap();
    b.readable().await.unwrap();
    let mut buf = BytesMut::with_capacity(4);
    assert_eq!(b.try_read_buf(&mut buf).unwrap(), 13);
    assert_eq!(&buf[..], b"into a buffer");
    // Fill the send buffer: then a write would block, until the peer has read.
    let block = vec![0; 1 << 20];
    while a.try_write(&block).is_ok() {}
    assert_eq!(a.try_write(&block).unwrap_err().kind(), ErrorKind::WouldBlock);
    let drain = tokio::spawn(async move {
        let mut b = b;
        tokio::io::copy(&mut b, &mut tokio::io::sink()).await.unwrap()
    });
    soon(a.writable()).await.unwrap();
    assert!(a.try_write(&block).unwrap() > 0);
    drop(a);
    soon(drain).await.unwrap();
}

#[tokio::test]
async fn readiness_reflects_the_current_state() {
    let (mut a, mut b) = pair().await;
    let both = Interest::READABLE | Interest::WRITABLE;
    let ready = b.ready(both).await.unwrap();
    assert!(ready.is_writable() && !ready.is_readable());
    a.write_all(b"x").await.unwrap();
    assert!(soon(b.ready(Interest::READABLE)).await.unwrap().is_readable());
    b.read_exact(&mut [0]).await.unwrap();
    a.shutdown().await.unwrap();
    let ready = soon(b.ready(Interest::READABLE)).await.unwrap();
    assert!(ready.is_readable() && ready.is_read_closed());
    b.shutdown().await.unwrap();
    let ready = soon(b.ready(Interest::WRITABLE)).await.unwrap();
    assert!(ready.is_writable() && ready.is_write_closed());
    assert_eq!(b.write(b"y").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn an_error_is_readiness_too() {
    let (a, b) = pair().await;
    let waits = tokio::spawn(async move {
        let ready = b.ready(Interest::ERROR).await.unwrap();
        (ready.is_error(), b)
    });
    a.abort();
    let (is_error, b) = soon(waits).await.unwrap();
    assert!(is_error);
    assert_eq!(b.take_error().unwrap().unwrap().kind(), ErrorKind::ConnectionReset);
    assert!(b.take_error().unwrap().is_none(), "taken");
    assert_eq!(b.try_read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(a.try_read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionAborted);
}

#[tokio::test]
async fn written_bytes_are_kept_by_reference_until_they_are_acknowledged() {
    let (mut a, mut b) = pair().await;
    let data = pattern(3 << 20);
    let bytes = Bytes::from(data.clone());
    let writer = tokio::spawn(async move {
        a.write_bytes(bytes.clone()).await.unwrap();
        // The end has been queued in this turn of the only thread, in which no ACK is received.
        assert!(!bytes.is_unique(), "the stream has a copy");
        a.close().await.unwrap();
        assert!(bytes.is_unique(), "acknowledged data is kept");
    });
    let mut got = Vec::new();
    loop {
        let part = soon(b.read_bytes(100_000)).await.unwrap();
        if part.is_empty() {
            break;
        }
        assert!(part.len() <= 100_000);
        got.extend_from_slice(&part);
    }
    assert!(got == data);
    drop(b);
    soon(writer).await.unwrap();
}

/// `read_chunks` of halves and of whole streams.
#[tokio::test]
async fn chunks_are_read_in_order_up_to_the_end() {
    for halves in [false, true] {
        let (mut a, mut b) = pair().await;
        let data = Bytes::from(pattern(3 << 20));
        let copy = data.clone();
        let writer = tokio::spawn(async move {
            let (mut read, mut write) = a.split();
            write.write_bytes(copy).await.unwrap();
            write.shutdown().await.unwrap();
            assert!(read.read_bytes(1).await.unwrap().is_empty(), "the end");
        });
        let mut chunks = Chunks::default();
        assert_eq!(soon(b.read_chunks(&mut chunks, 0)).await.unwrap(), 0, "at once");
        let mut got = Vec::new();
        let (mut read, mut write) = b.into_split();
        loop {
            let len = if halves {
                soon(read.read_chunks(&mut chunks, usize::MAX)).await.unwrap()
            } else {
                let mut whole = read.reunite(write).unwrap();
                let len = soon(whole.read_chunks(&mut chunks, 100_001)).await.unwrap();
                assert!(len <= 100_001);
                (read, write) = whole.into_split();
                len
            };
            assert_eq!(chunks.remaining(), len);
            if len == 0 {
                break;
            }
            while chunks.has_remaining() {
                got.extend_from_slice(&chunks.copy_to_bytes(chunks.chunk().len()));
            }
        }
        assert!(got == data);
        drop((read, write));
        soon(writer).await.unwrap();
    }
}

/// One read takes all that has arrived, but no more than a mebibyte under the lock.
#[tokio::test]
async fn a_read_takes_many_chunks_at_once() {
    let mut server = TcpSocket::new_v4().unwrap();
    server.config().recv_buffer(4 << 20).recv_buffer_max(4 << 20);
    let (mut a, mut b) = pair_with(TcpSocket::new_v4().unwrap(), server).await;
    let writer = tokio::spawn(async move {
        a.write_all(&pattern(2 << 20)).await.unwrap();
        a
    });
    soon(async {
        while b.info().unwrap().unread_bytes < 2 << 20 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    let mut chunks = Chunks::default();
    assert_eq!(soon(b.read_chunks(&mut chunks, usize::MAX)).await.unwrap(), 1 << 20);
    let mut slices = [IoSlice::new(&[]); 1000];
    assert!(chunks.chunks_vectored(&mut slices) > 500, "one for each segment");
    drop(soon(writer).await.unwrap());
}

/// A header and a body leave together, and the body is not copied: its memory is in use until it has been acknowledged.
#[tokio::test]
async fn a_chain_is_written_like_one_piece() {
    let (mut a, mut b) = pair().await;
    let (header, body) = (Bytes::from_static(b"header"), Bytes::from(pattern(100_000)));
    let mut chain = header.clone().chain(body.clone()).chain(&b"end"[..]);
    let taken = soon(poll_fn(|cx| a.poll_write_bytes(cx, &mut chain))).await.unwrap();
    assert_eq!((taken, chain.remaining()), (header.len() + body.len() + 3, 0));
    drop(chain);
    assert!(!body.is_unique(), "copied");
    let mut got = vec![0; taken];
    soon(b.read_exact(&mut got)).await.unwrap();
    assert!(got == [&header[..], &body, b"end"].concat());
    soon(a.write_bytes(&b"more"[..])).await.unwrap();
    soon(b.read_exact(&mut got[..4])).await.unwrap();
    assert_eq!(&got[..4], b"more");
    soon(a.close()).await.unwrap();
}

/// Data that must be copied takes several writes, whether it is in short chunks or in a long one that is not [`Bytes`].
#[tokio::test]
async fn a_write_copies_a_limited_amount() {
    let data = pattern(1 << 20);
    for chunk in [1000, usize::MAX] {
        let mut client = TcpSocket::new_v4().unwrap();
        client.config().notsent_lowat(Some(4 << 20));
        let (mut a, mut b) = pair_with(client, TcpSocket::new_v4().unwrap()).await;
        let mut short = Short(&data, chunk);
        let taken = soon(poll_fn(|cx| a.poll_write_bytes(cx, &mut short))).await.unwrap();
        assert!((256 << 10..260 << 10).contains(&taken), "{taken}");
        let rest = short.remaining();
        let writer = async {
            a.write_bytes(short).await.unwrap();
            a.write_bytes(Bytes::new()).await.unwrap();
            a.close().await.unwrap();
        };
        let mut got = Vec::new();
        let reader = b.read_to_end(&mut got);
        let (_, read) = soon(async { tokio::join!(writer, reader) }).await;
        assert_eq!(read.unwrap(), taken + rest);
        assert!(got == data);
    }
}

/// Large pieces are not limited by what is copied, and the room may end within one.
#[tokio::test]
async fn a_write_takes_what_has_room() {
    let mut client = TcpSocket::new_v4().unwrap();
    client.config().notsent_lowat(Some(700_000));
    let (mut a, mut b) = pair_with(client, TcpSocket::new_v4().unwrap()).await;
    let data = Bytes::from(pattern(1 << 20));
    let mut chain = data.slice(..500_000).chain(data.slice(500_000..));
    let taken = soon(poll_fn(|cx| a.poll_write_bytes(cx, &mut chain))).await.unwrap();
    assert!((700_000..data.len()).contains(&taken), "{taken}");
    assert_eq!(chain.remaining(), data.len() - taken);
    let mut got = vec![0; data.len()];
    let (written, read) = soon(async { tokio::join!(a.write_bytes(chain), b.read_exact(&mut got)) }).await;
    assert_eq!((written.unwrap(), read.unwrap()), ((), data.len()));
    assert!(got == data);
}

/// Data in chunks of this length.
struct Short<'a>(&'a [u8], usize);

impl Buf for Short<'_> {
    fn remaining(&self) -> usize {
        self.0.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.0[..self.0.len().min(self.1)]
    }

    fn advance(&mut self, count: usize) {
        self.0 = &self.0[count..];
    }
}

#[tokio::test]
async fn vectored_writes_take_all_slices() {
    let (mut a, mut b) = pair().await;
    assert!(a.is_write_vectored());
    let written =
        a.write_vectored(&[IoSlice::new(b"one"), IoSlice::new(b"two"), IoSlice::new(b"three")]).await.unwrap();
    assert_eq!(written, 11);
    let mut buf = [0; 11];
    b.read_exact(&mut buf).await.unwrap();
    assert_eq!(&buf, b"onetwothree");
}

#[tokio::test]
async fn halves_work_in_different_tasks_and_come_together_again() {
    let (a, b) = pair().await;
    let (mut reader, mut writer) = a.into_split();
    let (mut b_reader, mut b_writer) = b.into_split();
    let data = pattern(1 << 20);
    let echo = tokio::spawn(async move {
        tokio::io::copy(&mut b_reader, &mut b_writer).await.unwrap();
        b_writer.shutdown().await.unwrap();
        b_reader.reunite(b_writer).unwrap()
    });
    let copy = data.clone();
    let sender = tokio::spawn(async move {
        writer.write_all(&copy).await.unwrap();
        writer.shutdown().await.unwrap();
        writer
    });
    let mut got = Vec::new();
    soon(reader.read_to_end(&mut got)).await.unwrap();
    assert!(got == data);
    let a = sender.await.unwrap().reunite(reader).unwrap();
    let b = echo.await.unwrap();
    soon(a.close()).await.unwrap();
    soon(b.close()).await.unwrap();
}

#[tokio::test]
async fn halves_of_different_streams_are_returned() {
    let ((a, _b), (c, _d)) = (pair().await, pair().await);
    let ((a_reader, a_writer), (c_reader, c_writer)) = (a.into_split(), c.into_split());
    let error = a_reader.reunite(c_writer).unwrap_err();
    assert!(error.to_string().contains("same stream"));
    let (a_reader, c_writer) = (error.0, error.1);
    a_reader.reunite(a_writer).unwrap();
    c_reader.reunite(c_writer).unwrap();
}

#[tokio::test]
async fn dropping_the_writing_half_ends_the_stream_and_forgetting_it_does_not() {
    let (a, mut b) = pair().await;
    let (mut reader, writer) = a.into_split();
    drop(writer);
    assert_eq!(soon(b.read(&mut [0])).await.unwrap(), 0);
    b.write_all(b"still open").await.unwrap();
    let mut buf = [0; 10];
    soon(reader.read_exact(&mut buf)).await.unwrap();

    let (a, mut b) = pair().await;
    let (mut reader, writer) = a.into_split();
    writer.forget();
    b.write_all(b"x").await.unwrap();
    soon(reader.read_exact(&mut [0])).await.unwrap();
    assert_eq!(b.try_read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(reader);
    assert_eq!(soon(b.read(&mut [0])).await.unwrap(), 0);
}

#[tokio::test]
async fn borrowed_halves_work_at_the_same_time() {
    let (mut a, mut b) = pair().await;
    let data = pattern(6 << 20);
    let echo = tokio::spawn(async move {
        let (mut reader, mut writer) = b.split();
        tokio::io::copy(&mut reader, &mut writer).await.unwrap();
        writer.shutdown().await.unwrap();
        assert_eq!(reader.peer_addr().unwrap(), writer.peer_addr().unwrap());
        b
    });
    let (mut reader, mut writer) = a.split();
    let mut got = Vec::new();
    let send = async {
        writer.write_all(&data).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let (read, ()) = soon(async { tokio::join!(reader.read_to_end(&mut got), send) }).await;
    read.unwrap();
    assert!(got == data);
    drop(soon(echo).await.unwrap());
}

#[tokio::test]
async fn settings_are_read_back() {
    let mut socket = TcpSocket::new_v4().unwrap();
    socket.set_nodelay(true).unwrap();
    socket.set_send_buffer_size(123_456).unwrap();
    socket.set_recv_buffer_size(234_567).unwrap();
    assert_eq!(socket.send_buffer_size().unwrap(), 123_456);
    assert_eq!(socket.recv_buffer_size().unwrap(), 234_567);
    assert_eq!(socket.set_send_buffer_size(0).unwrap_err().kind(), ErrorKind::InvalidInput);
    socket.set_keepalive(true).unwrap();
    assert!(socket.keepalive().unwrap());
    socket.set_reuseaddr(true).unwrap();
    assert!(socket.reuseaddr().unwrap());
    socket.config().max_pacing_rate(Some(50_000_000));
    assert_eq!(socket.set_tos_v4(256).unwrap_err().kind(), ErrorKind::InvalidInput);
    let (a, b) = pair_with(socket, TcpSocket::new_v4().unwrap()).await;
    assert!(a.nodelay().unwrap() && !b.nodelay().unwrap());
    b.set_nodelay(true).unwrap();
    assert!(b.nodelay().unwrap());
    assert!(!a.quickack().unwrap());
    a.set_quickack(true).unwrap();
    assert!(a.quickack().unwrap());
    assert_eq!(a.linger().unwrap(), None);
    a.set_zero_linger().unwrap();
    assert_eq!(a.linger().unwrap(), Some(Duration::ZERO));
    a.set_linger(None).unwrap();
    a.set_ttl(7).unwrap();
    assert_eq!(a.ttl().unwrap(), 7);
    assert_eq!(a.info().unwrap().max_pacing_bytes_per_second, Some(50_000_000));
    a.set_max_pacing_rate(None).unwrap();
    assert_eq!(a.info().unwrap().max_pacing_bytes_per_second, None);
    assert_eq!(a.peer_addr().unwrap(), b.local_addr().unwrap());
    assert_eq!(b.peer_addr().unwrap(), a.local_addr().unwrap());
}

/// While the peer does not read, a writer is stopped by the configured size of the send buffer.
#[tokio::test]
async fn a_send_buffer_holds_its_configured_size() {
    let (client, server) = (TcpSocket::new_v4().unwrap(), TcpSocket::new_v4().unwrap());
    client.set_send_buffer_size(50_000).unwrap();
    server.set_recv_buffer_size(30_000).unwrap();
    let (a, b) = pair_with(client, server).await;
    let mut taken = 0;
    while let Ok(n) = tokio::time::timeout(Duration::from_millis(200), a.writable())
        .await
        .map(|_| a.try_write(&[0; 10_000]).unwrap_or(0))
    {
        taken += n;
    }
    let unread = b.info().unwrap().unread_bytes as usize;
    assert!(unread <= 30_000, "{unread}");
    // A writer is woken when a quarter of the buffer is free, so that this much may be empty.
    let held = taken - unread;
    assert!((37_500..=50_000).contains(&held), "{held}");
}

#[tokio::test]
async fn notsent_lowat_bounds_unsent_data() {
    let (a, mut b) = pair().await;
    a.set_notsent_lowat(Some(20_000)).unwrap();
    // The peer does not read: its window and then the limit stop the writer, long before the send buffer is full.
    let fill = |a: &TcpStream| -> usize { std::iter::from_fn(|| a.try_write(&[0; 7_000]).ok()).sum() };
    let mut written = 0;
    loop {
        soon(a.writable()).await.unwrap();
        let more = fill(&a);
        written += more;
        assert!(a.info().unwrap().notsent_bytes <= 20_000);
        // When the window is closed, only window probes make room.
        if more < 1000 || tokio::time::timeout(Duration::from_millis(100), a.writable()).await.is_err() {
            break;
        }
    }
    let unsent = a.info().unwrap().notsent_bytes;
    assert!((10_000..=20_000).contains(&unsent), "{unsent}");
    assert!(written < (4 << 20) + 100_000, "{written}");
    // Without the limit, the writer can continue.
    a.set_notsent_lowat(None).unwrap();
    soon(a.writable()).await.unwrap();
    assert!(a.try_write(&vec![0; 256 << 10]).unwrap() > 20_000);
    drop(a);
    soon(tokio::io::copy(&mut b, &mut tokio::io::sink())).await.unwrap();
}

#[tokio::test]
async fn info_has_the_field_names_of_tcp_info() {
    let mut socket = TcpSocket::new_v4().unwrap();
    socket.config().congestion(longhaul::Congestion::new_reno());
    let (mut a, mut b) = pair_with(socket, TcpSocket::new_v4().unwrap()).await;
    let data = pattern(1 << 20);
    let reader = tokio::spawn(async move {
        let mut got = Vec::new();
        b.read_to_end(&mut got).await.unwrap();
        (b, got.len())
    });
    a.write_all(&data).await.unwrap();
    a.shutdown().await.unwrap();
    let (b, _) = soon(reader).await.unwrap();
    soon(async {
        while a.info().unwrap().bytes_acked <= 1 << 20 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let info = a.info().unwrap();
    assert_eq!((info.state, info.congestion.as_str()), (TcpState::FinWait2, "new-reno"));
    assert_eq!(a.congestion().unwrap(), "new-reno");
    let (rtt, min_rtt) = (info.rtt.unwrap(), info.min_rtt.unwrap());
    assert!(min_rtt > Duration::ZERO && min_rtt <= rtt + info.rttvar);
    assert_eq!(info.snd_cwnd_segments, info.snd_cwnd_bytes / u64::from(info.snd_mss_bytes));
    assert!(info.options.sack && info.options.timestamps && info.options.wscale);
    assert!(info.socket.recv_buffer_bytes > 0 && info.socket.send_buffer_bytes > 0);
    assert!(info.delivery_bytes_per_second.is_some() && info.data_segs_out >= (1 << 20) / 1460);
    let limited: Duration = info.limited_by.fields().map(|(_, time)| time).sum();
    assert!(limited > Duration::ZERO && limited <= info.age, "{limited:?} of {:?}", info.age);
    assert_eq!(b.info().unwrap().bytes_received, 1 << 20);
    let json = serde_json::to_value(&info).unwrap();
    for name in ["rtt", "rttvar", "snd_cwnd_segments", "total_retrans", "pacing_bytes_per_second", "pmtu_bytes"] {
        assert!(json.get(name).is_some(), "{name}");
    }
    assert!(json["limited_by"]["peer_window"].is_number());
    assert!(json["socket"]["kernel_drops"].is_number());
}

#[test]
fn an_unknown_congestion_controller_lists_the_available_ones() {
    let text = "warp-drive".parse::<longhaul::Congestion>().unwrap_err().to_string();
    assert!(text.contains("warp-drive") && text.contains("cubic") && text.contains("new-reno"), "{text}");
}

/// A user-defined controller, whose safety is not known.
#[derive(Debug)]
struct Homemade;

impl ControllerFactory for Homemade {
    fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        Spec::default().build(params)
    }

    fn name(&self) -> String {
        "homemade".into()
    }
}

#[tokio::test]
async fn a_controller_that_may_harm_others_must_be_allowed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let socket = || {
        let mut socket = TcpSocket::new_v4().unwrap();
        socket.config().congestion(Congestion::new(Homemade).into());
        socket
    };
    let error = socket().connect(to).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("homemade") && error.to_string().contains("allow_unsafe_congestion"), "{error}");
    let inner = error.get_ref().unwrap().downcast_ref::<longhaul::UnsafeCongestion>();
    assert_eq!(inner.map(longhaul::UnsafeCongestion::name), Some("homemade"));
    let server = socket();
    server.bind(([127, 0, 0, 1], 0).into()).unwrap();
    assert_eq!(server.listen(1).unwrap_err().kind(), ErrorKind::InvalidInput);
    let mut allowed = socket();
    allowed.config().allow_unsafe_congestion(true);
    let (a, _b) = connect(&listener, allowed).await;
    assert_eq!(a.congestion().unwrap(), "homemade");
}

#[test]
fn types_are_send_sync_and_unpin() {
    fn is<T: Send + Sync + Unpin + 'static>() {}
    is::<TcpStream>();
    is::<TcpListener>();
    is::<TcpSocket>();
    is::<longhaul::OwnedReadHalf>();
    is::<longhaul::OwnedWriteHalf>();
    is::<Chunks>();
    is::<longhaul::TcpInfo>();
    is::<Arc<TcpStream>>();
    fn is_future<F: Future + Send>(_: F) {}
    let addr: std::net::SocketAddr = ([127, 0, 0, 1], 9).into();
    is_future(TcpStream::connect(addr));
    is_future(TcpStream::connect_with(addr, &longhaul::Config::default()));
    is_future(TcpListener::bind(addr));
    is_future(TcpSocket::new_v4().unwrap().connect(addr));
}
