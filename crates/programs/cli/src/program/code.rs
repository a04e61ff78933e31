//! Connections that are authenticated by a one-time code.

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use longhaul_tls::admission::{Admission, Limits, Ticket};
use longhaul_tls::{HandshakeLimits, SecureStream, TlsError, limiter};
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep, timeout};

use super::Screen;
use super::dial::Dialer;
use super::home::Home;
use super::lists::{AllowedPeers, Permission};
use crate::code::{self, Answerer, Code, CodeError, ParseCodeError};
use crate::output;
use crate::progress::Detail;
use crate::transport::rtt;

const LIFE: Duration = Duration::from_secs(600);
const LIMITS: Limits = Limits { all: 1024, per_address: 32 };

#[derive(Clone, Debug)]
pub(super) enum CodeArg {
    Ask,
    Given(Code),
}

impl FromStr for CodeArg {
    type Err = ParseCodeError;

    fn from_str(text: &str) -> Result<Self, ParseCodeError> {
        if text == "-" { Ok(Self::Ask) } else { text.parse().map(Self::Given) }
    }
}

impl CodeArg {
    /// Returns the code. `Ask` reads it from the first line of standard input, with a prompt at a terminal.
    pub(super) async fn get(&self) -> Result<Code> {
        match self {
            Self::Given(code) => Ok(code.clone()),
            Self::Ask => {
                if io::stdin().is_terminal() {
                    output::say("The code that the peer shows:");
                }
                Ok(output::read_line().await.context("cannot read the code")?.parse()?)
            }
        }
    }
}

impl Dialer<'_> {
    /// Opens a connection to a peer that knows `code`. The key of the peer need not be known; if `remember` is true, it
    /// is added to the known keys.
    pub(super) async fn connect_by_code(&self, code: &Code, remember: bool, screen: &Screen) -> Result<SecureStream> {
        let known = self.known.find(&self.name).is_some();
        // The code authenticates a peer whose key is not known.
        let mut stream = if known { self.connect(screen).await? } else { self.connect_any().await? };
        self.prove(&mut stream, code).await?;
        if remember && !known {
            self.remember(stream.peer(), screen)?;
        }
        Ok(stream)
    }

    async fn prove(&self, stream: &mut SecureStream, code: &Code) -> Result<()> {
        match self.check(stream, code).await {
            Err(CodeError::NotOurs) => Err(anyhow!("the {} does not expect a code; start it with --code", self.role)),
            checked => checked.with_context(|| self.failed()),
        }
    }

    /// Proves to the peer that we know `code`, and checks that it does.
    pub(super) async fn check(&self, stream: &mut SecureStream, code: &Code) -> Result<(), CodeError> {
        let patience = self.transport.patience();
        let checked = timeout(patience, code::call(stream, code)).await;
        checked.unwrap_or_else(|_| Err(CodeError::Unanswered(io::ErrorKind::TimedOut.into())))
    }
}

/// Returns the next connection from a peer that knows the code of `desk`. Never completes without a desk.
pub(super) async fn known(desk: &mut Option<CodeDesk>) -> io::Result<(SecureStream, SocketAddr)> {
    match desk {
        Some(desk) => desk.next().await,
        None => std::future::pending().await,
    }
}

/// Checks whether peers know a code.
pub(super) struct CodeDesk {
    number: String,
    answerer: Arc<Answerer>,
    attempts: JoinSet<Result<(SecureStream, SocketAddr), (SocketAddr, CodeError)>>,
    admission: Admission,
    expired: Pin<Box<Sleep>>,
    remember: Vec<Permission>,
    screen: Screen,
}

impl CodeDesk {
    /// Creates a code, and shows the text of `invitation` about it.
    pub(super) fn open(
        remember: &[Permission],
        invitation: impl FnOnce(&Code) -> String,
        screen: &Screen,
    ) -> Result<Self> {
        let code = Code::generate()?;
        screen.warn(&invitation(&code));
        Ok(Self {
            number: code.number().to_owned(),
            answerer: Arc::new(Answerer::new(code)),
            attempts: JoinSet::new(),
            admission: Admission::new(LIMITS),
            expired: Box::pin(sleep(LIFE)),
            remember: remember.to_vec(),
            screen: screen.clone(),
        })
    }

    /// Returns the digits of the code.
    pub(super) fn number(&self) -> &str {
        &self.number
    }

    /// Starts the check of a peer, unless there are too many at the same time.
    pub(super) fn begin(&mut self, stream: SecureStream, peer: SocketAddr) {
        if let Some(ticket) = self.admission.admit(peer.ip(), rtt(stream.tcp())) {
            self.attempts.spawn(attempt(stream, peer, Arc::clone(&self.answerer), ticket));
        }
    }

    /// Cancel safety: this method is cancel safe.
    async fn next(&mut self) -> io::Result<(SecureStream, SocketAddr)> {
        loop {
            tokio::select! {
                Some(attempt) = self.attempts.join_next() => match attempt {
                    Ok(Ok((stream, peer))) => {
                        self.remember(&stream, peer);
                        return Ok((stream, peer));
                    }
                    Ok(Err((peer, error))) => {
                        if let Some(more) = limiter::admit("code") {
                            self.screen.event(Detail::Quiet, &format!("{peer} is refused: {error}{more}"));
                        }
                        if self.answerer.is_spent() {
                            return Err(io::Error::other("there were too many attempts with a wrong code; start again"));
                        }
                    }
                    Err(_) => {}
                },
                () = &mut self.expired => return Err(io::Error::other("the code has expired; start again")),
            }
        }
    }

    fn remember(&self, stream: &SecureStream, peer: SocketAddr) {
        if self.remember.is_empty() {
            return;
        }
        let name = peer.ip().to_canonical().to_string();
        let home = Home::with_key();
        let added = home.and_then(|(_, home)| {
            Ok(AllowedPeers::remember(&home.allowed_file(), stream.peer(), &name, &self.remember)?)
        });
        match added {
            Ok(()) => self.screen.say(&format!("{peer}: remembered the key {} as {name}", stream.peer())),
            Err(error) => self.screen.warn(&format!("warning: the key of {peer} is not remembered: {error:#}")),
        }
    }
}

async fn attempt(
    mut stream: SecureStream,
    peer: SocketAddr,
    answerer: Arc<Answerer>,
    ticket: Ticket,
) -> Result<(SecureStream, SocketAddr), (SocketAddr, CodeError)> {
    // The time limit is the same as for the handshake.
    let time = HandshakeLimits::default().time_on(stream.info().ok().and_then(|info| info.rtt));
    let answered = tokio::select! {
        answered = timeout(time, answerer.answer(&mut stream, || ticket.has_spoken())) => answered,
        () = ticket.evicted() => Ok(Err(TlsError::Crowded.into())),
    };
    match answered.unwrap_or(Err(TlsError::TimedOut.into())) {
        Ok(()) => Ok((stream, peer)),
        Err(error) => {
            // The answer must be acknowledged before the connection is dropped.
            let _ = timeout(time, crate::transport::Connection::close(stream)).await;
            Err((peer, error))
        }
    }
}
