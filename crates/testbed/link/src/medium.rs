//! Path of a packet from the end of its transmission to its arrival: propagation and impairments.

use longhaul_units::{Span, Time};

use crate::arrivals::Arrivals;
use crate::config::{Corruption, LinkConfig, Loss, Mtu, Outage, OutageKind, Phase, Reordering};
use crate::loss::LossState;
use crate::packet::{Packet, Payload};
use crate::random::Random;
use crate::stats::Cause;

/// Index of this module's first random sequence among those of a link.
const FIRST_STREAM: u64 = 1;

/// Index of the router's random sequence, which follows those of this module.
pub(crate) const ROUTER_STREAM: u64 = 7;

/// Number of random sequences per link.
pub(crate) const STREAMS: u64 = 8;

#[derive(Debug)]
pub(crate) struct Medium<T> {
    delay: Span,
    /// Changes of the delay still to come, the next one last.
    steps: Vec<(Time, Span)>,
    faults: Option<Box<Faults>>,
    pub(crate) arrivals: Arrivals<T>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passage {
    pub(crate) duplicated: bool,
    pub(crate) reordered: bool,
}

#[derive(Debug)]
struct Faults {
    /// Outages still to come, the next one last.
    outages: Vec<Outage>,
    mtu: Option<Mtu>,
    loss: LossState,
    corruption: Corruption,
    corrupts: Random,
    flips: Random,
    duplication: f64,
    duplicates: Random,
    jitter: Span,
    jitters: Random,
    reordering: Option<Reordering>,
    reorders: Random,
    cycle: Vec<Phase>,
    cycle_losses: Random,
}

impl<T: Payload> Medium<T> {
    pub(crate) fn new(config: &LinkConfig, seed: u64, first_stream: u64) -> Self {
        let mut medium = Self { delay: Span::ZERO, steps: Vec::new(), faults: None, arrivals: Arrivals::new() };
        medium.configure(config, seed, first_stream);
        medium
    }

    pub(crate) fn configure(&mut self, config: &LinkConfig, seed: u64, first_stream: u64) {
        self.delay = config.delay;
        self.steps = config.steps.iter().rev().filter_map(|step| Some((step.at, step.delay?))).collect();
        self.faults = Faults::any(config).then(|| Box::new(Faults::new(config, seed, first_stream + FIRST_STREAM)));
    }

    /// Accepts a packet whose last bit was sent at `sent` and which took `bytes` on the link.
    pub(crate) fn pass(&mut self, sent: Time, bytes: u64, packet: Packet<T>) -> Result<Passage, (Cause, Packet<T>)> {
        while let Some((_, delay)) = self.steps.pop_if(|(at, _)| *at <= sent) {
            self.delay = delay;
        }
        let arrival = sent + self.delay;
        match &mut self.faults {
            None => self.arrivals.in_order(arrival, packet),
            Some(faults) => return faults.pass(sent, arrival, bytes, packet, &mut self.arrivals),
        }
        Ok(Passage::default())
    }
}

impl Faults {
    fn any(config: &LinkConfig) -> bool {
        config.outages.iter().any(|outage| outage.kind == OutageKind::Lose)
            || config.mtu.is_some()
            || config.loss != Loss::None
            || config.corruption.share > 0.0
            || config.duplication > 0.0
            || !config.jitter.is_zero()
            || config.reordering.is_some()
            || !config.cycle.is_empty()
    }

    fn new(config: &LinkConfig, seed: u64, stream: u64) -> Self {
        let losing = config.outages.iter().rev().filter(|outage| outage.kind == OutageKind::Lose);
        Self {
            outages: losing.copied().collect(),
            mtu: config.mtu,
            loss: LossState::new(&config.loss, Random::new(seed, stream)),
            corruption: config.corruption,
            corrupts: Random::new(seed, stream + 1),
            flips: Random::new(seed, stream + 5),
            duplication: config.duplication,
            duplicates: Random::new(seed, stream + 2),
            jitter: config.jitter,
            jitters: Random::new(seed, stream + 3),
            reordering: config.reordering,
            reorders: Random::new(seed, stream + 4),
            cycle: config.cycle.clone(),
            // A link with losses in its cycle has no other random losses.
            cycle_losses: Random::new(seed, stream),
        }
    }

