//! One direction of a link: policer, queue, transmitter, medium.

use longhaul_units::{Bytes, Rate, Span, Time};

use crate::Ecn;
use crate::config::LinkConfig;
use crate::hook::{Hook, View};
use crate::medium::{Medium, ROUTER_STREAM, STREAMS};
use crate::packet::{Packet, Payload};
use crate::policer::TokenBucket;
use crate::queue::{Queue, Sink};
use crate::random::Random;
use crate::router::{OutputRouter, RouterConfig, RouterStats};
use crate::stats::{Cause, LinkStats};
use crate::transmit::Transmitter;
use crate::validate::ConfigError;

/// One direction of a link, driven from outside: [`offer`](Self::offer) packets, [`poll`](Self::poll) those that have
/// arrived, and come back at [`next_event`](Self::next_event).
///
/// Everything happens at the time it would happen on the real link, however late the calls come: a queue decides about a
/// packet when its transmission begins, and a packet arrives to the nanosecond, though the only event that a caller
/// sees is the arrival. Before offering at a time, poll until that time.
#[derive(Debug)]
pub struct Link<T, H = ()> {
    policer: Option<TokenBucket>,
    queue: Queue<T>,
    transmitter: Transmitter,
    medium: Medium<T>,
    hook: H,
    /// Most links have none.
    router: Option<Box<OutputRouter>>,
    stats: LinkStats,
    is_hop: bool,
    /// Apart from what every packet needs: thousands of links share a cache.
    config: Box<LinkConfig>,
    seed: u64,
    number: u64,
    /// The latest time it was called at.
    now: Time,
    /// When the next packet that waits begins.
    begins: Option<Time>,
}

impl<T: Payload> Link<T> {
    /// An empty link. Links of one network share a seed and differ in their number, up to 2^60.
    ///
    /// # Errors
    /// If there can be no such link; the error names the fault and the remedy.
    pub fn new(config: LinkConfig, seed: u64, number: u64) -> Result<Self, ConfigError> {
        Self::with_hook(config, seed, number, ())
    }
}

impl<T: Payload, H: Hook<T>> Link<T, H> {
    /// An empty link with someone who looks at its packets.
    ///
    /// # Errors
    /// If there can be no such link; the error names the fault and the remedy.
    pub fn with_hook(config: LinkConfig, seed: u64, number: u64, hook: H) -> Result<Self, ConfigError> {
        config.validate()?;
        let stream = number.wrapping_mul(STREAMS);
        Ok(Self {
            policer: config.policer.map(TokenBucket::new),
            queue: Queue::new(&config.queue, typical(&config, Time::ZERO), Random::new(seed, stream)),
            transmitter: Transmitter::new(&config),
            medium: Medium::new(&config, seed, stream),
            hook,
            router: router(config.router.as_ref(), seed, stream),
            stats: LinkStats::default(),
            is_hop: config.takes_ttl(),
            config: Box::new(config),
            seed,
            number,
            now: Time::ZERO,
            begins: None,
        })
    }

    /// Takes in a packet at `now`. Whether it got into the queue; it may still be lost later.
    pub fn offer(&mut self, now: Time, mut packet: Packet<T>) -> bool {
        let now = self.proceed(now);
        if self.queue.is_empty() {
            self.transmitter.idle(now);
        }
        let class = self.queue.class(&packet);
        self.stats.offered(class, packet.size);
        let view = self.view(now);
        self.hook.offered(now, &mut packet, &view);
        if let Err(cause) = self.admit(now, &mut packet) {
            self.stats.dropped(class, cause);
            self.hook.dropped(now, &packet, cause);
            return false;
        }
        if let Some(router) = &mut self.router {
            router.turn(now, &view);
            router.arrives(now, &view, self.transmitter.on_link(packet.size), &mut packet);
        }
        if self.queue.is_empty() && self.transmitter.is_unlimited() {
            // No discipline drops or marks what need not wait.
            packet.enqueued = now;
            self.stats.sent(class, packet.size, Span::ZERO);
            self.send(now, class, packet);
            return true;
        }
        self.follow_rate(now);
        self.stats.enters(now, self.queue.class(&packet), packet.size);
        let mut watch = Watch { now, stats: &mut self.stats, hook: &mut self.hook };
        let admitted = self.queue.enqueue(now, packet, &mut watch);
        self.stats.queue_changed(now, self.queue.len(), self.queue.bytes());
        self.transmit(now, now);
        admitted
    }

