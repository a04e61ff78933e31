//! ACK processing on the send side.

use arrayvec::ArrayVec;
use longhaul_cc::{Ack, RttSample};
use longhaul_units::{Bytes, Span, Time};
use longhaul_wire::{Arrivals, Ecn, Flags};

use super::arrivals::Reports;
use super::extension::{AckFacts, Claims};
use super::loss::AckOutcome;
use super::sender::WindowUpdate;
use super::{Acking, Incoming, Timer};
use crate::rtt::MAX_RTO;
use crate::scoreboard::Told;
use crate::{Burst, Connection, ConnectionEvent, Event, Record, add};

mod delivery;
mod sack;

use delivery::{Attribution, Delivery, acked_segment};
pub(super) use sack::SackOption;

#[derive(Clone, Copy)]
struct PriorState {
    in_flight: u64,
    flight_size: u64,
    una_advanced: u64,
    window_changed: bool,
}

impl Connection {
    /// Processes the ACK field, window and SACK option of an acceptable segment (RFC 9293, section 3.10.7.4, fifth
    /// step).
    pub(super) fn process_ack(&mut self, segment: &Incoming<'_>) {
        let (in_flight, flight_size) = (self.loss.pipe(&self.snd.board), self.snd.flight_size());
        // The window in a SYN is not scaled (RFC 7323, section 2.2).
        let shift = if segment.has(Flags::SYN) { 0 } else { self.negotiated.send_shift };
        let window = u64::from(segment.header.window) << shift;
        let update = self.snd.update_window(segment.start.max(0) as u64, segment.ack, window, shift);
        if update.shrank {
            add(&mut self.stats.incidents_mut().windows_shrunk, 1);
        }
        let una_advanced = segment.ack.saturating_sub(self.snd.una);
        let before = PriorState { in_flight, flight_size, una_advanced, window_changed: update.changed };
        // A segment with data that acknowledges nothing new is no ACK.
        if una_advanced > 0 || !segment.header.options.sack.is_empty() || segment.payload.is_empty() {
            self.process_acknowledgments(segment, before);
        }
        self.after_window_change(segment.now, update);
    }

    fn process_acknowledgments(&mut self, segment: &Incoming<'_>, before: PriorState) {
        let (now, at, una_advanced) = (segment.now, segment.received_at(), before.una_advanced);
        // Read the arrival times that the peer reports, and update the scoreboard.
        let reports = self.acking().read_arrivals(segment);
        let delivery = self.acking().deliver(segment, before, &reports);
        if una_advanced > 0 || delivery.bytes > 0 {
            let (cumulative, delivered) = (delivery.cumulative, delivery.bytes);
            self.observers.report_detail(now, || ConnectionEvent::DataAcked { cumulative, delivered });
        }
        // Pass the ACK to the extensions, and decide whether it is a duplicate ACK.
        let age = now - self.life.created_at;
        let mut acking = self.acking();
        let (dsack, mut claims) = acking.claim(segment, &delivery, &reports, age);
        let outcome = acking.outcome(segment, before, &delivery, dsack, &claims);
        if let Some(event) = claims.event.take() {
            self.control_loop().tell(&event);
        }
        let has_news = delivery.bytes > 0 || una_advanced > 0 || claims.is_answer || segment.has(Flags::ECE);
        if !has_news && !outcome.duplicate && outcome.dsack.is_none() {
            return;
        }
        // Take samples of the delivery rate and the RTT.
        self.cc.rate.on_delivered(delivery.bytes, at);
        let rtt = self.acking().take_rtt_samples(segment, &delivery, before.flight_size);
        let rate = delivery.newest.as_ref().and_then(|(_, burst)| self.cc.rate.sample(burst, self.rtt.min));
        // RFC 9293: release the data below SND.UNA. RFC 8899: a delivered probe confirms its size.
        if una_advanced > 0 {
            self.snd.release_acknowledged();
            if self.snd.window > 0 {
                self.timers.stop(Timer::Persist);
            }
            if self.snd.wake_writer() {
                self.events.raise(Event::Writable);
            }
            if self.snd.fin_acknowledged() {
                self.events.raise(Event::Finished);
            }
            self.stats.bytes_acked = self.snd.una.saturating_sub(1);
        }
        if delivery.mtu_probe && self.pmtu.on_probe_delivered() {
            self.control_loop().change_mss(now);
        }
        // End spurious recovery, and detect losses.
        let (lost, episode) = self.recovery().on_ack(now, at, &outcome);
        // Report the ACK to the controller in one event.
        let mut event = Ack::new(now);
        (event.rx_time, event.coalesced) = (segment.meta.rx_time, segment.meta.coalesced);
        (event.prior_in_flight, event.flight_size) = (Bytes(before.in_flight), Bytes(before.flight_size));
        event.cumulative = Bytes(delivery.cumulative);
        event.delivered = Bytes(delivery.bytes);
        (event.newly_lost, event.episode) = (Bytes(lost), episode);
        (event.rtt, event.rate) = (rtt, rate);
        if let Some(rate) = &event.rate {
            self.cc.history.note_rate(rate);
        }
        event.ecn_echo = self.acking().take_congestion_echo(segment);
        self.control_loop().report_ack(event);
        // Restart the retransmission timer (RFC 6298, section 5).
        if una_advanced > 0 {
            self.rtt.on_progress();
            self.loss.on_progress();
            self.peer.stalled_since = None;
            self.timers.stop(Timer::Rto);
        }
        self.arm_retransmission(now);
        if self.snd.others > 0 {
            // The next turn comes later than at once.
            self.control_loop().wait_for_pacer(now);
        }
    }

