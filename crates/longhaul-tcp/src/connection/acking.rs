//! ACK processing on the send side.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use arrayvec::ArrayVec;
use longhaul_cc::{Ack, AckedSegment, Episode, RttSample, SendLimit};
use longhaul_units::{Bytes, Span, Time};
use longhaul_wire::{Flags, Header, SackBlock, SackBlocks};

use super::arrivals::{Reports, of_segment};
use super::loss::AckOutcome;
use super::pairs::PairDelivery;
use super::sender::WindowField;
use super::timers::Timer;
use super::{Connection, Event, SegmentMeta};
use crate::info::add;
use crate::observer::ConnectionEvent;
use crate::rtt::MAX_RTO;
use crate::scoreboard::{Burst, Record};
use crate::seq;

/// Properties of the segments that one ACK newly delivers, collected in one pass.
#[derive(Default)]
struct Delivery {
    /// The segment sent last, with its snapshot.
    newest: Option<(Record, Burst)>,
    /// Send times of the oldest and the newest segment that were never retransmitted, for RTT samples (Karn's
    /// algorithm).
    oldest_clean: Option<Time>,
    newest_clean: Option<Time>,
    /// Send time of the newest retransmission.
    retransmitted: Option<Time>,
    mtu_probe: bool,
    proves_spurious: bool,
    /// Present if the segment with our CE mark is delivered: whether it was sent only once.
    asked: Option<bool>,
    pair: PairDelivery,
}

impl Delivery {
    /// Returns the send times of the newest and the oldest segment that yield an RTT sample. Segments sent before a
    /// retransmission that the same ACK covers are excluded, because the receiver may have held them back until it
    /// arrived.
    fn clean(&self) -> Option<(Time, Time)> {
        let (newest, oldest) = self.newest_clean.zip(self.oldest_clean)?;
        match self.retransmitted {
            Some(at) if newest <= at => None,
            Some(_) => Some((newest, newest)),
            None => Some((newest, oldest)),
        }
    }

    /// Adds a segment. `copy` means that a probe's copy may have been delivered instead.
    fn note(&mut self, record: &Record, burst: &Burst, copy: bool) {
        let key = (burst.sent_at, record.end());
        if self.newest.as_ref().is_none_or(|(r, b)| key > (b.sent_at, r.end())) {
            self.newest = Some((*record, *burst));
        }
        if copy {
            // The send time of the delivered copy is unknown.
        } else if !record.is_retransmitted() {
            self.oldest_clean = Some(self.oldest_clean.map_or(burst.sent_at, |t| t.min(burst.sent_at)));
            self.newest_clean = self.newest_clean.max(Some(burst.sent_at));
        } else {
            self.retransmitted = self.retransmitted.max(Some(burst.sent_at));
        }
        self.mtu_probe |= record.is_mtu_probe();
        self.pair.note(record);
    }
}

/// State of the send side before an ACK.
#[derive(Clone, Copy)]
struct Before {
    in_flight: u64,
    flight_size: u64,
}

impl Before {
    /// Returns an ACK event with the fields that are always set.
    fn event(self, now: Time, meta: &SegmentMeta) -> Ack<'static> {
        let mut event = Ack::new(now);
        event.rx_time = meta.rx_time;
        event.coalesced = meta.coalesced;
        event.prior_in_flight = Bytes(self.in_flight);
        event.flight_size = Bytes(self.flight_size);
        event
    }
}