    /// When [`poll`](Self::poll) is due next; `None` while the link is empty. There may be nothing to take then, if what
    /// was due is lost.
    #[must_use]
    pub fn next_event(&self) -> Option<Time> {
        self.medium.arrivals.next(self.begins)
    }

    /// Takes the next packet that has arrived by `now`, and when it did. Call until there is none.
    pub fn poll(&mut self, now: Time) -> Option<(Time, Packet<T>)> {
        let now = self.proceed(now);
        let (at, packet) = self.medium.arrivals.take(now)?;
        self.stats.delivered += 1;
        self.stats.delivered_bytes += u64::from(packet.size);
        Some((at, packet))
    }

    /// Lets everything happen that happens until `now`, so that counters and queue are of that time.
    pub fn catch_up(&mut self, now: Time) {
        let _ = self.proceed(now);
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// What the link is like.
    #[must_use]
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// What the router at its output did, if there is one.
    #[must_use]
    pub fn router_stats(&self) -> Option<&RouterStats> {
        self.router.as_deref().map(OutputRouter::stats)
    }

    /// Packets and bytes that wait for transmission.
    #[must_use]
    pub fn backlog(&self) -> (u64, u64) {
        (self.queue.len(), self.queue.bytes())
    }

    /// Packets that are being sent or on their way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.medium.arrivals.len()
    }

