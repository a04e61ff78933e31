//! Batching of datagrams that are due, to send them with few system calls.

use std::io::{self, IoSlice};
use std::net::SocketAddr;

use bytes::Bytes;
use longhaul_link::spec::Direction;
use longhaul_sys::linux::{ErrorClass, MAX_SEND_BATCH, Transmit, UdpSocket};
use longhaul_units::Time;
use socket2::SockRef;

use super::Listener;
use super::clients::Clients;
use super::frame::Frame;
use crate::engine::Engine;

#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) due: Time,
    pub(super) tos: u8,
    pub(super) ttl: u8,
    pub(super) bytes: Bytes,
}

/// Batch of datagrams for one direction and one client.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: Vec<Outgoing>,
    towards: Option<(Direction, u64)>,
    pub(super) unsent: u64,
}

impl Outbox {
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_SEND_BATCH
    }

    pub(super) fn is_for(&self, direction: Direction, client: u64) -> bool {
        self.waiting.is_empty() || self.towards == Some((direction, client))
    }

    pub(super) fn push(&mut self, direction: Direction, client: u64, outgoing: Outgoing) {
        self.towards = Some((direction, client));
        self.waiting.push(outgoing);
    }

    pub(super) fn flush(&mut self, listeners: &mut [Listener], clients: &mut Clients, engine: &mut Engine<Frame>) {
        let Some((direction, number)) = self.towards.take().filter(|_| !self.waiting.is_empty()) else { return };
        let now = engine.now();
        self.waiting.iter().for_each(|outgoing| engine.passed_on(outgoing.due, now));
        self.unsent += match (clients.get_mut(number), direction) {
            // The client has been removed in the meantime.
            (None, _) => self.waiting.len() as u64,
            (Some(client), Direction::Up) => send(&client.socket, None, &mut client.ttl, &self.waiting),
            (Some(client), Direction::Down) => listeners.get_mut(client.listener).map_or(0, |listener| {
                send(&listener.socket, Some((client.addr, client.local)), &mut listener.ttl, &self.waiting)
            }),
        };
        self.waiting.clear();
    }
}

type Destination = Option<(SocketAddr, Option<std::net::IpAddr>)>;

/// Sends datagrams, each with its TTL. Returns how many the operating system did not accept.
fn send(socket: &UdpSocket, to: Destination, ttl: &mut u8, outgoing: &[Outgoing]) -> u64 {
    outgoing
        .chunk_by(|one, next| one.ttl == next.ttl)
        .map(|alike| {
            if let Some(first) = alike.first().filter(|first| first.ttl != *ttl) {
                set_ttl(socket, first.ttl);
                *ttl = first.ttl;
            }
            send_alike(socket, to, alike)
        })
        .sum()
}

fn send_alike(socket: &UdpSocket, to: Destination, outgoing: &[Outgoing]) -> u64 {
    let slices: Vec<_> = outgoing.iter().map(|outgoing| [IoSlice::new(&outgoing.bytes)]).collect();
    let transmits: Vec<_> = outgoing
        .iter()
        .zip(&slices)
        .map(|(outgoing, slices)| Transmit {
            destination: to.map(|(addr, _)| addr),
            tos: outgoing.tos,
            src_ip: to.and_then(|(_, local)| local),
            segment_size: None,
            slices,
        })
        .collect();
    let (mut sent, mut unsent) = (0, 0);
    let mut refused = false;
    while let Some(rest) = transmits.get(sent..).filter(|rest| !rest.is_empty()) {
        match socket.send_batch(rest) {
            Ok(count) => {
                sent += count.max(1);
                refused = false;
            }
            // The error belongs to an earlier datagram, and this one has not been tried: retry once.
            Err(error) if ErrorClass::of(&error) == ErrorClass::Refused && !refused => refused = true,
            Err(_) => {
                sent += 1;
                unsent += 1;
                refused = false;
            }
        }
    }
    unsent
}

/// Sets the TTL of a socket for both address families. Errors are ignored, because a socket may support only one
/// family.
fn set_ttl(socket: &UdpSocket, ttl: u8) {
    let socket = SockRef::from(socket);
    let set: [io::Result<()>; 2] = [socket.set_ttl_v4(ttl.into()), socket.set_unicast_hops_v6(ttl.into())];
    drop(set);
}
