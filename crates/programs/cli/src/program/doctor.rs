//! `longhaul doctor`.

use std::time::Duration;

use anyhow::Result;
use longhaul_units::Rate;

use super::args::{DoctorArgs, PORT};
use super::dial;
use super::{Reported, Screen, WrongUse};
use crate::doctor::{Finding, Target, Verdict, machine, nat, path, summary};
use crate::output::print;
use crate::probe::first_that_answers;
use crate::progress::{Detail, columns};
use crate::report;
use crate::sync::blocking;

/// Highest rate to try in bit/s, unless --bandwidth is given.
const MAX_RATE: u64 = 64_000_000;
/// Highest rate to try in bit/s even if --bandwidth is higher: 50 MB within one step.
const LIMIT: u64 = 1_000_000_000;
/// Longest silence to try for the lifetime of a NAT binding.
const MAX_NAT: Duration = Duration::from_secs(600);

pub(super) async fn run(args: &DoctorArgs, screen: &Screen) -> Result<()> {
    if args.nat.is_some_and(|limit| limit > MAX_NAT || limit < Duration::from_secs(1)) {
        return Err(WrongUse("--nat takes a time from 1s to 10m".to_owned()).into());
    }
    let mut findings = Vec::new();
    let mut tell = |found: Vec<Finding>| {
        if args.json {
            found.iter().for_each(|finding| screen.print(&report::json_line(finding)));
        }
        findings.extend(found);
    };
    let (mut bandwidth, mut rtt, mut sentence) = (args.bandwidth.map(Rate::as_bits_per_sec), args.rtt, String::new());
    let line = screen.line();
    if let Some(host) = &args.host {
        let target = dial::Target::parse(host, PORT)?;
        line.show(&[format!("Connecting to {target}")]);
        let peer = first_that_answers(target.lookup().await?).await;
        line.show(&[format!("checking the path to {peer}")]);
        let max_rate = bandwidth.unwrap_or(MAX_RATE).clamp(1, LIMIT);
        let found = blocking(move || path::check(peer, max_rate)).await?;
        sentence = found.sentence(&target.short(PORT));
        tell(found.findings);
        if let (Some(limit), Some(_)) = (args.nat, found.rtt) {
            line.show(&[format!("checking the lifetime of a NAT's binding, for {} s", limit.as_secs())]);
            tell(vec![blocking(move || nat::check(peer, limit)).await?]);
        }
        (bandwidth, rtt) = (bandwidth.or(found.rate), rtt.or(found.rtt));
    }
    let target = bandwidth.zip(rtt).map(|(bandwidth, rtt)| Target { bandwidth, rtt });
    tell(machine::check(target));
    drop(line);
    screen.flush();
    if !args.json {
        let columns = columns(std::io::stdout());
        print(&(sentence + &summary(&findings, screen.shows(Detail::Files), columns)))?;
    }
    let is_wrong = findings.iter().any(|finding| finding.verdict == Verdict::Wrong);
    if is_wrong { Err(Reported.into()) } else { Ok(()) }
}