    fn pass<T: Payload>(
        &mut self,
        sent: Time,
        arrival: Time,
        bytes: u64,
        mut packet: Packet<T>,
        arrivals: &mut Arrivals<T>,
    ) -> Result<Passage, (Cause, Packet<T>)> {
        // Draw every random number for every packet, so that the draws of one impairment do not depend on the others.
        let phase = self.phase(sent);
        let is_lost = self.loss.loses(bytes) || self.cycle_losses.chance(phase.loss);
        let is_corrupted = self.corrupts.chance(self.corruption.share);
        let is_unseen = is_corrupted && self.corrupts.chance(self.corruption.unseen);
        let duplicated = self.duplicates.chance(self.duplication);
        let jitter = if self.jitter.is_zero() { Span::ZERO } else { self.jitters.span(self.jitter) };
        let detour = self.detour();
        let flip = is_unseen.then(|| self.flips.bits());
        // Drops, in this order: outage, MTU, random loss, detected corruption.
        if self.is_out(sent) {
            return Err((Cause::Outage, packet));
        }
        if self.mtu.is_some_and(|mtu| sent >= mtu.from && packet.size > mtu.size) {
            return Err((Cause::TooLong, packet));
        }
        if is_lost {
            return Err((Cause::Lost, packet));
        }
        if is_corrupted && !is_unseen {
            return Err((Cause::Corrupted, packet));
        }
        // The packet passes: corrupted or not, delayed, and possibly duplicated.
        if let Some(random) = flip {
            flip_a_bit(&mut packet, random);
        }
        let copy = duplicated.then(|| packet.clone());
        let arrival = phase.release(arrival + jitter + phase.delay);
        match detour {
            Detour::None => arrivals.in_order(arrival, packet),
            Detour::Places(places, patience) => arrivals.after(places, arrival + patience, packet),
            Detour::Late(late) => arrivals.late(arrival + late, packet),
        }
        if let Some(copy) = copy {
            arrivals.in_order(arrival, copy);
        }
        Ok(Passage { duplicated, reordered: !matches!(detour, Detour::None) })
    }

    fn detour(&mut self) -> Detour {
        match self.reordering {
            Some(Reordering::Places { share, places, patience }) if self.reorders.chance(share) => {
                Detour::Places(places, patience)
            }
            Some(Reordering::Late { share, least, most }) if self.reorders.chance(share) => {
                Detour::Late(least + self.reorders.span(most - least))
            }
            _ => Detour::None,
        }
    }

    fn phase(&self, at: Time) -> Phase {
        let period = self.cycle.iter().fold(0, |sum: u64, phase| sum.saturating_add(phase.lasts.as_nanos()));
        let mut within = at.as_nanos().checked_rem(period).unwrap_or(0);
        for phase in &self.cycle {
            let Some(rest) = within.checked_sub(phase.lasts.as_nanos()) else { return *phase };
            within = rest;
        }
        Phase::default()
    }

    fn is_out(&mut self, now: Time) -> bool {
        while self.outages.pop_if(|outage| outage.until <= now).is_some() {}
        self.outages.last().is_some_and(|outage| outage.from <= now)
    }
}

impl Phase {
    fn release(self, arrival: Time) -> Time {
        let next = arrival.as_nanos().checked_next_multiple_of(self.interval.as_nanos());
        next.map_or(arrival, Time::from_nanos)
    }
}

enum Detour {
    None,
    Places(u32, Span),
    Late(Span),
}

fn flip_a_bit<T: Payload>(packet: &mut Packet<T>, random: u64) {
    packet.corrupted = true;
    let Some(bytes) = packet.payload.bytes_mut() else { return };
    let bit = random.checked_rem(bytes.len() as u64 * 8).unwrap_or(0) as usize;
    if let Some(byte) = bytes.get_mut(bit / 8) {
        *byte ^= 1 << (bit % 8);
    }
}
