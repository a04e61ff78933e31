//! Network feedback option: requests to the routers on the path, and the receiver's feedback to the sender.
//!
//! Quick-Start (RFC 4782), RCP and XCP need routers that read and write a header. IP options cannot be sent from a UDP
//! socket, so the header is carried in a TCP option, [`NetworkOption`], which the routers of an emulated path find and
//! edit in place ([`edit_forward`]). Ordinary routers ignore it, and a sender must not interpret their silence as
//! approval. Therefore, each router that processes the header increments [`Forward::stamps`]. The receiver compares
//! this count to the hop count, the difference between the sent and the received TTL ([`Forward::feedback`]). If there
//! are fewer stamps than hops, or none, the request is denied.

use crate::codec::{options_bytes_mut, put};
use crate::options::ExId;
use crate::options::kind;
use crate::options::raw::RawOptions;

mod number;
mod quick_start;
#[cfg(test)]
mod tests;

pub use number::{WireDelta, WireRate};
pub(crate) use number::{pack, unpack};
pub use quick_start::{QuickStartNonce, QuickStartRate};

/// Network feedback option: a request in the forward direction, feedback for the reverse direction, or both.
///
/// If neither is set, the option is not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkOption {
    /// Request to the routers on the path to the peer, which then answers it.
    pub forward: Option<Forward>,
    /// Answer to the peer's latest request.
    pub feedback: Option<Feedback>,
}

/// Part of the option that routers read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// IP TTL or hop limit with which the packet is sent.
    pub ttl: u8,
    /// Number of routers that have processed `request`. The sender sets it to 0.
    pub stamps: u8,
    /// Request that routers process.
    pub request: Request,
}

/// Request of a sender, which routers may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Quick-Start Rate Request (RFC 4782, section 3.1).
    QuickStart {
        /// The requested rate, which routers may lower; 0 is a denial.
        rate: QuickStartRate,
        /// Nonce that detects a receiver that claims a higher rate than the approved one.
        nonce: QuickStartNonce,
    },
    /// Quick-Start Report of Approved Rate (RFC 4782, section 3.1). It is for routers only; the receiver sends no
    /// feedback.
    QuickStartReport {
        /// The approved rate; 0 if the request was denied.
        rate: QuickStartRate,
        /// The nonce of the request.
        nonce: QuickStartNonce,
    },
    /// RCP: smallest rate of the routers so far.
    Rcp {
        /// The rate wanted by the sender, usually [`WireRate::UNLIMITED`]. Each router lowers it to its own rate.
        rate: WireRate,
        /// The sender's RTT in microseconds; 0 if it has no estimate.
        rtt_micros: u32,
    },
    /// XCP: change of the sender's throughput.
    Xcp {
        /// The sender's throughput.
        throughput: WireRate,
        /// The sender's RTT in microseconds; 0 if it has no estimate.
        rtt_micros: u32,
        /// The requested change in bytes per second, which routers replace by the granted change.
        delta: WireDelta,
    },
}

/// Answer of the receiver to a [`Request`], which the sender of the request reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feedback {
    /// A router did not process the request, or denied it.
    Denied,
    /// Quick-Start Response (RFC 4782, section 4.2).
    QuickStart {
        /// Rate that the routers approved.
        rate: QuickStartRate,
        /// The nonce as received; the sender checks it with [`QuickStartNonce::approves`].
        nonce: QuickStartNonce,
    },
    /// RCP: rate of the bottleneck.
    Rcp {
        /// Requested rate after all routers have lowered it.
        rate: WireRate,
    },
    /// XCP: granted change of the throughput.
    Xcp {
        /// The change in bytes per second.
        delta: WireDelta,
    },
}

/// Codes of the kinds of parts, in the high nibble of a part's first byte.
mod part {
    pub(super) const QUICK_START_REQUEST: u8 = 0x1;
    pub(super) const QUICK_START_REPORT: u8 = 0x2;
    pub(super) const RCP_REQUEST: u8 = 0x3;
    pub(super) const XCP_REQUEST: u8 = 0x4;
    pub(super) const DENIED: u8 = 0x8;
    pub(super) const QUICK_START_RESPONSE: u8 = 0x9;
    pub(super) const RCP_RESPONSE: u8 = 0xa;
    pub(super) const XCP_RESPONSE: u8 = 0xb;
}

