//! Two controllers for tests that use every field of the interface.

use longhaul_units::{Bytes, Rate, Span, Time};

use longhaul_cc::{
    Ack, AckFrequency, AckedSegment, BuildParams, Control, Controller, ControllerFactory, Demands, EcnMark, Episode,
    Granted, LostSegment, NeedError, Needs, NetworkFeedback, NetworkHeader, NetworkHeaderKind, Pace, Path, PathEvent,
    ProbeKind, ProbePlan, RateSample, RttSample, SegmentKind, Sent, Snapshot, Timeout, update,
};

/// Sends probes for a round trip in every round, sets a pace, and distinguishes its segments by tag.
#[derive(Clone, Debug)]
pub(super) struct ProbeToy {
    cwnd: Bytes,
    cap: Bytes,
    plan: ProbePlan,
    granted: bool,
    ecn: EcnMark,
    rtt: Span,
    tick: Option<Time>,
    /// Digest of all events: a change of any event changes the trace.
    digest: u64,
}

impl ProbeToy {
    fn new(params: &BuildParams) -> Self {
        let mut plan = ProbePlan::new(0, ProbeKind::Dummy, 4);
        plan.prefer = [Some(ProbeKind::Dummy), Some(ProbeKind::Outstanding), Some(ProbeKind::Backwards)];
        plan.gap = Span::from_micros(10);
        Self {
            cwnd: params.mss,
            cap: params.max_cwnd,
            plan,
            granted: false,
            ecn: EcnMark::NotEct,
            rtt: Span::ZERO,
            tick: None,
            digest: 0,
        }
    }

    fn note(&mut self, value: u64) {
        self.digest = self.digest.rotate_left(7) ^ value;
    }

    fn bound(&mut self, mss: Bytes) {
        self.cwnd = self.cwnd.min(self.cap).max(mss);
    }

    fn note_segments(&mut self, acked: &[AckedSegment], lost: &[LostSegment], now: Time) {
        for segment in acked {
            let AckedSegment { tx, sent_at, bytes, kind, tag, arrival, arrival_coalesced, .. } = *segment;
            let age = now.since(sent_at) + arrival.map_or(Span::ZERO, |arrival| arrival.since(sent_at));
            self.note(tx.0 ^ bytes.0 ^ u64::from(tag) ^ age.as_nanos() ^ kind as u64 ^ u64::from(arrival_coalesced));
        }
        for segment in lost {
            let LostSegment { tx, sent_at, bytes, tag, in_flight_at_send, lost_at_send, .. } = *segment;
            self.note(tx.0 ^ now.since(sent_at).as_nanos() ^ bytes.0 ^ u64::from(tag));
            self.note(in_flight_at_send.0 ^ lost_at_send.0);
        }
    }

    fn note_samples(&mut self, rtt: Option<RttSample>, rate: Option<RateSample>, now: Time) {
        if let Some(RttSample { rtt, sent_at, .. }) = rtt {
            self.rtt = rtt;
            self.note(now.since(sent_at).as_nanos());
        }
        if let Some(RateSample {
            rate, delivered, interval, app_limited, prior_delivered, tx_in_flight, lost, ..
        }) = rate
        {
            self.note(rate.as_bytes_per_sec() ^ delivered.0 ^ interval.as_nanos() ^ u64::from(app_limited));
            self.note(prior_delivered.0 ^ tx_in_flight.0 ^ lost.0);
        }
    }

    fn note_path(&mut self, path: &Path) {
        let Path {
            mss,
            srtt,
            rttvar,
            latest_rtt,
            min_rtt,
            handshake_rtt,
            peer_window,
            queued,
            handshake_lossy,
            paced,
            sack,
            ..
        } = *path;
        for span in [srtt, latest_rtt, min_rtt, handshake_rtt].into_iter().flatten() {
            self.note(span.as_nanos());
        }
        self.note(mss.0 ^ rttvar.as_nanos() ^ peer_window.0 ^ queued.0 ^ u64::from(handshake_lossy));
        self.note(u64::from(paced) ^ u64::from(sack) << 1);
    }
}

impl Controller for ProbeToy {
    fn name(&self) -> String {
        "toy-probes".to_owned()
    }

