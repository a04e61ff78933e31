//! Reachability of the reflector, and the largest packet that the path carries.

use std::net::SocketAddr;

use longhaul_units::{Bytes, Span};

use super::error::Error;
use super::socket::{Event, Socket};
use crate::Planned;

/// Candidate sizes of IP packets: the MTU of Ethernet, the minimum MTU of IPv6 (RFC 8200, section 5), and the size that
/// every IPv4 host accepts (RFC 1122, section 3.3.2).
const SIZES: [u32; 3] = [1500, 1280, 576];
/// Size in bytes that every working path carries.
const SMALL: u32 = 128;
/// Number of unanswered packets after which a size, or the host, is abandoned.
const TRIES: u32 = 6;
/// Time for which the answer to each packet is awaited, or [`ROUND_TRIPS`] round trips if they are longer.
const PATIENCE: Span = Span::from_millis(500);
/// See [`PATIENCE`].
const ROUND_TRIPS: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reached {
    /// Bytes of the largest IP packet that arrived, at most 1500.
    pub(super) largest: u32,
    /// Bytes of the smallest IP packet that did not arrive.
    pub(super) dropped: Option<u32>,
    pub(super) rtt: Span,
}

impl Reached {
    pub(super) fn note(&self) -> Option<String> {
        let (largest, dropped) = (self.largest, self.dropped?);
        Some(format!(
            "the path drops packets larger than {largest} bytes (one of {dropped} got no answer): \
             measuring with packets of {largest} bytes at most"
        ))
    }
}

/// Looks for a reflector at `address`, and for the largest packet that reaches it.
pub(super) fn check(socket: &mut Socket, address: SocketAddr) -> Result<Reached, Error> {
    let small = SMALL.max(socket.smallest());
    let Some(rtt) = try_size(socket, address, small, PATIENCE)? else { return Err(silence(socket, address)?) };
    let patience = PATIENCE.max(rtt * ROUND_TRIPS);
    let mut dropped = None;
    for size in SIZES {
        if try_size(socket, address, size, patience)?.is_some() {
            return Ok(Reached { largest: size, dropped, rtt });
        }
        dropped = Some(size);
    }
    Ok(Reached { largest: SMALL, dropped, rtt })
}

/// Returns the round-trip time of a packet of `size` bytes, if one of [`TRIES`] packets is answered. Late answers to
/// earlier packets of that size count.
fn try_size(socket: &mut Socket, address: SocketAddr, size: u32, patience: Span) -> Result<Option<Span>, Error> {
    for _ in 0..TRIES {
        socket.send(&[Planned::new(Span::ZERO, Bytes(size.into()))], &[size])?;
        let until = socket.now() + patience;
        while let Some(event) = socket.receive(until)? {
            match event {
                Event::Answer(answer, at) if u32::from(answer.received) == socket.payload(size) => {
                    return Ok(Some(Span::from_nanos(at.as_nanos().saturating_sub(answer.probe.sent))));
                }
                Event::Answer(..) | Event::Segment | Event::Returned(..) => {}
                Event::Refused => return Err(Error::Refused(address)),
            }
        }
    }
    Ok(None)
}

/// Returns the reason why no answer arrives. An endpoint of longhaul answers a stray segment with a reset, whether or
/// not it reflects probes.
fn silence(socket: &mut Socket, address: SocketAddr) -> Result<Error, Error> {
    socket.send_stray_segment()?;
    let until = socket.now() + PATIENCE * 2;
    while let Some(event) = socket.receive(until)? {
        if matches!(event, Event::Segment) {
            return Ok(Error::NoReflector(address));
        }
    }
    Ok(Error::Silent(address))
}
