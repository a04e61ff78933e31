//! Decoding of arbitrary bytes as metadata and errors from the kernel, for tests and the fuzz target `udp_driver`.

use super::path_errors;
use super::recv::meta;
use super::syscall::InMessage;

/// Interprets `script` as the kernel's output for a message: length and flags, then the sender, then control messages.
///
/// The message is split as by [`Received::datagrams`](super::Received::datagrams). The same bytes are also decoded as
/// an ICMP error and as an error number.
///
/// # Panics
/// Panics if an invariant of [`Meta`](super::Meta) is violated.
pub fn received(script: &[u8]) {
    let Some((&[len_high, len_low, flags, name_len], rest)) = script.split_first_chunk::<4>() else { return };
    let len = usize::from(u16::from_be_bytes([len_high, len_low]));
    let mut message = InMessage { len, ..InMessage::default() };
    let truncated = flags & 1 != 0;
    message.flags = if truncated { libc::MSG_TRUNC } else { 0 } | if flags & 2 != 0 { libc::MSG_CTRUNC } else { 0 };
    let rest = fill(message.name.storage(), rest, usize::from(name_len & 31));
    message.name.set_len(usize::from(name_len & 31));
    let room = message.control.storage();
    let used = rest.len().min(room.len());
    fill(room, rest, used);
    // A length that exceeds the buffer must do no harm, either.
    message.control.set_len(if flags & 4 != 0 { usize::MAX } else { used });

    // Invariants of the metadata.
    let meta = meta(&message, None);
    assert!(meta.len <= len && (truncated || meta.len == len), "{meta:?} of {len} bytes");
    assert!(meta.stride <= meta.len, "{meta:?}");
    assert!(meta.len == 0 || meta.stride > 0, "{meta:?}");
    assert!(
        !truncated || meta.stride == 0 || meta.len.is_multiple_of(meta.stride),
        "a part of a datagram is left: {meta:?}"
    );
    assert_eq!(meta.coalesced(), meta.len > meta.stride);
    assert!(meta.ecn() < 4);
    // All datagrams except the last have the length `stride`.
    let data = vec![0; meta.len];
    let datagrams = data.chunks(meta.stride.max(1));
    assert!(meta.len == 0 || datagrams.len() == meta.len.div_ceil(meta.stride));
    assert!(datagrams.rev().skip(1).all(|datagram| datagram.len() == meta.stride));

    if let Some(error) = path_errors::read(&message, script) {
        assert!(error.quoted == script);
    }
}

fn fill<'a>(to: &mut [u8], from: &'a [u8], len: usize) -> &'a [u8] {
    let (part, rest) = from.split_at(len.min(from.len()).min(to.len()));
    for (to, byte) in to.iter_mut().zip(part) {
        *to = *byte;
    }
    rest
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn udp_driver_corpus() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/udp_driver");
        let mut seeds = 0;
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            println!("{}", path.display());
            received(&std::fs::read(&path).unwrap());
            seeds += 1;
        }
        assert!(seeds > 0, "no seeds in {}", directory.display());
    }

    proptest! {
        #[test]
        fn arbitrary_kernel_output_keeps_the_invariants(script in prop::collection::vec(any::<u8>(), 0..300)) {
            received(&script);
        }
    }
}
