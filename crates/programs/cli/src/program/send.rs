//! `longhaul send`.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use longhaul_tls::{Fingerprint, SecureListener, TlsError, tls_error};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::args::{MEET_PORT, PORT, SendArgs};
use super::code::CodeArg;
use super::dial::{self, Dialer, Target, is_outage};
use super::home::Home;
use super::mirror::Mirror;
use super::ssh::{Place, Session, UNUSED};
use super::tally::Tally;
use super::{Reported, Screen, WrongUse};
use crate::bond::{self, Lost};
use crate::names::{self, Name};
use crate::plot::Plot;
use crate::progress::{Detail, Progress};
use crate::protocol::ProtocolError;
use crate::report::{self, Stopwatch};
use crate::sender::{Plan, SendError, Sender, Source};
use crate::session::{Outcome, Sending};
use crate::transport::{Connection, TransportArgs};

/// First and, below, longest pause before a reconnection.
const MIN_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);

pub(super) async fn run(args: &SendArgs, screen: &Screen) -> Result<()> {
    if args.bond && args.via.paths(args.plaintext)?.len() < 2 {
        return Err(WrongUse("--bond needs more than one --via".to_owned()).into());
    }
    let (target, paths) = args.target_and_paths().unwrap_or_default();
    let target = target.to_str().ok_or_else(|| WrongUse("the name of the receiver is not UTF-8".to_owned()))?;
    if let Some(place) = Place::of_receiver(target).filter(|_| args.meet.is_none()) {
        return push(args, &place, target, screen).await;
    }
    if let Some(option) = args.existing.word() {
        return Err(WrongUse(format!("{option} is an option of the receiver")).into());
    }
    // scp's receiver is the last argument.
    let exists = |word: &str| Path::new(word).exists();
    let is_place = |word: &&str| exists(target) && !exists(word) && Place::of_receiver(word).is_some();
    if let Some(place) = paths.last().and_then(|word| word.to_str()).filter(is_place) {
        return Err(WrongUse(format!("the receiver comes first: longhaul send {place} {target} ...")).into());
    }
    let target = Target::parse(target, if args.meet.is_some() { MEET_PORT } else { PORT })?;
    if matches!(args.code, Some(CodeArg::Ask)) && paths.iter().any(|path| path == "-") {
        return Err(WrongUse("--code without a value and the file - both read standard input".to_owned()).into());
    }
    let transport = &transport(args)?;
    let mut delivery = Delivery::new(args, transport, target.to_string(), screen)?;
    let watch = Stopwatch::start();
    if args.plaintext {
        screen.warn("warning: --plaintext: nothing is encrypted, and anyone may be the receiver");
        let stream = transport.connect(&target.lookup().await?).await?;
        let again = async |nth| transport.for_connection(nth).connect(&target.lookup().await?).await;
        return delivery.run(stream, watch, again).await;
    }
    let (identity, home) = Home::open(args.code.is_some(), screen)?;
    let starts = starts(args, transport);
    let mut dialer = Dialer {
        transport,
        target: &target,
        name: target.to_string(),
        role: "receiver",
        identity,
        known: Home::known_peers(home.as_ref())?,
        accept_new: args.accept_new,
        attempts: if args.retry.is_zero() { 1 } else { dial::ATTEMPTS },
        authority: dial::authority(args.ca.as_deref(), &target)?,
        waiting: Mutex::default(),
    };
    delivery.key = Some(dialer.identity.fingerprint());
    let first = match &args.code {
        Some(code) => {
            // The code cannot be used again.
            delivery.retry = Duration::ZERO;
            let code = code.get().await?;
            dialer.wait(screen);
            let stream = match args.meet {
                Some(_) => dialer.connect_by_meeting(&code, screen).await?,
                None => {
                    let connected = dialer.connect_by_code(&code, args.remember, screen).await;
                    connected.map_err(|error| advised(error, &target))?
                }
            };
            (0, stream)
        }
        None => {
            dialer.wait(screen);
            let connect = async |transport| {
                dialer.transport = transport;
                dialer.connect(screen).await
            };
            first(&starts, screen, connect).await.map_err(|error| advised(error, &target))?
        }
    };
    dialer.answered();
    // Later connections go to the same receiver, even if the lists change in the meantime.
    let receiver = first.1.peer();
    let again = async |nth| {
        dialer.attempt(Some(receiver), &transport.for_connection(nth)).await?.with_context(|| dialer.failed())
    };
    delivery.over(first, watch, again).await
}

