//! What becomes of a connection's data on a link, and of its probes.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use longhaul_link::{Cause, Hook, LinkStats, Packet, View, dscp};
use longhaul_sim::Parcel;
use longhaul_units::Time;
use longhaul_wire::{CheshireCodec, Codec};
use serde::Serialize;

/// Packets of data and probes, and those of them that went no further.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Loss {
    pub data: u64,
    pub data_lost: u64,
    pub probes: u64,
    pub probes_lost: u64,
}

impl Loss {
    /// Of a link, from the beginning, where nothing but probes has low priority.
    pub(super) fn by_class(stats: &LinkStats) -> Self {
        let (data, probes) = (stats.class(0), stats.class(1));
        Self {
            data: data.offered,
            data_lost: data.dropped_total(),
            probes: probes.offered,
            probes_lost: probes.dropped_total(),
        }
    }

    /// Of all together.
    pub(super) fn sum<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        all.into_iter().fold(Self::default(), |sum, loss| Self {
            data: sum.data + loss.data,
            data_lost: sum.data_lost + loss.data_lost,
            probes: sum.probes + loss.probes,
            probes_lost: sum.probes_lost + loss.probes_lost,
        })
    }

    /// Of the data, percent.
    pub(super) fn percent(&self) -> f64 {
        100.0 * self.data_lost as f64 / self.data.max(1) as f64
    }
}

/// Looks on where one connection alone sends data. A start may send those at low priority, too: a probe is what has low priority and
/// carries nothing that was not sent before. Its TSval, which it has to itself, tells it when it is dropped.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    counts: Rc<RefCell<Loss>>,
    /// Behind the last byte that was sent.
    end: Option<u32>,
    probes: BTreeSet<u32>,
}

impl Ledger {
    pub(super) fn counts(&self) -> Rc<RefCell<Loss>> {
        Rc::clone(&self.counts)
    }
}

/// Of a segment of data where it ends and its TSval.
fn segment(packet: &Packet<Parcel>) -> Option<(u32, Option<u32>)> {
    let packet = packet.payload.as_ref()?;
    let (header, offset) = CheshireCodec::parse(&packet.payload).ok()?;
    let len = packet.payload_len().checked_sub(offset).filter(|len| *len > 0)?;
    Some((header.seq.wrapping_add(len as u32), header.options.timestamps.map(|stamps| stamps.value)))
}

impl Hook<Parcel> for Ledger {
    fn offered(&mut self, _now: Time, packet: &mut Packet<Parcel>, _view: &View) {
        let Some((end, stamp)) = segment(packet) else { return };
        let is_new = self.end.is_none_or(|last| end.wrapping_sub(last) as i32 > 0);
        if is_new {
            self.end = Some(end);
        }
        if packet.dscp == dscp::LE && !is_new {
            self.counts.borrow_mut().probes += 1;
            self.probes.extend(stamp);
        } else {
            self.counts.borrow_mut().data += 1;
        }
    }

    fn dropped(&mut self, _now: Time, packet: &Packet<Parcel>, _cause: Cause) {
        let Some((_, stamp)) = segment(packet) else { return };
        let is_probe = packet.dscp == dscp::LE && stamp.is_some_and(|stamp| self.probes.contains(&stamp));
        let mut counts = self.counts.borrow_mut();
        *(if is_probe { &mut counts.probes_lost } else { &mut counts.data_lost }) += 1;
    }
}

#[cfg(test)]
mod tests {
    use longhaul_link::topology::Duplex;
    use longhaul_link::{Limit, LinkConfig};
    use longhaul_sim::{Setup, Sim, full_segments};
    use longhaul_units::{Rate, Span};

    use super::*;
    use crate::emulated::completion;

    #[test]
    fn percent_is_of_data() {
        let one = Loss { data: 60, data_lost: 3, probes: 10, probes_lost: 9 };
        let sum = Loss::sum(&[one, Loss { data: 40, ..Loss::default() }]);
        assert_eq!((sum.percent(), sum.probes, sum.probes_lost), (3.0, 10, 9));
        assert_eq!(Loss::default().percent(), 0.0);
    }

    /// Where only probes have low priority, the ledger and the link's own count by class agree, but for the handshake.
    #[test]
    fn probes_are_told_from_data() {
        let link = LinkConfig::new(Rate::from_bits_per_sec(20_000_000), Span::from_millis(50));
        let setup = Setup::pair(1, Duplex { there: link.clone().queue(Limit::Packets(40)), back: link });
        let setup = setup.configure(|config| {
            full_segments(config);
            config.congestion = "slow-start+new-reno+rapid-recovery".parse().unwrap();
        });
        let mut sim = Sim::new(setup);
        let ledger = Ledger::default();
        let counts = ledger.counts();
        sim.set_hook(0, ledger);
        completion(&mut sim, 1_000_000).unwrap();
        let (own, link) = (*counts.borrow(), Loss::by_class(sim.link(0).stats()));
        assert_eq!((own.probes, own.probes_lost, own.data_lost), (link.probes, link.probes_lost, link.data_lost));
        assert!(
            own.probes > 0 && own.data_lost > 0 && own.data < link.data && own.data + 5 > link.data,
            "{own:?} {link:?}"
        );
    }
}
