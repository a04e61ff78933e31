//! Data of segment events. Field names are those of qlog's packet events, or of TCP where qlog has none.

use longhaul_tcp::{Ecn, SegmentRecord};
use longhaul_wire::Flags;
use serde::ser::{Serialize, Serializer};

/// Length in bytes of the TCP header fields that a datagram omits: ports, checksum and urgent pointer.
const LEFT_OUT: usize = 8;

/// Data of `segment_sent` and `segment_received`. Sequence numbers are 32-bit, and the window is not scaled.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Segment {
    header: Fields,
    /// Whether the segment's whole sequence space was sent before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    retransmission: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ecn: Option<&'static str>,
}

#[derive(Debug, serde::Serialize)]
struct Fields {
    sequence_number: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    acknowledgment_number: Option<u32>,
    flags: FlagNames,
    window: u16,
    /// Length of the equivalent TCP header in bytes.
    header_length: usize,
    payload_length: usize,
    /// TSval and TSecr.
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamps: Option<[u32; 2]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sack: Vec<[u32; 2]>,
}

impl Segment {
    pub(crate) fn new(segment: &SegmentRecord<'_>, retransmission: bool) -> Self {
        let header = segment.header;
        let acknowledges = header.flags.contains(Flags::ACK);
        Self {
            header: Fields {
                sequence_number: header.seq,
                acknowledgment_number: acknowledges.then_some(header.ack),
                flags: FlagNames(header.flags),
                window: header.window,
                header_length: segment.header_len + LEFT_OUT,
                payload_length: segment.payload_len,
                timestamps: header.options.timestamps.map(|t| [t.value, t.echo]),
                sack: header.options.sack.as_slice().iter().map(|block| [block.left, block.right]).collect(),
            },
            retransmission,
            ecn: ecn_name(segment.ecn),
        }
    }
}

/// Returns the name of the ECN codepoint (RFC 3168, section 5), or `None` for Not-ECT.
fn ecn_name(ecn: Ecn) -> Option<&'static str> {
    match ecn {
        Ecn::NotEct => None,
        Ecn::Ect1 => Some("ECT(1)"),
        Ecn::Ect0 => Some("ECT(0)"),
        Ecn::Ce => Some("CE"),
    }
}

#[derive(Debug)]
struct FlagNames(Flags);

impl Serialize for FlagNames {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let names = [
            (Flags::SYN, "syn"),
            (Flags::FIN, "fin"),
            (Flags::RST, "rst"),
            (Flags::PSH, "psh"),
            (Flags::ACK, "ack"),
            (Flags::ECE, "ece"),
            (Flags::CWR, "cwr"),
            (Flags::AE, "ae"),
        ];
        serializer.collect_seq(names.iter().filter(|(flag, _)| self.0.contains(*flag)).map(|(_, name)| name))
    }
}
