//! Start of bonds: which connections belong together.

use std::io;
use std::sync::Mutex;

use longhaul_tls::Fingerprint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use super::{Bond, Held, PATHS, Path};
use crate::sync::lock;
use crate::transport::Connection;

/// First bytes of a connection that belongs to a bond.
pub(crate) const MAGIC: [u8; 8] = *b"longbnd\x01";
/// Maximum number of bonds of a sender. Each keeps blocks that have overtaken others.
pub(super) const PER_KEY: usize = 8;
/// Number of bonds that are known, if as many have ended.
pub(super) const KNOWN: usize = 64;

/// Bonds of a receiver, oldest first, with the last ones that have ended: their connections may be late.
pub(crate) struct Bonds<S>(Mutex<Vec<Begun<S>>>);

struct Begun<S> {
    /// The key of the sender and the number that it has chosen.
    name: (Option<Fingerprint>, [u8; 16]),
    others: mpsc::UnboundedSender<Path<S>>,
    /// Number of connections so far.
    count: usize,
}

impl<S> Default for Bonds<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S: Connection> Bonds<S> {
    /// Reads the number of a bond from a connection whose magic bytes have been read. Returns the bond if this is its
    /// first connection. Otherwise, the connection joins the others and keeps `held`, or is dropped if the bond has
    /// ended.
    ///
    /// Fails if the connection fails, if the bond has too many connections, or if the sender has too many bonds.
    pub(crate) async fn join(&self, mut stream: S, held: Held) -> io::Result<Option<Bond<S>>> {
        let mut number = [0; 16];
        stream.read_exact(&mut number).await?;
        let name = (stream.peer_key(), number);
        let mut all = lock(&self.0);
        if let Some(bond) = all.iter_mut().find(|bond| bond.name == name) {
            bond.count = bond.count.saturating_add(1);
            if bond.count > PATHS && !bond.others.is_closed() {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            // A failure drops the connection.
            let _ = bond.others.send(Path::new(0, stream, Some(held)));
            return Ok(None);
        }
        if all.iter().filter(|bond| bond.name.0 == name.0 && !bond.others.is_closed()).count() >= PER_KEY {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        if all.len() >= KNOWN
            && let Some(oldest) = all.iter().position(|bond| bond.others.is_closed())
        {
            all.remove(oldest);
        }
        let (others, joining) = mpsc::unbounded_channel();
        all.push(Begun { name, others, count: 1 });
        let mut bond = Bond::new(joining, None);
        bond.add(Path::new(0, stream, Some(held)));
        Ok(Some(bond))
    }
}

#[cfg(test)]
impl<S> Bonds<S> {
    pub(super) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

/// A local path over which a bond has no connection.
pub(crate) struct Lost<S> {
    pub(crate) route: usize,
    /// Whether the bond has never had a connection over the path.
    pub(crate) is_new: bool,
    number: [u8; 16],
    others: mpsc::UnboundedSender<Path<S>>,
}

impl<S: Connection> Lost<S> {
    pub(crate) fn is_over(&self) -> bool {
        self.others.is_closed()
    }

    /// Adds a connection over the path to the bond.
    pub(crate) async fn replace(&self, mut stream: S) -> io::Result<()> {
        introduce(&mut stream, self.number).await?;
        self.others.send(Path::new(self.route, stream, None)).map_err(|_| io::ErrorKind::NotConnected.into())
    }
}

async fn introduce(stream: &mut impl Connection, number: [u8; 16]) -> io::Result<()> {
    stream.write_all(&[&MAGIC[..], &number].concat()).await?;
    stream.flush().await
}

/// Begins a bond with the connection over one of `routes` local paths; the others are `lost` from the beginning.
pub(crate) async fn begin<S: Connection + Send + 'static>(
    (route, mut stream): (usize, S),
    routes: usize,
    lost: mpsc::UnboundedSender<Lost<S>>,
) -> io::Result<Bond<S>> {
    let mut number = [0; 16];
    getrandom::fill(&mut number).map_err(io::Error::other)?;
    let (others, joining) = mpsc::unbounded_channel();
    let reopen = move |route, is_new| {
        // Nobody may want to open connections.
        let _ = lost.send(Lost { route, is_new, number, others: others.clone() });
    };
    // The bond finds out about a failure, too.
    let _ = introduce(&mut stream, number).await;
    (0..routes).filter(|other| *other != route).for_each(|other| reopen(other, true));
    let mut bond = Bond::new(joining, Some(Box::new(move |route| reopen(route, false))));
    bond.add(Path::new(route, stream, None));
    Ok(bond)
}
