//! `longhaul receive`.

#![expect(non_camel_case_types, reason = "type parameters of objects have the names of members")]

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use longhaul::TcpListener;
use longhaul_tls::admission::{Admission, Limits, Ticket};
use longhaul_tls::{Authority, Fingerprint, SecureListener, limiter};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::access::Access;
use super::args::{PORT, Plaintext, ReceiveArgs};
use super::code::{CodeDesk, known};
use super::home::Home;
use super::lists::Permission;
use super::meet::{Introductions, introduced};
use super::places::{Place, Places};
use super::signals::Hangups;
use super::ssh::{self, Session, UNUSED};
use super::{Reported, Screen, WrongUse};
use crate::address;
use crate::bond::Bonds;
use crate::code::Code;
use crate::files::Staging;
use crate::progress::Detail;
use crate::receiver::{Budget, File, LeftOut, Output, ReceiveError, Receiver};
use crate::report::{self, Stopwatch};
use crate::session;
use crate::transport::{Connection, Transport as _, rtt};

const LIMITS: Limits = Limits { all: 256, per_address: 32 };
const PER_KEY: usize = 32;
/// Maximum number of failed files per connection that are named on standard error: without keys, anyone can cause them.
/// The sender and the output of `--json` receive all of them.
const MAX_NAMED: usize = 100;

pub(super) async fn run(args: &ReceiveArgs, screen: &Screen) -> Result<()> {
    let stdout = args.out == Path::new("-");
    check_output(args)?;
    if !args.from.is_empty() {
        return pull(args, screen).await;
    }
    if args.plaintext == Some(Plaintext::Loopback) && !args.listen.ip().to_canonical().is_loopback() {
        let what = format!(
            "--plaintext on {} lets anyone on the network send files; use --plaintext=yes-on-this-network if you want \
             that, or --listen 127.0.0.1:{}",
            args.listen,
            args.listen.port()
        );
        return Err(WrongUse(what).into());
    }
    let keys = if args.plaintext.is_some() || args.code { None } else { Some(keys(args)?) };
    let server = Server::open(args, None, screen)?;
    // Without keys, anyone could fill these buffers.
    let transport = if args.plaintext.is_some() { args.transport.clone() } else { args.transport.wide() };
    let socket = transport.socket(args.listen)?;
    socket.set_reflect(args.reflect);
    let listener = transport.listen_on(args.listen, socket)?;
    screen.warn(&format!("Ready on UDP {}", listener.local_addr()?));
    let until = if args.once || stdout { Until::First } else { Until::Stopped };
    match keys {
        None if args.code => {
            let (identity, _) = Home::open(true, screen)?;
            let remember = args.remember.then_some(Permission::Send);
            let own = listener.local_addr()?;
            let desk = CodeDesk::open(remember.as_slice(), |code| invitation(code, own, args.meet.as_deref()), screen)?;
            let introductions = match &args.meet {
                Some(host) => Some(Introductions::begin(&listener, host, desk.number(), screen).await?),
                None => None,
            };
            // The code decides, not the key.
            let listener = SecureListener::new(listener, &identity, |_| true)?;
            serve(SecureDoor { listener, access: None, desk: Some(desk), introductions }, &server, Until::Only).await
        }
        None => {
            screen.warn("warning: --plaintext: nothing is encrypted, and anyone who reaches the port can send files");
            // Bonds need keys.
            let until = if until == Until::First { Until::Only } else { until };
            serve(PlainDoor { listener }, &server, until).await
        }
        Some((identity, access, hangups)) => {
            screen.say(&format!(
                "The key is {}, and {} may send.",
                identity.fingerprint(),
                access.keys(Permission::Send)
            ));
            let access = Arc::new(access);
            let keys = Arc::clone(&access);
            let may = move |key: &Fingerprint| keys.may(key, Permission::Send);
            let authority = args.ca.as_deref().map(Authority::open).transpose()?;
            let listener = SecureListener::trusting(listener, &identity, authority, may)?;
            let door = SecureDoor { listener, access: Some(Arc::clone(&access)), desk: None, introductions: None };
            tokio::select! {
                served = serve(door, &server, until) => served,
                () = access.reload_on(hangups, Permission::Send, screen) => Ok(()),
            }
        }
    }
}

