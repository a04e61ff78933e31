//! Types of `longhaul-units`, `longhaul-wire`, `longhaul-cc`, `longhaul-qlog` and `longhaul-sys`.

use std::io::IoSlice;
use std::time::Duration;

use longhaul_units::{Bytes, Rate, Span, Time};

use super::{Checked, DATA, copied, values};

#[test]
fn debug_output_of_units_is_short() {
    let mut checked = Checked::new("longhaul-units");
    copied!(checked, Bytes Rate Time Span);
    checked.are_all(&[]);
}

#[test]
fn debug_output_of_the_wire_format_has_no_data() {
    use longhaul_wire::network::*;
    use longhaul_wire::probe::*;
    use longhaul_wire::shim::*;
    use longhaul_wire::*;

    let mut header = Header::default();
    let options = &mut header.options;
    (options.mss, options.window_scale, options.sack_permitted) = (Some(u16::MAX), Some(14), true);
    options.timestamps = Some(Timestamps { value: u32::MAX, echo: u32::MAX });
    options.sack = [SackBlock { left: u32::MAX, right: u32::MAX }; 4].into_iter().collect();
    (options.arrival_permitted, options.probe_permitted, options.network_permitted) = (true, true, true);
    (options.ack_rate_permitted, options.scaled_window, options.microsecond_timestamps) = (true, true, true);
    let mut checked = Checked::new("longhaul-wire");
    values!(checked,
        Header: header,
        Options: header.options,
        Segment: Segment { header: header.clone(), payload: DATA },
    );
    copied!(checked, Arrival Arrivals CheshireCodec Ecn ParseError EmitError Flags MoveOption MoveStep NetworkOption Forward Request Feedback
        WireRate WireDelta QuickStartRate QuickStartNonce ExId Timestamps ProbeEcho AckRate UserTimeout Probe Answer
        SackBlock SackBlocks IpFields FromTcp ShimError);
    checked.are_all(&[]);
}

#[test]
fn debug_output_of_congestion_control_is_short() {
    use longhaul_cc::compose::*;
    use longhaul_cc::estimate::*;
    use longhaul_cc::internal::options::{OptionKind, Values};
    use longhaul_cc::registry::*;
    use longhaul_cc::*;

    let acked = vec![AckedSegment::new(TxId(u64::MAX), Time::MAX, Bytes(u64::MAX)); 1000];
    let lost = vec![LostSegment::new(TxId(u64::MAX), Time::MAX, Bytes(u64::MAX)); 1000];
    let mut ack = Ack::new(Time::from_nanos(u64::MAX / 2));
    (ack.acked, ack.lost, ack.total_delivered) = (&acked, &lost, Bytes(u64::MAX));
    (ack.rtt, ack.rate) =
        (Some(RttSample::new(Span::MAX, Time::MAX)), Some(RateSample::new(Bytes(u64::MAX), Span::from_nanos(7))));
    let mut wheel = TimerWheel::new(Time::ZERO);
    (0..1000).for_each(|id| wheel.set(id, Time::from_nanos(u64::from(id))));
    let mut pacer = Pacer::new(Time::ZERO);
    pacer.set(Time::ZERO, Some(Pace::new(Rate::from_bytes_per_sec(12_345_678))), Bytes(1448));
    let composed = Composed::new(Stages::new("a name"), &BuildParams::default());
    let fault = "warp-drive".parse::<Spec>().unwrap_err();
    let mut checked = Checked::new("longhaul-cc");
    values!(checked,
        Ack: ack,
        LossEvent: LossEvent::new(Signal::Loss, &ack),
        Composed: composed,
        Stages: Stages::default(),
        Congestion: Congestion::copa_cubic(),
        Control: composed.control(),
        Snapshot: composed.snapshot(),
        Estimates: composed.snapshot().estimates,
        Entry: built_in().entries[0],
        Values: Values::default(),
        PathEvent: PathEvent::Established { now: Time::MAX, granted: Granted::basic() },
        NeedError: NeedError::new(Congestion::copa_cubic().name(), "arrival times"),
        Pacer: pacer,
        Path: Path::new(Bytes(1448)),
        SpecError: fault,
        RegisterError: RegisterError::Profile { name: "name", error: Box::new(fault.clone()) },
        Registry: built_in(),
        Spec: "copa-cubic".parse::<Spec>().unwrap(),
        TimerWheel: wheel,
    );
    copied!(checked, AckLimit Window Overlay StageEvent Opening Step StartupResponse AvoidanceStep Reason Handoff Signal LossCause
        CongestionEvent Target Pace EcnMark ProbeKind Levels ProbePlan NetworkHeader StartupOutcome Estimate
        Quantity Slot Safety Profile OptionKind OptionSpec Value Rule PairSample RateRange WindowedMax
        WindowedMin TxId SegmentKind Sent AckedSegment LostSegment RttSample RateSample Episode SendLimit NetworkFeedback
        Timeout Needs Demands AckFrequency NetworkHeaderKind Detection Granted BuildParams SavedPath SavedPathUse);
    // These types are in the module `internal`, which other repositories do not use.
    checked.are_all(&[
        "Base",
        "CapProbe",
        "CapProbeConfig",
        "CapProbeEstimate",
        "Capacity",
        "CongestionLevel",
        "Delays",
        "Departures",
        "Flight",
        "NewReno",
        "PacketPair",
        "PairEstimate",
        "Prr",
        "Sample",
        "StandardSlowStart",
        "SwiftStart",
        "SwiftStartConfig",
        "TcpProbe",
        "TickClock",
    ]);
}

