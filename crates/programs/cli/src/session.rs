//! Whole connections: opening, transfer of files, closing.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::names::Name;
use crate::progress::Screen;
use crate::protocol::ProtocolError;
use crate::receiver::{File, LeftOut, ReceiveError, Receiver};
use crate::report::{Sent, Stopwatch};
use crate::sender::{Delivery, Options, Plan, SendError, Sender, Source};
use crate::transport::{Connection, Snapshot, Transport};

#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// The receiver has the file.
    Sent(Sent),
    /// The receiver has kept another file of the same name. The text is the path as given on the command line.
    Skipped(String),
    /// The receiver does not have the file. The texts are its path and the reason.
    Failed(String, String),
    /// The receiver has the directory or symbolic link with this path.
    Created,
}

/// Sends the unsettled files of `plan` over `stream`, and closes the connection within `patience`. `watch` was started
/// before the connection was opened.
/// Returns the reason if a file was not confirmed; `plan` then has the files to be sent again.
pub(crate) async fn send_over(
    stream: impl Connection,
    mut watch: Stopwatch,
    patience: Duration,
    plan: &mut Plan,
    options: Options,
    screen: &Screen,
    mut done: impl FnMut(Outcome, &Snapshot),
) -> Result<(), SendError> {
    let mut sender = Sender::new(stream);
    let mut before = Snapshot::default();
    let settled = |source: &Source, delivery: Delivery, stream: &_| {
        let path = Name::from(source.path().as_os_str()).text();
        let after = Transport::snapshot(stream);
        let outcome = match delivery {
            Delivery::Confirmed { .. } if !source.is_file() => Outcome::Created,
            Delivery::Declined(reason) => Outcome::Failed(path, format!("the receiver says: {reason}")),
            Delivery::Failed(error) => Outcome::Failed(path, error.to_string()),
            Delivery::Confirmed { hash, bytes, resumed } => {
                Outcome::Sent(Sent::new(path, (bytes, resumed), watch.elapsed(), &before, &after, &hash))
            }
            Delivery::Skipped => Outcome::Skipped(path),
        };
        done(outcome, &after);
        before = after;
        watch = Stopwatch::start();
    };
    if let Err(error) = sender.send(plan, options, screen, settled).await {
        // The queued data is useless, and a reset tells the peer of the failure at once.
        sender.transport().tcp().abort();
        return Err(error);
    }
    // All files are confirmed, so that a failed close has no consequence for the sender.
    let _ = timeout(patience, finish(sender.into_transport())).await;
    Ok(())
}

async fn finish(mut stream: impl Connection) -> std::io::Result<()> {
    stream.shutdown().await?;
    let mut rest = [0; 64];
    while stream.read(&mut rest).await? > 0 {}
    stream.close().await
}

/// Receives the files of one connection and closes it; closing may take `patience`. `greeted` is called when the peer
/// has sent the protocol's magic bytes, `received` for each file.
/// Returns [`ReceiveError::LeftOut`] if some files were not received, otherwise the reason why the connection failed.
pub(crate) async fn receive(
    receiver: &Receiver,
    mut stream: impl Connection,
    greeted: impl FnOnce(),
    mut received: impl FnMut(Result<File, LeftOut>),
) -> Result<(), ReceiveError> {
    let result = receiver.serve(&mut stream, greeted, |_, file| received(file)).await;
    match &result {
        // The TCP stack ends with the process, so the last confirmation must be acknowledged first.
        Ok(()) | Err(ReceiveError::LeftOut(_)) => {
            let closed = timeout(receiver.patience, stream.close()).await;
            let closed = closed.unwrap_or(Ok(())).map_err(|error| ProtocolError::from(error).into());
            result.and(closed)
        }
        Err(_) => {
            stream.tcp().abort();
            result
        }
    }
}