impl Connection {
    /// Processes the ACK field, window and SACK option of an acceptable segment (RFC 9293, section 3.10.7.4, fifth
    /// step).
    pub(super) fn process_ack(
        &mut self,
        now: Time,
        meta: &SegmentMeta,
        header: &Header,
        seq_offset: u64,
        ack: u64,
        len: usize,
    ) {
        // RFC 9293, section 3.10.7.4: update SND.WND from the newest segment.
        let before = Before { in_flight: self.pipe(), flight_size: self.snd.flight_size() };
        let window_changed = self.update_window(header, seq_offset, ack);
        let una_advanced = ack.saturating_sub(self.snd.una());
        if una_advanced == 0 && header.options.sack.is_empty() && len > 0 {
            // The segment has data but does not acknowledge anything new.
            self.after_window_change(now, window_changed);
            return;
        }

        // RFC 2018: update the scoreboard from the cumulative ACK and the SACK blocks.
        let at = meta.rx_time.unwrap_or(now).min(now);
        let reports = self.read_arrivals(header, ack);
        let mut delivery = Delivery::default();
        delivery.pair = self.ext.pairs.as_ref().map(|pairs| pairs.delivery()).unwrap_or_default();
        let (passed, nxt) = (self.snd.board().passed_bytes(), self.snd.nxt());
        let delivered = self.deliver(at, header, ack, una_advanced, &reports, &mut delivery);
        // Data of the RC3 loop that SND.UNA passed was never in flight, so the window did not deliver it.
        let passed = passed.saturating_sub(self.snd.board().passed_bytes()) + (self.snd.nxt() - nxt);
        let cumulative = una_advanced.saturating_sub(passed);
        if una_advanced > 0 || delivered > 0 {
            self.observers.report_detail(now, || ConnectionEvent::DataAcked { cumulative, delivered });
        }

        // Extensions: data of the RC3 loop, our own CE marks, flipped pairs and probes. A D-SACK for one of these is
        // no sign of a spurious retransmission.
        let ahead = self.report_rc3_arrivals(at);
        if let Some(once) = delivery.asked {
            self.ext.ecn_check.on_delivered(once);
        }
        let pair = self.process_pair_ack(at, meta, delivery.pair, &reports);
        let dsack = self.find_dsack(header, ack);
        let answer = self.take_probe_answer(now, header, ack, dsack);
        if answer.filled(delivered) {
            self.loss.on_probe_filled_hole();
        }
        let dsack = dsack.filter(|(left, right)| !answer.owns_dsack && !self.snd.is_rc3_duplicate(*left, *right));

        // RFC 5681, section 2: determine whether this is a duplicate ACK.
        let is_about_probes = answer.arrived || answer.owns_dsack || ahead > 0 || self.reports_rc3_data(header, ack);
        let repeats = una_advanced == 0 && len == 0 && !window_changed && self.repeats_una(ack, before);
        let outcome = AckOutcome {
            una_advanced,
            newly_sacked: delivered.saturating_sub(cumulative),
            duplicate: repeats && !is_about_probes,
            dsack,
            echo: header.options.timestamps.map(|t| t.echo),
            proves_spurious: self.proves_spurious(&delivery),
        };
        let has_news = delivered > 0 || una_advanced > 0 || answer.arrived || header.flags.contains(Flags::ECE);
        if !has_news && !outcome.duplicate && dsack.is_none() {
            self.after_window_change(now, window_changed);
            return;
        }

        // Samples: delivery rate, and RTT (RFC 6298; RFC 7323, section 4).
        self.cc.rate.on_delivered(delivered, at);
        let rtt = self.take_rtt_samples(now, at, header, &delivery, before.flight_size);
        let rate = delivery.newest.as_ref().and_then(|(_, burst)| self.cc.rate.sample(burst, self.rtt.min()));

        // RFC 9293: release the data below SND.UNA. RFC 8899: a delivered probe confirms its size.
        if una_advanced > 0 {
            self.on_una_advanced();
        }
        if delivery.mtu_probe && self.pmtu.on_probe_delivered() {
            self.change_mss(now);
        }

        // Undo (RFC 3522, RFC 5682, RFC 2883), then loss detection (RFC 8985, RFC 6675, RFC 5681).
        let spurious = self.check_spurious(now, &outcome);
        let (newly_lost, episode) = self.detect_losses(at, &outcome);
        if episode == Episode::Enter {
            self.cc.history.forget_rate();
        }

        // Report everything to the controller in one event.
        let mut event = before.event(now, meta);
        event.cumulative = Bytes(cumulative);
        event.delivered = Bytes(delivered);
        event.newly_lost = Bytes(newly_lost);
        (event.rtt, event.rate, event.pair) = (rtt, rate, pair);
        if let Some(rate) = &event.rate {
            self.cc.note_rate(rate);
        }
        event.ecn_echo = self.take_congestion_echo(header);
        event.episode = if spurious && episode == Episode::In { Episode::None } else { episode };
        self.report_ack(event);

        // Restart the retransmission timer (RFC 6298, section 5).
        if una_advanced > 0 {
            self.on_progress(now);
        } else {
            self.arm_retransmission(now);
        }
        self.after_window_change(now, window_changed);
    }

