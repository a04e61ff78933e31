//! A member's knowledge of the connections of the others: which member has one, and which ones were asked.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::net::IpAddr;
use std::time::Duration;

use longhaul::Stray;
use tokio::time::Instant;

use super::message::Flow;

/// Maximum number of connections in each of two generations: recently used ones, and older ones.
const FLOWS: usize = 16_384;
/// Time for which the answer of an owner is valid, and the time within which it has to answer again.
const CONFIRMED: Duration = Duration::from_secs(1);
const ANSWER: Duration = Duration::from_millis(500);
/// Time for which a connection that no member has is refused without another question.
const NOBODY: Duration = Duration::from_secs(1);
/// Maximum number of datagrams of a connection that are sent with one question, and the time until more are sent.
const COPIES: u32 = 64;
const PAUSE: Duration = Duration::from_millis(100);
/// Rate of questions per second, and their maximum burst: in total, and for client addresses with the same hash.
const QUESTIONS: (f64, f64) = (4096.0, 8192.0);
const PER_ADDRESS: (f64, f64) = (512.0, 1024.0);
const GROUPS: usize = 256;
/// Length of the beginning of a datagram that is kept until all have answered: the longest header, whose options decide
/// how the segment is refused.
const KEPT: usize = 52;

/// Set of members, by their numbers.
pub(super) type Set = u64;

/// What to do with a stray.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Ask these members, which get the datagram with the question.
    Ask(Set, u64),
    /// Send it to its owner.
    Send(usize, u64),
    /// No member has the connection.
    Refuse,
    /// Too many unknown connections.
    Drop,
}

/// A stray that no member knows; see [`KEPT`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) flow: Flow,
    start: [u8; KEPT],
    len: usize,
}

impl Refused {
    fn of(stray: &Stray<'_>) -> Self {
        let (mut start, len) = ([0; KEPT], stray.data.len().min(stray.segment_size).min(KEPT));
        start.iter_mut().zip(stray.data).for_each(|(to, from)| *to = *from);
        Self { flow: (stray.remote, stray.local), start, len }
    }

    pub(super) fn stray(&self) -> Stray<'_> {
        Stray::new(self.flow.0, self.flow.1, self.start.get(..self.len).unwrap_or_default())
    }
}

#[derive(Debug)]
struct Owner {
    member: usize,
    nonce: u64,
    confirmed_at: Instant,
    /// Time at which it was asked for another answer.
    asked_at: Option<Instant>,
    /// The latest stray, which is answered if the owner ends.
    kept: Box<Refused>,
}

#[derive(Debug)]
struct Question {
    nonce: u64,
    asked_at: Instant,
    copies: u32,
    /// Members that have not answered; empty if no member has the connection.
    waiting: Set,
    kept: Box<Refused>,
}

/// Map of bounded size. If it is full, the least recently used entries are dropped, at most half of them.
#[derive(Debug)]
struct Recent<V> {
    young: HashMap<Flow, V>,
    old: HashMap<Flow, V>,
}

impl<V> Recent<V> {
    fn new() -> Self {
        Self { young: HashMap::new(), old: HashMap::new() }
    }

    fn get(&mut self, flow: &Flow) -> Option<&mut V> {
        if let Some(value) = self.old.remove(flow) {
            self.insert(*flow, value);
        }
        self.young.get_mut(flow)
    }

    fn insert(&mut self, flow: Flow, value: V) {
        if self.young.len() >= FLOWS {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(flow, value);
    }

    fn remove(&mut self, flow: &Flow) -> Option<V> {
        let old = self.old.remove(flow);
        self.young.remove(flow).or(old)
    }
}

fn datagrams(stray: &Stray<'_>) -> u32 {
    u32::try_from(stray.data.len().div_ceil(stray.segment_size.max(1))).unwrap_or(u32::MAX)
}

/// Token bucket: tokens per second, and their maximum.
#[derive(Clone, Debug)]
struct Bucket {
    tokens: f64,
    since: Instant,
}

impl Bucket {
    fn take(&mut self, now: Instant, (rate, most): (f64, f64)) -> bool {
        let earned = now.saturating_duration_since(self.since).as_secs_f64() * rate;
        (self.tokens, self.since) = ((self.tokens + earned).min(most), now);
        let has = self.tokens >= 1.0;
        self.tokens -= f64::from(u8::from(has));
        has
    }
}

#[derive(Debug)]
pub(super) struct Flows {
    owners: Recent<Owner>,
    questions: Recent<Question>,
    nonce: u64,
    total: Bucket,
    groups: Vec<Bucket>,
    hasher: RandomState,
}

impl Flows {
    /// Creates an empty state. `seed` makes nonces differ from those of an earlier run.
    pub(super) fn new(now: Instant, seed: u64) -> Self {
        Self {
            owners: Recent::new(),
            questions: Recent::new(),
            nonce: seed,
            total: Bucket { tokens: QUESTIONS.1, since: now },
            groups: vec![Bucket { tokens: PER_ADDRESS.1, since: now }; GROUPS],
            hasher: RandomState::new(),
        }
    }

    /// Forgets everything, because the numbers of the members have changed.
    pub(super) fn forget(&mut self) {
        (self.owners, self.questions) = (Recent::new(), Recent::new());
    }

