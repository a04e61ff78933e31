//! `longhaul send`.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use longhaul_tls::{Fingerprint, TlsError, tls_error};

use super::Screen;
use super::args::{PORT, SendArgs};
use super::dial::{Dialer, Target};
use super::home::Home;
use crate::protocol::ProtocolError;
use crate::report::{self, Sent, Stopwatch};
use crate::sender::{SendError, Source};
use crate::session::{self, Outcome};
use crate::transport::Snapshot;

pub(super) async fn run(args: &SendArgs, screen: &Screen) -> Result<()> {
    let (target, paths) = args.target_and_paths().unwrap_or_default();
    let target = Target::parse(target, PORT)?;
    // All files are opened first, so that a missing one is found before anything is sent.
    let sources = paths.iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
    let addresses = tokio::net::lookup_host((target.host.as_str(), target.port)).await;
    let addresses: Vec<_> = addresses.with_context(|| format!("cannot find {}", target.host))?.collect();
    let done = |outcome: Outcome, _: &Snapshot| report(args.json, screen, outcome);
    let patience = args.transport.patience();
    if args.plaintext {
        screen.warn("warning: --plaintext: nothing is encrypted, and anyone may be the receiver");
        let watch = Stopwatch::start();
        let stream = args.transport.connect(&addresses).await?;
        let sent = session::send_over(stream, watch, patience, sources, screen, done).await;
        return sent.map_err(|error| explain(error, None));
    }
    let home = Home::find()?;
    let dialer = Dialer {
        transport: &args.transport,
        addresses: &addresses,
        name: target.to_string(),
        role: "receiver",
        identity: home.identity()?,
        known: home.known_peers()?,
        accept_new: args.accept_new,
    };
    let watch = Stopwatch::start();
    let stream = match &args.code {
        Some(code) => dialer.connect_by_code(code, args.remember, screen).await?,
        None => dialer.connect(screen).await?,
    };
    let sent = session::send_over(stream, watch, patience, sources, screen, done).await;
    sent.map_err(|error| explain(error, Some(dialer.identity.fingerprint())))
}

fn open(path: &str) -> Result<Source, SendError> {
    if path == "-" { Source::stdin() } else { Source::open(Path::new(path)) }
}

fn report(json: bool, screen: &Screen, outcome: Outcome) {
    match outcome {
        Outcome::Sent(sent) if json => screen.print(&report::json_line(&sent)),
        Outcome::Sent(sent) => {
            let Sent { file, seconds, blake3, .. } = &sent;
            let (size, rate) = (report::size(sent.bytes), report::rate(sent.goodput_bps));
            let resent = report::size(sent.retransmitted_bytes);
            screen.say(&format!(
                "{file}: {size} in {seconds:.2} s, {rate}, {resent} retransmitted, blake3 {blake3} confirmed"
            ));
        }
        Outcome::Skipped(file) if json => {
            screen.print(&report::json_line(&serde_json::json!({ "file": file, "skipped": true })));
        }
        Outcome::Skipped(file) => screen.say(&format!("{file}: skipped, because the receiver has a file of this name")),
    }
}

/// Adds to an error what a person can do about it. `ours` is the key that was presented.
fn explain(error: SendError, ours: Option<Fingerprint>) -> anyhow::Error {
    let refused = match &error {
        SendError::Connection { error: ProtocolError::Connection(error), .. } => tls_error(error),
        _ => None,
    };
    match (refused, ours) {
        (Some(TlsError::Refused), Some(ours)) => anyhow!(
            "the receiver does not allow this machine to send; its key is {ours}, for `longhaul receive --allow` or a \
             line in the receiver's allowed-peers"
        ),
        _ => error.into(),
    }
}
