//! One direction of a link: policer, queue, transmitter, medium.

use longhaul_units::{Bytes, Rate, Span, Time};

use crate::Ecn;
use crate::config::{Bleaching, LinkConfig};
use crate::hook::{Hook, View};
use crate::medium::{Medium, ROUTER_STREAM, STREAMS};
use crate::packet::{Packet, Payload, dscp};
use crate::policer::TokenBucket;
use crate::queue::{Queue, Sink};
use crate::random::Random;
use crate::router::{OutputRouter, RouterConfig, RouterStats};
use crate::stats::{Cause, LinkStats};
use crate::transmit::Transmitter;
use crate::validate::ConfigError;

/// One direction of a link. The caller [`offer`](Self::offer)s packets, [`poll`](Self::poll)s for those that have
/// arrived, and calls again at [`next_event`](Self::next_event).
///
/// Events take effect at the time at which they would occur on the real link, even if the caller is late: a queue
/// decides about a packet when its transmission begins, and arrival times are exact to the nanosecond, although the
/// caller sees no event other than the arrival. Before it offers a packet at some time, the caller must poll until that
/// time.
#[derive(Debug)]
pub struct Link<T, H = ()> {
    policer: Option<TokenBucket>,
    queue: Queue<T>,
    transmitter: Transmitter,
    medium: Medium<T>,
    /// Hook that observes or replaces packets.
    pub hook: H,
    router: Option<Box<OutputRouter>>,
    stats: LinkStats,
    is_hop: bool,
    bleaching: Bleaching,
    /// Boxed, because it is rarely needed per packet: this keeps the working set small with thousands of links.
    config: Box<LinkConfig>,
    seed: u64,
    number: u64,
    now: Time,
    /// Time at which the transmission of the next waiting packet begins.
    begins: Option<Time>,
}

impl<T: Payload> Link<T> {
    /// Creates an empty link. Links of one network share a seed and differ in their number, which is at most 2^60.
    pub fn new(config: LinkConfig, seed: u64, number: u64) -> Result<Self, ConfigError> {
        Self::with_hook(config, seed, number, ())
    }
}

impl<T: Payload, H: Hook<T>> Link<T, H> {
    /// Creates an empty link with a hook that observes its packets.
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
            bleaching: config.bleaching,
            config: Box::new(config),
            seed,
            number,
            now: Time::ZERO,
            begins: None,
        })
    }

    /// Offers a packet at `now`, and returns whether it entered the queue. It may still be dropped later.
    pub fn offer(&mut self, now: Time, mut packet: Packet<T>) -> bool {
        let now = self.proceed(now);
        if self.queue.is_empty() {
            self.transmitter.idle(now);
        }
        let class = self.queue.class(&packet);
        self.stats.offered(class, packet.size);
        let view = self.view(now);
        self.hook.offered(now, &mut packet, &view);
        // Before the queue: TTL and policer, then the router's accounting of the arrival.
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
            // A packet that does not have to wait is neither dropped nor marked by any queue discipline.
            packet.enqueued = now;
            self.stats.sent(class, packet.size, Span::ZERO);
            self.send(now, class, packet);
            return true;
        }
        // Through the queue; transmission begins at once if the transmitter is idle.
        self.follow_rate(now);
        let mut watch = Watch { now, stats: &mut self.stats, hook: &mut self.hook };
        let admitted = self.queue.enqueue(now, packet, &mut watch);
        self.stats.queue_changed(now, self.queue.len(), self.queue.bytes());
        self.transmit(now, now);
        admitted
    }

    /// Returns when [`poll`](Self::poll) is due next, or `None` while the link is empty. That call may find no packet
    /// if the one that was due is lost.
    pub fn next_event(&self) -> Option<Time> {
        self.medium.arrivals.next(self.begins)
    }

    /// Takes the next packet that has arrived by `now`, with its arrival time. Call it until it returns `None`.
    pub fn poll(&mut self, now: Time) -> Option<(Time, Packet<T>)> {
        let now = self.proceed(now);
        let (at, packet) = self.medium.arrivals.take(now)?;
        self.stats.delivered += 1;
        self.stats.delivered_bytes += u64::from(packet.size);
        Some((at, packet))
    }

    /// Advances the link to `now`, so that its counters and its queue reflect that time.
    pub fn catch_up(&mut self, now: Time) {
        let _ = self.proceed(now);
    }

    /// Returns the counters of the link.
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// Returns the configuration of the link.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Returns the counters of the router at the link's output, if there is one.
    pub fn router_stats(&self) -> Option<&RouterStats> {
        self.router.as_deref().map(OutputRouter::stats)
    }

    /// Returns the packets and bytes waiting for transmission.
    pub fn backlog(&self) -> (u64, u64) {
        (self.queue.len(), self.queue.bytes())
    }

    /// Returns the number of packets in transmission or propagation.
    pub fn under_way(&self) -> usize {
        self.medium.arrivals.len()
    }

    /// Returns the rate at the latest time passed in: the mean rate of a trace, or `None` if it is unlimited.
    pub fn rate(&self) -> Option<Rate> {
        self.rate_at(self.now)
    }

    /// Replaces the configuration from `now` on, except for that of the queue. Packets in transmission or propagation
    /// arrive as scheduled. The random sequences of the impairments start over. If the router's configuration is
    /// unchanged, the router keeps its state.
    ///
    /// # Errors
    /// Returns an error if the configuration is invalid. The link is unchanged in that case.
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

    fn proceed(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.transmit(self.now, Time::ZERO);
        self.now
    }

    fn admit(&mut self, now: Time, packet: &mut Packet<T>) -> Result<(), Cause> {
        if self.is_hop {
            packet.ttl = packet.ttl.saturating_sub(1);
            if packet.ttl == 0 {
                return Err(Cause::TtlExpired);
            }
        }
        if self.bleaching.ecn {
            packet.ecn = Ecn::NotEct;
        }
        if self.bleaching.dscp {
            packet.dscp = dscp::DEFAULT;
        }
        let conforms = self.policer.as_mut().is_none_or(|bucket| bucket.admits(now, packet.size));
        if conforms { Ok(()) } else { Err(Cause::Policed) }
    }

    /// Begins every transmission that is due by `now`. `earliest` is the start time of a packet that finds the
    /// transmitter idle.
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

fn router(config: Option<&RouterConfig>, seed: u64, stream: u64) -> Option<Box<OutputRouter>> {
    config.map(|config| Box::new(OutputRouter::new(config, Random::new(seed, stream + ROUTER_STREAM))))
}

/// Returns the transmission time of a 1500-byte packet, by which RED ages its average while the queue is idle.
fn typical(config: &LinkConfig, at: Time) -> Span {
    config.rate_at(at).map_or(Span::ZERO, |rate| rate.time_for(Bytes(config.overhead.on_link(1500))))
}

struct Watch<'a, H> {
    now: Time,
    stats: &'a mut LinkStats,
    hook: &'a mut H,
}

impl<T, H: Hook<T>> Sink<T> for Watch<'_, H> {
    fn dropped(&mut self, class: u8, cause: Cause, packet: Packet<T>) {
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
        self.stats.sent(class, size, sojourn);
    }
}

#[cfg(test)]
mod tests;