impl Forward {
    /// Returns the receiver's feedback for this request, or `None` if the request needs no answer.
    ///
    /// `received_ttl` is the TTL with which the packet arrived (`IP_RECVTTL`). If it is unknown, the request is denied.
    #[must_use]
    pub fn feedback(&self, received_ttl: Option<u8>) -> Option<Feedback> {
        let answer = match self.request {
            Request::QuickStartReport { .. } => return None,
            Request::QuickStart { rate: QuickStartRate::ZERO, .. } => Feedback::Denied,
            Request::QuickStart { rate, nonce } => Feedback::QuickStart { rate, nonce },
            Request::Rcp { rate, .. } => Feedback::Rcp { rate },
            Request::Xcp { delta, .. } => Feedback::Xcp { delta },
        };
        Some(if self.stamped_by_all(received_ttl) { answer } else { Feedback::Denied })
    }

    /// Returns whether the header has at least one stamp, and at least as many as the packet had hops.
    fn stamped_by_all(&self, received_ttl: Option<u8>) -> bool {
        let hops = received_ttl.and_then(|ttl| self.ttl.checked_sub(ttl));
        self.stamps > 0 && hops.is_some_and(|hops| self.stamps >= hops)
    }

    const fn wire_len(&self) -> usize {
        match self.request {
            Request::QuickStart { .. } | Request::QuickStartReport { .. } => 7,
            Request::Rcp { .. } => 11,
            Request::Xcp { .. } => 15,
        }
    }

    /// Parses a forward part at the start of `body`. Returns it with the rest of `body`, or `None` if there is none.
    fn parse(body: &[u8]) -> Option<(Self, &[u8])> {
        let (&[head, ttl, stamps], rest) = body.split_first_chunk()?;
        let (request, rest) = match head >> 4 {
            kind @ (part::QUICK_START_REQUEST | part::QUICK_START_REPORT) => {
                let (nonce, rest) = word(rest)?;
                let (rate, nonce) = (QuickStartRate::from_code(head), QuickStartNonce::from_field(nonce));
                let is_report = kind == part::QUICK_START_REPORT;
                (
                    if is_report {
                        Request::QuickStartReport { rate, nonce }
                    } else {
                        Request::QuickStart { rate, nonce }
                    },
                    rest,
                )
            }
            part::RCP_REQUEST => {
                let (rate, rest) = word(rest)?;
                let (rtt_micros, rest) = word(rest)?;
                (Request::Rcp { rate: WireRate(rate), rtt_micros }, rest)
            }
            part::XCP_REQUEST => {
                let (throughput, rest) = word(rest)?;
                let (rtt_micros, rest) = word(rest)?;
                let (delta, rest) = word(rest)?;
                let (throughput, delta) = (WireRate(throughput), WireDelta(delta));
                (Request::Xcp { throughput, rtt_micros, delta }, rest)
            }
            _ => return None,
        };
        Some((Self { ttl, stamps, request }, rest))
    }

    fn emit(&self, put: &mut impl FnMut(&[u8]) -> Option<()>) -> Option<()> {
        let mut head = |part: u8, rate: u8| put(&[part << 4 | rate, self.ttl, self.stamps]);
        match self.request {
            Request::QuickStart { rate, nonce } => {
                head(part::QUICK_START_REQUEST, rate.code())?;
                put(&nonce.field().to_be_bytes())
            }
            Request::QuickStartReport { rate, nonce } => {
                head(part::QUICK_START_REPORT, rate.code())?;
                put(&nonce.field().to_be_bytes())
            }
            Request::Rcp { rate, rtt_micros } => {
                head(part::RCP_REQUEST, 0)?;
                put(&rate.0.to_be_bytes())?;
                put(&rtt_micros.to_be_bytes())
            }
            Request::Xcp { throughput, rtt_micros, delta } => {
                head(part::XCP_REQUEST, 0)?;
                put(&throughput.0.to_be_bytes())?;
                put(&rtt_micros.to_be_bytes())?;
                put(&delta.0.to_be_bytes())
            }
        }
    }
}

impl Feedback {
    const fn wire_len(&self) -> usize {
        match self {
            Self::Denied => 1,
            Self::QuickStart { .. } | Self::Rcp { .. } | Self::Xcp { .. } => 5,
        }
    }

