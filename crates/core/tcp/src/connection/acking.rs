//! ACK processing on the send side.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use arrayvec::ArrayVec;
use longhaul_cc::estimate::PairSample;
use longhaul_cc::{Ack, Episode, RateSample, RttSample};
use longhaul_units::{Bytes, Span, Time};
use longhaul_wire::{Arrivals, Ecn, Flags, Header, SackBlock, SackBlocks};

use super::arrivals::Reports;
use super::loss::AckOutcome;
use super::sender::{WindowField, WindowUpdate};
use super::timers::Timer;
use super::{Connection, Event, SegmentMeta};
use crate::info::add;
use crate::observer::ConnectionEvent;
use crate::rtt::MAX_RTO;
use crate::scoreboard::{Burst, Record, Told};

mod delivery;

use delivery::{Attribution, Delivery, acked_segment};

/// Acceptable segment with an ACK. Its numbers are stream offsets.
#[derive(Clone, Copy)]
pub(super) struct AckSegment<'a> {
    pub(super) now: Time,
    pub(super) meta: &'a SegmentMeta,
    pub(super) header: &'a Header,
    /// Its sequence number.
    pub(super) start: u64,
    /// The offset in our stream that it acknowledges.
    pub(super) ack: u64,
    /// Bytes of data that it carries.
    pub(super) len: usize,
}

impl AckSegment<'_> {
    /// Returns when the host received it.
    fn received_at(&self) -> Time {
        self.meta.rx_time.unwrap_or(self.now).min(self.now)
    }

    fn echo(&self) -> Option<u32> {
        self.header.options.timestamps.map(|timestamps| timestamps.echo)
    }

    fn has(&self, flag: Flags) -> bool {
        self.header.flags.contains(flag)
    }
}

/// State of the send side before an ACK.
#[derive(Clone, Copy)]
struct Before {
    in_flight: u64,
    flight_size: u64,
    /// Bytes by which the ACK advances SND.UNA.
    una_advanced: u64,
    /// The ACK has changed SND.WND.
    window_changed: bool,
}

impl Before {
    /// Returns an ACK event with the fields that are always set.
    fn event(self, segment: &AckSegment<'_>) -> Ack<'static> {
        let mut event = Ack::new(segment.now);
        event.rx_time = segment.meta.rx_time;
        event.coalesced = segment.meta.coalesced;
        event.prior_in_flight = Bytes(self.in_flight);
        event.flight_size = Bytes(self.flight_size);
        event
    }
}

/// What an ACK says about the extensions.
struct ExtensionAnswers {
    pair: Option<PairSample>,
    /// A D-SACK that belongs to none of them.
    dsack: Option<(u64, u64)>,
    /// The ACK answers a probe.
    is_probe_answer: bool,
    /// The ACK was, or may have been, triggered by a probe or by data of the RC3 loop, or was sent for its request of an
    /// ACK frequency, so it is no duplicate ACK.
    has_own_cause: bool,
}

/// Samples that an ACK yields.
struct Samples {
    rtt: Option<RttSample>,
    rate: Option<RateSample>,
    pair: Option<PairSample>,
}

/// Losses that an ACK reveals, and the state of the recovery episode.
struct Losses {
    bytes: u64,
    episode: Episode,
}

impl Connection {
    /// Processes the ACK field, window and SACK option of an acceptable segment (RFC 9293, section 3.10.7.4, fifth
    /// step).
    pub(super) fn process_ack(&mut self, segment: &AckSegment<'_>) {
        let (in_flight, flight_size) = (self.pipe(), self.snd.flight_size());
        let update = self.update_window(segment);
        let una_advanced = segment.ack.saturating_sub(self.snd.una());
        let before = Before { in_flight, flight_size, una_advanced, window_changed: update.changed };
        // A segment with data that acknowledges nothing new is no ACK.
        if una_advanced > 0 || !segment.header.options.sack.is_empty() || segment.len == 0 {
            self.process_acknowledgments(segment, before);
        }
        self.after_window_change(segment.now, update);
    }

