//! Whole connections: opening, transfer of files, closing.

use std::time::Duration;

use tokio::time::timeout;

use crate::bond::{Bonds, Held};
use crate::names::Name;
use crate::plot::Plot;
use crate::progress::Progress;
use crate::protocol::{Greeting, ProtocolError};
use crate::receiver::{EXISTS, File, LeftOut, ReceiveError, Receiver};
use crate::report::{Sent, Stopwatch};
use crate::sender::{Delivery, Options, Plan, SendError, Sender, Source};
use crate::transport::{self, Connection, Snapshot, Transport};

/// Advice about a file whose name is taken at the receiver.
const OTHER_EXISTS: &str = "the receiver has another file of this name; with --overwrite there, it is replaced";

#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// The receiver has the file.
    Sent(Sent),
    /// The receiver has kept a different file of the same name. The text is the path as given on the command line.
    Skipped(String),
    /// The receiver does not have the file. The texts are its path and the reason.
    Failed(String, String),
    /// The receiver has the directory or symbolic link with this path.
    Created,
}

/// Transfer of the files of a plan.
pub(crate) struct Sending<'a> {
    pub(crate) plan: &'a mut Plan,
    pub(crate) options: Options,
    pub(crate) progress: &'a mut Progress,
    /// Maximum time to close a connection.
    pub(crate) patience: Duration,
    pub(crate) plot: Option<&'a mut Plot>,
}

impl Sending<'_> {
    /// Sends the unsettled files by `sender`, and closes its connection. `watch` was started before the connection was
    /// opened. Returns the reason if a file was not confirmed; the plan then contains the files to be sent again.
    pub(crate) async fn run(
        mut self,
        mut sender: Sender<impl Connection>,
        mut watch: Stopwatch,
        mut done: impl FnMut(Outcome),
    ) -> Result<(), SendError> {
        if let Some(plot) = &mut self.plot {
            plot.begin(sender.transport().tcp());
        }
        let mut before = Snapshot::default();
        let settled = |source: &Source, delivery: Delivery, stream: &_| {
            let path = Name::from(source.path().as_os_str()).text();
            let after = Transport::snapshot(stream).unwrap_or_default();
            done(match delivery {
                Delivery::Confirmed { .. } if !source.is_file() => Outcome::Created,
                Delivery::Declined(reason) if reason == EXISTS => Outcome::Failed(path, OTHER_EXISTS.to_owned()),
                Delivery::Declined(reason) => Outcome::Failed(path, format!("the receiver says: {reason}")),
                Delivery::Failed(error) => Outcome::Failed(path, error.to_string()),
                Delivery::Confirmed { hash, bytes, resumed } => {
                    Outcome::Sent(Sent::new(path, (bytes, resumed), watch.elapsed(), &before, &after, &hash))
                }
                Delivery::Skipped => Outcome::Skipped(path),
            });
            before = after;
            watch = Stopwatch::start();
        };
        let plot = &mut self.plot;
        let observe = |stream: &_| {
            if let Some(plot) = plot {
                plot.update(Connection::tcp(stream));
            }
        };
        if let Err(error) = sender.send(self.plan, self.options.clone(), self.progress, observe, settled).await {
            // The queued data is useless, and a reset notifies the peer of the failure at once.
            sender.transport().tcp().abort();
            return Err(error);
        }
        // All files are confirmed, so that a failed close has no consequence for the sender.
        let _ = timeout(self.patience, finish(sender.into_transport(), self.plot)).await;
        Ok(())
    }
}

async fn finish(mut stream: impl Connection, plot: Option<&mut Plot>) -> std::io::Result<()> {
    transport::drain(&mut stream).await?;
    if let Some(plot) = plot {
        plot.sample(stream.tcp());
    }
    stream.close().await
}

/// Receives the files of one connection and closes it; closing may take `patience`. `greeted` is called when the peer
/// has sent the protocol's magic bytes, `received` for each file. A connection that joins a bond is served by the first
/// one of that bond, and keeps `held`; if it `only_joins`, one without a bond is reset.
/// Returns whether files were received here.
/// Fails with [`ReceiveError::LeftOut`] if some files were not received, otherwise with the reason why the connection
/// failed.
pub(crate) async fn receive<S: Connection + Send>(
    receiver: &Receiver,
    mut stream: S,
    (bonds, only_joins): (&Bonds<S>, bool),
    held: Held,
    progress: Progress,
    greeted: impl FnOnce(),
    received: impl FnMut(Result<File, LeftOut>),
) -> Result<bool, ReceiveError> {
    let greeting = receiver.greeting(&mut stream).await;
    // A bond takes memory for the blocks that overtake others, so its sender must have a key.
    let greeting = match greeting {
        Ok(Greeting::Bond) if stream.peer_key().is_none() => Err(ProtocolError::NotOurs.into()),
        greeting => greeting,
    };
    if !matches!(greeting, Ok(Greeting::Bond)) {
        if only_joins {
            stream.tcp().abort();
            return Ok(false);
        }
        let result = receiver.serve_after(greeting, &mut stream, progress, greeted, received).await;
        return end(receiver, stream, result).await.map(|()| true);
    }
    let joined = timeout(receiver.patience, bonds.join(stream, held)).await.map_err(|_| ReceiveError::Silent)?;
    match joined.map_err(ProtocolError::from)? {
        Some(mut bond) => {
            let result = receiver.serve(&mut bond, progress, greeted, received).await;
            end(receiver, bond, result).await.map(|()| true)
        }
        None => {
            greeted();
            Ok(false)
        }
    }
}

/// Closes a connection whose files have been received, or aborts one that has failed.
async fn end(
    receiver: &Receiver,
    stream: impl Connection,
    result: Result<(), ReceiveError>,
) -> Result<(), ReceiveError> {
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
