//! Encoding of control messages (`cmsg(3)`).
//!
//! A control message consists of a length (a native word, which counts the header), level and type (two `int`s), and
//! the data, padded to a word.

use super::addr::array;
use super::filled::Filled;

const WORD: usize = size_of::<usize>();
const HEADER: usize = WORD + 8;

/// Returns the size in bytes of a message with `len` bytes of data.
const fn space(len: usize) -> usize {
    (HEADER + len).next_multiple_of(WORD)
}

const TIMESTAMP: usize = space(size_of::<libc::timespec>());
const INT: usize = space(size_of::<libc::c_int>());
const PKTINFO4: usize = space(size_of::<libc::in_pktinfo>());
const PKTINFO6: usize = space(size_of::<libc::in6_pktinfo>());

/// Space in bytes for the control messages that may be sent together: TOS or traffic class, source address, segment
/// size.
const SEND_ROOM: usize = (INT + PKTINFO6 + INT).next_multiple_of(128);

/// Space in bytes for the control messages enabled by `options`: timestamp, drops, segment size, TOS, TTL, and
/// destination address, which a dual-stack socket may report in both forms.
const RECV_ROOM: usize = (TIMESTAMP + 4 * INT + PKTINFO6 + PKTINFO4).next_multiple_of(128);

pub(super) type SendControl = Filled<SEND_ROOM>;
pub(super) type RecvControl = Filled<RECV_ROOM>;

impl<const ROOM: usize> Filled<ROOM> {
    /// Appends a message. [`SEND_ROOM`] suffices for one message of each kind that is used; further messages are
    /// omitted.
    pub(super) fn push(&mut self, level: i32, kind: i32, data: &[u8]) {
        let end = self.len + space(data.len());
        let Some(room) = self.bytes.get_mut(self.len..end) else {
            debug_assert!(false, "control messages beyond the room for them");
            return;
        };
        room[..WORD].copy_from_slice(&(HEADER + data.len()).to_ne_bytes());
        room[WORD..WORD + 4].copy_from_slice(&level.to_ne_bytes());
        room[WORD + 4..HEADER].copy_from_slice(&kind.to_ne_bytes());
        room[HEADER..HEADER + data.len()].copy_from_slice(data);
        self.len = end;
    }

    pub(super) fn messages(&self) -> Messages<'_> {
        Messages { rest: self.as_bytes() }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) level: i32,
    pub(super) kind: i32,
    pub(super) data: &'a [u8],
}

/// Iterates over control messages up to the first incomplete one.
pub(super) struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let len = usize::from_ne_bytes(*self.rest.first_chunk()?);
        let message = Message {
            level: i32::from_ne_bytes(array(self.rest, WORD)),
            kind: i32::from_ne_bytes(array(self.rest, WORD + 4)),
            data: self.rest.get(HEADER..len)?,
        };
        let padded = len.checked_next_multiple_of(WORD)?;
        self.rest = self.rest.get(padded..).unwrap_or_default();
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn received(bytes: &[u8]) -> RecvControl {
        let mut control = RecvControl::default();
        control.storage()[..bytes.len()].copy_from_slice(bytes);
        control.set_len(bytes.len());
        control
    }

    #[test]
    fn what_is_pushed_is_read_back() {
        let mut sent = SendControl::default();
        sent.push(1, 2, &[3]);
        sent.push(-4, 5, &[6; 20]);
        assert_eq!(sent.as_bytes().len() % WORD, 0);
        let control = received(sent.as_bytes());
        let messages: Vec<_> = control.messages().collect();
        assert_eq!(messages[0], Message { level: 1, kind: 2, data: &[3] });
        assert_eq!(messages[1], Message { level: -4, kind: 5, data: &[6; 20] });
        assert_eq!(messages.len(), 2);
    }

    /// Compares the layout to that of the C library.
    #[test]
    #[expect(unsafe_code, reason = "CMSG_SPACE and CMSG_LEN are unsafe functions in libc, without a condition")]
    fn sizes_are_those_of_the_c_library() {
        for len in 0..64 {
            // SAFETY: pure arithmetic.
            let (c_space, c_header) = unsafe { (libc::CMSG_SPACE(len), libc::CMSG_LEN(0)) };
            assert_eq!(space(len as usize), c_space as usize);
            assert_eq!(HEADER, c_header as usize);
        }
        assert_eq!(HEADER, size_of::<libc::cmsghdr>());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..RECV_ROOM), len: usize, short: bool) {
            let mut bytes = bytes;
            if bytes.len() >= WORD {
                let len = if short { len % RECV_ROOM } else { len };
                bytes[..WORD].copy_from_slice(&len.to_ne_bytes());
            }
            prop_assert!(received(&bytes).messages().count() <= RECV_ROOM / HEADER);
        }
    }
}
