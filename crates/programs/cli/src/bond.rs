//! One stream over several connections to the same peer, each over a path of its own (`--bond`).
//!
//! ```text
//! each connection begins with:  magic (8), number of the bond (16)
//! then, in both directions:     0, position (8), length (4), contents
//!                               or 1, position (8), 0 (4): everything before the position has been read
//!                               or 2, position (8), 0 (4): the stream ends at the position
//! ```
//!
//! A connection takes the next block when little of its data is unsent, so that each gets as many as its path carries. A
//! block is kept until the peer has read it. If a connection fails, the others send its blocks.

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use longhaul::TcpStream;
use longhaul_tls::Fingerprint;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio::time::Interval;

use crate::transport::{Connection, Snapshot, Transport};

mod join;
#[cfg(test)]
mod tests;

pub(crate) use join::{Bonds, Lost, MAGIC, begin};

/// Largest contents of a block.
const BLOCK: usize = 256 << 10;
/// Maximum number of bytes that the peer has not read yet. It covers the data in flight on the fastest path during a
/// round trip of the slowest one.
const WINDOW: u64 = 32 << 20;
/// Maximum number of blocks that the peer has not read, so that it need not keep more.
const BLOCKS: usize = 4096;
/// Number of unsent bytes below which a connection takes another block, in addition to those sent until the next check.
const UNSENT: u64 = 256 << 10;
/// Maximum number of connections of a bond, with those that were lost.
const PATHS: usize = 16;
/// Interval of looks at connections that have too much unsent data.
const LOOK: Duration = Duration::from_millis(10);
/// Number of reads from a connection before others have their turn.
const READS: usize = 16;
const HEADER: usize = 13;

const DATA: u8 = 0;
const READ: u8 = 1;
const END: u8 = 2;

/// What is kept as long as a connection, such as its place within limits.
pub(crate) type Held = Arc<dyn Any + Send + Sync>;

struct Path<S> {
    /// The local path of the sender.
    route: usize,
    stream: S,
    held: Option<Held>,
    /// The rest of the frame that is being written.
    writing: Bytes,
    /// Whether written data may be in the buffers of the stream.
    is_dirty: bool,
    /// The beginning of a frame that has not arrived completely.
    arriving: BytesMut,
    /// Whether the end of the stream has been written.
    has_ended: bool,
    /// Whether the peer has to be told up to where blocks have been read. What one path carries may be lost with it.
    tells: bool,
    is_lost: bool,
}

impl<S> Path<S> {
    fn new(route: usize, stream: S, held: Option<Held>) -> Self {
        let (writing, arriving) = (Bytes::new(), BytesMut::new());
        Self { route, stream, held, writing, is_dirty: false, arriving, has_ended: false, tells: false, is_lost: false }
    }
}

/// A stream over several connections.
pub(crate) struct Bond<S> {
    /// The connections, at least one, including lost ones.
    paths: Vec<Path<S>>,
    joining: mpsc::UnboundedReceiver<Path<S>>,
    /// Asks for another connection in place of a lost one.
    reopen: Option<Box<dyn Fn(usize) + Send>>,
    ticks: Interval,
    /// Data that is not a block yet, and the position of its beginning.
    filling: Vec<u8>,
    position: u64,
    /// Blocks that no connection has taken, and those that a connection has taken but the peer has not read.
    waiting: BTreeMap<u64, Bytes>,
    flying: BTreeMap<u64, (usize, Bytes)>,
    /// Position up to which the peer has read.
    read_there: u64,
    ends: bool,
    /// Blocks that have arrived, and the rest of the one that is being read.
    arrived: BTreeMap<u64, Bytes>,
    /// Total length of these blocks.
    held: u64,
    current: Bytes,
    /// Position up to which blocks have been read.
    read_here: u64,
    end: Option<u64>,
}

fn frame(kind: u8, position: u64, contents: &[u8]) -> Bytes {
    let mut frame = Vec::with_capacity(HEADER + contents.len());
    frame.push(kind);
    frame.extend(position.to_be_bytes());
    frame.extend((contents.len() as u32).to_be_bytes());
    frame.extend(contents);
    frame.into()
}

fn invalid() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the peer does not understand --bond")
}

impl<S: Connection> Bond<S> {
    fn new(joining: mpsc::UnboundedReceiver<Path<S>>, reopen: Option<Box<dyn Fn(usize) + Send>>) -> Self {
        Self {
            paths: Vec::new(),
            joining,
            reopen,
            ticks: tokio::time::interval(LOOK),
            filling: Vec::new(),
            position: 0,
            waiting: BTreeMap::new(),
            flying: BTreeMap::new(),
            read_there: 0,
            ends: false,
            arrived: BTreeMap::new(),
            held: 0,
            current: Bytes::new(),
            read_here: 0,
            end: None,
        }
    }

    fn add(&mut self, path: Path<S>) {
        self.paths.push(Path { tells: self.read_here > 0, ..path });
    }

    /// Tells the peer up to where blocks have been read.
    fn tell(&mut self) {
        self.paths.iter_mut().for_each(|path| path.tells = true);
    }

