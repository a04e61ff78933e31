//! Keys with which a connection moves to another path (`docs/wire.md`, "Move").

use std::sync::Arc;

use longhaul::{Mobility, MoveTags};
use ring::hmac::{HMAC_SHA256, Key, sign};

/// Application protocol by which both ends say that they can move. A peer without it chooses none.
pub(crate) const PROTOCOL: &[u8] = b"longhaul-move";
/// Label of the exported keys.
pub(crate) const LABEL: &str = "EXPORTER-longhaul-move";

/// Number of a connection, the client's key and the server's.
pub(crate) type Exported = [u8; 72];

#[derive(Debug)]
struct Keys {
    client: Key,
    server: Key,
}

impl MoveTags for Keys {
    fn client(&self, message: &[u8]) -> [u8; 8] {
        tag(&self.client, message)
    }

    fn server(&self, message: &[u8]) -> [u8; 8] {
        tag(&self.server, message)
    }
}

fn tag(key: &Key, message: &[u8]) -> [u8; 8] {
    let full = sign(key, message);
    full.as_ref().first_chunk().copied().unwrap_or_default()
}

/// Returns what the TCP connection needs to move.
pub(crate) fn mobility(exported: &Exported, is_client: bool) -> Mobility {
    let (number, keys) = exported.split_at(8);
    let (client, server) = keys.split_at(32);
    let [client, server] = [client, server].map(|key| Key::new(HMAC_SHA256, key));
    let number = number.try_into().unwrap_or_default();
    Mobility { number, is_client, tags: Arc::new(Keys { client, server }) }
}

#[cfg(test)]
mod tests;
