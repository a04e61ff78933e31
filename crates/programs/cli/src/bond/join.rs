//! Start of bonds: which connections belong together.

use std::collections::HashMap;
use std::io;
use std::sync::Mutex;

use longhaul_tls::Fingerprint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use super::Bond;
use crate::sync::lock;
use crate::transport::Connection;

/// First bytes of a connection that belongs to a bond.
pub(crate) const MAGIC: [u8; 8] = *b"longbnd\x01";
/// Maximum number of connections of a bond.
const PATHS: usize = 16;

type Name = (Option<Fingerprint>, [u8; 16]);

/// Bonds of a receiver, by the key of the sender and the number that it has chosen.
pub(crate) struct Bonds<S>(Mutex<HashMap<Name, (mpsc::UnboundedSender<S>, usize)>>);

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
            if *count > PATHS || others.send(stream).is_err() {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            return Ok(None);
        }
        let (others, joining) = mpsc::unbounded_channel();
        all.insert(name, (others, 1));
        Ok(Some(Bond::new(stream, Some(joining))))
    }
}

/// Bonds connections to the same peer.
pub(crate) async fn begin<S: Connection>(streams: Vec<S>) -> io::Result<Bond<S>> {
    let mut number = [0; 16];
    getrandom::fill(&mut number).map_err(io::Error::other)?;
    let mut bond: Option<Bond<S>> = None;
    for mut stream in streams {
        stream.write_all(&[&MAGIC[..], &number].concat()).await?;
        stream.flush().await?;
        match &mut bond {
            Some(bond) => bond.add(stream),
            None => bond = Some(Bond::new(stream, None)),
        }
    }
    bond.ok_or_else(|| io::ErrorKind::NotConnected.into())
}
