//! Environments and histories from arbitrary bytes, for a fuzzer.

use longhaul_units::{Bytes, Span, Time};

use super::{Operation, Scenario};
use longhaul_cc::{Detection, EcnMark, Granted, NetworkHeaderKind, SendLimit};

/// Maximum number of operations in a history.
const MOST: usize = 1000;

struct Script<'a>(&'a [u8]);

impl Script<'_> {
    /// Returns the next byte, or zero at the end.
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }
}

/// Decodes `bytes` to an environment and a history; all bytes are valid. The encoding may change between versions.
#[must_use]
pub fn decode(bytes: &[u8]) -> (Scenario, Vec<Operation>) {
    let mut script = Script(bytes);
    let scenario = scenario(&mut script);
    let mut operations = Vec::new();
    while !script.0.is_empty() && operations.len() < MOST {
        operations.push(operation(&mut script));
    }
    (scenario, operations)
}

fn scenario(script: &mut Script<'_>) -> Scenario {
    let (first, second) = (script.byte(), script.byte());
    let bit = |number: u8| first >> number & 1 != 0;
    let mut granted = Granted::basic();
    granted.ecn = [EcnMark::NotEct, EcnMark::Ect0, EcnMark::Ect1, EcnMark::Ect0][usize::from(second & 3)];
    (granted.probes, granted.probe_echo, granted.pacing, granted.spreads) = (bit(0), bit(1), bit(2), bit(2) && bit(3));
    (granted.arrival_times, granted.whole_window, granted.saved_path) = (bit(4), bit(3), bit(1));
    (granted.pairs, granted.ack_frequency, granted.segments) = (bit(5), bit(6), bit(7));
    let headers = [NetworkHeaderKind::QuickStart, NetworkHeaderKind::Rcp, NetworkHeaderKind::Xcp].map(Some);
    granted.network_header = [None, headers[0], headers[1], headers[2]][usize::from(second >> 2 & 3)];
    granted.detection = detection(second >> 4);
    // The segment size, the RTT, the clock and the limit of the window.
    let third = script.byte();
    let mss = [1448, 1448, 1 + u64::from(script.word()) % 10_000, 1 << 26][usize::from(third & 3)];
    let decade = [5, 6, 7, 8, 9, 0, 12, 15][usize::from(third >> 2 & 7)];
    let rtt = 10_u64.pow(decade) / 256 * u64::from(script.byte()) + 1;
    let resolution = [1, 1, 1_000_000, 15_600_000][usize::from(third >> 5 & 3)];
    // A double counts windows of up to 2^53 bytes exactly.
    let cap = [1 << 50, 1 << 40, 1 << 30, 100_000][usize::from(second >> 6)];
    Scenario {
        // A multiple of the steps of all these clocks.
        start: Time::from_nanos(1_000_000_000 * 78_000_000),
        resolution: Span::from_nanos(resolution),
        mss: Bytes(mss),
        rtt: Span::from_nanos(rtt),
        granted,
        handshake_lossy: third >> 7 != 0,
        cap: Bytes(cap),
        tick_delay: 0,
    }
}

fn detection(bits: u8) -> Detection {
    match bits & 3 {
        0 | 1 => Detection::RackTlp,
        2 => Detection::Sack,
        _ => Detection::DuplicateAcks,
    }
}

fn operation(script: &mut Script<'_>) -> Operation {
    use SendLimit::{App, Cpu, Cwnd, Pacing, PeerWindow, SendBuffer};
    let byte = script.byte();
    let upper = byte >> 5;
    match byte & 31 {
        0..=5 => Operation::Fill,
        6..=7 => Operation::Send { segments: 1 + u32::from(script.byte() & 63) },
        8..=15 => Operation::Ack { share: script.byte(), rtt: upper, selective: byte & 7 == 1, marked: byte & 7 == 2 },
        16 | 17 => Operation::Lose { share: script.byte(), timer: byte & 1 != 0 },
        18 => Operation::LoseAgain,
        19 | 20 => Operation::Finish,
        21 => Operation::Timeout,
        22 => Operation::Spurious,
        23 => Operation::Idle { rounds: 1 + upper },
        24 => Operation::Wait { sixteenths: script.byte() },
        25 => Operation::Bunch { acks: 2 + upper },
        26 => Operation::Route { sixteenths: script.byte() & 63 },
        27 => Operation::Mss { sixteenths: script.byte() & 31 },
        28 => Operation::Limit([App, Cwnd, Pacing, PeerWindow, SendBuffer, Cpu, App, Cwnd][usize::from(upper)]),
        29 if upper & 1 == 0 => Operation::Sack(upper & 2 != 0),
        29 => Operation::Peer { window: script.word(), queued: script.word() },
        30 => Operation::Probe,
        _ => Operation::Feedback { rate: script.word() },
    }
}
