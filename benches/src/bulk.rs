//! The two sides of a bulk transfer over a stream transport, in one direction and at full speed.
//!
//! The client sends. The measurement begins when both sides are ready. It ends at the receiver when all data has
//! arrived, and at the sender when the receiver has confirmed this. It excludes connection set-up, TLS handshakes and
//! closing.

use anyhow::{Result, ensure};
use bytes::{Buf, Bytes};
use longhaul::{Chunks, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::meter::{Meter, Usage};
use crate::transport::{Duplex, Stream};

/// Number of bytes per write, and maximum number per read.
const CHUNK: usize = 256 << 10;
/// Byte with which a side reports that it is ready or done.
const TOKEN: [u8; 1] = [1];

/// Sends `bytes` bytes.
///
/// # Errors
/// Returns the transport's error.
pub async fn send(stream: &mut Stream, bytes: u64) -> Result<Usage> {
    let chunk = vec![0x5a; CHUNK];
    let meter = begin_sending(stream).await?;
    for len in parts(bytes) {
        stream.write_all(&chunk[..len]).await?;
    }
    end_sending(stream, &meter).await
}

/// Sends `bytes` bytes by reference to one buffer.
///
/// # Errors
/// Returns the stream's error.
pub(crate) async fn send_by_reference(stream: &mut TcpStream, bytes: u64) -> Result<Usage> {
    let chunk = Bytes::from(vec![0x5a; CHUNK]);
    let meter = begin_sending(stream).await?;
    for len in parts(bytes) {
        stream.write_bytes(chunk.slice(..len)).await?;
    }
    end_sending(stream, &meter).await
}

/// Receives `bytes` bytes.
///
/// # Errors
/// Returns the transport's error, or an error if the stream ends early.
pub async fn receive(stream: &mut Stream, bytes: u64) -> Result<Usage> {
    let mut chunk = vec![0; CHUNK];
    let meter = begin_receiving(stream).await?;
    let mut left = bytes;
    while left > 0 {
        left = rest(left, stream.read(&mut chunk).await?)?;
    }
    end_receiving(stream, &meter).await
}

/// Receives `bytes` bytes by reference.
///
/// # Errors
/// Returns the stream's error, or an error if the stream ends early.
pub(crate) async fn receive_by_reference(stream: &mut TcpStream, bytes: u64) -> Result<Usage> {
    let mut chunks = Chunks::default();
    let meter = begin_receiving(stream).await?;
    let mut left = bytes;
    while left > 0 {
        left = rest(left, stream.read_chunks(&mut chunks, CHUNK).await?)?;
        while chunks.has_remaining() {
            chunks.advance(std::hint::black_box(chunks.chunk()).len());
        }
    }
    end_receiving(stream, &meter).await
}

/// Returns the lengths of writes of `bytes` bytes in total.
fn parts(bytes: u64) -> impl Iterator<Item = usize> {
    (0..bytes).step_by(CHUNK).map(move |start| (bytes - start).min(CHUNK as u64) as usize)
}

/// Returns the number of bytes that remain of `left` after a read of `len` bytes. Fails at the end of the stream.
fn rest(left: u64, len: usize) -> Result<u64> {
    ensure!(len > 0, "the stream ended {left} bytes early");
    Ok(left.saturating_sub(len as u64))
}

async fn begin_sending(stream: &mut impl Duplex) -> Result<Meter> {
    stream.write_all(&TOKEN).await?;
    stream.flush().await?;
    stream.read_exact(&mut [0]).await?;
    Meter::start()
}

async fn end_sending(stream: &mut impl Duplex, meter: &Meter) -> Result<Usage> {
    stream.flush().await?;
    stream.read_exact(&mut [0]).await?;
    meter.stop()
}

async fn begin_receiving(stream: &mut impl Duplex) -> Result<Meter> {
    stream.read_exact(&mut [0]).await?;
    let meter = Meter::start()?;
    stream.write_all(&TOKEN).await?;
    stream.flush().await?;
    Ok(meter)
}

async fn end_receiving(stream: &mut impl Duplex, meter: &Meter) -> Result<Usage> {
    let usage = meter.stop()?;
    stream.write_all(&TOKEN).await?;
    stream.flush().await?;
    Ok(usage)
}
