//! Stateless replies to path measurement probes (`docs/wire.md`, "Probes"), which report the arrival time of each
//! probe.

use std::collections::VecDeque;

use longhaul_units::Time;
use longhaul_wire::probe::{ANSWER_LEN, Answer, Probe};

use super::Tuple;
use crate::{Batch, DatagramMeta, Destination, Endpoint, SegmentRef, add};

/// Maximum number of queued answers: the datagrams of two receive calls, 130 kB with their addresses. If a flood of
/// probes fills the queue, further probes are dropped, as by a full queue on the path.
const LIMIT: usize = 2048;

/// Queue of replies to probes.
#[derive(Debug, Default)]
pub(super) struct Reflector {
    queue: VecDeque<(Tuple, [u8; ANSWER_LEN])>,
    /// Whether replies that belong to no connection were sent first in the last turn. The order alternates, so that
    /// neither these replies nor the data of connections starve under a flood.
    went_first: bool,
}

impl Reflector {
    /// Returns whether answers that belong to no connection are sent before the data of connections in this turn.
    pub(super) fn goes_first(&mut self) -> bool {
        self.went_first = !self.went_first;
        self.went_first
    }

    pub(super) fn poll(&mut self, batch: &mut Batch, max_segments: usize) -> Option<Destination> {
        let (tuple, _) = *self.queue.front()?;
        batch.clear();
        batch.segment_size = ANSWER_LEN;
        while batch.segments.len() < max_segments.max(1)
            && let Some((_, answer)) = self.queue.front().copied().filter(|(to, _)| *to == tuple)
        {
            self.queue.pop_front();
            batch.headers.extend_from_slice(&answer);
            batch.segments.push(SegmentRef { header_len: ANSWER_LEN as u8, payload_len: 0, payload_start: 0 });
        }
        batch.len = batch.headers.len();
        Some(Destination { tuple, connection: None })
    }
}

#[expect(clippy::multiple_inherent_impl, reason = "one file per task")]
impl Endpoint {
    /// Answers a datagram if it is a probe and probes are enabled. Returns whether it did.
    pub(super) fn reflect(&mut self, now: Time, meta: &DatagramMeta, datagram: &[u8]) -> bool {
        let Some(probe) = Probe::parse(datagram).filter(|_| self.config.reflect && meta.tuple.joins_two_hosts()) else {
            return false;
        };
        if self.reflector.queue.len() >= LIMIT {
            return true;
        }
        let arrived = meta.segment.rx_time.unwrap_or(now).as_nanos();
        let answer = Answer {
            probe,
            arrived: arrived.wrapping_add(self.keys.probe_clock_origin(&meta.tuple)),
            received: u16::try_from(datagram.len()).unwrap_or(u16::MAX),
            ttl: meta.segment.ttl.unwrap_or(0),
            tos: meta.tos,
            coalesced: meta.segment.coalesced,
        };
        self.reflector.queue.push_back((meta.tuple, answer.to_bytes()));
        add(&mut self.stats.probes_answered, 1);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};

    use super::*;
    use crate::config::EndpointConfig;

    const NOW: Time = Time::from_nanos(5_000_000_000);
    const PROBE: Probe = Probe { nonce: 1, train: 2, index: 3, sent: 4 };

    fn endpoint(reflect: bool) -> Endpoint {
        Endpoint::new(EndpointConfig { reflect, ..EndpointConfig::new([5; 32]) }, NOW)
    }

    fn meta(port: u16) -> DatagramMeta {
        let mut meta = DatagramMeta::new(SocketAddr::from(([192, 0, 2, 1], port)), 1200);
        meta.segment.ttl = Some(57);
        meta
    }

    fn probe(len: usize) -> Vec<u8> {
        let mut datagram = vec![0; len];
        PROBE.emit(&mut datagram).unwrap();
        datagram
    }

    fn sent(endpoint: &mut Endpoint) -> Vec<(Tuple, Vec<Answer>)> {
        let mut batch = Batch::default();
        let mut all = Vec::new();
        while let Some(destination) = endpoint.poll_transmit(NOW, &mut batch, 64) {
            assert_eq!((batch.len, batch.segment_size), (batch.headers.len(), ANSWER_LEN));
            let answers = batch.headers.chunks(batch.segment_size).map(|bytes| Answer::parse(bytes).unwrap());
            all.push((destination.tuple, answers.collect()));
        }
        all
    }