    /// Reads and writes what is possible now. Fails when no connection is left.
    fn drive(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while let Poll::Ready(Some(path)) = self.joining.poll_recv(cx) {
            self.add(path);
        }
        let mut failed = None;
        for index in 0..self.paths.len() {
            if self.paths.get(index).is_none_or(|path| path.is_lost) {
                continue;
            }
            if let Err(error) = self.receive(index, cx).and_then(|()| self.send(index, cx)) {
                if error.kind() == io::ErrorKind::InvalidData {
                    return Err(error);
                }
                self.lose(index);
                cx.waker().wake_by_ref();
                failed = Some(error);
            }
        }
        if !self.waiting.is_empty() {
            while self.ticks.poll_tick(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
        let is_read = self.flying.is_empty() && self.waiting.is_empty();
        let is_over = self.end.is_some_and(|end| end == self.read_here) && is_read;
        if is_over || self.paths.iter().any(|path| !path.is_lost) {
            return Ok(());
        }
        Err(failed.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into()))
    }

    /// Gives up a connection; the others send its blocks.
    fn lose(&mut self, index: usize) {
        if let Some(path) = self.paths.get_mut(index) {
            path.is_lost = true;
            path.stream.tcp().abort();
            drop(path.held.take());
            let route = path.route;
            if let Some(reopen) = self.reopen.as_ref().filter(|_| self.paths.len() < PATHS) {
                reopen(route);
            }
        }
        let flying = std::mem::take(&mut self.flying);
        let (lost, others): (BTreeMap<_, _>, _) = flying.into_iter().partition(|(_, (taker, _))| *taker == index);
        self.flying = others;
        self.waiting.extend(lost.into_iter().map(|(position, (_, block))| (position, block)));
    }

    fn receive(&mut self, index: usize, cx: &mut Context<'_>) -> io::Result<()> {
        let mut buffer = [0; 32 << 10];
        for _ in 0..READS {
            let Some(path) = self.paths.get_mut(index) else { return Ok(()) };
            let mut read = ReadBuf::new(&mut buffer);
            match Pin::new(&mut path.stream).poll_read(cx, &mut read) {
                Poll::Pending => return Ok(()),
                Poll::Ready(result) => result?,
            }
            if read.filled().is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut arriving = std::mem::take(&mut path.arriving);
            arriving.extend_from_slice(read.filled());
            while let Some(mut header) = arriving.get(..HEADER) {
                let (kind, position, len) = (header.get_u8(), header.get_u64(), header.get_u32() as usize);
                if len > BLOCK || kind > END {
                    return Err(invalid());
                }
                if arriving.len() < HEADER + len {
                    break;
                }
                let contents = arriving.split_to(HEADER + len).freeze().split_off(HEADER);
                self.take(kind, position, contents)?;
            }
            if let Some(path) = self.paths.get_mut(index) {
                path.arriving = arriving;
            }
        }
        cx.waker().wake_by_ref();
        Ok(())
    }

    /// Processes a frame from the peer.
    fn take(&mut self, kind: u8, position: u64, contents: Bytes) -> io::Result<()> {
        match kind {
            DATA if contents.is_empty() || position > self.read_here.saturating_add(WINDOW) => return Err(invalid()),
            DATA if position >= self.read_here => {
                self.held += contents.len() as u64;
                // A small block must not keep the whole buffer in which it arrived.
                let is_small = contents.len() < BLOCK / 2;
                let contents = if is_small { Bytes::copy_from_slice(&contents) } else { contents };
                if let Some(copy) = self.arrived.insert(position, contents) {
                    self.held -= copy.len() as u64;
                }
                // Blocks of one stream do not overlap.
                if self.held > WINDOW + BLOCK as u64 || self.arrived.len() > BLOCKS {
                    return Err(invalid());
                }
            }
            DATA => self.tell(),
            READ if position > self.position => return Err(invalid()),
            READ => {
                self.read_there = self.read_there.max(position);
                let has_more = |block: &u64| *block >= position;
                self.flying.retain(|block, _| has_more(block));
                self.waiting.retain(|block, _| has_more(block));
            }
            _ => self.end = Some(position),
        }
        Ok(())
    }

    fn send(&mut self, index: usize, cx: &mut Context<'_>) -> io::Result<()> {
        loop {
            let is_idle = self.paths.get(index).is_some_and(|path| path.writing.is_empty());
            let next = if is_idle { self.next_frame(index) } else { None };
            let Some(path) = self.paths.get_mut(index) else { return Ok(()) };
            match next {
                Some(frame) => path.writing = frame,
                None if is_idle => break,
                None => {}
            }
            match Pin::new(&mut path.stream).poll_write(cx, &path.writing) {
                Poll::Pending => return Ok(()),
                Poll::Ready(written) => path.writing.advance(written?),
            }
            path.is_dirty = true;
        }
        let Some(path) = self.paths.get_mut(index) else { return Ok(()) };
        if path.is_dirty && Pin::new(&mut path.stream).poll_flush(cx)?.is_ready() {
            path.is_dirty = false;
        }
        Ok(())
    }

    /// Returns what a connection sends next.
    fn next_frame(&mut self, index: usize) -> Option<Bytes> {
        let path = self.paths.get_mut(index)?;
        if std::mem::take(&mut path.tells) {
            return Some(frame(READ, self.read_here, &[]));
        }
        if !self.waiting.is_empty() && has_room(path.stream.tcp()) {
            let (position, block) = self.waiting.pop_first()?;
            let frame = frame(DATA, position, &block);
            self.flying.insert(position, (index, block));
            return Some(frame);
        }
        let ends = self.ends && !path.has_ended;
        path.has_ended |= ends;
        ends.then(|| frame(END, self.position, &[]))
    }

    fn cut(&mut self) {
        if !self.filling.is_empty() {
            let block = Bytes::from(std::mem::take(&mut self.filling));
            let position = self.position;
            self.position += block.len() as u64;
            self.waiting.insert(position, block);
        }
    }

    /// Returns whether everything has been written to the connections.
    fn is_flushed(&self) -> bool {
        let written = |path: &Path<S>| path.is_lost || (path.writing.is_empty() && !path.is_dirty && !path.tells);
        self.filling.is_empty() && self.waiting.is_empty() && self.paths.iter().all(written)
    }
}

/// Returns whether a connection will have sent almost everything before the next check.
fn has_room(tcp: &TcpStream) -> bool {
    tcp.info().is_ok_and(|info| {
        let rate = info.delivery_bytes_per_second.unwrap_or_default();
        // On a busy machine, the next check is late.
        info.notsent_bytes < UNSENT + rate * LOOK.as_millis() as u64 * 5 / 1000
    })
}

impl<S: Connection> AsyncRead for Bond<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let bond = self.get_mut();
        bond.drive(cx)?;
        if bond.current.is_empty()
            && let Some(block) = bond.arrived.remove(&bond.read_here)
        {
            bond.read_here += block.len() as u64;
            bond.held -= block.len() as u64;
            bond.current = block;
            // The peer learns of it at once.
            bond.tell();
            bond.drive(cx)?;
        }
        if bond.current.is_empty() {
            let is_over = bond.end.is_some_and(|end| end == bond.read_here);
            return if is_over { Poll::Ready(Ok(())) } else { Poll::Pending };
        }
        let len = buffer.remaining().min(bond.current.len());
        buffer.put_slice(&bond.current.split_to(len));
        Poll::Ready(Ok(()))
    }
}

