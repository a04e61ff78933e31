//! A middlebox that rewrites headers.

use longhaul_link::{Hook, Packet, Random, View};
use longhaul_sim::Parcel;
use longhaul_units::Time;
use longhaul_wire::{AckRate, CheshireCodec, Codec, Flags, Header, ProbeEcho, SackBlock};

use crate::any_pair::case::Hostility;

/// Maximum number of rewritten segments per direction. Lies about windows matter at any time: `MOST_WINDOWS` is their
/// maximum number, and up to `LATEST / 2` other segments precede the first one.
const MOST: u64 = 12;
const MOST_WINDOWS: u64 = 60;
const LATEST: u64 = 500;

/// Rewrites some of the segments on a link.
pub(crate) struct Middle {
    random: Random,
    hostility: Hostility,
    waits: u64,
    left: u64,
    share: f64,
}

impl Middle {
    pub(crate) fn new(seed: u64, link: u32, hostility: Hostility) -> Self {
        let mut random = Random::new(seed, 100 + u64::from(link));
        let left = random.below(MOST + 1);
        let share = [0.01, 0.1, 0.5][random.below(3) as usize];
        if hostility != Hostility::WindowLies {
            return Self { random, hostility, waits: 0, left, share };
        }
        let (waits, left) = (random.below(LATEST).saturating_sub(LATEST / 2), random.below(MOST_WINDOWS + 1));
        Self { random, hostility, waits, left, share }
    }

    /// Returns a random distance in sequence space, small or large, in either direction.
    fn distance(&mut self) -> u32 {
        let most = [3, 1_500, 100_000, 1 << 31][self.random.below(4) as usize];
        let distance = self.random.below(most) as u32;
        if self.random.chance(0.5) { distance } else { distance.wrapping_neg() }
    }

    /// Makes false statements about received data and the window, as the sender of the header could.
    fn lie(&mut self, header: &mut Header) {
        let near = |header: &Header, random: &mut Random| header.ack.wrapping_add(random.below(300_000) as u32);
        match self.random.below(8) {
            0 => header.window = [0, 1, u16::MAX, self.random.bits() as u16][self.random.below(4) as usize],
            1 => header.ack = header.ack.wrapping_sub(self.random.below(100_000) as u32),
            2 => header.options.sack = Default::default(),
            3 => {
                let left = near(header, &mut self.random);
                let right = left.wrapping_add(1 + self.random.below(10_000) as u32);
                header.options.sack.push(SackBlock { left, right });
            }
            4 => {
                let bits = self.random.bits() as u16 & (Flags::ECE | Flags::CWR | Flags::PSH).bits();
                header.flags = Flags::from_bits_truncate(header.flags.bits() ^ bits);
            }
            5 => header.options.ack_rate = Some(AckRate::each(self.random.bits() as u8)),
            6 => header.options.probe_echo = Some(ProbeEcho { value: self.random.bits() as u32 }),
            _ => {
                header.options.arrivals = Default::default();
                header.options.network = None;
            }
        }
    }

    /// Makes false statements about the window, and about the octet of a window probe.
    fn lie_about_window(&mut self, header: &mut Header) {
        let (ack, window) = (header.ack, header.window);
        let older = ack.wrapping_sub(self.random.below(3_000) as u32);
        let mut block = |left: u32, len: u64| {
            header.options.sack.push(SackBlock { left, right: left.wrapping_add(len as u32) });
        };
        match self.random.below(10) {
            0 => header.window = 0,
            1 => {
                let other = [1, window / 2, window.saturating_mul(2), u16::MAX, self.random.bits() as u16];
                header.window = other[self.random.below(5) as usize];
            }
            2 => header.ack = older,
            // The next three cases report an octet at the window's edge as received: by a SACK above an older or the
            // same acknowledgment number, and by a D-SACK.
            3 => (block(ack, 1), header.ack = older).1,
            4 => block(ack, 1),
            5 => block(ack.wrapping_sub(1), 1),
            6 => {
                block(ack.wrapping_add(self.random.below(3_000) as u32), 1 + self.random.below(3_000));
                header.ack = [ack, older][self.random.below(2) as usize];
            }
            7 => (header.options.sack, header.window) = (Default::default(), 0),
            8 => {
                if let Some(stamps) = &mut header.options.timestamps {
                    stamps.echo = stamps.echo.wrapping_sub(self.random.below(1_000) as u32);
                }
            }
            _ => self.lie(header),
        }
    }

    fn rewrite(&mut self, header: &mut Header) {
        match self.random.below(12) {
            0 => header.seq = header.seq.wrapping_add(self.distance()),
            1 => header.ack = header.ack.wrapping_add(self.distance()),
            2 => header.flags = Flags::from_bits_truncate(header.flags.bits() ^ 1 << self.random.below(9)),
            3 => header.options = Default::default(),
            4 => {
                if let Some(stamps) = &mut header.options.timestamps {
                    let distance = self.distance();
                    stamps.value = stamps.value.wrapping_add(distance);
                }
            }
            5 => {
                if let Some(stamps) = &mut header.options.timestamps {
                    let distance = self.distance();
                    stamps.echo = stamps.echo.wrapping_add(distance);
                }
            }
            6 => header.options.timestamps = None,
            7 => header.options.mss = Some(self.random.bits() as u16 >> self.random.below(16)),
            8 => header.options.window_scale = Some(self.random.below(15) as u8),
            9 => header.options.sack_permitted ^= true,
            _ => self.lie(header),
        }
    }

    fn edit(&mut self, datagram: &mut Vec<u8>) {
        let Ok((mut header, offset)) = CheshireCodec::parse(datagram) else { return };
        let opens = header.flags.intersects(Flags::SYN | Flags::RST | Flags::FIN);
        let is_bare = offset == datagram.len();
        match self.hostility {
            Hostility::Anything => self.rewrite(&mut header),
            Hostility::WindowLies if !opens => self.lie_about_window(&mut header),
            Hostility::Lies if is_bare && !opens => self.lie(&mut header),
            _ => return,
        }
        header.fit();
        let mut rewritten = vec![0; 60];
        let Ok(len) = CheshireCodec::emit(&header, &mut rewritten) else { return };
        rewritten.truncate(len);
        rewritten.extend_from_slice(&datagram[offset..]);
        *datagram = rewritten;
        self.left -= 1;
    }
}

impl Hook<Parcel> for Middle {
    fn egress(&mut self, _now: Time, _ends: Time, packet: &mut Packet<Parcel>, _view: &View) {
        self.waits = self.waits.saturating_sub(1);
        if self.left > 0
            && self.waits == 0
            && self.random.chance(self.share)
            && let Some(packet) = &mut packet.payload
        {
            self.edit(&mut packet.payload);
        }
    }
}
