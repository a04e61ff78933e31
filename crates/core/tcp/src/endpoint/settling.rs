//! After each call: events, timers, memory and the end of connections.

use std::net::IpAddr;

use longhaul_units::Time;

use super::slots::Slot;
use crate::{Endpoint, EndpointEvent, Event, PathCache, State};

#[expect(clippy::multiple_inherent_impl, reason = "one file per task")]
impl Endpoint {
    /// Processes the events of a connection after any call and queues it for transmission.
    pub(super) fn settle(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        if !slot.queued {
            slot.queued = true;
            self.queue.push_back(index);
        }
        self.settle_events(index);
    }

    /// Updates timer, memory and pressure of a connection that has nothing to send, and forgets the connection if it is
    /// over.
    pub(super) fn settle_idle(&mut self, index: u32) {
        self.settle_sent(index);
        self.reap(index);
    }

    /// Updates timer, memory and pressure of a connection that has nothing to send after the current batch.
    pub(super) fn settle_sent(&mut self, index: u32) {
        self.settle_events(index);
        let Some(slot) = self.slots.get_mut(index) else { return };
        slot.connection.watch_idleness();
        match slot.connection.poll_timeout() {
            Some(at) => self.wheel.set(index, at),
            None => self.wheel.cancel(index),
        }
        slot.learn_path(self.now);
        self.charge(index);
    }

    pub(super) fn settle_events(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        let id = slot.id;
        while let Some(event) = slot.connection.poll_event() {
            if event == Event::Connected {
                // The peer has confirmed the new connection, which therefore replaces the one in TIME-WAIT.
                self.time_wait.remove(&slot.tuple);
            }
            if slot.pending {
                if let (Event::Connected, Some(listener)) = (event, &mut self.listener) {
                    listener.ready.push_back(id);
                    self.membership.counts().ready.add(1);
                    self.events.push_back(EndpointEvent::Incoming);
                }
                continue;
            }
            if slot.held {
                self.events.push_back(EndpointEvent::Connection(id, event));
            }
        }
    }

    /// Forgets a closed connection, or replaces one in TIME-WAIT by a record once the application has released it.
    fn reap(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        let half_open = slot.pending
            && slot.connection.state() == State::Closed
            && !self.listener.as_ref().is_some_and(|l| l.ready.iter().any(|id| id.slot == index));
        let over = slot.connection.status().is_drained();
        let waiting = slot.connection.state() == State::TimeWait && !slot.held;
        let tuple = slot.tuple;
        if over && self.find_slot(&tuple) == Some(index) {
            // The addresses are free even if the application still holds the connection.
            self.unmap(index, &tuple);
        }
        let Some(slot) = self.slots.get_mut(index) else { return };
        if waiting {
            let record = slot.connection.status().time_wait_record();
            self.time_wait.insert(tuple, record);
            self.unmap(index, &tuple);
        } else if !(over && (!slot.held || half_open)) {
            return;
        }
        self.forget(index);
    }

    fn forget(&mut self, index: u32) {
        let Some(mut slot) = self.slots.remove(index) else { return };
        slot.connection.begin_call(self.now);
        slot.connection.watch().end();
        self.wheel.cancel(index);
        self.discharge(&slot);
    }
}

#[expect(clippy::multiple_inherent_impl, reason = "its place in the endpoint")]
impl Slot {
    /// Updates the metrics cache once; later events provide no information about the path.
    fn learn_path(&mut self, now: Time) {
        let Some(cache) = self.path_cache.take_if(|_| self.connection.status().has_seen_its_path()) else { return };
        self.update(&cache, now, self.tuple.remote.ip());
    }

    /// Updates the metrics cache with what was found on the path to `remote`, which the connection leaves.
    pub(super) fn leave_path(&self, now: Time, remote: IpAddr) {
        if let Some(cache) = &self.path_cache {
            self.update(cache, now, remote);
        }
    }

    fn update(&self, cache: &PathCache, now: Time, remote: IpAddr) {
        let congestion = self.connection.config.congestion.name();
        cache.seed(now, remote, &congestion, &self.connection.status().path_metrics());
        if let Some(checked_out) = self.connection.status().unspent_path() {
            cache.give_back(remote, &congestion, checked_out);
        }
    }
}
