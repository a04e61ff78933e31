//! Checks of the path to a reflector.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use longhaul_probe::sockets::{Error, Pinger, Prober};

use super::{Finding, Verdict, ramp};
use crate::report;

/// Largest IP packet that longhaul sends by default, in bytes.
const MTU: u32 = 1500;
/// UDP payload in bytes that longhaul expects every path to carry.
const BASE_PAYLOAD: u32 = 1232;
/// Number of unanswered packets after which a packet size or codepoint counts as blocked.
const TRIES: u32 = 4;
/// Time to wait for an answer, in addition to two round trips.
const PATIENCE: Duration = Duration::from_millis(250);
/// Number of packets that measure the round-trip time.
const SAMPLES: u32 = 5;

/// ECN codepoints (RFC 3168, section 5), by their bits.
const ECN: [&str; 4] = ["Not-ECT", "ECT(1)", "ECT(0)", "CE"];
/// DiffServ codepoints to try: expedited forwarding, assured forwarding, and lower effort (RFC 8622).
const DSCP: [(&str, u8); 3] = [("EF", 46), ("AF11", 10), ("LE", 1)];

#[derive(Clone, Debug, Default)]
pub(crate) struct Path {
    pub(crate) findings: Vec<Finding>,
    pub(crate) rtt: Option<Duration>,
    /// Highest rate that the path carried, in bit/s.
    pub(crate) rate: Option<u64>,
}

impl Path {
    /// Returns a sentence about the path to `host`, followed by an empty line, if the host answers.
    pub(crate) fn sentence(&self, host: &str) -> String {
        let Some(rtt) = self.rtt else { return String::new() };
        // The rate check has found a problem if it has found a limit.
        let is_limited = self.findings.last().is_some_and(|finding| finding.verdict != Verdict::Ok);
        let more = if is_limited { "" } else { ", and more was not tried" };
        let rate = self.rate.map(|rate| format!("; {} pass{more}", report::rate(rate as f64))).unwrap_or_default();
        format!("{} to {host}{rate}.\n\n", report::round_trip(rtt))
    }
}

/// Checks the path to the reflector at `peer`, with packets at rates up to `max_rate` bit/s. Nothing but a few small
/// packets is sent to an address that does not answer probes.
pub(crate) fn check(peer: SocketAddr, max_rate: u64) -> Result<Path> {
    const CHECK: &str = "udp";
    match Prober::connect(peer, &|_, _| {}) {
        Ok(_) => {}
        Err(error @ (Error::Refused(_) | Error::NoReflector(_) | Error::Silent(_))) => {
            let found = match error {
                // The command below says what to start.
                Error::Refused(_) => format!("{peer} refuses: no program there has that UDP port"),
                error => error.to_string(),
            };
            let finding = Finding::wrong(CHECK, found);
            // --code, because a receiver that allows nobody ends.
            let command = format!("longhaul receive --reflect --code --listen {peer}");
            return Ok(Path { findings: vec![finding.mend(command)], ..Path::default() });
        }
        Err(error) => return Err(error.into()),
    }
    let mut pinger = Pinger::connect(peer)?;
    let Some(rtt) = round_trip(&mut pinger)? else {
        let finding = Finding::wrong(CHECK, format!("{peer} has answered, and does not answer any more"));
        return Ok(Path { findings: vec![finding], ..Path::default() });
    };
    let patience = PATIENCE + rtt * 2;
    let reached = format!("{peer} answers after {}", report::time(Some(rtt)));
    let mut findings = vec![Finding::ok(CHECK, reached)];
    findings.push(ecn(&mut pinger, patience)?);
    findings.push(dscp(&mut pinger, patience)?);
    let (mtu, finding) = path_mtu(&mut pinger, patience)?;
    findings.push(finding);
    let size = mtu.min(BASE_PAYLOAD + pinger.headers());
    let (rate, finding) = ramp::check(&mut pinger, rtt, size, max_rate)?;
    findings.push(finding);
    Ok(Path { findings, rtt: Some(rtt), rate })
}

fn round_trip(pinger: &mut Pinger) -> Result<Option<Duration>> {
    let (mut shortest, size) = (None, pinger.smallest());
    for _ in 0..SAMPLES {
        if let Some(echo) = pinger.exchange(size, TRIES, PATIENCE * 4)? {
            let rtt = echo.rtt;
            shortest = Some(shortest.map_or(rtt, |shortest: Duration| shortest.min(rtt)));
        }
    }
    Ok(shortest)
}

