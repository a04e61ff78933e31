//! `longhaul doctor`.

use std::time::Duration;

use anyhow::{Result, bail};
use longhaul_units::Rate;

use super::args::{DoctorArgs, PORT};
use super::dial;
use super::{Screen, WrongUse};
use crate::doctor::{Finding, Target, Verdict, machine, nat, path};
use crate::output::print;
use crate::probe::first_that_answers;
use crate::report;

/// Highest rate to try in bit/s, unless --bandwidth names another one.
const MAX_RATE: u64 = 64_000_000;
/// Highest rate to try in bit/s even if --bandwidth is higher: 50 MB within one step.
const LIMIT: u64 = 1_000_000_000;
/// Longest silence to try for the lifetime of a NAT binding.
const MAX_NAT: Duration = Duration::from_secs(600);

pub(super) async fn run(args: &DoctorArgs, screen: &Screen) -> Result<()> {
    if args.nat.is_some_and(|limit| limit > MAX_NAT || limit < Duration::from_secs(1)) {
        return Err(WrongUse("--nat takes a time from 1s to 10m".to_owned()).into());
    }
    let mut wrong = 0;
    let mut tell = |findings: &[Finding]| {
        wrong += findings.iter().filter(|finding| finding.verdict == Verdict::Wrong).count();
        findings.iter().try_for_each(|finding| {
            let line = if args.json { report::json_line(finding) } else { finding.to_string() };
            print(&format!("{line}\n"))
        })
    };
    let (mut bandwidth, mut rtt) = (args.bandwidth.map(Rate::as_bits_per_sec), args.rtt);
    if let Some(host) = &args.host {
        let target = dial::Target::parse(host, PORT)?;
        let peer = first_that_answers(target.lookup().await?).await;
        screen.say(&format!("checking the path to {peer}"));
        let found = path::check(peer, bandwidth.unwrap_or(MAX_RATE).clamp(1, LIMIT)).await?;
        tell(&found.findings)?;
        if let (Some(limit), Some(_)) = (args.nat, found.rtt) {
            screen.say(&format!("checking the lifetime of a NAT's binding, for {} s", limit.as_secs()));
            tell(&[nat::check(peer, limit).await?])?;
        }
        (bandwidth, rtt) = (bandwidth.or(found.rate), rtt.or(found.rtt));
    }
    let target = bandwidth.zip(rtt).map(|(bandwidth, rtt)| Target { bandwidth, rtt });
    tell(&machine::check(target))?;
    match wrong {
        0 => Ok(()),
        1 => bail!("1 check has found something wrong"),
        wrong => bail!("{wrong} checks have found something wrong"),
    }
}
