//! Whole connections: connect or accept, files, close.

use std::net::SocketAddr;

use anyhow::Result;
use longhaul::TcpStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::progress::{Screen, Side};
use crate::protocol::ProtocolError;
use crate::receiver::{File, ReceiveError, Receiver};
use crate::report::{Sent, Stopwatch};
use crate::sender::{Sender, Source};
use crate::transport::{self, Snapshot, Transport, TransportArgs};

/// Sends `sources` over one connection to the first of `addresses` that answers. `sent` is told of each file that was
/// confirmed, with the connection's state at that time.
///
/// # Errors
/// Why the next file was not confirmed; those after it were not sent.
pub async fn send(
    args: &TransportArgs,
    addresses: &[SocketAddr],
    sources: Vec<Source>,
    screen: &Screen,
    mut sent: impl FnMut(Sent, &Snapshot),
) -> Result<()> {
    let mut watch = Stopwatch::start();
    let mut sender = Sender::new(args.connect(addresses).await?);
    let mut before = Snapshot::default();
    for source in sources {
        let (size, path) = (source.size(), source.path().display().to_string());
        let mut progress = screen.begin(Side::Sending, source.name(), size);
        let result = sender.send(source, &mut progress).await;
        drop(progress);
        let hash = match result {
            Ok(hash) => hash,
            Err(error) => {
                // What is still queued serves nobody, and the peer should hear of the end.
                sender.transport().abort();
                return Err(error.into());
            }
        };
        let after = sender.transport().snapshot();
        sent(Sent::new(path, size, watch.elapsed(), &before, &after, &hash), &after);
        before = after;
        watch = Stopwatch::start();
    }
    // Everything is confirmed: what may still go wrong concerns nobody but the peer's state.
    let _ = timeout(args.patience(), finish(sender.into_transport())).await;
    Ok(())
}

async fn finish(mut stream: TcpStream) -> std::io::Result<()> {
    stream.shutdown().await?;
    let mut rest = [0; 64];
    while stream.read(&mut rest).await? > 0 {}
    transport::close(stream).await
}

/// Receives the files of one connection and closes it. `greeted` is told when the peer has said that it is a sender,
/// `received` of each file.
///
/// # Errors
/// Why the last file is not there.
pub async fn receive(
    args: &TransportArgs,
    receiver: &Receiver,
    mut stream: TcpStream,
    greeted: impl FnOnce(),
    mut received: impl FnMut(File),
) -> Result<(), ReceiveError> {
    let result = receiver.serve(&mut stream, greeted, |_, file| received(file)).await;
    match &result {
        // The stack ends with the process: the last confirmation must be out before.
        Ok(()) => {
            let closed = timeout(args.patience(), transport::close(stream)).await;
            closed.unwrap_or(Ok(())).map_err(|error| ProtocolError::from(error).into())
        }
        Err(_) => {
            stream.abort();
            result
        }
    }
}