impl<S: Connection> AsyncWrite for Bond<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let bond = self.get_mut();
        bond.drive(cx)?;
        let unread = bond.position + bond.filling.len() as u64 - bond.read_there;
        let has_room = unread < WINDOW && bond.flying.len() + bond.waiting.len() < BLOCKS;
        if !has_room || bond.waiting.len() > bond.paths.len() {
            return Poll::Pending;
        }
        let (data, _) = data.split_at(data.len().min(BLOCK - bond.filling.len()));
        bond.filling.extend_from_slice(data);
        if bond.filling.len() == BLOCK {
            bond.cut();
            bond.drive(cx)?;
        }
        Poll::Ready(Ok(data.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let bond = self.get_mut();
        bond.cut();
        bond.drive(cx)?;
        if bond.is_flushed() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(cx))?;
        if !self.flying.is_empty() {
            return Poll::Pending;
        }
        self.ends = true;
        self.poll_flush(cx)
    }
}

impl<S: Connection> Transport for Bond<S> {
    fn snapshot(&self) -> Option<Snapshot> {
        let all: Vec<_> = self.paths.iter().filter_map(|path| path.stream.snapshot()).collect();
        let sum = |field: fn(&Snapshot) -> u64| all.iter().map(field).sum();
        Some(Snapshot {
            cwnd_bytes: sum(|one| one.cwnd_bytes),
            acked_bytes: sum(|one| one.acked_bytes),
            retransmissions: sum(|one| one.retransmissions),
            retransmitted_bytes: sum(|one| one.retransmitted_bytes),
            unacknowledged_bytes: self.position - self.read_there,
            ..all.first()?.clone()
        })
    }

    fn peer_key(&self) -> Option<Fingerprint> {
        self.paths.first().and_then(|path| path.stream.peer_key())
    }
}

impl<S: Connection + Send> Connection for Bond<S> {
    fn tcp(&self) -> &TcpStream {
        let open = self.paths.iter().position(|path| !path.is_lost);
        self.paths[open.unwrap_or(0)].stream.tcp()
    }

    async fn close(mut self) -> io::Result<()> {
        // Other connections would be too late.
        self.joining.close();
        std::future::poll_fn(|cx| Pin::new(&mut self).poll_shutdown(cx)).await?;
        for path in self.paths.into_iter().filter(|path| !path.is_lost) {
            // Both ends have all data; a failed close has no consequence.
            let _ = path.stream.close().await;
        }
        Ok(())
    }
}
