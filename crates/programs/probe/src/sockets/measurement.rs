//! A whole measurement: the chosen methods one after another, TCPProbe, and the hops.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use longhaul_units::{Bytes, Span};

use super::doubts;
use super::error::Error;
use super::hops::{self, Hops, Scanner};
use super::path::Path;
use super::prober::Prober;
use super::report::{Outcome, Report};
use super::transfer::{self, Application, TCP_PROBE, Transfer};
use crate::MethodKind;

const USUAL: Span = Span::from_secs(60);

/// Receiver of progress and warnings, one line of text per call.
pub type Progress<'a> = &'a (dyn Fn(Note, &str) + Sync);

/// Meaning of a line for a [`Progress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// State of a method or of the hops, which the next line replaces.
    Progress,
    /// A part of the measurement fails or is restricted.
    Warning,
}

/// The parts of a measurement of the path to one host.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Measurement {
    /// Address of the receiver.
    pub address: SocketAddr,
    /// Methods to run against the reflector, in this order.
    pub methods: Vec<MethodKind>,
    /// Whether to run TCPProbe, a transfer of several seconds. It needs no reflector.
    pub transfer: bool,
    /// Whether to look for the hop at which packets queue: during the transfer, or for 15 s if there is none (Linux
    /// only).
    pub hops: bool,
    /// Time limit per method. By default it is [`MethodKind::usual_time`], and 60 s for the other parts; a transfer
    /// takes at most 10 s.
    pub time: Option<Span>,
}

#[derive(Debug, Default)]
struct Findings {
    largest: Option<u32>,
    path: Option<Path>,
    outcomes: Vec<Outcome>,
    hops: Option<Hops>,
    failure: Option<Error>,
}

impl Findings {
    /// Keeps the error of a part. If other parts follow, it is reported at once.
    fn failed(&mut self, part: &str, error: Error, others: bool, progress: Progress<'_>) {
        if others {
            progress(Note::Warning, &format!("{part}: {}", error.chain()));
        }
        self.failure.get_or_insert(error);
    }

    fn keep_hops(&mut self, hops: Result<Hops, Error>, progress: Progress<'_>) {
        match hops {
            Ok(hops) => self.hops = Some(hops),
            Err(error) => self.failed("hops", error, true, progress),
        }
    }
}

impl Measurement {
    /// A measurement without any part.
    pub const fn new(address: SocketAddr) -> Self {
        Self { address, methods: Vec::new(), transfer: false, hops: false, time: None }
    }

    /// Runs all parts and returns their results. `application` is the protocol of the transfer. If a part fails, the
    /// others still run, and `progress` receives the error.
    ///
    /// # Errors
    ///
    /// No part succeeded; the error is that of the first part.
    pub fn run(&self, application: &impl Application, progress: Progress<'_>) -> Result<Report, Error> {
        let mut findings = Findings::default();
        if !self.methods.is_empty()
            && let Err(error) = self.reflected(&mut findings, progress)
        {
            findings.failed("probe", error, self.transfer || self.hops, progress);
        }
        if self.transfer {
            self.transferred(&mut findings, application, progress);
        } else if self.hops {
            let scan = Scanner::discover(self.address, progress).and_then(|mut scanner| {
                scanner.sample(hops::BUSY.min(self.time.unwrap_or(USUAL)), || false, progress)?;
                scanner.finish(false)
            });
            findings.keep_hops(scan, progress);
        }
        self.report(findings)
    }

    fn reflected(&self, findings: &mut Findings, progress: Progress<'_>) -> Result<(), Error> {
        let mut prober = Prober::connect(self.address, progress)?;
        let largest = prober.largest_packet();
        findings.largest = Some(largest);
        for kind in &self.methods {
            let mut method = kind.create_for(Bytes(largest.into()));
            let limit = self.time.unwrap_or(kind.usual_time());
            findings.outcomes.push(prober.measure(method.as_mut(), limit, progress)?);
        }
        findings.path = Some(prober.path().clone());
        Ok(())
    }

    fn transferred(&self, findings: &mut Findings, application: &impl Application, progress: Progress<'_>) {
        let limit = self.time.unwrap_or(USUAL);
        let plan = Transfer { address: self.address, limit, whole: self.hops, largest: findings.largest };
        let outcome = if self.hops {
            let (outcome, hops) = with_hops(plan, application, progress);
            findings.keep_hops(hops, progress);
            outcome
        } else {
            transfer::measure(plan, application, progress)
        };
        match outcome {
            Ok(outcome) => findings.outcomes.push(outcome),
            Err(error) => findings.failed(TCP_PROBE, error, !self.methods.is_empty() || self.hops, progress),
        }
    }

    fn report(&self, findings: Findings) -> Result<Report, Error> {
        let Findings { largest, path, mut outcomes, hops, failure } = findings;
        if outcomes.is_empty() && hops.is_none() {
            return Err(failure.unwrap_or_else(|| Error::failed("nothing was measured")));
        }
        let doubts = doubts::cast(&mut outcomes);
        Ok(Report::new(self.address, largest, path.as_ref(), &outcomes, doubts, hops))
    }
}

/// Observes the hops first on the idle path, then during the transfer.
fn with_hops(
    plan: Transfer,
    application: &impl Application,
    progress: Progress<'_>,
) -> (Result<Outcome, Error>, Result<Hops, Error>) {
    let idle = Scanner::discover(plan.address, progress).and_then(|mut scanner| {
        scanner.sample(hops::IDLE, || false, progress)?;
        Ok(scanner)
    });
    let mut scanner = match idle {
        Ok(scanner) => scanner,
        Err(error) => return (transfer::measure(plan, application, progress), Err(error)),
    };
    let over = AtomicBool::new(false);
    let (outcome, sampled) = thread::scope(|scope| {
        let scan = scope.spawn(|| scanner.sample(Span::MAX, || over.load(Ordering::Relaxed), progress));
        let outcome = transfer::measure(plan, application, progress);
        over.store(true, Ordering::Relaxed);
        (outcome, scan.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let loaded = outcome.is_ok();
    (outcome, sampled.and_then(|()| scanner.finish(loaded)))
}
