//! Connections that continue between other addresses (`docs/wire.md`, "Move").

use std::collections::VecDeque;

use longhaul_units::{Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Header, MoveOption, MoveStep, Timestamps};

use super::slots::Slot;
use super::{ANSWERS, Tuple};
use crate::mobility::Mobility;
use crate::{ConnId, DatagramMeta, Endpoint, State};

/// Minimum interval between two moves of a connection at its server. Clients move less often.
const INTERVAL: Span = Span::from_millis(50);

/// Maximum number of challenges of a connection among the [answers](Endpoint::answer), so that copies of its claim do
/// not displace other answers, and maximum number of the latest challenges that wait until there is room: the client's
/// own claim may be among the first copies or the last.
const CHALLENGES: usize = 64;

/// State of a server's connection that can move.
#[derive(Debug)]
pub(super) struct Anchor {
    mobility: Mobility,
    /// Counter of the last move.
    counter: u32,
    moved_at: Option<Time>,
    /// The last claim with the right tag, and its sequence number: copies need no second check.
    verified: Option<(MoveOption, u32)>,
    /// Number of challenges among the answers.
    queued: usize,
    latest: VecDeque<(Tuple, Header)>,
}

impl Anchor {
    pub(super) fn number(&self) -> &[u8; 8] {
        &self.mobility.number
    }
}

#[expect(clippy::multiple_inherent_impl, reason = "one file per task")]
impl Endpoint {
    /// Lets a connection continue between other addresses. Returns whether it can: the connection is established, and no
    /// other connection of the group has its number.
    pub fn set_mobility(&mut self, id: ConnId, mobility: Mobility) -> bool {
        let Some(slot) = self.slots.of_mut(id).filter(|slot| slot.is_live() && slot.anchor.is_none()) else {
            return false;
        };
        if mobility.is_client {
            slot.connection.engine().add_mover(mobility);
            return true;
        }
        let number = mobility.number;
        if self.table.find_number(&number).is_some() || self.membership.owner(&number).is_some() {
            return false;
        }
        let anchor =
            Anchor { mobility, counter: 0, moved_at: None, verified: None, queued: 0, latest: VecDeque::new() };
        slot.anchor = Some(Box::new(anchor));
        self.table.insert_number(&number, id.slot);
        self.membership.enter(&number);
        true
    }

    /// Moves a client's connection to `tuple`, or to a new address of the socket if that has not changed. Segments must
    /// be sent from there from now on. Returns `false` without a change if the connection cannot move, has moved within
    /// the last 100 ms, or if another one has these addresses.
    pub fn relocate(&mut self, now: Time, id: ConnId, tuple: Tuple) -> bool {
        let now = self.advance(now);
        let is_free = tuple.joins_two_hosts() && self.find_slot(&tuple).is_none_or(|index| index == id.slot);
        let Some(slot) = self.slots.of_mut(id).filter(|slot| is_free && slot.is_live()) else { return false };
        slot.connection.begin_call(now);
        if !slot.connection.engine().takes_new_address(now) {
            return false;
        }
        self.carry_over(now, id.slot, tuple, false);
        self.settle(id.slot);
        true
    }

    /// Handles a claim or an answer from addresses without a connection. Returns `None` if it has no number of a
    /// connection that can move, and otherwise the slot of the connection, if it has moved.
    pub(super) fn meet_move(
        &mut self,
        now: Time,
        meta: &DatagramMeta,
        header: &Header,
        wire: usize,
    ) -> Option<Option<u32>> {
        let moving = header.options.moving.filter(|moving| moving.step != MoveStep::Challenge)?;
        let index = self.table.find_number(&moving.value)?;
        let slot = self.slots.get_mut(index).filter(|slot| slot.is_live())?;
        let anchor = slot.anchor.as_mut().filter(|anchor| *anchor.number() == moving.value)?;
        if moving.counter <= anchor.counter {
            return Some(None);
        }
        let challenge = || self.keys.challenge(&meta.tuple, moving.value, moving.counter).to_ne_bytes();
        if moving.step == MoveStep::Claim {
            let claim = (moving, header.seq);
            if anchor.verified != Some(claim) {
                if !anchor.mobility.verifies(&moving, &header.seq.to_be_bytes()) {
                    return Some(None);
                }
                anchor.verified = Some(claim);
            }
            let mut reply = slot.connection.engine().textless_header(now);
            // The client accepts this number even if it has received a window probe whose ACK is lost.
            reply.seq = header.ack;
            reply.options.moving =
                Some(anchor.mobility.sign(MoveStep::Challenge, challenge(), moving.counter, &moving.value));
            if let (Some(ours), Some(theirs)) = (&mut reply.options.timestamps, header.options.timestamps) {
                *ours = Timestamps { echo: theirs.value, ..*ours };
            }
            if CheshireCodec::header_len(&reply.options) <= wire {
                if anchor.queued < CHALLENGES && self.answers.len() < ANSWERS {
                    anchor.queued += 1;
                    self.answers.push_back((meta.tuple, reply, Some(slot.id)));
                } else if anchor.queued > 0 {
                    if anchor.latest.len() == CHALLENGES {
                        anchor.latest.pop_front();
                    }
                    anchor.latest.push_back((meta.tuple, reply));
                }
            }
            return Some(None);
        }
        let is_early = anchor.moved_at.is_some_and(|at| now - at < INTERVAL);
        if is_early || !anchor.mobility.verifies(&moving, &challenge()) {
            return Some(None);
        }
        (anchor.counter, anchor.moved_at, anchor.verified) = (moving.counter, Some(now), None);
        anchor.latest.clear();
        let former = slot.tuple;
        let keeps = (former.remote.ip(), former.local) == (meta.tuple.remote.ip(), meta.tuple.local);
        self.carry_over(now, index, meta.tuple, keeps);
        Some(Some(index))
    }

    /// Queues the next waiting challenge of a connection after one has been sent.
    pub(super) fn challenge_sent(&mut self, id: ConnId) {
        let Some(anchor) = self.slots.of_mut(id).and_then(|slot| slot.anchor.as_mut()) else { return };
        match anchor.latest.pop_front() {
            Some((tuple, reply)) => self.answers.push_back((tuple, reply, Some(id))),
            None => anchor.queued = anchor.queued.saturating_sub(1),
        }
    }

    /// Changes the addresses of a connection.
    fn carry_over(&mut self, now: Time, index: u32, tuple: Tuple, keeps: bool) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        let former = std::mem::replace(&mut slot.tuple, tuple);
        self.membership.transfer(former.remote.ip(), tuple.remote.ip(), &mut slot.share, slot.charged);
        slot.connection.begin_call(now);
        if !keeps {
            slot.leave_path(now, former.remote.ip());
        }
        slot.connection.engine().change_path(now, &tuple, keeps);
        self.table.remove(&former, index);
        self.membership.strike_out(&former);
        self.time_wait.remove(&tuple);
        self.table.insert(tuple, index);
        self.membership.enter(&tuple);
    }

    /// Forgets the number of a connection that is over.
    pub(super) fn unlist(&mut self, index: u32) {
        let Some(anchor) = self.slots.get_mut(index).and_then(|slot| slot.anchor.take()) else { return };
        self.table.remove_number(anchor.number());
        self.membership.strike_out(anchor.number());
    }
}

#[expect(clippy::multiple_inherent_impl, reason = "its use by moves")]
impl Slot {
    /// Returns whether the connection is established, and not over or in TIME-WAIT.
    fn is_live(&self) -> bool {
        let state = self.connection.state();
        state.is_synchronized() && state != State::TimeWait
    }
}