/// Returns the command for the other end to send to `listener` by `code`, or through the rendezvous `meet`.
fn invitation(code: &Code, listener: SocketAddr, meet: Option<&str>) -> String {
    let command = match meet {
        Some(host) => format!("longhaul send FILE... --code {code} --meet {host}"),
        None => format!("longhaul send {} FILE... --code {code}", address::reachable(listener, PORT)),
    };
    format!("On the other machine:\n\n    {command}\n\nThe code works once, within ten minutes.")
}

fn check_output(args: &ReceiveArgs) -> Result<(), WrongUse> {
    let stdout = args.out == Path::new("-");
    if stdout && args.json {
        return Err(WrongUse("--json and --out - both use standard output".to_owned()));
    }
    if stdout && std::io::stdout().is_terminal() {
        let what =
            "--out - would write what a sender chooses to the terminal, which it could control; use a pipe or a file";
        return Err(WrongUse(what.to_owned()));
    }
    Ok(())
}

/// Fetches files from a sender that ssh starts.
async fn pull(args: &ReceiveArgs, screen: &Screen) -> Result<()> {
    let mut places = Vec::new();
    for word in &args.from {
        let place = ssh::Place::parse(word).filter(|place| !place.path.is_empty());
        places.push(place.ok_or_else(|| WrongUse(format!("{word:?} is not of the form [USER@]HOST:PATH")))?);
    }
    let host = places.first().map(|place| place.host.clone()).unwrap_or_default();
    if places.iter().any(|place| place.host != host) {
        return Err(WrongUse("one command fetches from one host".to_owned()).into());
    }
    let (identity, _) = Home::open(true, screen)?;
    // The key of the sender is for this transfer, but the next transfer has to be able to continue unfinished files.
    let server = Server::open(args, Some(identity.fingerprint()), screen)?;
    let mut arguments = vec!["send".to_owned(), format!("--to={host}")];
    arguments.extend(args.transport.words());
    arguments.push("--".to_owned());
    arguments.extend(places.iter().map(ssh::Place::word));
    let started = Session::start(&args.ssh, &host, identity.fingerprint(), arguments);
    let (mut session, route) = started.await?;
    let received = session.during(async {
        let stream = route.connect(&identity, &args.transport.wide()).await?;
        let peer = stream.tcp().peer_addr()?;
        let ticket = Admission::new(LIMITS).admit(peer.ip(), None).context("there is no place")?;
        server.serve(stream, (&Bonds::default(), false), peer, &host, Arc::new((ticket, None))).await?;
        Ok(())
    });
    let received = received.await;
    if !received.as_ref().err().is_none_or(is_complete) {
        return received;
    }
    let left_out = session.end().await;
    for (file, reason) in &left_out {
        screen.warn(&format!("{file}: {reason}"));
    }
    if left_out.is_empty() { received } else { received.and(Err(Reported.into())) }
}

fn keys(args: &ReceiveArgs) -> Result<(longhaul_tls::Identity, Access, Hangups)> {
    let (identity, home) = Home::with_key()?;
    let access = Access::open(home.allowed_file(), args.allow.iter().map(|key| (*key, Permission::Send)))?;
    if access.count(Permission::Send) == 0 && args.ca.is_none() {
        bail!(
            "nobody may send: start with --code, give the sender's key, which `longhaul identity` shows there, by \
             --allow, or add the line `SHA256:... NAME send` to {}",
            home.allowed_file().display()
        );
    }
    Ok((identity, access, Hangups::new()))
}

trait Door {
    type Stream: Connection + Send + 'static;