    /// Processes what the segment acknowledges.
    fn process_acknowledgments(&mut self, segment: &AckSegment<'_>, before: Before) {
        let (now, una_advanced) = (segment.now, before.una_advanced);
        let reports = self.read_arrivals(segment.header, segment.ack);
        let delivery = self.deliver(segment, before, &reports);
        let answers = self.process_extensions(segment, &delivery, &reports);
        let outcome = self.ack_outcome(segment, before, &delivery, &answers);
        let has_news = delivery.bytes > 0 || una_advanced > 0 || answers.is_probe_answer || segment.has(Flags::ECE);
        if !has_news && !outcome.duplicate && outcome.dsack.is_none() {
            return;
        }
        let samples = self.take_samples(segment, before, &delivery, answers.pair);
        // RFC 9293: release the data below SND.UNA. RFC 8899: a delivered probe confirms its size.
        if una_advanced > 0 {
            self.on_una_advanced();
        }
        if delivery.mtu_probe && self.pmtu.on_probe_delivered() {
            self.change_mss(now);
        }
        let losses = self.update_recovery(segment, &outcome);
        self.report_delivery(segment, before, &delivery, samples, losses);
        // Restart the retransmission timer (RFC 6298, section 5).
        if una_advanced > 0 {
            self.on_progress(now);
        } else {
            self.arm_retransmission(now);
        }
        if self.snd.waits_its_turn() {
            self.wait_for_pacer(now);
        }
    }

    /// Updates the scoreboard from the cumulative ACK and the SACK blocks (RFC 2018), and returns what they deliver.
    fn deliver(&mut self, segment: &AckSegment<'_>, before: Before, reports: &Reports) -> Delivery {
        let mut delivery = Delivery::default();
        delivery.pair = self.ext.pairs.as_ref().map(|pairs| pairs.delivery()).unwrap_or_default();
        let (passed, nxt) = (self.snd.board().passed_bytes(), self.snd.nxt());
        delivery.bytes = self.mark_delivered(segment, before.una_advanced, reports, &mut delivery);
        // Data of the RC3 loop that SND.UNA passed was never in flight, so the window did not deliver it.
        let passed = passed.saturating_sub(self.snd.board().passed_bytes()) + (self.snd.nxt() - nxt);
        delivery.cumulative = before.una_advanced.saturating_sub(passed);
        if before.una_advanced > 0 || delivery.bytes > 0 {
            let (cumulative, delivered) = (delivery.cumulative, delivery.bytes);
            self.observers.report_detail(segment.now, || ConnectionEvent::DataAcked { cumulative, delivered });
        }
        delivery
    }

    /// Applies the cumulative ACK and the SACK blocks to the scoreboard, and returns the bytes newly delivered.
    fn mark_delivered(
        &mut self,
        segment: &AckSegment<'_>,
        una_advanced: u64,
        reports: &Reports,
        delivery: &mut Delivery,
    ) -> u64 {
        let (at, ack) = (segment.received_at(), segment.ack);
        let (mss, blocks) = (u64::from(self.mss()), self.sack_blocks(segment));
        let (clock, min_rtt, asked_at) = (self.numbers.clock, self.rtt.min(), self.ext.ecn_check.asked_at());
        let attribution = Attribution { at, ack, echo: segment.echo(), clock, min_rtt, asked_at };
        let each = self.cc.sending().is_some_and(|sending| sending.lists_each_segment());
        let nxt = self.snd.nxt();
        // A window probe is not ECN-capable, so that its arrival says nothing.
        let is_ect = self.ecn() != Ecn::NotEct && !self.snd.persist.is_in_flight();
        let mut ecn_check = is_ect.then_some(&mut self.ext.ecn_check);
        let (loss, mut segments) = (&mut self.loss, self.cc.segments_mut());
        // Segments of a run add nothing that its first and last segment do not show, unless one of them is looked for.
        let reported: ArrayVec<u64, { Arrivals::CAPACITY }> =
            reports.iter().map(|report| report.start as u64).collect();
        let told = match each || asked_at.is_some() || self.ext.pairs.is_some() {
            true => Told::All,
            false => Told::Ends { and: &reported },
        };
        let mut on_delivered = |record: &Record, burst: &Burst| {
            let origin = attribution.of(record, burst);
            loss.on_delivered(record, burst.sent_at, at, origin.is_ambiguous);
            delivery.proves_spurious |= loss.proves_spurious(record);
            delivery.add(record, burst, origin);
            if let Some(check) = ecn_check.as_mut().filter(|_| origin.is_known(record)) {
                check.on_arrival(record.start, record.is_retransmitted(), nxt);
            }
            if let Some(lists) = &mut segments {
                let acked = acked_segment(record, burst, reports);
                if each || acked.arrival.is_some() {
                    lists.acked.push(acked);
                }
            }
        };
        self.snd.set_rc3_horizon(min_rtt.map_or(Time::ZERO, |min| at - min));
        let mut bytes = 0;
        if una_advanced > 0 {
            bytes = self.snd.acknowledge(ack, mss, told, &mut on_delivered);
        }
        let mut refused = false;
        for block in blocks {
            match self.snd.sack(block, mss, &mut on_delivered) {
                Some(newly) => bytes = bytes.saturating_add(newly),
                None => refused = true,
            }
        }
        if refused {
            self.count_invalid_ack();
        }
        bytes
    }