/// Returns the options of connections.
fn transport(args: &SendArgs) -> Result<TransportArgs> {
    let paths = args.via.paths(args.plaintext)?;
    Ok(args.transport.limited(args.limit).over(paths, args.via.warm).bonded(args.bond).wide())
}

/// Returns the options for attempts to open the first connection: of a bond, for each of its paths.
fn starts(args: &SendArgs, transport: &TransportArgs) -> Vec<TransportArgs> {
    let count = if args.bond { transport.path_count() } else { 1 };
    (0..count).map(|nth| transport.for_connection(nth)).collect()
}

/// Opens the first connection by the first of `starts` with which that is possible. Returns its number.
async fn first<'a, S>(
    starts: &'a [TransportArgs],
    screen: &Screen,
    mut connect: impl AsyncFnMut(&'a TransportArgs) -> Result<S>,
) -> Result<(usize, S)> {
    let mut all = starts.iter().enumerate().peekable();
    while let Some((nth, transport)) = all.next() {
        match connect(transport).await {
            Err(error) if is_outage(&error) && all.peek().is_some() => {
                screen.warn(&format!("{error:#}; trying the next path"));
            }
            connected => return connected.map(|stream| (nth, stream)),
        }
    }
    Err(io::Error::from(io::ErrorKind::NotConnected).into())
}

/// Adds advice if nothing answers at `target`.
fn advised(error: anyhow::Error, target: &Target) -> anyhow::Error {
    match error.root_cause().downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused | io::ErrorKind::TimedOut) => anyhow!(
            "{error:#}. Is `longhaul receive` running there, and does a firewall pass UDP {}? `longhaul doctor {}` looks.",
            target.port,
            target.short(PORT)
        ),
        _ => error,
    }
}

/// Sends to a receiver that ssh starts at `place`, which the command line calls `target`.
async fn push(args: &SendArgs, place: &Place, target: &str, screen: &Screen) -> Result<()> {
    if args.code.is_some() || args.plaintext {
        let what = format!("{target} is reached by ssh, where --code and --plaintext have no use");
        return Err(WrongUse(what).into());
    }
    let transport = &transport(args)?;
    let mut delivery = Delivery::new(args, transport, target.to_owned(), screen)?;
    // Unfinished files belong to the key of this machine.
    let (identity, _) = Home::open(true, screen)?;
    let mut arguments = vec!["receive".to_owned(), "--allow-hidden".to_owned(), format!("--out={}", place.word())];
    let existing = args.existing.word().filter(|word| !args.mirror.words().any(|needed| needed == *word));
    arguments.extend(existing.into_iter().chain(args.mirror.words()).map(str::to_owned));
    arguments.extend(transport.words());
    let started = Session::start(&args.ssh, &place.host, identity.fingerprint(), arguments);
    let (mut session, route) = started.await.map_err(|error| match args.mirror.delete {
        // An older program refuses the option with these words.
        true if error.to_string().contains("'--allow-delete'") => {
            anyhow!("longhaul at {} is too old for --delete; renew it there", place.host)
        }
        _ => error,
    })?;
    // The user may have spent time typing a password.
    delivery.tally.watch = Stopwatch::start();
    let sent = session.during(async {
        let watch = Stopwatch::start();
        let starts = starts(args, transport);
        let first = first(&starts, screen, async |transport| route.connect(&identity, transport).await).await?;
        let again = async |nth| route.connect(&identity, &transport.for_connection(nth)).await;
        delivery.over(first, watch, again).await
    });
    sent.await?;
    session.end().await;
    Ok(())
}

/// Returns the files of the command line.
pub(super) fn plan(args: &SendArgs) -> Result<Plan> {
    let (_, paths) = args.target_and_paths().unwrap_or_default();
    Ok(Plan::new(sources(paths, args.links)?))
}

/// Sends the files of `plan` over the first connection of `listener`. Returns the files that were skipped, with the
/// reasons.
pub(super) async fn offer(
    args: &SendArgs,
    mut plan: Plan,
    mut listener: SecureListener,
    screen: &Screen,
) -> Result<Vec<(String, String)>> {
    let (stream, _) = timeout(UNUSED, listener.accept()).await.context("nobody has connected")??;
    let mut left_out = Vec::new();
    let done = |outcome: Outcome| {
        if let Outcome::Failed(file, reason) = outcome {
            left_out.push((file, reason));
        }
    };
    let sending = Sending {
        plan: &mut plan,
        options: args.options(),
        progress: &mut screen.begin(None, ""),
        patience: args.transport.patience(),
        plot: None,
    };
    sending.run(Sender::new(stream), Stopwatch::start(), done).await?;
    Ok(left_out)
}

