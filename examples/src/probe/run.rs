//! What `probe` does, one method after the other.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Result, anyhow, bail};
use longhaul::units::{Bytes, Span};

use super::hops::{self, Hops, Scanner};
use super::options::{Choice, Options};
use super::path::Path;
use super::prober::Prober;
use super::report::{Outcome, Report};
use super::transfer::{self, Transfer};
use super::{doubts, reach, socket};
use crate::report;

/// What was found so far.
#[derive(Debug, Default)]
struct Findings {
    largest: Option<u32>,
    path: Option<Path>,
    outcomes: Vec<Outcome>,
    hops: Option<Hops>,
    /// Why the first thing that failed did.
    failure: Option<anyhow::Error>,
}

impl Findings {
    /// A part failed. Where others are left, it is said at once.
    fn failed(&mut self, part: &str, error: anyhow::Error, others: bool) {
        if others {
            eprintln!("{part}: {error:#}");
        }
        self.failure.get_or_insert(error);
    }
}

/// Measures what the command line asks for, and prints it.
///
/// # Errors
/// A sentence, if nothing was learnt.
pub fn run(options: &Options) -> Result<()> {
    let address = options.resolve()?;
    let mut findings = Findings::default();
    let all = options.method == Choice::All;
    if options.method != Choice::TcpProbe
        && let Err(error) = reflected(options, address, &mut findings)
    {
        findings.failed("probe", error, all || options.hops);
    }
    if options.method.transfers() {
        transferred(options, address, &mut findings, all);
    } else if options.hops {
        let scan = Scanner::discover(address).and_then(|mut scanner| {
            scanner.sample(hops::BUSY.min(options.time()), || false)?;
            scanner.finish(false)
        });
        keep_hops(scan, &mut findings);
    }
    conclude(options, address, findings)
}

/// The methods that need a reflector.
fn reflected(options: &Options, address: SocketAddr, findings: &mut Findings) -> Result<()> {
    let mut socket = socket::Socket::connect(address)?;
    let reached = reach::check(&mut socket, address)?;
    if let Some(note) = reached.note() {
        eprintln!("{note}");
    }
    findings.largest = Some(reached.largest);
    let mut prober = Prober::new(socket, &reached);
    let kinds = options.methods();
    let methods: Vec<_> =
        kinds.iter().map(|kind| kind.create_for(Bytes(reached.largest.into()))).collect::<Result<_, _>>()?;
    for (kind, mut method) in kinds.into_iter().zip(methods) {
        findings.outcomes.push(prober.measure(method.as_mut(), options.time_of(kind))?);
    }
    findings.path = Some(prober.path().clone());
    Ok(())
}

/// tcpprobe, and what its load does to the hops if that is asked.
fn transferred(options: &Options, address: SocketAddr, findings: &mut Findings, others: bool) {
    let plan = Transfer { address, limit: options.time(), whole: options.hops, largest: findings.largest };
    let outcome = if options.hops {
        let (outcome, hops) = with_hops(plan);
        keep_hops(hops, findings);
        outcome
    } else {
        transfer::measure(plan)
    };
    match outcome {
        Ok(outcome) => findings.outcomes.push(outcome),
        Err(error) => findings.failed("tcpprobe", error, others || options.hops),
    }
}

/// The hops are looked at on the idle path first, then during the transfer.
fn with_hops(plan: Transfer) -> (Result<Outcome>, Result<Hops>) {
    let idle = Scanner::discover(plan.address).and_then(|mut scanner| {
        scanner.sample(hops::IDLE, || false)?;
        Ok(scanner)
    });
    let mut scanner = match idle {
        Ok(scanner) => scanner,
        Err(error) => return (transfer::measure(plan), Err(error)),
    };
    let over = AtomicBool::new(false);
    let (outcome, sampled) = thread::scope(|scope| {
        let scan = scope.spawn(|| scanner.sample(Span::MAX, || over.load(Ordering::Relaxed)));
        let outcome = transfer::measure(plan);
        over.store(true, Ordering::Relaxed);
        (outcome, scan.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let loaded = outcome.is_ok();
    (outcome, sampled.and_then(|()| scanner.finish(loaded)))
}

fn keep_hops(hops: Result<Hops>, findings: &mut Findings) {
    match hops {
        Ok(hops) => findings.hops = Some(hops),
        Err(error) => findings.failed("hops", error, true),
    }
}

/// Prints the report. Without one, why there is none is the error.
fn conclude(options: &Options, address: SocketAddr, findings: Findings) -> Result<()> {
    let Findings { largest, path, mut outcomes, hops, failure } = findings;
    if outcomes.is_empty() && hops.is_none() {
        return Err(failure.unwrap_or_else(|| anyhow!("nothing was measured")));
    }
    let doubts = doubts::cast(&mut outcomes);
    let learnt = hops.is_some() || outcomes.iter().any(Outcome::learnt);
    let report = Report::new(address, largest, path.as_ref(), &outcomes, doubts, hops);
    if options.json {
        println!("{}", report::json_line(&report));
    } else {
        print!("{report}");
    }
    if !learnt {
        bail!("no method has found a rate: --time gives them longer, --method names another");
    }
    Ok(())
}
