//! The two TUN devices as the endpoints of a link.

use std::io::{self, ErrorKind};

use longhaul_link::spec::Direction;
use longhaul_netns::Tun;
use longhaul_sys::linux::Poll;
use longhaul_units::Time;

use super::packet::IpPacket;
use crate::drive::Port;
use crate::engine::{DIRECTIONS, Engine};

/// Maximum number of consecutive packets read, so that a flood does not delay packets that are due.
const PACKETS: usize = 64;

/// The inner and the outer device.
#[derive(Debug)]
pub(super) struct TunPort {
    tuns: [Tun; 2],
    buffer: Vec<u8>,
    pub(super) unsent: u64,
}

impl TunPort {
    pub(super) fn new(tuns: [Tun; 2]) -> Self {
        Self { tuns, buffer: vec![0; usize::from(u16::MAX)], unsent: 0 }
    }

    pub(super) fn outside(&self) -> String {
        self.tuns[1].link().name().to_owned()
    }
}

impl Port<IpPacket> for TunPort {
    fn watch(&mut self, poll: &Poll) -> io::Result<()> {
        self.tuns.iter().zip(0..).try_for_each(|(tun, token)| poll.add(tun, token))
    }

    fn receive(&mut self, token: u64, _poll: &Poll, engine: &mut Engine<IpPacket>) -> io::Result<bool> {
        let [inside, outside] = &self.tuns;
        let (tun, direction) = if token == 0 { (inside, Direction::Up) } else { (outside, Direction::Down) };
        for _ in 0..PACKETS {
            let len = match tun.read(&mut self.buffer) {
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            };
            if let Some(packet) = self.buffer.get(..len).and_then(IpPacket::read) {
                engine.offer(direction, engine.now(), packet);
            }
        }
        Ok(true)
    }

    fn release(&mut self, now: Time, engine: &mut Engine<IpPacket>) -> io::Result<()> {
        for direction in DIRECTIONS {
            while let Some((due, packet)) = engine.poll(direction, now) {
                let [inside, outside] = &self.tuns;
                let tun = if direction == Direction::Up { outside } else { inside };
                engine.passed_on(due, engine.now());
                self.unsent += u64::from(tun.write(&IpPacket::write(packet)).is_err());
            }
        }
        Ok(())
    }
}