enum Arrival {
    As(u8),
    /// The answer does not state which codepoint arrived.
    Unknown,
    Lost,
}

fn arrival(pinger: &mut Pinger, tos: u8, patience: Duration) -> Result<Arrival> {
    pinger.set_tos(tos)?;
    let echo = pinger.exchange(pinger.smallest(), TRIES, patience)?;
    pinger.set_tos(0)?;
    Ok(match echo.map(|echo| echo.answer.tos) {
        Some(Some(tos)) => Arrival::As(tos),
        Some(None) => Arrival::Unknown,
        None => Arrival::Lost,
    })
}

fn ecn(pinger: &mut Pinger, patience: Duration) -> Result<Finding> {
    const CHECK: &str = "ecn";
    let name = |bits: u8| ECN.get(usize::from(bits & 3)).copied().unwrap_or_default();
    let mut faults = Vec::new();
    for sent in [2, 1, 3] {
        match arrival(pinger, sent, patience)? {
            // A router may have set CE to signal congestion.
            Arrival::As(tos) if tos & 3 == sent || tos & 3 == 3 => {}
            Arrival::As(tos) => faults.push(format!("{} arrives as {}", name(sent), name(tos))),
            Arrival::Lost => faults.push(format!("packets with {} are lost", name(sent))),
            Arrival::Unknown => return Ok(Finding::unknown(CHECK, "the reflector does not report it")),
        }
    }
    Ok(match faults.is_empty() {
        true => Finding::ok(CHECK, "ECN codepoints arrive as they are sent"),
        false => Finding::wrong(
            CHECK,
            format!("the path changes the ECN field, so that congestion shows by losses only: {}", faults.join(", ")),
        ),
    })
}

fn dscp(pinger: &mut Pinger, patience: Duration) -> Result<Finding> {
    const CHECK: &str = "dscp";
    let (mut changed, mut lost) = (Vec::new(), Vec::new());
    for (name, sent) in DSCP {
        match arrival(pinger, sent << 2, patience)? {
            Arrival::As(tos) if tos >> 2 == sent => {}
            Arrival::As(tos) => changed.push(format!("{name} arrives as {}", tos >> 2)),
            Arrival::Lost => lost.push(format!("packets with {name} are lost")),
            Arrival::Unknown => return Ok(Finding::unknown(CHECK, "the reflector does not report it")),
        }
    }
    // A provider may rewrite the codepoints inside its network (RFC 2474). Only priorities depend on them.
    Ok(match (lost.is_empty(), changed.is_empty()) {
        (true, true) => Finding::ok(CHECK, "DiffServ codepoints arrive as they are sent"),
        (true, false) => Finding::note(CHECK, format!("priorities end on the way: {}", changed.join(", "))),
        (false, _) => Finding::wrong(CHECK, [lost, changed].concat().join(", ")),
    })
}

/// Finds the largest packet that passes, up to [`MTU`] bytes.
fn path_mtu(pinger: &mut Pinger, patience: Duration) -> Result<(u32, Finding)> {
    const CHECK: &str = "path-mtu";
    if cfg!(not(target_os = "linux")) {
        return Ok((pinger.smallest(), Finding::unknown(CHECK, "it is measured on Linux only")));
    }
    if pinger.exchange(MTU, TRIES, patience)?.is_some() {
        return Ok((MTU, Finding::ok(CHECK, format!("packets of {MTU} bytes pass"))));
    }
    // Invariant: `good` passes, `bad` does not.
    let (mut good, mut bad) = (pinger.smallest(), MTU);
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        if pinger.exchange(middle, TRIES, patience)?.is_some() {
            good = middle;
        } else {
            bad = middle;
        }
    }
    let needed = BASE_PAYLOAD + pinger.headers();
    let found = format!("packets of {good} bytes pass, and larger ones do not");
    let finding = if good >= needed {
        Finding::ok(CHECK, found)
    } else {
        Finding::wrong(CHECK, format!("{found}; longhaul needs {needed} bytes"))
    };
    Ok((good, finding))
}
