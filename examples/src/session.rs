//! Complete connections: opening, transfer of files, closing.

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

/// Sends `sources` over one connection to the first of `addresses` that answers. `sent` is called for each confirmed
/// file, with the connection's state at that time.
///
/// # Errors
/// Returns why a file was not confirmed; the files after it were not sent.
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
                // The queued data is useless, and the reset tells the peer of the failure at once.
                sender.transport().abort();
                return Err(error.into());
            }
        };
        let after = sender.transport().snapshot();
        sent(Sent::new(path, size, watch.elapsed(), &before, &after, &hash), &after);
        before = after;
        watch = Stopwatch::start();
    }
    // All files are confirmed: a failure of the close is of no consequence for the sender.
    let _ = timeout(args.patience(), finish(sender.into_transport())).await;
    Ok(())
}

async fn finish(mut stream: TcpStream) -> std::io::Result<()> {
    stream.shutdown().await?;
    let mut rest = [0; 64];
    while stream.read(&mut rest).await? > 0 {}
    transport::close(stream).await
}

/// Receives the files of one connection and closes it. `greeted` is called when the peer has sent the protocol's
/// magic bytes, `received` for each file.
///
/// # Errors
/// Returns why the last file was not received.
pub async fn receive(
    args: &TransportArgs,
    receiver: &Receiver,
    mut stream: TcpStream,
    greeted: impl FnOnce(),
    mut received: impl FnMut(File),
) -> Result<(), ReceiveError> {
    let result = receiver.serve(&mut stream, greeted, |_, file| received(file)).await;
    match &result {
        // The TCP stack ends with the process, so the last confirmation must be acknowledged before.
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