    /// Returns whether the delivery proves that a timeout was spurious. Without SACK, the receiver may have held back
    /// data that is acknowledged together with a retransmission (RFC 5682, section 2.1, step 2).
    fn proves_spurious(&self, delivery: &Delivery) -> bool {
        delivery.proves_spurious && (self.negotiated.sack || delivery.retransmitted.is_none())
    }

    /// Returns whether `ack` repeats SND.UNA while data is in flight (RFC 5681, section 2) and does not answer a
    /// zero-window probe.
    fn repeats_una(&self, ack: u64, before: Before) -> bool {
        ack == self.snd.una() && before.flight_size > 0 && !self.persist.is_in_flight()
    }

    /// Sets the fields that every ACK event carries and calls the controller.
    pub(super) fn report_ack(&mut self, event: Ack<'static>) {
        let mut segments = self.cc.segments.take();
        let mut event: Ack<'_> = event;
        if let Some(segments) = &segments {
            // Answers of routers, probe results, and data in flight.
            (event.acked, event.lost) = (&segments.acked, &segments.lost);
        }
        event.network = self.take_network_answer();
        event.total_delivered = Bytes(self.cc.rate.delivered);
        let probes = self.ext.probes.as_mut().map(|probes| probes.take_report()).unwrap_or_default();
        (event.probes_acked, event.probes_lost) = (probes.acked, probes.lost);
        event.in_flight = Bytes(self.pipe());
        let outstanding = self.snd.flight_size().saturating_sub(self.snd.board().sacked_bytes());
        event.recover_flight = Bytes(outstanding) + event.delivered;
        event.limit = self.cc.limits.current;
        // RFC 7661, section 4.2: cwnd is validated if at least half of it is used. A pacer derived from cwnd does not
        // hold back more than that, but it can be the only limit after the RTT has decreased.
        let paced = self.cc.limits.current == SendLimit::Pacing && event.prior_in_flight * 2 >= self.cc.control.cwnd;
        let limited = self.cc.rounds.limited || self.cc.limits.current == SendLimit::Cwnd || paced;
        event.cwnd_limited = limited || self.cc.rounds.was_limited;
        // Round-trip counting.
        let sent_after = event.rate.map(|rate| rate.prior_delivered.0);
        let round = self.cc.rounds.advance(self.snd.una(), self.snd.nxt(), self.cc.rate.delivered, sent_after);
        event.round_start = round.is_some();
        if let Some(delivered) = round {
            self.cc.history.note_round(delivered);
            self.ext.ecn_check.on_round();
            (self.cc.rounds.was_limited, self.cc.rounds.limited) = (limited, false);
        }
        let path = self.path();
        self.cc.controller.on_ack(&event, &path);
        if let Some(segments) = &mut segments {
            segments.acked.clear();
            segments.lost.clear();
        }
        self.cc.segments = segments;
        self.refresh_control();
    }

    /// Reports losses that a timer detected, as an ACK event without delivered data.
    pub(super) fn report_timer_losses(&mut self, now: Time, newly_lost: u64, episode: Episode) {
        let mut event = Ack::new(now);
        event.newly_lost = Bytes(newly_lost);
        event.episode = episode;
        event.prior_in_flight = Bytes(self.pipe().saturating_add(newly_lost));
        event.flight_size = Bytes(self.snd.flight_size());
        self.report_ack(event);
    }