    /// Continues or ends zero-window probing. Called after every ACK.
    fn after_window_change(&mut self, now: Time, update: WindowUpdate) {
        if self.snd.window == 0 {
            let waits = self.snd.persist.sent > 0 && self.snd.has_unsent();
            if waits && !self.snd.has_outstanding() && !self.timers.is_armed(Timer::Persist) {
                // The peer accepted the octet but still has no room.
                self.timers.arm(Timer::Persist, now + self.snd.persist.interval(self.rtt.base_rto()));
            }
            // A connection is not aborted because of a closed window while the peer answers (RFC 9293, MUST-37).
            self.peer.stalled_since = None;
            self.peer.arm_user_timeout(now, &self.snd, self.config.user_timeout, &mut self.timers);
            return;
        }
        if update.changed {
            self.timers.stop(Timer::Persist);
        }
        let before = std::mem::take(&mut self.snd.persist);
        if update.opened && self.rtt.backoff > 0 {
            // The timer was backed off while the closed window made the peer drop the data.
            self.rtt.backoff = 0;
            self.timers.stop(Timer::Rto);
            self.loss.repeat_front(&mut self.snd);
            self.arm_retransmission(now);
        }
        if before.sent == 0 {
            return;
        }
        if before.in_flight && !before.due {
            // The octet may have been dropped while the window was closed.
            self.loss.repeat_front(&mut self.snd);
        }
        self.arm_retransmission(now);
        // Probes did not end an idle period, because they do not show that the congestion window is still valid.
        if self.control_loop().restart_after_idleness(now, before.idle_since) {
            self.snd.last_sent = Some(now);
        }
    }
}

