//! The segment codec: TCP as it travels inside UDP, byte for byte, and nothing that has state.
//!
//! A datagram's payload is a TCP header without ports, checksum and urgent pointer (draft-cheshire-tcp-over-udp-00),
//! its options, and data. [`CheshireCodec`] reads and writes it; [`Options`] are the options of RFC 9293, RFC 7323,
//! RFC 2018 and RFC 5482 plus six experimental ones under RFC 6994; [`shim`] turns datagrams into the segments that a
//! kernel, a capture file or Wireshark understands, and back; [`pcap`] is what such a file has around them; [`probe`] has
//! the datagrams beside the segments that measure a path. `docs/wire.md` has every byte and the test vectors.
//!
//! Nothing here allocates, and nothing here panics, whatever the bytes are.
//!
//! ```
//! use longhaul_wire::{CheshireCodec, Codec, Flags, Header, Segment, Timestamps};
//!
//! let mut header = Header { flags: Flags::ACK | Flags::PSH, window: 512, seq: 1000, ack: 7, ..Header::default() };
//! header.options.timestamps = Some(Timestamps { value: 55, echo: 44 });
//!
//! let mut datagram = [0; 64];
//! let len = CheshireCodec::emit(&header, &mut datagram)?;
//! datagram[len..len + 5].copy_from_slice(b"hello");
//!
//! let segment = Segment::parse::<CheshireCodec>(&datagram[..len + 5])?;
//! assert_eq!(segment.header, header);
//! assert_eq!(segment.payload, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::panic
    )
)]

mod arrivals;
mod codec;
mod ecn;
mod error;
mod flags;
mod header;
pub mod network;
mod options;
pub mod pcap;
pub mod probe;
mod sack;
pub mod shim;

pub use arrivals::{Arrival, Arrivals};
pub use codec::{CheshireCodec, Codec};
pub use ecn::Ecn;
pub use error::{EmitError, ParseError};
pub use flags::Flags;
pub use header::{Header, Segment};
pub use network::NetworkOption;
pub use options::{AckRate, ExId, Options, ProbeEcho, Timestamps, UserTimeout, kind};
pub use sack::{SackBlock, SackBlocks};

/// The most option bytes a header can hold: the data offset ends at 15 words, 5 of which are the fixed header
/// (RFC 9293, section 3.1).
pub const MAX_OPTIONS_LEN: usize = 40;

/// The largest window scale, and the one we offer (RFC 7323, section 2.3).
pub const MAX_WINDOW_SCALE: u8 = 14;
