//! The two sides of a bulk transfer over a stream transport, in one direction and at full speed.
//!
//! The client sends. The measurement begins when both sides are ready. It ends at the receiver when all data has
//! arrived, and at the sender when the receiver has confirmed this. It excludes connection set-up, TLS handshakes and
//! closing.

use anyhow::{Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::meter::{Meter, Usage};
use crate::transport::Stream;

/// Bytes per write, and maximum bytes per read.
const CHUNK: usize = 256 << 10;
/// Byte with which a side reports that it is ready or done.
const TOKEN: [u8; 1] = [1];

/// Sends `bytes` bytes.
///
/// # Errors
/// Returns the transport's error.
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
/// Returns the transport's error, or an error if the stream ends early.
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
