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
mod tests {
    use super::*;

    /// The vectors of `docs/wire.md`: a claim, a challenge and an answer without their tags, and what the tags cover besides.
    #[test]
    fn tags_are_those_of_the_vectors() {
        let mut exported = [0; 72];
        exported[..8].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        exported[8..].iter_mut().zip(0..).for_each(|(byte, number)| *byte = number);
        let Mobility { number, is_client, tags } = mobility(&exported, true);
        assert!(is_client && number == [1, 2, 3, 4, 5, 6, 7, 8]);
        let challenge = [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18];
        let message = |value: [u8; 8], step: u8, covered: &[u8]| [&value[..], &[step, 0, 0, 1], covered].concat();
        let claim = tags.client(&message(number, 0, &999_u32.to_be_bytes()));
        let challenged = tags.server(&message(challenge, 0x40, &number));
        let answer = tags.client(&message(number, 0x80, &challenge));
        let expected = [0x7c51_2185_3640_1149, 0xb30f_2206_ecd2_41ed, 0x32ce_caa2_6c79_648d_u64];
        assert_eq!([claim, challenged, answer], expected.map(u64::to_be_bytes));
        assert!(!format!("{tags:?}").contains("31"), "{tags:?} shows keys");
    }
}