    /// Returns the SACK blocks above SND.UNA as stream offsets. Others are ignored.
    ///
    /// They are in ascending order (RFC 8985, section 6.2, step 3). The option lists the newest block first; the others
    /// would look overtaken if the ACK reports them for the first time.
    fn sack_blocks(&self, segment: &AckSegment<'_>) -> ArrayVec<(u64, u64), { SackBlocks::CAPACITY }> {
        let ack = segment.ack;
        let to_offsets = |block: &SackBlock| {
            let (left, right) = (self.numbers.our_offset(block.left, ack), self.numbers.our_offset(block.right, ack));
            (left >= ack as i64 && right > left).then_some((left as u64, right as u64))
        };
        let blocks = segment.header.options.sack.iter().filter(|_| self.negotiated.sack);
        let mut blocks: ArrayVec<_, { SackBlocks::CAPACITY }> = blocks.filter_map(to_offsets).collect();
        blocks.sort_unstable();
        blocks
    }

    /// Passes the ACK to the extensions: data of the RC3 loop, our own CE marks, flipped pairs and probes. A D-SACK for
    /// one of these is no sign of a spurious retransmission.
    fn process_extensions(
        &mut self,
        segment: &AckSegment<'_>,
        delivery: &Delivery,
        reports: &Reports,
    ) -> ExtensionAnswers {
        let AckSegment { now, meta, header, ack, .. } = *segment;
        let at = segment.received_at();
        let ahead = self.report_rc3_arrivals(at);
        if let Some(once) = delivery.asked {
            self.ext.ecn_check.on_delivered(once);
        }
        let pair = self.process_pair_ack(at, meta, delivery.pair, reports);
        let dsack = self.find_dsack(header, ack);
        let answer = self.take_probe_answer(now, header, ack, dsack);
        if answer.filled(delivery.bytes) {
            self.loss.on_probe_filled_hole();
        }
        ExtensionAnswers {
            pair,
            dsack: dsack.filter(|(left, right)| !answer.owns_dsack && !self.snd.is_rc3_duplicate(*left, *right)),
            is_probe_answer: answer.arrived,
            has_own_cause: answer.arrived
                || answer.owns_dsack
                || ahead > 0
                || self.reports_rc3_data(header, ack)
                || self.requests_ack_frequency(header),
        }
    }

    /// Returns the effects of the ACK on loss recovery. It is a duplicate ACK (RFC 5681, section 2) if it repeats
    /// SND.UNA while data is in flight and has no other cause.
    fn ack_outcome(
        &self,
        segment: &AckSegment<'_>,
        before: Before,
        delivery: &Delivery,
        answers: &ExtensionAnswers,
    ) -> AckOutcome {
        let repeats = before.una_advanced == 0
            && segment.len == 0
            && !before.window_changed
            && segment.ack == self.snd.una()
            && before.flight_size > 0
            && !self.snd.persist.is_in_flight();
        AckOutcome {
            una_advanced: before.una_advanced,
            newly_sacked: delivery.bytes.saturating_sub(delivery.cumulative),
            duplicate: repeats && !answers.has_own_cause,
            dsack: answers.dsack,
            echo: segment.echo(),
            // Without SACK, the receiver may have held back data that is acknowledged together with a retransmission
            // (RFC 5682, section 2.1, step 2).
            proves_spurious: delivery.proves_spurious && (self.negotiated.sack || delivery.retransmitted.is_none()),
        }
    }

    /// Takes samples of the delivery rate and the RTT (RFC 6298; RFC 7323, section 4).
    fn take_samples(
        &mut self,
        segment: &AckSegment<'_>,
        before: Before,
        delivery: &Delivery,
        pair: Option<PairSample>,
    ) -> Samples {
        self.cc.rate.on_delivered(delivery.bytes, segment.received_at());
        let rtt = self.take_rtt_samples(segment, delivery, before.flight_size);
        let rate = delivery.newest.as_ref().and_then(|(_, burst)| self.cc.rate.sample(burst, self.rtt.min()));
        Samples { rtt, rate, pair }
    }

    /// Undoes spurious recovery (RFC 3522, RFC 5682, RFC 2883), then detects losses (RFC 8985, RFC 6675, RFC 5681).
    fn update_recovery(&mut self, segment: &AckSegment<'_>, outcome: &AckOutcome) -> Losses {
        let spurious = self.check_spurious(segment.now, outcome);
        let (bytes, episode) = self.detect_losses(segment.received_at(), outcome);
        if episode == Episode::Enter {
            self.cc.history.forget_rate();
        }
        Losses { bytes, episode: if spurious && episode == Episode::In { Episode::None } else { episode } }
    }

