//! TIME-WAIT records, which answer late segments in place of a connection (RFC 9293, section 3.6.1).

use std::collections::{BTreeSet, HashMap};

use longhaul_units::{Span, Time};
use longhaul_wire::{Flags, Header, Timestamps};

use crate::keys::Keys;
use crate::{TimestampClock, Tuple, seq};

/// Window field of the replies.
const WINDOW: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeWaitRecord {
    pub(crate) snd_nxt: u32,
    pub(crate) rcv_nxt: u32,
    pub(crate) ts_recent: Option<u32>,
    pub(crate) clock: TimestampClock,
    pub(crate) expires: Time,
    pub(crate) lasts: Span,
    /// Time of the last reply, for the rate limit.
    pub(crate) answered_at: Option<Time>,
}

/// Action on a segment that matches a record.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Send this ACK.
    Answer(Header),
    /// Drop the segment.
    Ignore,
    /// Let a new connection take over the addresses (RFC 6191).
    Reuse(TimeWaitRecord),
}

#[derive(Debug)]
pub(super) struct TimeWait {
    pub(super) records: HashMap<Tuple, TimeWaitRecord, Keys>,
    /// Records by expiry time; each record appears once.
    pub(super) order: BTreeSet<(Time, Tuple)>,
    limit: usize,
}

impl TimeWait {
    pub(super) fn new(keys: Keys, limit: usize) -> Self {
        Self { records: HashMap::with_hasher(keys), order: BTreeSet::new(), limit }
    }

    pub(super) fn insert(&mut self, tuple: Tuple, record: TimeWaitRecord) {
        self.remove(&tuple);
        while self.records.len() >= self.limit.max(1) {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            self.records.remove(&oldest);
        }
        self.order.insert((record.expires, tuple));
        self.records.insert(tuple, record);
    }

    pub(super) fn get(&self, tuple: &Tuple) -> Option<TimeWaitRecord> {
        self.records.get(tuple).copied()
    }

    pub(super) fn remove(&mut self, tuple: &Tuple) {
        if let Some(record) = self.records.remove(tuple) {
            self.order.remove(&(record.expires, *tuple));
        }
    }

    pub(super) fn expire(&mut self, now: Time) {
        while let Some((_, tuple)) = self.order.first().copied().filter(|(at, _)| *at <= now) {
            self.remove(&tuple);
        }
    }

    /// Handles a segment for a connection in TIME-WAIT; returns `None` if there is no record. Only a listener may open
    /// a new connection with the same addresses: `listening` is `None` without a listener, and otherwise states whether
    /// it uses timestamps.
    pub(super) fn handle(
        &mut self,
        now: Time,
        tuple: &Tuple,
        header: &Header,
        payload: usize,
        listening: Option<bool>,
    ) -> Option<Verdict> {
        let record = self.records.get_mut(tuple)?;
        // RFC 1337: a RST does not cut TIME-WAIT short.
        if header.flags.contains(Flags::RST) {
            return Some(Verdict::Ignore);
        }
        // A SYN that is later than the old connection opens a new one (RFC 6191, section 2).
        let opens = header.flags.contains(Flags::SYN) && !header.flags.contains(Flags::ACK);
        if opens && listening.is_some_and(|timestamps| record.yields_to(header, timestamps)) {
            return Some(Verdict::Reuse(*record));
        }
        // A retransmitted FIN restarts the 2 MSL timeout (RFC 9293, section 3.10.7.4, eighth step).
        let end = header.seq.wrapping_add(header.sequence_len(payload as u32));
        let fin = header.flags.contains(Flags::FIN) && end == record.rcv_nxt;
        if fin {
            self.order.remove(&(record.expires, *tuple));
            record.expires = now + record.lasts;
            self.order.insert((record.expires, *tuple));
        }
        // Answer every FIN, and any other unacceptable segment at most twice per second (RFC 9293, section 3.10.7.4,
        // first step; RFC 5961, section 7).
        let acceptable = header.seq.wrapping_sub(record.rcv_nxt) < u32::from(WINDOW);
        let worth = fin || payload > 0 || header.flags.contains(Flags::SYN) || !acceptable;
        let recently = record.answered_at.is_some_and(|at| now - at < Span::from_millis(500));
        if !worth || (!fin && recently) {
            return Some(Verdict::Ignore);
        }
        record.answered_at = Some(now);
        let mut ack =
            Header { flags: Flags::ACK, seq: record.snd_nxt, ack: record.rcv_nxt, window: WINDOW, ..Header::default() };
        ack.options.timestamps = record.ts_recent.map(|echo| Timestamps { value: record.clock.value(now), echo });
        Some(Verdict::Answer(ack))
    }
}

impl TimeWaitRecord {
    /// Returns whether a SYN may open a new connection in place of the old one (RFC 6191, section 2). The SYN is no
    /// duplicate from the old connection if its timestamp is later, or, if timestamps do not decide, if its sequence
    /// number is beyond the old connection's. `timestamps` states whether the new connection would use timestamps.
    pub(super) fn yields_to(&self, syn: &Header, timestamps: bool) -> bool {
        let stamp = syn.options.timestamps.filter(|_| timestamps);
        match (self.ts_recent, stamp) {
            (Some(recent), Some(stamp)) if stamp.value != recent => seq::later(stamp.value, recent),
            (None, Some(_)) => true,
            _ => seq::later(syn.seq, self.rcv_nxt),
        }
    }
}
