//! Keys with which a connection moves to another path (`docs/wire.md`, "Move").

use std::fmt;
use std::hash::Hasher as _;
use std::sync::Arc;

use longhaul::{Mobility, MoveTags};
use siphasher::sip::SipHasher24;

/// Application protocol (ALPN) by which both ends announce that they can move. Other peers select none.
pub(crate) const PROTOCOL: &[u8] = b"longhaul-move";
/// Label of the exported keys.
pub(crate) const LABEL: &str = "EXPORTER-longhaul-move";

/// Number of a connection, the client's key and the server's.
pub(crate) type Exported = [u8; 40];

/// Keys of SipHash-2-4, a MAC of 64 bits for short messages (Aumasson and Bernstein, Indocrypt 2012). A server that is
/// flooded with forged claims computes it for each.
struct Keys {
    client: [u8; 16],
    server: [u8; 16],
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(..)")
    }
}

impl MoveTags for Keys {
    fn client(&self, message: &[u8]) -> [u8; 8] {
        tag(&self.client, message)
    }

    fn server(&self, message: &[u8]) -> [u8; 8] {
        tag(&self.server, message)
    }
}

fn tag(key: &[u8; 16], message: &[u8]) -> [u8; 8] {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(message);
    hasher.finish().to_be_bytes()
}

/// Returns the number and the keys with which the TCP connection moves.
pub(crate) fn mobility(exported: &Exported, is_client: bool) -> Mobility {
    let (number, keys) = exported.split_at(8);
    let (client, server) = keys.split_at(16);
    let [client, server] = [client, server].map(|key| key.try_into().unwrap_or_default());
    let number = number.try_into().unwrap_or_default();
    Mobility { number, is_client, tags: Arc::new(Keys { client, server }) }
}

#[cfg(test)]
mod tests;