    /// Returns the next connection, the address, and the name of the sender if it is known.
    async fn accept(&mut self) -> std::io::Result<(Self::Stream, SocketAddr, Option<String>)>;

    /// Returns a future that completes when the sender on `stream` loses its permission.
    fn revoked(&self, _stream: &Self::Stream) -> impl Future<Output = ()> + Send + 'static {
        std::future::pending()
    }
}

struct PlainDoor {
    listener: TcpListener,
}

impl Door for PlainDoor {
    type Stream = longhaul::TcpStream;

    async fn accept(&mut self) -> std::io::Result<(Self::Stream, SocketAddr, Option<String>)> {
        let (stream, peer) = self.listener.accept().await?;
        Ok((stream, peer, None))
    }
}

/// Accepts senders whose keys are allowed, or the sender that knows a code.
struct SecureDoor {
    listener: SecureListener,
    access: Option<Arc<Access>>,
    desk: Option<CodeDesk>,
    introductions: Option<Introductions>,
}

impl Door for SecureDoor {
    type Stream = longhaul_tls::SecureStream;

    async fn accept(&mut self) -> std::io::Result<(Self::Stream, SocketAddr, Option<String>)> {
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    let (stream, peer) = accepted?;
                    match &mut self.desk {
                        Some(desk) => desk.begin(stream, peer),
                        None => {
                            self.listener.remember(peer);
                            let name = self.access.as_ref().map(|access| access.name(&stream.peer()));
                            return Ok((stream, peer, name.filter(|name| !name.is_empty())));
                        }
                    }
                }
                introduced = introduced(&mut self.introductions) => {
                    let (stream, peer) = introduced?;
                    self.listener.begin(stream, peer);
                }
                known = known(&mut self.desk) => return known.map(|(stream, peer)| (stream, peer, None)),
            }
        }
    }

    fn revoked(&self, stream: &Self::Stream) -> impl Future<Output = ()> + Send + 'static {
        // The list does not contain senders with a certificate of the authority.
        let access = self.access.clone().filter(|_| !stream.is_vouched_for());
        let key = stream.peer();
        async move {
            match access {
                Some(access) => access.revoked(&key, &[Permission::Send]).await,
                None => std::future::pending().await,
            }
        }
    }
}

/// When a receiver ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The receiver ends when it is stopped.
    Stopped,
    /// The receiver ends after the first connection.
    Only,
    /// The receiver ends after the first connection, or the first ones, if they carry the same stream.
    First,
    /// The receiver ends after the first connection that has not failed, or after some time without connections.
    Complete,
}

/// Returns whether a connection with this error reached its end.
fn is_complete(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ReceiveError::LeftOut(_)))
}