    fn needs(&self) -> Needs {
        let mut preferred = Demands::default();
        (preferred.ecn, preferred.probes, preferred.pacing, preferred.segments) = (EcnMark::Ect1, true, true, true);
        (preferred.arrival_times, preferred.pairs) = (true, true);
        preferred.ack_frequency = AckFrequency::First(16);
        let required = update!(Demands { probes: true, ..Demands::default() });
        update!(Needs { required, preferred, ..Needs::default() })
    }

    /// Falls back to sending no probes.
    fn on_granted(&mut self, granted: &Granted, path: &Path) -> Result<(), NeedError> {
        let Granted {
            ecn,
            probes,
            probe_echo,
            pacing,
            spreads,
            arrival_times,
            whole_window,
            saved_path,
            pairs,
            ack_frequency,
            network_header,
            segments,
            detection,
            ..
        } = *granted;
        self.granted = probes;
        self.ecn = ecn;
        let own = [probe_echo, pacing, spreads, pairs, ack_frequency, segments];
        for flag in own.into_iter().chain([arrival_times, whole_window, saved_path, network_header.is_some()]) {
            self.note(u64::from(flag));
        }
        self.note(detection as u64);
        self.note_path(path);
        Ok(())
    }

    fn on_sent(&mut self, event: &Sent, path: &Path) {
        let Sent { now: _, tx, bytes, in_flight_before, kind, tag, .. } = *event;
        assert_eq!(tag, (self.plan.id % 1000) as u16, "a segment left with another tag than the one in force");
        self.note(tx.0 ^ bytes.0 ^ in_flight_before.0);
        if kind == SegmentKind::Probe {
            assert!(self.granted, "a probe left that was not asked for");
        }
        self.note_path(path);
    }

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        let Ack {
            now,
            rx_time,
            coalesced,
            acked,
            lost,
            cumulative,
            delivered,
            newly_lost,
            total_delivered,
            rtt,
            rate,
            ecn_echo,
            prior_in_flight,
            in_flight,
            flight_size,
            recover_flight,
            limit,
            cwnd_limited,
            round_start,
            episode,
            probes_acked,
            probes_lost,
            network,
            pair,
            ..
        } = *event;
        // The digest covers every field.
        self.note(rx_time.map_or(0, |rx| now.since(rx).as_nanos()) ^ u64::from(coalesced));
        self.note_segments(acked, lost, now);
        self.note_samples(rtt, rate, now);
        self.note(cumulative.0 ^ newly_lost.0 ^ total_delivered.0 ^ prior_in_flight.0 ^ in_flight.0);
        self.note(flight_size.0 ^ recover_flight.0 ^ limit as u64 ^ u64::from(probes_acked ^ probes_lost));
        assert!(network.is_none(), "router feedback without a header");
        assert!(pair.is_none(), "a pair that was not asked for");
        // The window follows losses, marks and deliveries; each round trip begins a new probe plan.
        match episode {
            Episode::Enter | Episode::Again => self.cwnd = self.cwnd / 2,
            Episode::None | Episode::Rto if ecn_echo => self.cwnd = self.cwnd / 2,
            Episode::None | Episode::Rto if cwnd_limited => self.cwnd += delivered,
            Episode::None | Episode::Rto | Episode::In | Episode::Exit => {}
        }
        if round_start {
            self.plan.id += 1;
            self.tick = Some(now + self.rtt);
        }
        self.note_path(path);
        self.bound(path.mss);
    }

    fn on_timeout(&mut self, event: &Timeout, path: &Path) {
        let Timeout { nth, flight_size, in_flight, .. } = *event;
        self.note(u64::from(nth) ^ flight_size.0 ^ in_flight.0);
        self.cwnd = path.mss;
    }

    fn on_event(&mut self, event: &PathEvent, path: &Path) {
        match *event {
            PathEvent::Established { now: _, granted } => {
                self.note(u64::from(granted.pacing));
                self.cwnd = path.mss * 10;
            }
            PathEvent::Mss { now: _, old } => self.note(old.0),
            PathEvent::IdleRestart { now: _, idle } => self.note(idle.as_nanos()),
            PathEvent::Spurious { now: _, timeout, in_flight } => self.note(u64::from(timeout) ^ in_flight.0),
            PathEvent::Ahead { at: _, bytes } => self.note(bytes.0),
            PathEvent::Shared { now: _, window } => self.note(window.0),
            _ => {}
        }
        self.bound(path.mss);
    }

    fn on_tick(&mut self, now: Time, path: &Path) {
        assert!(self.tick.take().is_some_and(|tick| tick <= now), "a tick that was not due");
        self.note_path(path);
    }

    fn next_tick(&self) -> Option<Time> {
        self.tick
    }

    fn control(&self) -> Control {
        let rate = Rate::from_bytes_over(self.cwnd, self.rtt.max(Span::from_nanos(1)));
        let mut pace = Pace::new(rate.max(Rate::from_bytes_per_sec(1)));
        pace.quantum = Some(Bytes(1 + self.digest % 9));
        update!(Control {
            pace: Some(pace),
            probe: self.granted.then_some(self.plan),
            ecn: self.ecn,
            tag: (self.plan.id % 1000) as u16,
            ack_ratio: (self.digest % 40) as u8,
            ..Control::window(self.cwnd)
        })
    }

    fn snapshot(&self) -> Snapshot {
        update!(Snapshot { bandwidth: Some(Rate::from_bytes_per_sec(self.digest)), ..Snapshot::new("toy") })
    }
}

