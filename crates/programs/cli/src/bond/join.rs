//! Start of bonds: which connections belong together.

use std::collections::HashMap;
use std::io;
use std::sync::Mutex;

use longhaul_tls::Fingerprint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use super::{Bond, PATHS};
use crate::sync::lock;
use crate::transport::Connection;

/// First bytes of a connection that belongs to a bond.
pub(crate) const MAGIC: [u8; 8] = *b"longbnd\x01";

type Name = (Option<Fingerprint>, [u8; 16]);
/// Connections with their local paths, for a bond.
type Joining<S> = mpsc::UnboundedSender<(usize, S)>;

/// Bonds of a receiver, by the key of the sender and the number that it has chosen.
pub(crate) struct Bonds<S>(Mutex<HashMap<Name, (Joining<S>, usize)>>);

impl<S> Default for Bonds<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S: Connection> Bonds<S> {
    /// Reads the number of a bond from a connection whose magic bytes have been read. Returns the bond if this is its
    /// first connection; otherwise, the connection joins the others.
    ///
    /// Fails if the connection fails, or if the bond has too many connections.
    pub(crate) async fn join(&self, mut stream: S) -> io::Result<Option<Bond<S>>> {
        let mut number = [0; 16];
        stream.read_exact(&mut number).await?;
        let name = (stream.peer_key(), number);
        let mut all = lock(&self.0);
        all.retain(|_, (others, _)| !others.is_closed());
        if let Some((others, count)) = all.get_mut(&name) {
            *count += 1;
            if *count > PATHS || others.send((0, stream)).is_err() {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            return Ok(None);
        }
        let (others, joining) = mpsc::unbounded_channel();
        all.insert(name, (others, 1));
        let mut bond = Bond::new(joining, None);
        bond.add(0, stream);
        Ok(Some(bond))
    }
}

/// A local path whose connection a bond has lost, or could not open.
pub(crate) struct Lost<S> {
    pub(crate) route: usize,
    number: [u8; 16],
    others: Joining<S>,
}

impl<S: Connection> Lost<S> {
    pub(crate) fn is_over(&self) -> bool {
        self.others.is_closed()
    }

    /// Adds a connection over the path to the bond.
    pub(crate) async fn replace(&self, mut stream: S) -> io::Result<()> {
        introduce(&mut stream, self.number).await?;
        self.others.send((self.route, stream)).map_err(|_| io::ErrorKind::NotConnected.into())
    }
}

async fn introduce(stream: &mut impl Connection, number: [u8; 16]) -> io::Result<()> {
    stream.write_all(&[&MAGIC[..], &number].concat()).await?;
    stream.flush().await
}

/// Bonds connections over local paths to the same peer; paths without a connection are `lost` from the beginning.
pub(crate) async fn begin<S: Connection + Send + 'static>(
    streams: Vec<Option<S>>,
    lost: mpsc::UnboundedSender<Lost<S>>,
) -> io::Result<Bond<S>> {
    let mut number = [0; 16];
    getrandom::fill(&mut number).map_err(io::Error::other)?;
    let (others, joining) = mpsc::unbounded_channel();
    let reopen = move |route| {
        // Nobody may want to open connections.
        let _ = lost.send(Lost { route, number, others: others.clone() });
    };
    let mut bond = Bond::new(joining, None);
    for (route, stream) in streams.into_iter().enumerate() {
        match stream {
            Some(mut stream) => {
                introduce(&mut stream, number).await?;
                bond.add(route, stream);
            }
            None => reopen(route),
        }
    }
    bond.reopen = Some(Box::new(reopen));
    Ok(bond)
}