/// Serves connections concurrently until the listener fails, or until `until` completes.
async fn serve(mut door: impl Door, server: &Arc<Server>, until: Until) -> Result<()> {
    let (admission, places, bonds) = (Admission::new(LIMITS), Places::new(PER_KEY), Arc::new(Bonds::default()));
    let screen = &server.screen;
    let mut connections = JoinSet::new();
    let (mut only, mut failed) = (None, None);
    loop {
        tokio::select! {
            accepted = door.accept() => {
                let (stream, peer, name) = accepted?;
                let key = stream.peer_key();
                let only_joins = only.is_some();
                if only_joins && only != key {
                    stream.tcp().abort();
                    continue;
                }
                let place = key.map(|key| places.take(key, || ()));
                let ticket = admission.admit(peer.ip(), rtt(stream.tcp()));
                let Some(ticket) = ticket.filter(|_| !matches!(place, Some(None))) else {
                    stream.tcp().abort();
                    if let Some(more) = limiter::admit("crowded") {
                        screen.warn(&format!("{peer}: refused: too many connections{more}"));
                    }
                    continue;
                };
                let from = name.map_or_else(|| peer.to_string(), |name| format!("{peer} ({name})"));
                let revoked = door.revoked(&stream);
                let (server, bonds) = (Arc::clone(server), Arc::clone(&bonds));
                let held = Arc::new((ticket, place.flatten()));
                let allowed = async move {
                    tokio::select! {
                        served = server.serve(stream, (&bonds, only_joins), peer, &from, held) => served.context(from),
                        () = revoked => Err(anyhow!("the key is not allowed any more")).context(from),
                    }
                };
                if until == Until::Only {
                    // Refuses further connections at once, instead of letting them wait.
                    drop(door);
                    return allowed.await.map(drop);
                }
                if until == Until::First {
                    only = key;
                }
                connections.spawn(async move { (key, allowed.await) });
            }
            Some(ended) = connections.join_next() => {
                let Ok((key, served)) = ended else { continue };
                match served {
                    Ok(true) if until != Until::Stopped => return Ok(()),
                    Ok(_) => {}
                    Err(error) if until == Until::Complete && is_complete(&error) => return Ok(()),
                    Err(error) if until == Until::First && is_complete(&error) => return Err(error),
                    Err(error) if until == Until::First => failed = Some(error),
                    Err(error) => {
                        // Limits messages about connections without a key, because anyone can cause them.
                        let more = if key.is_some() { Some(String::new()) } else { limiter::admit("plaintext") };
                        if let Some(more) = more {
                            screen.warn(&format!("{error:#}{more}"));
                        }
                    }
                }
                // One that carries the same stream may not have failed.
                if connections.is_empty() && let Some(failed) = failed.take() {
                    return Err(failed);
                }
            }
            () = sleep(UNUSED), if until == Until::Complete && connections.is_empty() => bail!("nobody has connected"),
        }
    }
}

pub(super) struct Server {
    receiver: Receiver,
    /// Directory for files, unless they go to standard output.
    out: Option<PathBuf>,
    screen: Screen,
    json: bool,
}

/// Result of a connection.
struct Received {
    watch: Stopwatch,
    files: u64,
    bytes: u64,
    resumed: u64,
    missing: usize,
}

impl Received {
    fn summary(&self, peer: SocketAddr) -> serde_json::Value {
        serde_json::json!({
            "files": self.files,
            "bytes": self.bytes,
            "moved_bytes": self.bytes.saturating_sub(self.resumed),
            "seconds": self.watch.elapsed().as_secs_f64(),
            "left_out_files": self.missing,
            "peer": peer.to_string(),
        })
    }
}

impl Server {
    /// Opens the directory for files. Unfinished files belong to `owner`, if given, instead of their sender.
    pub(super) fn open(args: &ReceiveArgs, owner: Option<Fingerprint>, screen: &Screen) -> Result<Arc<Self>> {
        let stdout = args.out == Path::new("-");
        let out = if stdout {
            Output::Stdout
        } else {
            let staging = Staging::open(&args.out);
            Output::Directory(staging.with_context(|| format!("cannot write to {}", args.out.display()))?)
        };
        let budget = Budget::new(args.max_bytes).per_peer(args.max_bytes_per_peer);
        if let Output::Directory(staging) = &out {
            for (part, bytes) in staging.parts() {
                // A part without a valid key has no owner.
                if let Ok(peer) = part.peer.parse() {
                    budget.add_part(peer, &part.name, bytes);
                }
            }
        }
        let receiver = Receiver {
            out,
            existing: args.existing.policy(),
            deletes: args.allow_delete,
            hidden: args.allow_hidden,
            budget,
            patience: args.transport.patience(),
            idle: args.idle,
            owner,
            screen: screen.clone(),
        };
        let out = (!stdout).then(|| args.out.clone());
        Ok(Arc::new(Self { receiver, out, screen: screen.clone(), json: args.json }))
    }

    /// Receives one transfer, over one or more connections.
    pub(super) async fn serve_once(self: Arc<Self>, listener: SecureListener) -> Result<()> {
        serve(SecureDoor { listener, access: None, desk: None, introductions: None }, &self, Until::Complete).await
    }

