//! Stateless codec for TCP segments in UDP datagrams.
//!
//! A UDP payload consists of a TCP header without ports, checksum and urgent pointer (draft-cheshire-tcp-over-udp-00),
//! of TCP options, and of data.
//!
//! * [`CheshireCodec`] parses and emits this format.
//! * [`Options`] are the options of RFC 9293, RFC 7323, RFC 2018 and RFC 5482 and seven experimental ones (RFC 6994).
//! * [`shim`] converts datagrams to ordinary TCP segments for a kernel or a capture file, and back.
//! * [`pcap`] contains the headers of capture files.
//! * [`probe`] contains the path measurement datagrams, which share the UDP port with the segments.
//!
//! `docs/wire.md` specifies every byte and contains the test vectors. No function allocates, and none panics on any
//! input.
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
mod moving;
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
pub use moving::{MoveOption, MoveStep};
pub use network::NetworkOption;
pub use options::{AckRate, ExId, Options, ProbeEcho, Timestamps, UserTimeout, kind};
pub use sack::{SackBlock, SackBlocks};

/// Largest number of option bytes in a header: the data offset is at most 15 words, 5 of which are the fixed header
/// (RFC 9293, section 3.1).
pub const MAX_OPTIONS_LEN: usize = 40;

/// Largest window scale, which is also the one offered by longhaul (RFC 7323, section 2.3).
pub const MAX_WINDOW_SCALE: u8 = 14;
