//! Received datagrams: parsing and dispatch to connections.

use bytes::Bytes;
use longhaul_units::{Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Header, ParseError};

use crate::connection::Train;
use crate::{Connection, ConnectionEvent, DatagramMeta, Endpoint, Payload, SegmentRecord, add};

/// Maximum number of connections for which the shortest round-trip time is determined before the driver may delay a
/// read.
const MAX_PATIENT: usize = 256;

#[expect(clippy::multiple_inherent_impl, reason = "one file per task")]
impl Endpoint {
    /// Handles a datagram, or several of `meta.stride` bytes each that receive offload merged, from one sender. If
    /// payload may be kept by reference, `shared` is the buffer that contains the datagrams.
    pub fn handle_datagram(&mut self, now: Time, meta: &DatagramMeta, datagrams: &[u8], shared: Option<&Bytes>) {
        let now = self.advance(now);
        let mut slot = self.find_slot(&meta.tuple);
        // The header of the last segment, if it may begin a train, and its encoding.
        let mut leader: Option<(Header, &[u8])> = None;
        let mut trains = shared;
        let mut rest = datagrams;
        while let Some(datagram) = rest.chunks(meta.stride.max(1)).next() {
            if let Some((header, encoded)) = &mut leader
                && let Some(seq) = CheshireCodec::continuation(encoded, datagram)
            {
                header.seq = seq;
                if let Some(buffer) = trains {
                    let train = train_at(rest, meta.stride, encoded, buffer, seq);
                    let handled = train.count > 1
                        && self.connection_in(slot).is_some_and(|c| c.handle_train(now, &meta.segment, header, &train));
                    if handled {
                        rest = rest.get(train.count.saturating_mul(meta.stride)..).unwrap_or_default();
                        continue;
                    }
                    // If one train is refused, the trains within it would be refused as well, so do not look for them.
                    trains = trains.filter(|_| train.count <= 1);
                }
                let payload = payload_of(datagram, encoded.len(), shared);
                if self.connection_in(slot).is_some_and(|c| c.handle_next(now, &meta.segment, header, payload)) {
                    rest = rest.get(datagram.len()..).unwrap_or_default();
                    continue;
                }
            }
            rest = rest.get(datagram.len()..).unwrap_or_default();
            let (header, offset) = match CheshireCodec::parse(datagram) {
                Ok(parsed) => parsed,
                Err(error) => {
                    if self.reflect(now, meta, datagram) {
                        // Probes measure the round-trip time, so they must not be delayed.
                        self.read_patience = Some(Span::ZERO);
                    } else {
                        self.drop_malformed(now, slot, datagram.len(), error);
                    }
                    continue;
                }
            };
            let payload = payload_of(datagram, offset, shared);
            let may_lead;
            (slot, may_lead) = self.take_segment(now, meta, slot, (&header, datagram.len()), payload);
            leader = datagram.get(..offset).filter(|_| may_lead).map(|encoded| (header, encoded));
        }
        self.finish_batch(now, slot);
    }

    /// Handles one datagram whose payload is stored separately from its header and kept by reference, so that a
    /// simulation need not copy them together. `header` contains all bytes before the payload.
    pub fn handle_parts(&mut self, now: Time, meta: &DatagramMeta, header: &[u8], payload: &Bytes) {
        let len = header.len().saturating_add(payload.len());
        match CheshireCodec::parse(header) {
            Ok((parsed, offset)) if offset == header.len() => {
                let now = self.advance(now);
                let slot = self.find_slot(&meta.tuple);
                let (slot, _) = self.take_segment(now, meta, slot, (&parsed, len), Payload::shared(payload, payload));
                self.finish_batch(now, slot);
            }
            // The header is damaged: its data offset does not point to the payload.
            _ => self.handle_datagram(now, meta, &[header, payload].concat(), None),
        }
    }

