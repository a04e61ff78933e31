//! TIME-WAIT without a connection: what is left is a record that answers late segments (RFC 9293, section 3.6.1).

use std::collections::{HashMap, VecDeque};

use longhaul_units::{Span, Time};
use longhaul_wire::{Flags, Header, Timestamps};

use super::keys::{Keys, Tuple};
use crate::connection::Connection;
use crate::seq;
use crate::timestamps::TimestampClock;

/// What TIME-WAIT must remember.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) snd_nxt: u32,
    pub(crate) rcv_nxt: u32,
    pub(crate) ts_recent: Option<u32>,
    /// The same in the ticks of SYNs.
    pub(crate) syn_stamp: Option<u32>,
    pub(crate) clock: TimestampClock,
    pub(crate) window: u16,
    pub(crate) expires: Time,
    pub(crate) lasts: Span,
    /// When it last answered something that was no FIN.
    pub(crate) answered_at: Option<Time>,
}

/// What to do with a segment that met a record.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Send this ACK.
    Answer(Header),
    /// Nothing.
    Ignore,
    /// A new connection may take the addresses over (RFC 6191).
    Reuse(Record),
}

#[derive(Debug)]
pub(super) struct TimeWait {
    records: HashMap<Tuple, Record, Keys>,
    /// In the order they were last set, each with the expiry it had then; outdated entries are skipped.
    order: VecDeque<(Time, Tuple)>,
    limit: usize,
}

impl TimeWait {
    pub(super) fn new(keys: Keys, limit: usize) -> Self {
        Self { records: HashMap::with_hasher(keys), order: VecDeque::new(), limit }
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn insert(&mut self, tuple: Tuple, record: Record) {
        while self.records.len() >= self.limit.max(1) {
            let Some((expires, oldest)) = self.order.pop_front() else { break };
            if self.records.get(&oldest).is_some_and(|r| r.expires == expires) {
                self.records.remove(&oldest);
            }
        }
        self.order.push_back((record.expires, tuple));
        self.records.insert(tuple, record);
    }

    pub(super) fn remove(&mut self, tuple: &Tuple) -> Option<Record> {
        self.records.remove(tuple)
    }

    pub(super) fn next_expiry(&self) -> Option<Time> {
        self.order.front().map(|(at, _)| *at)
    }

    pub(super) fn expire(&mut self, now: Time) {
        while let Some((at, tuple)) = self.order.front().copied().filter(|(at, _)| *at <= now) {
            self.order.pop_front();
            if self.records.get(&tuple).is_some_and(|r| r.expires == at) {
                self.records.remove(&tuple);
            }
        }
    }

    /// A segment for a connection in TIME-WAIT; `None` if there is none.
    /// Only who listens may give the addresses up to a new connection: `listening` says whether with timestamps.
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
        let opens = header.flags.contains(Flags::SYN) && !header.flags.contains(Flags::ACK);
        if opens && listening.is_some_and(|timestamps| record.yields_to(header, timestamps)) {
            return Some(Verdict::Reuse(*record));
        }
        let end = header.seq.wrapping_add(header.sequence_len(payload as u32));
        let fin = header.flags.contains(Flags::FIN) && end == record.rcv_nxt;
        if fin {
            record.expires = now + record.lasts;
            self.order.push_back((record.expires, *tuple));
        }
        let worth = fin || payload > 0 || header.flags.contains(Flags::SYN);
        let recently = record.answered_at.is_some_and(|at| now - at < Span::from_millis(500));
        if !worth || (!fin && recently) {
            return Some(Verdict::Ignore);
        }
        record.answered_at = Some(now);
        let mut ack = Header {
            flags: Flags::ACK,
            seq: record.snd_nxt,
            ack: record.rcv_nxt,
            window: record.window,
            ..Header::default()
        };
        ack.options.timestamps = record.ts_recent.map(|echo| Timestamps { value: record.clock.value(now), echo });
        Some(Verdict::Answer(ack))
    }
}

impl Connection {
    /// What TIME-WAIT must remember of this connection.
    pub(super) fn time_wait_record(&self) -> Record {
        let (snd_nxt, rcv_nxt) = self.wire_numbers();
        Record {
            snd_nxt,
            rcv_nxt,
            ts_recent: self.recent_timestamp(),
            syn_stamp: self.recent_syn_timestamp(),
            clock: self.timestamp_clock(),
            window: u16::MAX,
            expires: self.linger_deadline(),
            lasts: self.config.time_wait,
            answered_at: None,
        }
    }
}

impl Record {
    /// Whether a SYN may open a new connection in place of the old one (RFC 6191, section 2): it is no duplicate of the
    /// old one's if its timestamp is later, or if its sequence number is beyond the old one's where timestamps do not
    /// tell. `timestamps` says whether the new connection would have them.
    pub(super) fn yields_to(&self, syn: &Header, timestamps: bool) -> bool {
        let stamp = syn.options.timestamps.filter(|_| timestamps);
        match (self.syn_stamp, stamp) {
            (Some(recent), Some(stamp)) if stamp.value != recent => seq::later(stamp.value, recent),
            (None, Some(_)) => true,
            _ => seq::later(syn.seq, self.rcv_nxt),
        }
    }
}
