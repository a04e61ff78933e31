//! Whether anybody answers, and packets of which size get there.

use std::net::SocketAddr;

use anyhow::{Result, bail};
use longhaul::units::{Bytes, Span};
use longhaul_probe::Planned;

use super::socket::{Event, Socket};

/// Sizes of IP packets that are tried: Ethernet's, the least of IPv6 (RFC 8200, section 5), and what every IPv4 host
/// receives (RFC 1122, section 3.3.2).
const SIZES: [u32; 3] = [1500, 1280, 576];
/// Bytes that the path takes, if it takes anything.
const SMALL: u32 = 128;
/// Packets sent before a size, or a host, is given up ...
const TRIES: u32 = 6;
/// ... each waited for so long, or for the second in round trips if that is longer: three seconds for a host.
const PATIENCE: Span = Span::from_millis(500);
const ROUND_TRIPS: u64 = 2;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Bytes of the largest IP packet that arrived, 1500 at most.
    pub largest: u32,
    /// Bytes of the smallest that did not.
    pub dropped: Option<u32>,
    /// The round trip of a small packet.
    pub rtt: Span,
}

impl Reached {
    /// A sentence, if the path does not take everything.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let (largest, dropped) = (self.largest, self.dropped?);
        Some(format!(
            "the path drops packets larger than {largest} bytes (one of {dropped} got no answer): \
             measuring with packets of {largest} bytes at most"
        ))
    }
}

/// Looks for a reflector at `address`, and for the largest packet that gets there.
///
/// # Errors
/// A sentence for whoever started the program, if nobody answers.
pub fn check(socket: &mut Socket, address: SocketAddr) -> Result<Reached> {
    let Some(rtt) = first_answer(socket, address)? else { bail!(silence(socket, address)?) };
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

fn first_answer(socket: &mut Socket, address: SocketAddr) -> Result<Option<Span>> {
    try_size(socket, address, SMALL.max(socket.smallest()), PATIENCE)
}

/// The round trip of a packet of `size` bytes, if one of several is answered. A late answer to an earlier one counts.
fn try_size(socket: &mut Socket, address: SocketAddr, size: u32, patience: Span) -> Result<Option<Span>> {
    for _ in 0..TRIES {
        socket.send(&[Planned::new(Span::ZERO, Bytes(size.into()))], &[size])?;
        let until = socket.now() + patience;
        while let Some(event) = socket.receive(until)? {
            match event {
                Event::Answer(answer, at) if u32::from(answer.received) == socket.payload(size) => {
                    return Ok(Some(Span::from_nanos(at.as_nanos().saturating_sub(answer.probe.sent))));
                }
                Event::Answer(..) | Event::Segment | Event::Returned(..) => {}
                Event::Refused => bail!(
                    "{address} refuses: no program has that UDP port (start `receive --reflect --listen {address}` there)"
                ),
            }
        }
    }
    Ok(None)
}

/// Why nobody answers, as far as can be found: longhaul answers a stray segment with a reset, reflecting or not.
fn silence(socket: &mut Socket, address: SocketAddr) -> Result<String> {
    socket.send_stray_segment()?;
    let until = socket.now() + PATIENCE * 2;
    while let Some(event) = socket.receive(until)? {
        if matches!(event, Event::Segment) {
            return Ok(format!(
                "{address} speaks longhaul, but does not answer probes: it has to be started as `receive --reflect`"
            ));
        }
    }
    Ok(format!(
        "{address} does not answer: is `receive --reflect` running there, and does the path let UDP through both ways?"
    ))
}