    /// Returns how long the driver may leave the socket unread, given the data received since the last call. The result
    /// is zero unless all data belongs to connections that receive a stream, and otherwise at most 1/64 of the shortest
    /// round-trip time of all connections. Reading several datagrams at once takes less CPU time, and delays ACKs by a
    /// small fraction of the round-trip time. A driver may pause for longer if it knows that the sender is not waiting,
    /// but not if this is zero.
    pub fn take_read_patience(&mut self) -> Span {
        let patience = self.read_patience.take().unwrap_or(Span::ZERO);
        if patience.is_zero() || self.slots.len() > MAX_PATIENT {
            return Span::ZERO;
        }
        self.slots.live().filter_map(|slot| slot.connection.status().tolerable_delay()).fold(patience, Span::min)
    }

    /// Passes a segment, from a datagram of the given length, to the connection in `slot`, or else to the connection
    /// that it belongs to or opens. Returns the slot of that connection, and whether the segment may begin a train.
    fn take_segment(
        &mut self,
        now: Time,
        meta: &DatagramMeta,
        slot: Option<u32>,
        (header, len): (&Header, usize),
        payload: Payload<'_>,
    ) -> (Option<u32>, bool) {
        let slot = slot.filter(|index| !self.yields(*index, header));
        // An earlier datagram of the batch may have opened a connection.
        let mut slot = slot.or_else(|| self.find_slot(&meta.tuple));
        if let Some(gives_up) = slot.and_then(|index| self.meets_half_open(now, meta, index, header)) {
            if !gives_up {
                return (slot, false);
            }
            slot = None;
        }
        let slot = slot.or_else(|| self.open_for(now, meta, header, payload.len(), len));
        let Some(connection) = self.connection_in(slot) else { return (slot, false) };
        let (payload_len, ecn) = (payload.len(), meta.segment.ecn);
        let header_len = len.saturating_sub(payload_len);
        let segment = SegmentRecord { header, header_len, payload_len, ecn };
        connection.observers.report_detail(now, || ConnectionEvent::SegmentReceived(segment));
        (slot, connection.handle_segment(now, &meta.segment, header, payload))
    }

    fn connection_in(&mut self, slot: Option<u32>) -> Option<&mut Connection> {
        Some(&mut self.slots.get_mut(slot?)?.connection)
    }

    /// Counts a datagram that is neither a segment nor a probe, and reports it to the connection between its addresses.
    fn drop_malformed(&mut self, now: Time, slot: Option<u32>, len: usize, error: ParseError) {
        add(&mut self.stats.malformed, 1);
        if let Some(connection) = self.connection_in(slot) {
            connection.observers.report(now, || ConnectionEvent::DatagramDropped { len, error });
        }
    }

    fn finish_batch(&mut self, now: Time, slot: Option<u32>) {
        let Some(index) = slot else { return };
        if let Some(slot) = self.slots.get_mut(index) {
            slot.connection.finish_batch(now);
            let patience = slot.connection.status().read_patience(now);
            self.read_patience = Some(self.read_patience.map_or(patience, |shortest| shortest.min(patience)));
        }
        self.settle(index);
    }
}

/// Returns the train at the start of `datagrams`: datagrams of `stride` bytes whose headers equal `encoded`, except for
/// the sequence numbers, which increase from `seq` by the length of the payload. The train is empty if the first
/// datagram is shorter.
fn train_at<'a>(datagrams: &'a [u8], stride: usize, encoded: &[u8], buffer: &'a Bytes, seq: u32) -> Train<'a> {
    let payload = stride.saturating_sub(encoded.len());
    let follows = |(datagram, seq): &(&[u8], u32)| CheshireCodec::continuation(encoded, datagram) == Some(*seq);
    let sequence = std::iter::successors(Some(seq), |seq| Some(seq.wrapping_add(payload as u32)));
    let count = datagrams.chunks_exact(stride.max(1)).zip(sequence).take_while(follows).count();
    let part = datagrams.get(encoded.len()..count.saturating_mul(stride)).unwrap_or_default();
    Train { buffer, part, count, payload: payload as u16, header: encoded.len() as u16 }
}

/// Returns the part of a datagram from `offset` on, as a slice of `shared` if `shared` contains the datagram.
fn payload_of<'a>(datagram: &'a [u8], offset: usize, shared: Option<&'a Bytes>) -> Payload<'a> {
    let bytes = datagram.get(offset..).unwrap_or_default();
    shared.map_or(Payload::copied(bytes), |shared| Payload::shared(bytes, shared))
}