struct Delivery<'a> {
    args: &'a SendArgs,
    transport: &'a TransportArgs,
    screen: &'a Screen,
    plan: Plan,
    mirror: Option<Mirror>,
    plot: Option<Plot>,
    /// Key of this machine, if one is presented.
    key: Option<Fingerprint>,
    /// Maximum time of attempts to reconnect.
    retry: Duration,
    tally: Tally,
}

impl<'a> Delivery<'a> {
    fn new(args: &'a SendArgs, transport: &'a TransportArgs, to: String, screen: &'a Screen) -> Result<Self> {
        let plan = plan(args)?;
        let plot = args.plot.as_ref().map(|file| Plot::new(file.clone(), screen));
        let tally = Tally::new(to, &plan);
        let mirror = Mirror::new(&args.mirror, args.json, &plan, screen)?;
        Ok(Self { args, transport, screen, plan, mirror, plot, key: None, retry: args.retry, tally })
    }

    /// Sends the files like [`run`](Self::run), over connections for all local paths if that is requested. The first
    /// connection begins at the path with this number.
    async fn over<S: Connection + Send + 'static>(
        &mut self,
        (path, stream): (usize, S),
        watch: Stopwatch,
        again: impl AsyncFn(usize) -> Result<S>,
    ) -> Result<()> {
        if !self.args.bond {
            return self.run(stream, watch, again).await;
        }
        let (paths, screen) = (self.transport.path_count(), self.screen);
        let (notices, lost) = mpsc::unbounded_channel();
        let begin = async |nth: usize, stream| {
            Ok(bond::begin((nth.checked_rem(paths).unwrap_or(0), stream), paths, notices.clone()).await?)
        };
        let stream = begin(path, stream).await?;
        tokio::select! {
            sent = self.run(stream, watch, async |nth| begin(nth, again(nth).await?).await) => sent,
            never = reopen(lost, screen, &again) => never,
        }
    }

    /// Sends the files over `stream`, whose opening began at `watch`. After an outage, continues over connections that
    /// `again` opens, by their numbers.
    async fn run<S: Connection + Send>(
        &mut self,
        stream: S,
        watch: Stopwatch,
        again: impl AsyncFn(usize) -> Result<S>,
    ) -> Result<()> {
        let sent = self.send(stream, watch, again).await;
        if sent.as_ref().is_err_and(|error| !error.is::<Reported>()) {
            self.tally.break_off(self.screen);
        }
        if let (Err(error), true) = (&sent, self.args.json) {
            let reason = format!("{error:#}");
            for source in self.plan.unsettled() {
                let file = Name::from(source.path().as_os_str()).text();
                self.screen.print(&not_sent(&file, &reason));
            }
        }
        sent
    }

    async fn send<S: Connection + Send>(
        &mut self,
        mut stream: S,
        mut watch: Stopwatch,
        again: impl AsyncFn(usize) -> Result<S>,
    ) -> Result<()> {
        let (args, screen) = (self.args, self.screen);
        screen.say(&self.tally.beginning(self.mirror.is_some()));
        let mut progress = screen.begin(Some(self.tally.total), "");
        // An outage ends once a connection lasts for some time or has transferred a file. Until then, the pauses grow.
        let (mut outage, mut pause, mut connections) = (None, MIN_PAUSE, 0);
        loop {
            let mut sender = Sender::new(stream);
            let compared = self.compare(&mut sender, &mut progress).await;
            let mut arrived = false;
            let done = |outcome: Outcome| {
                arrived = true;
                report(args.json, screen, &outcome);
                self.tally.add(outcome);
            };
            let sending = Sending {
                plan: &mut self.plan,
                options: args.options(),
                progress: &mut progress,
                patience: self.transport.patience(),
                plot: self.plot.as_mut(),
            };
            let sent = match compared {
                Ok(()) => sending.run(sender, watch, done).await,
                Err(error) => Err(error),
            };
            let Err(error) = sent else {
                drop(progress);
                return self.tally.end(args.json, screen);
            };
            // A receiver with too many connections resets connections that have not been authenticated yet.
            let may_be_crowded = error.is_reset() && connections + 1 < dial::ATTEMPTS as usize;
            let may_continue = self.plan.can_restart() && (self.plan.is_answered() || may_be_crowded);
            if !error.is_outage() || self.retry.is_zero() || !may_continue {
                return Err(explain(error, self.key));
            }
            if arrived || watch.elapsed() > MAX_PAUSE {
                (outage, pause) = (None, MIN_PAUSE);
            }
            let since: Stopwatch = *outage.get_or_insert_with(Stopwatch::start);
            if since.elapsed() >= self.retry {
                return Err(explain(error, self.key));
            }
            screen.warn(&format!("{error}; connecting again"));
            stream = loop {
                sleep(pause).await;
                pause = (pause * 2).min(MAX_PAUSE);
                watch = Stopwatch::start();
                connections += 1;
                match again(connections).await {
                    Ok(stream) => break stream,
                    Err(error) if !is_outage(&error) => return Err(error),
                    Err(error) if since.elapsed() >= self.retry => {
                        return Err(error.context("no connection before the end of --retry"));
                    }
                    Err(error) => screen.say(&format!("{error:#}; trying again")),
                }
            };
            screen.warn("connected again");
        }
    }
}

