//! Kinds of false feedback.

use longhaul_units::{Span, Time};
use longhaul_wire::{Header, SackBlock, SackBlocks};

use crate::liars::world::{Data, Lie};

/// Returns whether sequence number `a` is after `b`.
pub(crate) fn after(a: u32, b: u32) -> bool {
    b.wrapping_sub(a).cast_signed() < 0
}

fn before(first: SackBlock, blocks: &SackBlocks) -> SackBlocks {
    std::iter::once(first).chain(blocks.iter().copied()).collect()
}

/// Splits each advance of the cumulative acknowledgment or of the newest SACK block into many steps (Savage et al.,
/// TCP congestion control with a misbehaving receiver, CCR 29(5), 1999).
pub(crate) struct Split {
    parts: u32,
    acked: Option<u32>,
    block: SackBlock,
}

impl Split {
    /// Creates a receiver that splits each advance into `parts` steps.
    pub(crate) fn new(parts: u32) -> Self {
        Self { parts, acked: None, block: SackBlock::default() }
    }

    /// Returns the end of the `k`th part of an interval.
    fn part(&self, from: u32, to: u32, k: u32) -> u32 {
        from.wrapping_add((u64::from(to.wrapping_sub(from)) * u64::from(k) / u64::from(self.parts)) as u32)
    }
}

impl Lie for Split {
    fn tell(&mut self, _now: Time, ack: Header) -> Vec<(Span, Header)> {
        let from = *self.acked.get_or_insert(ack.ack);
        let mut parts = Vec::new();
        let newest = ack.options.sack.as_slice().first().copied();
        if after(ack.ack, from) {
            for k in 1..=self.parts {
                let mut step = ack.clone();
                step.ack = self.part(from, ack.ack, k);
                if k < self.parts {
                    step.options.sack = SackBlocks::EMPTY;
                }
                parts.push((Span::ZERO, step));
            }
            self.acked = Some(ack.ack);
        } else if let Some(block) = newest.filter(|block| after(block.left, ack.ack)) {
            let same = block.left == self.block.left && after(block.right, self.block.right);
            let from = if same { self.block.right } else { block.left };
            for k in 1..=self.parts {
                let mut step = ack.clone();
                let right = self.part(from, block.right, k);
                let rest = ack.options.sack.iter().skip(1).copied();
                step.options.sack = std::iter::once(SackBlock { right, ..block }).chain(rest).collect();
                parts.push((Span::ZERO, step));
            }
        } else {
            parts.push((Span::ZERO, ack));
        }
        self.block = newest.unwrap_or_default();
        parts
    }
}

/// Acknowledges segments separately and delays each ACK relative to the preceding one, up to a limit.
pub(crate) struct Drip {
    apart: Span,
    split: Split,
    until: Time,
}

impl Drip {
    /// Creates a receiver that sends an ACK for two segments as two ACKs.
    pub(crate) fn new(apart: Span) -> Self {
        Self { apart, split: Split::new(2), until: Time::ZERO }
    }
}

impl Lie for Drip {
    fn tell(&mut self, now: Time, ack: Header) -> Vec<(Span, Header)> {
        let mut told = self.split.tell(now, ack);
        for (late, _) in &mut told {
            self.until = now.max(self.until + self.apart).min(now + self.apart * 4);
            *late = self.until.since(now);
        }
        told
    }
}

/// Data that a false D-SACK reports.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Duplicate {
    /// Data that was never sent: before the first byte, after the last one, all data, or an inverted range.
    NeverSent,
    /// Data that was acknowledged long ago, and sent once.
    SentOnce,
    /// Every retransmission, as soon as it has arrived.
    Retransmission,
}

/// Sends D-SACKs for data that was no duplicate.
pub(crate) struct Duplicates {
    which: Duplicate,
    count: u32,
    late: Vec<SackBlock>,
}

impl Duplicates {
    pub(crate) fn new(which: Duplicate) -> Self {
        Self { which, count: 0, late: Vec::new() }
    }
}

impl Lie for Duplicates {
    fn hear(&mut self, data: &Data) {
        if data.late {
            self.late.push(SackBlock { left: data.seq, right: data.end });
        }
    }