    /// Applies the cumulative ACK and the SACK blocks, and returns the bytes newly delivered.
    fn deliver(
        &mut self,
        at: Time,
        header: &Header,
        ack: u64,
        una_advanced: u64,
        reports: &Reports,
        delivery: &mut Delivery,
    ) -> u64 {
        let echo = header.options.timestamps.map(|t| t.echo);
        let (clock, min_rtt, asked_at) = (self.numbers.clock, self.rtt.min(), self.ext.ecn_check.asked_at());
        let mss = u64::from(self.mss());
        let (loss, segments) = (&mut self.loss, &mut self.cc.segments);
        let mut on_delivered = |record: &Record, burst: &Burst| {
            // RFC 8985, section 6.2, step 2: an ACK that arrives too early, or echoes an older timestamp, belongs to
            // the original transmission. Above a hole the echo does not apply, because it belongs to the data before
            // the hole (RFC 7323, section 4.3).
            let early = min_rtt.is_some_and(|min| at - burst.sent_at < min);
            let in_order = record.end() <= ack;
            let older = in_order && echo.is_some_and(|e| seq::later(clock.value(burst.sent_at), e));
            let copy = record.is_copied() && echo != Some(clock.value(burst.sent_at));
            // Data already sent by the RC3 loop is retransmitted as new data, and so counts as a retransmission.
            let twice = record.is_retransmitted() || record.is_early();
            let ambiguous = (copy && !record.is_early()) || (twice && (early || older));
            // A CE mark set by this sender may let the segment overtake earlier ones, if marked packets have a
            // separate queue (RFC 9331, section 5.1).
            let asked = asked_at == Some(record.start);
            if asked {
                delivery.asked = Some(!record.is_retransmitted() && !record.is_copied());
            }
            loss.on_delivered(record, burst.sent_at, at, ambiguous || asked);
            delivery.proves_spurious |= loss.proves_spurious(record);
            delivery.note(record, burst, copy);
            if let Some(segments) = segments {
                let mut segment = AckedSegment::new(record.tx, burst.sent_at, Bytes::from(record.len));
                segment.kind = record.kind();
                segment.tag = burst.tag;
                if let Some(report) = of_segment(reports, record.start) {
                    (segment.arrival, segment.arrival_coalesced) = (Some(report.at), report.coalesced);
                }
                segments.acked.push(segment);
            }
        };
        self.snd.set_rc3_horizon(min_rtt.map_or(Time::ZERO, |min| at - min));
        // The cumulative ACK advances SND.UNA.
        let mut bytes = 0;
        if una_advanced > 0 {
            bytes = self.snd.acknowledge(ack, mss, &mut on_delivered);
        }
        // SACK blocks.
        let mut refused = false;
        if self.negotiated.sack {
            let to_offsets = |block: &SackBlock| {
                (self.numbers.our_offset(block.left, ack), self.numbers.our_offset(block.right, ack))
            };
            // Blocks are applied in ascending order (RFC 8985, section 6.2, step 3). The option lists the newest
            // block first; the others would look overtaken if the ACK reports them for the first time.
            let mut blocks: ArrayVec<_, { SackBlocks::CAPACITY }> =
                header.options.sack.iter().map(to_offsets).collect();
            blocks.sort_unstable();
            for (left, right) in blocks {
                // A block is ignored unless it lies completely within the data sent above SND.UNA.
                if left < ack as i64 || right <= left {
                    continue;
                }
                match self.snd.sack((left as u64, right as u64), mss, &mut on_delivered) {
                    Some(newly) => bytes = bytes.saturating_add(newly),
                    None => refused = true,
                }
            }
        }
        if refused {
            self.count_invalid_ack();
        }
        bytes
    }

