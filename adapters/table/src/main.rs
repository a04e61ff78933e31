//! Goodput of QUIC stacks under their own controllers and longhaul's, in virtual time over emulated links.
//!
//! `quic-table [--ordered] [LINK...]` prints a table in Markdown, for the links whose names contain one of these texts.
//! Each value is one run. The application reads data in any order, unless `--ordered` is set: noq closes a connection
//! at the 1025th gap of a stream that is read in order.

mod host;
mod links;
mod longhaul;
mod stack;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use longhaul_cc::Congestion;

use crate::host::Identity;
use crate::links::Place;
use crate::stack::transfer;

/// A sender in the table: the stack, and one of the stack's or of longhaul's controllers.
#[derive(Clone, Copy, Debug)]
struct Sender {
    stack: &'static str,
    theirs: bool,
    controller: &'static str,
}

const OURS: [&str; 4] = ["cubic", "bbr", "copa", "copa-cubic"];
const THEIRS: [&str; 3] = ["cubic", "new-reno", "bbr"];
const SEED: u8 = 1;

fn senders() -> Vec<Sender> {
    let mut senders = Vec::new();
    for stack in ["noq", "quinn"] {
        senders.extend(THEIRS.map(|controller| Sender { stack, theirs: true, controller }));
        senders.extend(OURS.map(|controller| Sender { stack, theirs: false, controller }));
    }
    senders.extend(OURS.map(|controller| Sender { stack: "longhaul", theirs: false, controller }));
    senders
}

/// Returns the text of a cell: the goodput in Mb/s and the percentage of packets that arrived at a full queue.
fn cell(sender: Sender, place: &Place, identity: &Identity, ordered: bool) -> anyhow::Result<String> {
    let seed = u64::from(SEED);
    let origin = real_time();
    let outcome = match sender.stack {
        "noq" => {
            let factory: Arc<dyn noq_proto::congestion::ControllerFactory + Send + Sync> = match sender.controller {
                _ if !sender.theirs => longhaul_noq::congestion(sender.controller)?,
                "cubic" => Arc::new(noq_proto::congestion::CubicConfig::default()),
                "new-reno" => Arc::new(noq_proto::congestion::NewRenoConfig::default()),
                _ => Arc::new(noq_proto::congestion::Bbr3Config::default()),
            };
            let choose = |transport: &mut noq_proto::TransportConfig| {
                transport.congestion_controller_factory(Arc::clone(&factory));
            };
            let (mut client, mut server) = host::noq::pair(identity, origin, SEED, ordered, &choose)?;
            transfer(place, &mut client, &mut server, origin, seed)?
        }
        "quinn" => {
            let factory: Arc<dyn quinn_proto::congestion::ControllerFactory + Send + Sync> = match sender.controller {
                _ if !sender.theirs => match longhaul_quinn::congestion(sender.controller) {
                    Ok(factory) => factory,
                    Err(longhaul_quinn::ChoiceError::Need { .. }) => return Ok("refused".to_owned()),
                    Err(error) => return Err(error.into()),
                },
                "cubic" => Arc::new(quinn_proto::congestion::CubicConfig::default()),
                "new-reno" => Arc::new(quinn_proto::congestion::NewRenoConfig::default()),
                _ => Arc::new(quinn_proto::congestion::BbrConfig::default()),
            };
            let choose = |transport: &mut quinn_proto::TransportConfig| {
                transport.congestion_controller_factory(Arc::clone(&factory));
            };
            let (mut client, mut server) = host::quinn::pair(identity, origin, SEED, ordered, &choose)?;
            transfer(place, &mut client, &mut server, origin, seed)?
        }
        _ => {
            let congestion: Congestion = sender.controller.parse()?;
            longhaul::transfer(place, &congestion, seed)
        }
    };
    let percent = 100.0 * outcome.overflow;
    let overflow = if percent >= 0.05 { format!(" ({percent:.1})") } else { String::new() };
    Ok(format!("{:.1}{overflow}", outcome.goodput))
}

/// Returns the machine's current time, at which virtual time starts. The results do not depend on it.
#[expect(
    clippy::disallowed_methods,
    reason = "the stacks take instants of the standard library, which only a clock makes"
)]
fn real_time() -> Instant {
    Instant::now()
}

fn main() -> anyhow::Result<()> {
    let (options, only): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|text| text.starts_with("--"));
    let ordered = options.iter().any(|option| option == "--ordered");
    let mut places = links::all();
    places.retain(|place| only.is_empty() || only.iter().any(|text| place.name.contains(text.as_str())));
    let identity = Identity::new()?;
    let jobs: Vec<_> = senders()
        .into_iter()
        .enumerate()
        .flat_map(|(row, sender)| (0..places.len()).map(move |column| (row, sender, column)))
        .collect();
    let (next, cells) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((row, sender, column)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let began = real_time();
                    let text =
                        cell(*sender, &places[*column], &identity, ordered).unwrap_or_else(|error| error.to_string());
                    eprintln!("{sender:?} {}: {text}, {:.1?}", places[*column].name, began.elapsed());
                    cells.lock().unwrap_or_else(PoisonError::into_inner).insert((*row, *column), text);
                }
            });
        }
    });
    let cells = cells.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("|  | {} |", places.iter().map(|place| place.name).collect::<Vec<_>>().join(" | "));
    println!("|---|{}", "--:|".repeat(places.len()));
    for (row, sender) in senders().into_iter().enumerate() {
        let whose =
            if sender.theirs { format!("its `{}`", sender.controller) } else { format!("`{}`", sender.controller) };
        let line: Vec<_> =
            (0..places.len()).map(|column| cells.get(&(row, column)).map_or("", String::as_str)).collect();
        println!("| {}, {whose} | {} |", sender.stack, line.join(" | "));
    }
    Ok(())
}