    /// Reports the ACK to the controller in one event.
    fn report_delivery(
        &mut self,
        segment: &AckSegment<'_>,
        before: Before,
        delivery: &Delivery,
        samples: Samples,
        losses: Losses,
    ) {
        let mut event = before.event(segment);
        event.cumulative = Bytes(delivery.cumulative);
        event.delivered = Bytes(delivery.bytes);
        (event.newly_lost, event.episode) = (Bytes(losses.bytes), losses.episode);
        (event.rtt, event.rate, event.pair) = (samples.rtt, samples.rate, samples.pair);
        if let Some(rate) = &event.rate {
            self.cc.note_rate(rate);
        }
        event.ecn_echo = self.take_congestion_echo(segment);
        self.report_ack(event);
    }

    /// Sets the fields that every ACK event carries and calls the controller.
    pub(super) fn report_ack(&mut self, event: Ack<'static>) {
        let mut segments = self.cc.segments.take();
        let mut event: Ack<'_> = event;
        if let Some(segments) = &segments {
            (event.acked, event.lost) = (&segments.acked, &segments.lost);
        }
        // Answers of routers, probe results, and data in flight.
        event.network = self.take_network_answer();
        event.total_delivered = Bytes(self.cc.rate.delivered);
        let probes = self.ext.take_probe_report();
        (event.probes_acked, event.probes_lost) = (probes.acked, probes.lost);
        event.in_flight = Bytes(self.pipe());
        let outstanding = self.snd.flight_size().saturating_sub(self.snd.board().sacked_bytes());
        event.recover_flight = Bytes(outstanding) + event.delivered;
        event.limit = self.cc.limits.current;
        let limited = self.cc.is_cwnd_limited(event.prior_in_flight);
        event.cwnd_limited = limited || self.cc.rounds.was_limited;
        // Round-trip counting.
        let sent_after = event.rate.map(|rate| rate.prior_delivered.0);
        let sending = &mut *self.cc;
        let round = sending.rounds.advance(self.snd.una(), self.snd.nxt(), event.total_delivered.0, sent_after);
        event.round_start = round.is_some();
        sending.bursts.on_ack(event.delivered, event.newly_lost);
        if let Some(delivered) = round {
            sending.bursts.on_round();
            (sending.rounds.was_limited, sending.rounds.limited) = (limited, false);
            self.cc.history.note_round(delivered);
            self.ext.ecn_check.on_round();
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

    /// Updates SND.WND from the newest segment (RFC 9293, section 3.10.7.4).
    fn update_window(&mut self, segment: &AckSegment<'_>) -> WindowUpdate {
        // The window in a SYN is not scaled (RFC 7323, section 2.2).
        let shift = if segment.has(Flags::SYN) { 0 } else { self.negotiated.send_shift };
        let window = u64::from(segment.header.window) << shift;
        let update = self.snd.update_window(WindowField { seq: segment.start, ack: segment.ack, window, shift });
        if update.shrank {
            add(&mut self.stats.incidents_mut().windows_shrunk, 1);
        }
        update
    }

    /// Takes RTT samples. The newest segment that was never retransmitted yields the path's RTT; the oldest, whose
    /// sample includes the delay of the ACK, is used for the RTO. If there is none, the timestamp echo is used (RFC
    /// 7323, section 4).
    fn take_rtt_samples(&mut self, segment: &AckSegment<'_>, delivery: &Delivery, flight: u64) -> Option<RttSample> {
        let at = segment.received_at();
        let (newest, oldest) = match delivery.clean() {
            Some(clean) => clean,
            None => {
                let (record, burst) = delivery.newest.as_ref()?;
                let echo = segment.echo()?;
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
        self.rtt.observe(segment.now, rtt);
        self.rtt.sample((at - oldest).clamp(rtt, MAX_RTO), Bytes(flight), Bytes::from(self.mss()));
        self.loss.on_rtt_sample();
        Some(RttSample::new(rtt, newest))
    }

    /// Releases acknowledged data and raises the events that follow.
    fn on_una_advanced(&mut self) {
        self.snd.release_acknowledged();
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
    fn take_congestion_echo(&mut self, segment: &AckSegment<'_>) -> bool {
        let echo = self.negotiated.ecn && segment.has(Flags::ECE);
        let is_ours = self.ext.ecn_check.on_ack(self.snd.una(), echo);
        if !echo || !self.snd.respond_to_ece() || is_ours {
            return false;
        }
        self.cc.congestion_seen = true;
        true
    }
}