    #[test]
    fn the_answer_reports_arrival_time_length_ttl_and_tos() {
        let mut endpoint = endpoint(true);
        let mut first = meta(9);
        first.tos = Some(0xba);
        first.segment.rx_time = Some(Time::from_nanos(NOW.as_nanos() - 70_000));
        endpoint.handle_datagram(NOW, &first, &probe(1200), None);
        let mut merged = meta(9);
        (merged.stride, merged.segment.coalesced, merged.segment.ttl) = (100, true, None);
        endpoint.handle_datagram(NOW, &merged, &[probe(100), probe(60)].concat(), None);
        let sent = sent(&mut endpoint);
        let [(tuple, answers)] = sent.as_slice() else { panic!("{sent:?}") };
        assert_eq!(*tuple, first.tuple);
        let said: Vec<_> = answers.iter().map(|a| (a.probe, a.received, a.ttl, a.tos, a.coalesced)).collect();
        assert_eq!(
            said,
            [(PROBE, 1200, 57, Some(0xba), false), (PROBE, 100, 0, None, true), (PROBE, 60, 0, None, true)]
        );
        // The origin of the clock is hidden, its rate is not.
        assert_eq!(answers[1].arrived - answers[0].arrived, 70_000);
        assert_eq!(answers[1].arrived, answers[2].arrived);
        assert_ne!(answers[1].arrived, NOW.as_nanos());
        assert_eq!(endpoint.stats().probes_answered, 3);
    }

    #[test]
    fn by_default_probes_are_not_answered() {
        assert!(!EndpointConfig::new([5; 32]).reflect);
        let mut endpoint = endpoint(false);
        endpoint.handle_datagram(NOW, &meta(9), &probe(1200), None);
        assert!(sent(&mut endpoint).is_empty());
        assert_eq!((endpoint.stats().malformed, endpoint.stats().probes_answered), (1, 0));
    }

    /// No datagram is answered with more bytes than it has. Answers, and probes from invalid addresses, are not
    /// answered at all.
    #[test]
    fn answers_are_never_longer_than_probes_and_never_answered() {
        for len in 0..200 {
            let mut endpoint = endpoint(true);
            let mut datagram = vec![0; 200];
            PROBE.emit(&mut datagram).unwrap();
            endpoint.handle_datagram(NOW, &meta(9), &datagram[..len], None);
            let bytes: usize = sent(&mut endpoint).iter().map(|(_, answers)| answers.len() * ANSWER_LEN).sum();
            assert!(bytes <= len, "{bytes} for {len}");
            assert_eq!(bytes > 0, len >= ANSWER_LEN);
        }
        let mut endpoint = endpoint(true);
        let answer = Answer { probe: PROBE, ..Answer::default() }.to_bytes();
        endpoint.handle_datagram(NOW, &meta(9), &answer, None);
        endpoint.handle_datagram(NOW, &meta(0), &probe(1200), None);
        let mut everybody = meta(9);
        everybody.tuple.local = IpAddr::from([224, 0, 0, 1]);
        endpoint.handle_datagram(NOW, &everybody, &probe(1200), None);
        assert!(sent(&mut endpoint).is_empty());
    }

    #[test]
    fn the_queue_is_bounded_and_a_batch_has_one_destination() {
        let mut endpoint = endpoint(true);
        for port in 0..10_000 {
            endpoint.handle_datagram(NOW, &meta(1 + port / 100), &probe(1200), None);
        }
        let sent = sent(&mut endpoint);
        assert_eq!(sent.iter().map(|(_, answers)| answers.len()).sum::<usize>(), LIMIT);
        assert!(sent.iter().all(|(_, answers)| answers.len() <= 64));
        assert!(
            sent.iter().zip(1..).all(|((tuple, _), n)| tuple.remote.port() == u16::div_ceil(n, 2)),
            "100 answers are batches of 64 and 36"
        );
        assert_eq!(endpoint.stats().probes_answered, LIMIT as u64);
    }

    /// Each prober has its own, constant clock origin.
    #[test]
    fn each_prober_has_its_own_clock_origin() {
        let mut endpoint = endpoint(true);
        for port in [9, 10, 9] {
            endpoint.handle_datagram(NOW, &meta(port), &probe(1200), None);
        }
        let at: Vec<_> = sent(&mut endpoint).iter().map(|(_, answers)| answers[0].arrived).collect();
        assert_eq!(at[0], at[2]);
        assert_ne!(at[0], at[1]);
    }

    #[test]
    fn connections_and_probers_take_turns() {
        let mut reflector = Reflector::default();
        let turns: Vec<_> = (0..4).map(|_| reflector.goes_first()).collect();
        assert_eq!(turns, [true, false, true, false]);
    }
}
