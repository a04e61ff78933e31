//! Transmit path: batches of all connections, in turn.

use longhaul_units::Time;

use crate::{Batch, ConnId, Destination, Due, Endpoint, SegmentRef, State};

#[expect(clippy::multiple_inherent_impl, reason = "one file per task")]
impl Endpoint {
    /// Fills `batch` with the next segments to send and returns their destination. `max_segments` is the number of
    /// segments that the segmentation offload of the socket accepts per call.
    pub fn poll_transmit(&mut self, now: Time, batch: &mut Batch, max_segments: usize) -> Option<Destination> {
        let now = self.advance(now);
        if self.reflector.goes_first()
            && let Some(destination) = self.poll_answers(batch, max_segments)
        {
            return Some(destination);
        }
        while let Some(index) = self.queue.pop_front() {
            let Some(slot) = self.slots.get_mut(index) else { continue };
            slot.connection.writer().set_others(self.queue.len());
            let due = slot.connection.poll_transmit(now, batch, max_segments);
            if due == Due::Nothing {
                slot.queued = false;
                self.settle_idle(index);
                continue;
            }
            let destination = Destination { tuple: slot.tuple, connection: Some(slot.id) };
            // In any other state, the connection may have ended. It is removed only after its last batch has been sent.
            if due == Due::LastBatch && slot.connection.state() == State::Established {
                slot.queued = false;
                self.settle_sent(index);
            } else {
                // Queue the connection again, so that other connections send their batches first.
                self.queue.push_back(index);
                // A writer may continue before all of its data has been sent.
                self.settle_events(index);
            }
            return Some(destination);
        }
        self.poll_answers(batch, max_segments)
    }

    fn poll_answers(&mut self, batch: &mut Batch, max_segments: usize) -> Option<Destination> {
        let Some((tuple, header, challenger)) = self.answers.pop_front() else {
            return self.reflector.poll(batch, max_segments);
        };
        if let Some(id) = challenger {
            self.challenge_sent(id);
        }
        batch.clear();
        batch.push(&header, 0, 0);
        Some(Destination { tuple, connection: None })
    }

    /// Returns whether `id` is the only connection that may have something to send.
    #[must_use]
    pub fn has_only(&self, id: ConnId) -> bool {
        self.answers.is_empty() && self.queue.iter().all(|slot| *slot == id.slot)
    }

    /// Calls `each` with the slices of a segment's payload.
    pub fn payload(&self, id: ConnId, segment: &SegmentRef, each: impl FnMut(&[u8])) {
        if let Some(connection) = self.connection(id) {
            connection.status().payload(segment, each);
        }
    }

    /// Appends the slices of a batch, headers and payload, to `out`, and returns their total length. If data of the
    /// batch was acknowledged in the meantime, the total is less than [`Batch::len`], and the batch must not be sent.
    pub fn frames<'a>(&'a mut self, id: ConnId, batch: &'a Batch, out: &mut impl Extend<&'a [u8]>) -> usize {
        self.connection_mut(id).map_or(0, |connection| connection.frames(batch, out))
    }
}
