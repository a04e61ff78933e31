//! Complete connections: opening, transfer of files, closing.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::progress::{Screen, Side};
use crate::protocol::ProtocolError;
use crate::receiver::{File, ReceiveError, Receiver};
use crate::report::{Sent, Stopwatch};
use crate::sender::{Delivery, SendError, Sender, Source};
use crate::transport::{Connection, Snapshot, TransportArgs};

/// Result of a file.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The file is at the receiver.
    Sent(Sent),
    /// The receiver has kept another file of the same name. The text is the path as given on the command line.
    Skipped(String),
}

/// Sends `sources` over one plain connection to the first of `addresses` that answers. `done` is called for each
/// file, with the connection's state at that time.
///
/// # Errors
/// Returns why a file was not confirmed; the files after it were not sent.
pub async fn send(
    args: &TransportArgs,
    addresses: &[SocketAddr],
    sources: Vec<Source>,
    screen: &Screen,
    done: impl FnMut(Outcome, &Snapshot),
) -> Result<()> {
    let watch = Stopwatch::start();
    let stream = args.connect(addresses).await?;
    Ok(send_over(stream, watch, args.patience(), sources, screen, done).await?)
}

/// As [`send`], over the connection `stream`. `watch` was started before it was opened, and the time for closing it
/// is limited to `patience`.
///
/// # Errors
/// Returns why a file was not confirmed; the files after it were not sent.
pub async fn send_over(
    stream: impl Connection,
    mut watch: Stopwatch,
    patience: Duration,
    sources: Vec<Source>,
    screen: &Screen,
    mut done: impl FnMut(Outcome, &Snapshot),
) -> Result<(), SendError> {
    let mut sender = Sender::new(stream);
    let mut before = Snapshot::default();
    for source in sources {
        let path = source.path().display().to_string();
        let mut progress = screen.begin(Side::Sending, source.name(), source.size());
        let result = sender.send(source, &mut progress).await;
        drop(progress);
        let delivery = match result {
            Ok(delivery) => delivery,
            Err(error) => {
                // The queued data is useless, and the reset tells the peer of the failure at once.
                sender.transport().tcp().abort();
                return Err(error);
            }
        };
        let after = sender.transport().snapshot();
        let outcome = match delivery {
            Delivery::Confirmed { hash, bytes } => {
                Outcome::Sent(Sent::new(path, bytes, watch.elapsed(), &before, &after, &hash))
            }
            Delivery::Skipped => Outcome::Skipped(path),
        };
        done(outcome, &after);
        before = after;
        watch = Stopwatch::start();
    }
    // All files are confirmed: a failure of the close is of no consequence for the sender.
    let _ = timeout(patience, finish(sender.into_transport())).await;
    Ok(())
}

async fn finish(mut stream: impl Connection) -> std::io::Result<()> {
    stream.shutdown().await?;
    let mut rest = [0; 64];
    while stream.read(&mut rest).await? > 0 {}
    stream.close().await
}

/// Receives the files of one connection and closes it, within `patience`. `greeted` is called when the peer has sent
/// the protocol's magic bytes, `received` for each file.
///
/// # Errors
/// Returns why the last file was not received.
pub async fn receive(
    receiver: &Receiver,
    mut stream: impl Connection,
    greeted: impl FnOnce(),
    mut received: impl FnMut(File),
) -> Result<(), ReceiveError> {
    let result = receiver.serve(&mut stream, greeted, |_, file| received(file)).await;
    match &result {
        // The TCP stack ends with the process, so the last confirmation must be acknowledged before.
        Ok(()) => {
            let closed = timeout(receiver.patience, stream.close()).await;
            closed.unwrap_or(Ok(())).map_err(|error| ProtocolError::from(error).into())
        }
        Err(_) => {
            stream.tcp().abort();
            result
        }
    }
}