/// Opens connections over the paths that bonds have lost, or could not open before, until each works. Does not return.
async fn reopen<S: Connection, T>(
    mut lost: mpsc::UnboundedReceiver<Lost<S>>,
    screen: &Screen,
    again: &impl AsyncFn(usize) -> Result<S>,
) -> T {
    let mut attempts = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(lost) = lost.recv() => attempts.push(async move {
                let mut is_new = lost.is_new;
                loop {
                    if !is_new {
                        sleep(MAX_PAUSE).await;
                    }
                    if lost.is_over() {
                        break;
                    }
                    let opened = async { anyhow::Ok(lost.replace(again(lost.route).await?).await?) };
                    match opened.await {
                        Err(error) if is_new && !lost.is_over() => {
                            screen.warn(&format!("{error:#}; sending without this path"));
                        }
                        Err(_) => {}
                        Ok(()) => break,
                    }
                    is_new = false;
                }
            }),
            Some(()) = attempts.next() => {}
            else => std::future::pending().await,
        }
    }
}

impl Delivery<'_> {
    /// For a mirror, removes the entries that the receiver has from the plan.
    async fn compare(
        &mut self,
        sender: &mut Sender<impl Connection>,
        progress: &mut Progress,
    ) -> Result<(), SendError> {
        let Some(mirror) = &mut self.mirror else { return Ok(()) };
        let compared = mirror.compare(sender, &mut self.plan, self.screen).await;
        if compared.is_err() {
            // A reset notifies the peer at once.
            sender.transport().tcp().abort();
        } else {
            self.tally.compared(&mut mirror.found);
            progress.expect(self.tally.total);
        }
        compared
    }
}

/// Opens the files of the command line. Skips files that cannot be sent, unless there are no others.
fn sources(paths: &[OsString], links: bool) -> Result<Vec<Source>> {
    let opened: Vec<_> = paths.iter().map(Path::new).map(|path| (path, open(path, links))).collect();
    let any = opened.iter().any(|(_, opened)| opened.is_ok());
    let mut sources = Vec::new();
    for (path, opened) in opened {
        match opened {
            Err(error) if any => sources.push(Source::left_out(path, error.to_string())),
            opened => sources.extend(opened?),
        }
    }
    Ok(sources)
}

fn open(path: &Path, links: bool) -> Result<Vec<Source>, SendError> {
    match path {
        path if path == Path::new("-") => Source::stdin().map(|source| vec![source]),
        path if path.is_dir() => Source::walk(path, links),
        path => Source::open(path).map(|source| vec![source]),
    }
}

fn not_sent(file: &str, reason: &str) -> String {
    report::json_line(&serde_json::json!({ "file": file, "error": reason }))
}

fn report(json: bool, screen: &Screen, outcome: &Outcome) {
    match outcome {
        Outcome::Sent(sent) if json => screen.print(&report::json_line(sent)),
        Outcome::Sent(sent) if screen.shows(Detail::Files) => screen.say(&sent.text(screen.shows(Detail::Transport))),
        Outcome::Failed(file, reason) if json => screen.print(&not_sent(file, reason)),
        Outcome::Skipped(file) if json => {
            screen.print(&report::json_line(&serde_json::json!({ "file": file, "skipped": true })));
        }
        Outcome::Skipped(file) => {
            let file = names::escaped(file);
            screen.tell(Detail::Files, &format!("{file}: skipped, because the receiver has a file of this name"));
        }
        Outcome::Sent(_) | Outcome::Failed(..) | Outcome::Created => {}
    }
}

/// Adds advice for the user to an error. `ours` is the key that was presented.
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