/// Follows the routers' answers, with one of the three headers.
#[derive(Clone, Debug)]
pub(super) struct HeaderToy {
    kind: NetworkHeaderKind,
    cwnd: Bytes,
    cap: Bytes,
    rate: Rate,
    rtt: Span,
    denied: bool,
}

impl HeaderToy {
    fn follow(&mut self, rate: Rate, mss: Bytes) {
        self.rate = rate;
        self.cwnd = rate.bytes_in(self.rtt).min(self.cap).max(mss);
    }
}

impl Controller for HeaderToy {
    fn name(&self) -> String {
        "toy-header".to_owned()
    }

    fn needs(&self) -> Needs {
        let required = update!(Demands { network_header: Some(self.kind), ..Demands::default() });
        update!(Needs { required, ..Needs::default() })
    }

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        self.rtt = path.srtt.unwrap_or(self.rtt);
        match event.network {
            Some(NetworkFeedback::QuickStart(rate) | NetworkFeedback::Rcp(rate)) => self.follow(rate, path.mss),
            Some(NetworkFeedback::Xcp(delta)) => {
                let rate = self.rate.as_bytes_per_sec().saturating_add_signed(delta);
                self.follow(Rate::from_bytes_per_sec(rate), path.mss);
            }
            Some(NetworkFeedback::Denied) => {
                self.denied = true;
                self.cwnd = path.mss;
            }
            Some(_) | None => self.cwnd = self.cwnd.min(self.cap).max(path.mss),
        }
    }

    fn on_timeout(&mut self, _event: &Timeout, path: &Path) {
        self.cwnd = path.mss;
    }

    fn on_event(&mut self, _event: &PathEvent, path: &Path) {
        self.rtt = path.handshake_rtt.unwrap_or(self.rtt);
        self.cwnd = self.cwnd.min(self.cap).max(path.mss);
    }

    fn control(&self) -> Control {
        let (rate, rtt) = (self.rate, self.rtt);
        let header = match self.kind {
            NetworkHeaderKind::QuickStart => NetworkHeader::QuickStart { rate: Rate::MAX },
            NetworkHeaderKind::Rcp => NetworkHeader::Rcp { rate, rtt },
            _ => NetworkHeader::Xcp { throughput: rate, rtt, delta: 1 },
        };
        update!(Control { header: (!self.denied).then_some(header), ..Control::window(self.cwnd) })
    }

    fn snapshot(&self) -> Snapshot {
        update!(Snapshot { bandwidth: Some(self.rate), ..Snapshot::new("toy") })
    }
}

/// Builds one of the two.
#[derive(Debug)]
pub(super) struct Toys(pub(super) Option<NetworkHeaderKind>);

impl ControllerFactory for Toys {
    fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        match self.0 {
            None => Box::new(ProbeToy::new(params)),
            Some(kind) => Box::new(HeaderToy {
                kind,
                cwnd: params.mss,
                cap: params.max_cwnd,
                rate: Rate::ZERO,
                rtt: Span::ZERO,
                denied: false,
            }),
        }
    }

    fn name(&self) -> String {
        format!("toy {:?}", self.0)
    }
}