#[test]
fn debug_output_of_logs_has_no_records() {
    use longhaul_qlog::*;

    let address = "[2001:db8::1]:7000".parse().unwrap();
    let start = Start {
        role: Role::Client,
        local: address,
        remote: address,
        segments_before: [0; 2],
        at: Time::ZERO,
        epoch: Time::ZERO,
        reference: Reference::Monotonic,
        vantage_point: "here".to_owned(),
    };
    let mut log = Log::new(start.clone(), Sequence::new(Vec::new()));
    log.sink_mut().record(&str::from_utf8(DATA).unwrap());
    let mut checked = Checked::new("longhaul-qlog");
    values!(checked, Log: log, Sequence: log.sink_mut(), Start: start,);
    copied!(checked, Role Reference);
    checked.are_all(&[]);
}

#[test]
fn debug_output_of_system_calls_has_no_data() {
    use longhaul_sys::clock::*;
    use longhaul_sys::linux::*;
    use longhaul_sys::pool::*;

    let bind = || UdpSocket::new(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
    let (from, to, pool) = (bind(), bind(), RecvPool::new(4, 4));
    let slices = [IoSlice::new(DATA)];
    let transmit =
        Transmit { destination: Some(to.local_addr()), tos: 0, src_ip: None, segment_size: None, slices: &slices };
    from.send(&transmit).unwrap();
    let mut batch = RecvBatch::new(&pool, 4);
    while to.recv(&mut batch).is_err() {}
    let timestamp = Some(Duration::MAX);
    let error =
        PathError { kind: PathErrorKind::NoPort, from: None, destination: None, quoted: DATA.to_vec(), timestamp };
    let mut checked = Checked::new("longhaul-sys");
    values!(checked,
        ClockMap: ClockMap::new(clock_pair()),
        PathError: error,
        Poll: Poll::new().unwrap(),
        RecvBatch: batch,
        Received: batch.messages().next().unwrap(),
        RecvPool: pool,
        RecvBuffer: pool.buffer(),
        Timer: Timer::new().unwrap(),
        Transmit: transmit,
        UdpSocket: from,
    );
    copied!(checked, ClockPair ErrorClass Features PathErrorKind Meta);
    checked.are_all(&[]);
}