    /// Receives the files of a connection. The connection may be evicted until it has shown that it is a sender of
    /// files. For `bonds` and the result, see [`session::receive`].
    async fn serve<S: Connection + Send>(
        &self,
        stream: S,
        bonds: (&Bonds<S>, bool),
        peer: SocketAddr,
        from: &str,
        held: Arc<(Ticket, Option<Place<()>>)>,
    ) -> Result<bool, ReceiveError> {
        let mut sum = Received { watch: Stopwatch::start(), files: 0, bytes: 0, resumed: 0, missing: 0 };
        let received = |file: Result<File, LeftOut>| match file {
            Ok(file) => {
                sum.files = sum.files.saturating_add(1);
                sum.bytes = sum.bytes.saturating_add(file.bytes);
                sum.resumed = sum.resumed.saturating_add(file.resumed);
                self.report(peer, from, file);
            }
            Err(left) => {
                sum.missing = sum.missing.saturating_add(1);
                if sum.missing <= MAX_NAMED {
                    self.screen.warn(&format!("{}, from {from}", left.error));
                }
                self.report_left_out(peer, &left);
            }
        };
        let progress = self.screen.begin(None, from);
        let (ticket, kept) = (&held.0, Arc::clone(&held));
        let receiving = session::receive(&self.receiver, stream, bonds, kept, progress, || ticket.is_known(), received);
        let result = tokio::select! {
            result = receiving => result,
            () = ticket.evicted() => Err(ReceiveError::Silent),
        };
        if matches!(result, Ok(false)) {
            return result;
        }
        if self.json {
            self.screen.print(&report::json_line(&sum.summary(peer)));
        } else if sum.files > 0 {
            self.screen.say(&self.sentence(from, &sum));
        }
        result
    }

    fn sentence(&self, from: &str, Received { watch, files, bytes, resumed, .. }: &Received) -> String {
        let took = watch.elapsed();
        let rate = report::rate(report::bits_per_second(bytes.saturating_sub(*resumed), took));
        let (files, size, time) =
            (report::count(*files, "file"), report::size(*bytes), report::duration(took.as_secs_f64()));
        let into = match &self.out {
            Some(out) if out == Path::new(".") => ", into the current directory".to_owned(),
            Some(out) => format!(", into {}", out.display()),
            None => String::new(),
        };
        format!("Received {files}, {size}, from {from} in {time} ({rate}){into}. All of it was checked.")
    }

    fn report_left_out(&self, peer: SocketAddr, LeftOut { name, error }: &LeftOut) {
        if self.json {
            let line = serde_json::json!({ "file": name.text(), "error": error.to_string(), "peer": peer.to_string() });
            self.screen.print(&report::json_line(&line));
        }
    }

    fn report(&self, peer: SocketAddr, from: &str, file: File) {
        let File { name, bytes, resumed, took, hash } = file;
        if !self.json {
            if self.screen.shows(Detail::Files) {
                let amount = report::amount(bytes, bytes.saturating_sub(resumed), took);
                let hash =
                    if self.screen.shows(Detail::Transport) { format!(", blake3 {hash}") } else { String::new() };
                self.screen.say(&format!("{name}: {amount}, from {from}{hash}"));
            }
            return;
        }
        let received = report::object! {
            // The final name.
            file: name.text(),
            bytes: bytes,
            // Bytes received over earlier connections.
            resumed_bytes: resumed,
            // From the first byte of the header to the final renaming.
            seconds: took.as_secs_f64(),
            // In bit/s.
            goodput_bps: report::bits_per_second(bytes.saturating_sub(resumed), took),
            // Verified hash of the contents.
            blake3: hash.to_hex().to_string(),
            peer: peer.to_string(),
        };
        self.screen.print(&report::json_line(&received));
    }
}