    fn parse(body: &[u8]) -> Option<(Self, &[u8])> {
        let (&head, rest) = body.split_first()?;
        if head >> 4 == part::DENIED {
            return Some((Self::Denied, rest));
        }
        let (field, rest) = word(rest)?;
        let feedback = match head >> 4 {
            part::QUICK_START_RESPONSE => {
                Self::QuickStart { rate: QuickStartRate::from_code(head), nonce: QuickStartNonce::from_field(field) }
            }
            part::RCP_RESPONSE => Self::Rcp { rate: WireRate(field) },
            part::XCP_RESPONSE => Self::Xcp { delta: WireDelta(field) },
            _ => return None,
        };
        Some((feedback, rest))
    }

    fn emit(&self, mut put: impl FnMut(&[u8]) -> Option<()>) -> Option<()> {
        let (part, rate, field) = match self {
            Self::Denied => return put(&[part::DENIED << 4]),
            Self::QuickStart { rate, nonce } => (part::QUICK_START_RESPONSE, rate.code(), nonce.field()),
            Self::Rcp { rate } => (part::RCP_RESPONSE, 0, rate.0),
            Self::Xcp { delta } => (part::XCP_RESPONSE, 0, delta.0),
        };
        put(&[part << 4 | rate])?;
        put(&field.to_be_bytes())
    }
}

impl NetworkOption {
    pub(crate) fn body_len(&self) -> usize {
        let forward = self.forward.as_ref().map_or(0, Forward::wire_len);
        forward.saturating_add(self.feedback.as_ref().map_or(0, Feedback::wire_len))
    }

    /// Parses a body that consists of a forward part, a feedback part, or both in this order.
    ///
    /// Returns `None` for any other body, because an option with an unknown part must not be acted upon.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let (forward, rest) = Forward::parse(body).map_or((None, body), |(forward, rest)| (Some(forward), rest));
        if rest.is_empty() && forward.is_some() {
            return Some(Self { forward, feedback: None });
        }
        let (feedback, rest) = Feedback::parse(rest)?;
        rest.is_empty().then_some(Self { forward, feedback: Some(feedback) })
    }

    pub(crate) fn emit(&self, mut put: impl FnMut(&[u8]) -> Option<()>) -> Option<()> {
        if let Some(forward) = self.forward {
            forward.emit(&mut put)?;
        }
        self.feedback.map_or(Some(()), |feedback| feedback.emit(put))
    }
}

fn word(bytes: &[u8]) -> Option<(u32, &[u8])> {
    bytes.split_first_chunk().map(|(&word, rest)| (u32::from_be_bytes(word), rest))
}

/// Edits the request of a datagram in place, as a router does.
///
/// Calls `edit` with the request and writes the result back. A router increments [`Forward::stamps`] in `edit`, with
/// saturation. Returns `false` and changes nothing if the datagram has no request or if `edit` changes its kind. The
/// datagram's length never changes. The UDP checksum, which is not part of `datagram`, becomes invalid.
pub fn edit_forward(datagram: &mut [u8], edit: impl FnOnce(&mut Forward)) -> bool {
    /// Finds the body of the first valid network feedback option.
    fn body(datagram: &mut [u8]) -> Option<&mut [u8]> {
        let options = options_bytes_mut(datagram)?;
        let found = RawOptions::new(options).map_while(Result::ok).find_map(|option| {
            let body = option.body.strip_prefix(&ExId::NETWORK.0.to_be_bytes())?;
            NetworkOption::parse(body).filter(|_| option.kind == kind::EXPERIMENT)?;
            // `option.body` starts with the 2 bytes of the ExID.
            let start = option.start.checked_add(2)?;
            Some(start..start.checked_add(body.len())?)
        })?;
        options.get_mut(found)
    }

    /// Overwrites the start of `out`, which must be at least as long as the encoded `forward`.
    fn write(forward: &Forward, mut out: &mut [u8]) -> Option<()> {
        forward.emit(&mut |bytes| {
            out = put(core::mem::take(&mut out), bytes)?;
            Some(())
        })
    }

    let Some(body) = body(datagram) else {
        return false;
    };
    let Some((old, _)) = Forward::parse(body) else {
        return false;
    };
    let mut new = old;
    edit(&mut new);
    let same_kind = core::mem::discriminant(&old.request) == core::mem::discriminant(&new.request);
    same_kind && write(&new, body).is_some()
}