impl<'a> Acking<'a> {
    /// Returns the SACK option of a segment, which is empty unless SACK was negotiated.
    fn sack<'b>(&self, segment: &Incoming<'b>) -> SackOption<'b>
    where
        'a: 'b,
    {
        let blocks = if self.negotiated.sack { segment.header.options.sack.as_slice() } else { &[] };
        SackOption { numbers: self.numbers, blocks, ack: segment.ack }
    }

    fn read_arrivals(&mut self, segment: &Incoming<'_>) -> Reports {
        let Some(arrivals) = &mut self.ext.arrivals else { return Reports::new() };
        arrivals.read(segment.now, segment.header, self.numbers, segment.ack, self.snd.nxt)
    }

    /// Updates the scoreboard from the cumulative ACK and the SACK blocks (RFC 2018), and returns the delivered data.
    fn deliver(&mut self, segment: &Incoming<'_>, before: PriorState, reports: &Reports) -> Delivery {
        let mut delivery = Delivery::default();
        let (passed, nxt) = (self.snd.board.passed_bytes, self.snd.nxt);
        let (at, ack) = (segment.received_at(), segment.ack);
        let (mss, blocks) = (u64::from(self.pmtu.mss()), self.sack(segment).ranges());
        let (clock, min_rtt, asked_at) = (self.numbers.clock, self.rtt.min, self.ext.ecn_check.asked_at());
        let attribution = Attribution { at, ack, echo: segment.echo(), clock, min_rtt, asked_at };
        let each =
            self.cc.sending.made().is_some_and(|sending| sending.segments.is_some() && sending.control.each_segment);
        // A window probe is not ECN-capable, so that its arrival does not show whether the path passes ECN-capable
        // segments.
        let is_ect = self.ext.ecn_check.codepoint(self.cc.control.ecn, self.negotiated.ecn) != Ecn::NotEct
            && !self.snd.persist.in_flight;
        let takes_records = self.ext.takes_records;
        let (ecn_check, extensions) = self.ext.on_delivery();
        let mut ecn_check = is_ect.then_some(ecn_check);
        let (loss, mut segments) = (&mut *self.loss, self.cc.segments_mut());
        // Only the first and last segment of a run provide information, unless a segment within it is needed.
        let reported: ArrayVec<u64, { Arrivals::CAPACITY }> = reports.iter().map(|report| report.start).collect();
        let told = match each || asked_at.is_some() || takes_records {
            true => Told::All,
            false => Told::Ends { and: &reported },
        };
        let mut on_delivered = |record: &Record, burst: &Burst| {
            let ambiguity = attribution.of(record, burst);
            loss.on_delivered(record, burst.sent_at, at, ambiguity.is_ambiguous);
            delivery.proves_spurious |= loss.spurious.proves(record);
            delivery.add(record, burst, ambiguity);
            extensions.iter_mut().for_each(|extension| extension.on_delivered(record));
            if let Some(check) = ecn_check.as_mut().filter(|_| ambiguity.is_known(record)) {
                check.on_arrival(record.start, record.is_retransmitted(), nxt);
            }
            if let Some(lists) = &mut segments {
                let acked = acked_segment(record, burst, reports);
                if each || acked.arrival.is_some() {
                    lists.acked.push(acked);
                }
            }
        };
        self.snd.set_ahead_horizon(min_rtt.map_or(Time::ZERO, |min| at - min));
        let mut bytes = 0;
        if before.una_advanced > 0 {
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
            self.snd.count_invalid_ack();
        }
        delivery.bytes = bytes;
        // Data sent ahead that SND.UNA passed was never in flight, so the window did not deliver it.
        let passed = passed.saturating_sub(self.snd.board.passed_bytes) + (self.snd.nxt - nxt);
        delivery.cumulative = before.una_advanced.saturating_sub(passed);
        delivery
    }

    /// Processes our own CE mark, and passes the ACK to the extensions. Returns the range of a D-SACK, if there is one,
    /// and the parts of the ACK that concern extensions. `age` is the age of the connection.
    fn claim(
        &mut self,
        segment: &Incoming<'_>,
        delivery: &Delivery,
        reports: &Reports,
        age: Span,
    ) -> (Option<(u64, u64)>, Claims) {
        if let Some(once) = delivery.asked {
            self.ext.ecn_check.on_delivered(once);
        }
        let sack = self.sack(segment);
        let (dsack, mut claims) = (sack.dsack(self.snd.nxt), Claims::default());
        if self.ext.list.is_empty() {
            return (dsack, claims);
        }
        let facts = AckFacts {
            segment,
            sack,
            dsack,
            reports: self.ext.arrivals.is_some().then_some(reports),
            delivered: delivery.bytes,
            retransmitted_to: self.loss.spurious.retransmitted_to,
            clock: self.numbers.clock,
            age,
            rto: self.rtt.rto(),
        };
        self.ext.list.iter_mut().for_each(|extension| extension.on_ack(&facts, self.snd, &mut claims));
        if claims.fills_hole {
            self.loss.on_probe_filled_hole();
        }
        (dsack.filter(|_| !claims.owns_dsack), claims)
    }

    /// Returns the effects of the ACK on loss recovery. It is a duplicate ACK (RFC 5681, section 2) if it repeats
    /// SND.UNA while data is in flight, without another cause.
    fn outcome(
        &self,
        segment: &Incoming<'_>,
        before: PriorState,
        delivery: &Delivery,
        dsack: Option<(u64, u64)>,
        claims: &Claims,
    ) -> AckOutcome {
        let repeats = before.una_advanced == 0
            && segment.payload.is_empty()
            && !before.window_changed
            && segment.ack == self.snd.una
            && before.flight_size > 0
            && !self.snd.persist.in_flight;
        AckOutcome {
            una_advanced: before.una_advanced,
            newly_sacked: delivery.bytes.saturating_sub(delivery.cumulative),
            duplicate: repeats && !claims.has_own_cause,
            dsack,
            is_swapped: claims.is_swapped,
            echo: segment.echo(),
            // Without SACK, the receiver may have held back data that is acknowledged together with a retransmission
            // (RFC 5682, section 2.1, step 2).
            proves_spurious: delivery.proves_spurious && (self.negotiated.sack || delivery.retransmitted.is_none()),
        }
    }

    /// Takes RTT samples (RFC 6298), with FlightSize before the ACK. The newest segment that was never retransmitted yields
    /// the path's RTT; the oldest, whose sample includes the delay of the ACK, is used for the RTO. If there is none, the
    /// timestamp echo is used (RFC 7323, section 4).
    fn take_rtt_samples(&mut self, segment: &Incoming<'_>, delivery: &Delivery, flight: u64) -> Option<RttSample> {
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
            // So long a time without a retransmission is only possible if this host was suspended.
            return None;
        }
        self.rtt.observe(rtt);
        self.rtt.sample((at - oldest).clamp(rtt, MAX_RTO), Bytes(flight), Bytes::from(self.pmtu.mss()));
        self.loss.tail.waits_for_sample = false;
        Some(RttSample::new(rtt, newest))
    }

    /// Processes ECE. Classic ECN permits one reduction per round trip, confirmed by CWR (RFC 3168, section 6.1.2). CWR
    /// is sent on the next new data, so the ACK of the data in flight at the reduction still carries ECE. An echo of
    /// our own CE mark is also confirmed by CWR, but is not a congestion signal; it may hide a mark by the network for
    /// one round trip.
    fn take_congestion_echo(&mut self, segment: &Incoming<'_>) -> bool {
        let echo = self.negotiated.ecn && segment.has(Flags::ECE);
        let is_ours = self.ext.ecn_check.on_ack(self.snd.una, echo);
        if !echo || !self.snd.respond_to_ece() || is_ours {
            return false;
        }
        self.cc.congestion_seen = true;
        true
    }
}