    /// Returns the range of a D-SACK in the first SACK block, if there is one (RFC 2883, section 4).
    fn find_dsack(&self, header: &Header, ack: u64) -> Option<(u64, u64)> {
        if !self.negotiated.sack {
            return None;
        }
        let blocks = header.options.sack.as_slice();
        let first = blocks.first()?;
        let left = self.numbers.our_offset(first.left, ack);
        let right = self.numbers.our_offset(first.right, ack);
        if left < 1 || right <= left || right > self.snd.nxt() as i64 {
            return None;
        }
        let below = right <= ack as i64;
        let inside_second = blocks.get(1).is_some_and(|b| {
            self.numbers.our_offset(b.left, ack) <= left && right <= self.numbers.our_offset(b.right, ack)
        });
        (below || inside_second).then_some((left as u64, right as u64))
    }

    /// Updates SND.WND from the newest segment (RFC 9293, section 3.10.7.4). Returns whether the window changed.
    fn update_window(&mut self, header: &Header, seq_offset: u64, ack: u64) -> bool {
        // The window in a SYN is not scaled (RFC 7323, section 2.2).
        let shift = if header.flags.contains(Flags::SYN) { 0 } else { self.negotiated.send_shift };
        let window = u64::from(header.window) << shift;
        let update = self.snd.update_window(WindowField { seq: seq_offset, ack, window, shift });
        add(&mut self.stats.windows_shrunk, u64::from(update.shrank));
        update.changed
    }

    /// Takes RTT samples. The newest segment that was never retransmitted yields the path's RTT; the oldest, whose
    /// sample includes the delay of the ACK, is used for the RTO. If there is none, the timestamp echo is used (RFC
    /// 7323, section 4).
    fn take_rtt_samples(
        &mut self,
        now: Time,
        at: Time,
        header: &Header,
        delivery: &Delivery,
        flight: u64,
    ) -> Option<RttSample> {
        let (newest, oldest) = match delivery.clean() {
            Some(clean) => clean,
            None => {
                let (record, burst) = delivery.newest.as_ref()?;
                let echo = header.options.timestamps?.echo;
                if !record.is_retransmitted() || echo != self.numbers.clock.value(burst.sent_at) {
                    return None;
                }
                // The echo identifies this transmission.
                (burst.sent_at, burst.sent_at)
            }
        };
        let rtt = (at - newest).max(Span::from_nanos(1));
        if rtt > MAX_RTO {
            // A longer time without a retransmission is only possible if this host was suspended.
            return None;
        }
        self.rtt.observe(now, rtt);
        self.rtt.sample((at - oldest).clamp(rtt, MAX_RTO), Bytes(flight), Bytes::from(self.mss()));
        self.loss.on_rtt_sample();
        Some(RttSample::new(rtt, newest))
    }

    /// Releases acknowledged data and raises the events that follow.
    fn on_una_advanced(&mut self) {
        self.snd.release_acknowledged();
        self.persist.on_una_advanced();
        if self.snd.window() > 0 {
            self.timers.stop(Timer::Persist);
        }
        if self.snd.wake_writer() {
            self.life.events.raise(Event::Writable);
        }
        if self.snd.fin_acknowledged() {
            self.life.events.raise(Event::Finished);
        }
        self.stats.bytes_acked = self.snd.una().saturating_sub(1);
    }

    /// Processes ECE. Classic ECN permits one reduction per round trip, confirmed by CWR (RFC 3168, section 6.1.2).
    /// CWR is sent on the next new data, so the ACK of the data in flight at the reduction still carries ECE. An
    /// echo of our own CE mark is confirmed by CWR too but is no congestion signal; it may hide a mark by the network
    /// for one round trip.
    fn take_congestion_echo(&mut self, header: &Header) -> bool {
        let echo = self.negotiated.ecn && header.flags.contains(Flags::ECE);
        let is_ours = self.ext.ecn_check.on_ack(self.snd.una(), echo);
        if !echo || !self.snd.respond_to_ece() || is_ours {
            return false;
        }
        self.cc.congestion_seen = true;
        true
    }
}