    fn tell(&mut self, _now: Time, mut ack: Header) -> Vec<(Span, Header)> {
        self.count += 1;
        let at =
            |left: u32, right: u32| SackBlock { left: ack.ack.wrapping_add(left), right: ack.ack.wrapping_add(right) };
        match self.which {
            Duplicate::NeverSent => {
                let [mega, minus] = [1 << 20, 0u32.wrapping_sub(1 << 30)];
                let one = [
                    at(minus, minus.wrapping_add(1448)),
                    at(mega * 64, mega * 65),
                    at(minus, mega * 64),
                    at(0u32.wrapping_sub(10), 0u32.wrapping_sub(1448)),
                    at(0u32.wrapping_sub(1 << 28), 0),
                ];
                ack.options.sack = before(one[self.count as usize % one.len()], &ack.options.sack);
            }
            Duplicate::SentOnce => {
                let one = at(0u32.wrapping_sub(2896), 0u32.wrapping_sub(1448));
                ack.options.sack = before(one, &ack.options.sack);
            }
            Duplicate::Retransmission => {
                // The true ACK is sent before the false report.
                let mut told = vec![(Span::ZERO, ack.clone())];
                let inside = |b: &SackBlock| {
                    !after(b.right, ack.ack)
                        || ack.options.sack.iter().any(|s| !after(s.left, b.left) && !after(b.right, s.right))
                };
                let ready: Vec<SackBlock> = self.late.iter().copied().filter(inside).collect();
                self.late.retain(|b| !ready.contains(b));
                for block in ready {
                    let mut lie = ack.clone();
                    let around =
                        ack.options.sack.iter().find(|s| !after(s.left, block.left) && !after(block.right, s.right));
                    let blocks: SackBlocks = around
                        .copied()
                        .into_iter()
                        .chain(ack.options.sack.iter().copied().filter(|s| Some(s) != around))
                        .collect();
                    lie.options.sack = before(block, &blocks);
                    told.push((Span::ZERO, lie));
                }
                return told;
            }
        }
        vec![(Span::ZERO, ack)]
    }
}

/// Acknowledges data that cannot have been sent yet, in addition to true ACKs.
#[derive(Default)]
pub(crate) struct Optimist {
    count: u32,
}

impl Lie for Optimist {
    fn tell(&mut self, _now: Time, ack: Header) -> Vec<(Span, Header)> {
        self.count += 1;
        let mut lie = ack.clone();
        lie.ack = lie.ack.wrapping_add(32 << 20);
        if self.count.is_multiple_of(2) {
            lie.ack = ack.ack;
            let [left, right] = [31 << 20, 32 << 20].map(|by| ack.ack.wrapping_add(by));
            lie.options.sack = [SackBlock { left, right }].into_iter().collect();
        }
        vec![(Span::ZERO, lie), (Span::ZERO, ack)]
    }
}

/// Manipulation of the timestamp echo.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Echo {
    /// The true echo minus this many ticks.
    Older(i32),
    Any,
    /// The timestamp of the newest segment that arrived in order, whatever is acknowledged: each retransmission looks
    /// spurious.
    Original,
}

/// Sends ACKs with false timestamp echoes.
pub(crate) struct Echoes {
    which: Echo,
    random: u32,
    newest: u32,
}

impl Echoes {
    pub(crate) fn new(which: Echo) -> Self {
        Self { which, random: 1, newest: 0 }
    }
}

impl Lie for Echoes {
    fn hear(&mut self, data: &Data) {
        if !data.late {
            self.newest = data.value;
        }
    }

    fn tell(&mut self, _now: Time, mut ack: Header) -> Vec<(Span, Header)> {
        if let Some(stamp) = &mut ack.options.timestamps {
            self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            stamp.echo = match self.which {
                Echo::Older(ticks) => stamp.echo.wrapping_sub(ticks.cast_unsigned()),
                Echo::Any => self.random,
                Echo::Original => self.newest.wrapping_sub(1_000_000),
            };
        }
        vec![(Span::ZERO, ack)]
    }
}

/// Holds ACKs back and releases them with little or no spacing.
pub(crate) struct Bunches {
    grid: Span,
    apart: Span,
    until: Time,
    count: u64,
}

impl Bunches {
    /// Creates a receiver that releases the ACKs of each interval `grid` at its end, with the spacing `apart`.
    pub(crate) fn new(grid: Span, apart: Span) -> Self {
        Self { grid, apart, until: Time::ZERO, count: 0 }
    }
}

impl Lie for Bunches {
    fn tell(&mut self, now: Time, ack: Header) -> Vec<(Span, Header)> {
        if now > self.until {
            let grids = now.as_nanos().div_ceil(self.grid.as_nanos());
            (self.until, self.count) = (Time::from_nanos(grids * self.grid.as_nanos()), 0);
        }
        self.count += 1;
        vec![(self.until.since(now) + self.apart * (self.count - 1), ack)]
    }
}

/// Holds each ACK for a random time of up to `longest`, in order, which simulates jitter that hides a queue.
pub(crate) struct Wavering {
    longest: Span,
    random: u32,
    released: Time,
}

impl Wavering {
    pub(crate) fn new(longest: Span) -> Self {
        Self { longest, random: 1, released: Time::ZERO }
    }
}

impl Lie for Wavering {
    fn tell(&mut self, now: Time, ack: Header) -> Vec<(Span, Header)> {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let held = (self.longest.as_nanos() * u64::from(self.random)) >> 32;
        self.released = self.released.max(now + Span::from_nanos(held));
        vec![(self.released.since(now), ack)]
    }
}

/// Combines two lies by applying the second to the output of the first.
pub(crate) struct Both(pub(crate) Box<dyn Lie>, pub(crate) Box<dyn Lie>);

impl Lie for Both {
    fn hear(&mut self, data: &Data) {
        self.0.hear(data);
        self.1.hear(data);
    }

    fn tell(&mut self, now: Time, ack: Header) -> Vec<(Span, Header)> {
        let first = self.0.tell(now, ack);
        first
            .into_iter()
            .flat_map(|(late, ack)| self.1.tell(now, ack).into_iter().map(move |(l, a)| (late + l, a)))
            .collect()
    }
}