    /// The rate at the latest time it was called at, the mean one of a trace; `None` if it is unlimited.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        self.rate_at(self.now)
    }

    /// Who looks at the packets.
    #[must_use]
    pub fn hook(&self) -> &H {
        &self.hook
    }

    /// Who looks at the packets.
    pub fn hook_mut(&mut self) -> &mut H {
        &mut self.hook
    }

    /// Makes it another link from `now` on, but for its queue, which stays as it was configured. What is being sent or
    /// under way arrives as it would have; faults draw from their first numbers again. A router that stays the same keeps
    /// what it knows.
    ///
    /// # Errors
    /// If there can be no such link. It stays as it was then.
    pub fn reconfigure(&mut self, now: Time, config: LinkConfig) -> Result<(), ConfigError> {
        config.validate()?;
        let now = self.proceed(now);
        self.transmitter.reconfigure(now, &config);
        self.medium.configure(&config, self.seed, self.number.wrapping_mul(STREAMS));
        self.policer = config.policer.map(TokenBucket::new);
        self.is_hop = config.takes_ttl();
        if self.config.router != config.router {
            self.router = router(config.router.as_ref(), self.seed, self.number.wrapping_mul(STREAMS));
        }
        self.queue.set_typical(typical(&config, now));
        *self.config = LinkConfig { queue: core::mem::take(&mut self.config.queue), ..config };
        self.transmit(now, now);
        Ok(())
    }

    /// Lets everything happen that happens until `now`.
    fn proceed(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.transmit(self.now, Time::ZERO);
        self.now
    }

    /// What a packet meets before the queue.
    fn admit(&mut self, now: Time, packet: &mut Packet<T>) -> Result<(), Cause> {
        if self.is_hop {
            packet.ttl = packet.ttl.saturating_sub(1);
            if packet.ttl == 0 {
                return Err(Cause::TtlExpired);
            }
        }
        let conforms = self.policer.as_mut().is_none_or(|bucket| bucket.admits(now, packet.size));
        if conforms { Ok(()) } else { Err(Cause::Policed) }
    }

    /// Begins every transmission that begins until `now`. A packet that came to an idle transmitter begins at
    /// `earliest`.
    fn transmit(&mut self, now: Time, earliest: Time) {
        self.begins = None;
        while !self.queue.is_empty() {
            let start = self.transmitter.next_start(earliest);
            if start > now {
                self.begins = Some(start);
                return;
            }
            self.begin(start);
        }
    }

    fn begin(&mut self, start: Time) {
        self.follow_rate(start);
        if self.router.is_some() {
            let view = self.view(start);
            self.router.iter_mut().for_each(|router| router.turn(start, &view));
        }
        let mut watch = Watch { now: start, stats: &mut self.stats, hook: &mut self.hook };
        let packet = self.queue.dequeue(start, &mut watch);
        self.stats.queue_changed(start, self.queue.len(), self.queue.bytes());
        if let Some((class, packet)) = packet {
            self.send(start, class, packet);
        }
    }

    /// Puts a packet on the link that is out of the queue.
    fn send(&mut self, start: Time, class: u8, mut packet: Packet<T>) {
        let sent = self.transmitter.send(start, packet.size, packet.enqueued < start);
        let view = self.view(start);
        if let Some(router) = &mut self.router {
            router.departs((start, sent), &view, self.transmitter.on_link(packet.size), &mut packet);
        }
        self.hook.egress(start, sent, &mut packet, &view);
        match self.medium.pass(sent, self.transmitter.on_link(packet.size), packet) {
            Ok(passage) => {
                self.stats.duplicated += u64::from(passage.duplicated);
                self.stats.reordered += u64::from(passage.reordered);
            }
            Err((cause, packet)) => {
                self.stats.dropped(class, cause);
                self.hook.dropped(sent, &packet, cause);
            }
        }
    }

    #[inline]
    fn rate_at(&self, at: Time) -> Option<Rate> {
        if self.transmitter.is_stepped() { self.config.rate_at(at) } else { self.transmitter.steady_rate() }
    }

    /// Tells the queue of a step of the rate.
    #[inline]
    fn follow_rate(&mut self, now: Time) {
        if self.transmitter.is_stepped() {
            self.queue.set_typical(typical(&self.config, now));
        }
    }

    fn view(&self, at: Time) -> View {
        View { rate: self.rate_at(at), packets: self.queue.len(), bytes: self.queue.bytes() }
    }
}

/// The router at the output of a link whose random sequences begin with `stream`.
fn router(config: Option<&RouterConfig>, seed: u64, stream: u64) -> Option<Box<OutputRouter>> {
    config.map(|config| Box::new(OutputRouter::new(config, Random::new(seed, stream + ROUTER_STREAM))))
}

/// How long a packet of 1500 bytes takes: RED's clock while a queue is idle.
fn typical(config: &LinkConfig, at: Time) -> Span {
    config.rate_at(at).map_or(Span::ZERO, |rate| rate.time_for(Bytes(config.overhead.on_link(1500))))
}

/// Counts and reports what a queue does.
struct Watch<'a, H> {
    now: Time,
    stats: &'a mut LinkStats,
    hook: &'a mut H,
}

impl<T, H: Hook<T>> Sink<T> for Watch<'_, H> {
    fn dropped(&mut self, class: u8, cause: Cause, packet: Packet<T>) {
        self.stats.leaves(self.now, class, packet.size);
        self.stats.dropped(class, cause);
        self.hook.dropped(self.now, &packet, cause);
    }

    fn mark(&mut self, class: u8, packet: &mut Packet<T>) {
        if packet.ecn != Ecn::Ce {
            packet.ecn = Ecn::Ce;
            self.stats.marked(class);
        }
    }

    fn sent(&mut self, class: u8, size: u32, sojourn: Span) {
        self.stats.leaves(self.now, class, size);
        self.stats.sent(class, size, sojourn);
    }
}

#[cfg(test)]
mod tests;