    /// Decides on a stray, while the members `live` are alive.
    pub(super) fn on_stray(&mut self, now: Instant, live: Set, stray: &Stray<'_>) -> Action {
        let flow = (stray.remote, stray.local);
        let is_live = |member: usize| live >> member & 1 == 1;
        if let Some(owner) = self.owners.get(&flow).filter(|owner| is_live(owner.member)) {
            let (member, nonce) = (owner.member, owner.nonce);
            *owner.kept = Refused::of(stray);
            let asked = owner.asked_at.filter(|at| *at > owner.confirmed_at);
            match asked {
                _ if now < owner.confirmed_at + CONFIRMED => return Action::Send(member, nonce),
                // The owner is asked from time to time, because it may have been replaced at the same address.
                None => {
                    owner.asked_at = Some(now);
                    return Action::Ask(1 << member, nonce);
                }
                Some(at) if now < at + ANSWER => return Action::Send(member, nonce),
                Some(_) => {}
            }
        }
        self.owners.remove(&flow);
        if let Some(question) = self.questions.get(&flow) {
            let age = now.saturating_duration_since(question.asked_at);
            match question.waiting & live {
                0 if age < NOBODY => return Action::Refuse,
                0 => {}
                _ if age >= PAUSE => (question.asked_at, question.copies) = (now, 0),
                _ => {}
            }
            if question.waiting & live != 0 {
                question.copies = question.copies.saturating_add(datagrams(stray));
                let waiting = question.waiting & live;
                return if question.copies <= COPIES { Action::Ask(waiting, question.nonce) } else { Action::Drop };
            }
        }
        if live == 0 {
            return Action::Refuse;
        }
        let group = self.group(stray.remote.ip());
        let may = self.groups.get_mut(group).is_some_and(|group| group.take(now, PER_ADDRESS));
        if !may || !self.total.take(now, QUESTIONS) {
            return Action::Drop;
        }
        self.nonce = self.nonce.wrapping_add(1);
        let (nonce, kept) = (self.nonce, Box::new(Refused::of(stray)));
        self.questions.insert(flow, Question { nonce, asked_at: now, copies: datagrams(stray), waiting: live, kept });
        Action::Ask(live, nonce)
    }

    /// Chooses one of the members `ready` for a new connection. Repeated SYNs get the same one.
    pub(super) fn choose(&self, ready: Set, stray: &Stray<'_>) -> Option<usize> {
        let weight = |member: &usize| self.hasher.hash_one((member, stray.remote, stray.local));
        (0..Set::BITS as usize).filter(|member| ready >> member & 1 == 1).max_by_key(weight)
    }

    /// Records that a member has the connection.
    pub(super) fn on_owner(&mut self, now: Instant, member: usize, flow: Flow, nonce: u64) {
        if let Some(owner) = self.owners.get(&flow).filter(|owner| owner.member == member && owner.nonce == nonce) {
            owner.confirmed_at = now;
        }
        if self.questions.get(&flow).is_some_and(|question| question.nonce == nonce)
            && let Some(Question { kept, .. }) = self.questions.remove(&flow)
        {
            self.owners.insert(flow, Owner { member, nonce, confirmed_at: now, asked_at: None, kept });
        }
    }

    /// Records that a member does not have the connection. Returns the stray if it was the last one to answer.
    pub(super) fn on_stranger(
        &mut self,
        now: Instant,
        live: Set,
        member: usize,
        flow: Flow,
        nonce: u64,
    ) -> Option<Refused> {
        if self.owners.get(&flow).is_some_and(|owner| owner.member == member && owner.nonce == nonce) {
            self.owners.remove(&flow);
            return None;
        }
        let question = self.questions.get(&flow).filter(|question| question.nonce == nonce)?;
        let waited = question.waiting & live;
        question.waiting &= !(1 << member);
        question.finish(now, waited, live)
    }

    /// Returns the strays that no member knows because those that had not answered are lost, and the latest ones of
    /// connections whose owners have `ended`. `before` lived at the last call.
    pub(super) fn on_loss(&mut self, now: Instant, before: Set, live: Set, ended: Set) -> Vec<Refused> {
        let all = self.questions.young.values_mut().chain(self.questions.old.values_mut());
        let mut refused: Vec<_> =
            all.filter_map(|question| question.finish(now, question.waiting & before, live)).collect();
        for owners in [&mut self.owners.young, &mut self.owners.old] {
            let lost = owners.extract_if(|_, owner| ended >> owner.member & 1 == 1);
            refused.extend(lost.map(|(_, owner)| *owner.kept));
        }
        refused
    }

    #[cfg(test)]
    pub(super) fn questions(&self) -> usize {
        self.questions.young.len() + self.questions.old.len()
    }

    fn group(&self, address: IpAddr) -> usize {
        self.hasher.hash_one(address) as usize % GROUPS
    }
}

impl Question {
    /// Returns the stray if no answer is outstanding any more.
    fn finish(&mut self, now: Instant, waited: Set, live: Set) -> Option<Refused> {
        if waited == 0 || self.waiting & live != 0 {
            return None;
        }
        self.asked_at = now;
        Some((*self.kept).clone())
    }
}
