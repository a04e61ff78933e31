//! One stream, one direction, as fast as it goes: the two sides of a transfer over a stream transport.
//!
//! The client sends. Both sides are metered from the moment that both are ready, the sender until the receiver says
//! that it has everything, the receiver until it has: connection set-up, TLS handshakes and closing are left out.

use anyhow::{Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::meter::{Meter, Usage};
use crate::transport::Stream;

/// Bytes of one write, and the most of one read.
const CHUNK: usize = 256 << 10;
/// One byte that says: ready, or done.
const TOKEN: [u8; 1] = [1];

/// Sends `bytes` bytes.
///
/// # Errors
/// The transport's.
pub async fn send(stream: &mut Stream, bytes: u64) -> Result<Usage> {
    let chunk = vec![0x5a; CHUNK];
    stream.write_all(&TOKEN).await?;
    stream.flush().await?;
    stream.read_exact(&mut [0]).await?;
    let meter = Meter::start()?;
    let mut left = bytes;
    while left > 0 {
        let part = left.min(CHUNK as u64);
        stream.write_all(&chunk[..part as usize]).await?;
        left -= part;
    }
    stream.flush().await?;
    stream.read_exact(&mut [0]).await?;
    meter.stop()
}

/// Receives `bytes` bytes.
///
/// # Errors
/// The transport's; the stream ended early.
pub async fn receive(stream: &mut Stream, bytes: u64) -> Result<Usage> {
    let mut chunk = vec![0; CHUNK];
    stream.read_exact(&mut [0]).await?;
    let meter = Meter::start()?;
    stream.write_all(&TOKEN).await?;
    stream.flush().await?;
    let mut received = 0;
    while received < bytes {
        match stream.read(&mut chunk).await? {
            0 => bail!("the stream ended after {received} of {bytes} bytes"),
            read => received += read as u64,
        }
    }
    let usage = meter.stop()?;
    stream.write_all(&TOKEN).await?;
    stream.flush().await?;
    Ok(usage)
}
