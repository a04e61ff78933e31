//! Transfers whose other end is started by ssh.
//!
//! `longhaul send user@host:dir` runs `longhaul ssh-server` at the other end. This end writes a [`Request`] to the
//! standard input of ssh, and reads a [`Line`] with the UDP port from its standard output. Each end thus obtains the
//! fingerprint of the other's key, and no secret leaves either of them. The other end runs as long as its standard
//! input is open.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use longhaul_tls::{Fingerprint, Identity, SecureConnector, SecureStream, TlsError};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Take};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{sleep, timeout};

use crate::address;
use crate::gateway::permit::ports_of;
use crate::names::escaped;
use crate::transport::TransportArgs;

pub(super) mod server;

/// Version of the exchange over ssh.
const VERSION: u64 = 1;
/// Mark at the start of each line from the other end, which distinguishes it from the output of login scripts.
const MARK: &str = "longhaul-ssh ";
/// Maximum length of a request, and of the other end's output before and after the transfer, in bytes.
const MAX_TEXT: u64 = 1 << 20;
/// Maximum time until the other end is ready; the user may have to type a password.
const START: Duration = Duration::from_secs(300);
/// Maximum time for the last messages after one end has finished.
const REST: Duration = Duration::from_secs(5);
/// Maximum time without a connection, after which the other end ends by itself.
pub(super) const UNUSED: Duration = Duration::from_secs(300);
const INSTALL: &str = "cargo install --locked --git https://github.com/longhaul-rs/longhaul longhaul-cli";

/// Options of transfers whose other end is started by ssh.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Options for USER@HOST:PATH")]
pub(super) struct SshArgs {
    /// Program that connects to HOST, and its options; the default is the environment's LONGHAUL_SSH, or `ssh`
    #[arg(long, value_name = "COMMAND")]
    ssh: Option<String>,
    /// Command that runs longhaul at HOST; the shell at HOST interprets it, so that `~/bin/longhaul` works
    #[arg(long, value_name = "COMMAND", default_value = "longhaul")]
    remote_program: String,
    /// UDP ports of HOST, the first free one of which is used; 0 means any port
    #[arg(long, value_name = "PORT[-PORT]", default_value = "7000-7099", value_parser = parse_ports)]
    udp_ports: RangeInclusive<u16>,
}

fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let ports = if text == "0" { Some(0..=0) } else { ports_of(text) };
    ports.ok_or_else(|| format!("{text:?} is neither a port nor a range such as 7000-7099"))
}

impl SshArgs {
    fn ssh(&self) -> Command {
        let variable = std::env::var("LONGHAUL_SSH").ok().filter(|command| !command.trim().is_empty());
        let text = self.ssh.clone().or(variable).unwrap_or_else(|| "ssh".to_owned());
        let mut words = text.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or("ssh"));
        command.args(words);
        command
    }
}

/// A path on a machine that is reached by ssh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The destination for ssh, `HOST` or `USER@HOST`.
    pub(super) host: String,
    /// The path, relative to the home directory on that machine.
    pub(super) path: String,
}

impl Place {
    /// Parses `[USER@]HOST:PATH`. Returns `None` for other forms.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (user, rest) = match text.split_once('@') {
            Some((user, rest)) if !user.contains([':', '/', '[']) => (Some(user), rest),
            _ => (None, text),
        };
        if address::is_ipv6(rest) {
            return None;
        }
        let (host, path) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').filter(|(host, _)| address::is_ipv6(host))?;
                (host, rest.strip_prefix(':')?)
            }
            None => rest.split_once(':')?,
        };
        if host.is_empty() || host.contains('/') || text.contains(char::is_control) {
            return None;
        }
        let host = user.map_or_else(|| host.to_owned(), |user| format!("{user}@{host}"));
        Some(Self { host, path: path.strip_prefix("~/").unwrap_or(path).to_owned() })
    }

    /// Parses the location of a receiver. `HOST:PORT` is not such a place, and `USER@HOST` is a home directory.
    pub(super) fn of_receiver(text: &str) -> Option<Self> {
        let is_port = |place: &Self| !place.path.is_empty() && place.path.bytes().all(|byte| byte.is_ascii_digit());
        match Self::parse(text) {
            Some(place) if place.host.contains('@') || !is_port(&place) => Some(place),
            None if text.contains('@') => Self::parse(&format!("{text}:")),
            _ => None,
        }
    }

    /// Returns the path as a word that is neither an option nor `-`.
    pub(super) fn word(&self) -> String {
        match &*self.path {
            "" => ".".to_owned(),
            path if path.starts_with('-') => format!("./{path}"),
            path => path.to_owned(),
        }
    }
}

/// Task of the other end.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    version: u64,
    key: String,
    /// First and last UDP port that may be used.
    ports: (u16, u16),
    /// Sub-command and options. They are not on the command line, where a shell would interpret them and other users
    /// could see them.
    arguments: Vec<String>,
}

/// Message from the other end.
#[derive(Debug, Serialize, Deserialize)]
enum Line {
    /// The other end listens.
    Ready {
        port: u16,
        key: String,
        address: Option<IpAddr>,
    },
    /// The other end supports only this version of the exchange.
    Version(u64),
    Failed(String),
    /// The other end does not send this file, for this reason.
    LeftOut(String, String),
}

/// Addresses and key of the other end.
#[derive(Debug)]
pub(super) struct Route {
    host: String,
    addresses: Vec<SocketAddr>,
    key: Fingerprint,
}

impl Route {
    pub(super) async fn connect(&self, identity: &Identity, transport: &TransportArgs) -> Result<SecureStream> {
        let connector = SecureConnector::new(identity, Some(self.key))?;
        let (host, port) = (&self.host, self.addresses.first().map_or(0, SocketAddr::port));
        let stream = transport.connect(&self.addresses).await.with_context(|| {
            format!(
                "ssh reaches {host}, but UDP port {port} there does not answer; let the firewalls pass it, or choose \
                 another one by --udp-ports"
            )
        })?;
        let connecting = timeout(transport.patience(), connector.connect(stream)).await;
        connecting.unwrap_or(Err(TlsError::TimedOut)).with_context(|| format!("no encrypted connection to {host}"))
    }
}

/// A running ssh. Terminated when dropped, which also terminates the other end.
#[derive(Debug)]
pub(super) struct Session {
    host: String,
    ssh: Child,
    /// The other end runs as long as this is open.
    input: Option<ChildStdin>,
    output: Take<BufReader<ChildStdout>>,
}

impl Session {
    /// Starts longhaul at `host` with these arguments, for one connection from the machine with `key`.
    pub(super) async fn start(
        args: &SshArgs,
        host: &str,
        key: Fingerprint,
        arguments: Vec<String>,
    ) -> Result<(Self, Route)> {
        let mut command = args.ssh();
        // Like scp, disables settings in the user's configuration that are meant for terminal sessions.
        command.args(["-T", "-x", "-oClearAllForwardings=yes", "-oPermitLocalCommand=no", "-oRemoteCommand=none"]);
        command.args(["--", host, &format!("{} ssh-server", args.remote_program)]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let program = command.as_std().get_program().to_owned();
        let mut ssh = command.spawn().with_context(|| format!("cannot run {}", program.display()))?;
        let (mut input, output) = (ssh.stdin.take(), ssh.stdout.take().context("ssh has no standard output")?);
        let request =
            Request { version: VERSION, key: key.to_string(), ports: args.udp_ports.clone().into_inner(), arguments };
        if let Some(input) = &mut input {
            let line = serde_json::to_string(&request)? + "\n";
            // If ssh has already ended, its exit code is more informative.
            let _ = input.write_all(line.as_bytes()).await;
        }
        let output = BufReader::new(output).take(MAX_TEXT);
        let mut session = Self { host: host.to_owned(), ssh, input, output };
        let line = timeout(START, session.line()).await;
        match line.map_err(|_| anyhow!("longhaul at {host} has not answered for {} s", START.as_secs()))?? {
            Some(Line::Ready { port, key, address }) => {
                let key = key.parse()?;
                let addresses = addresses(args, host, port, address).await?;
                Ok((session, Route { host: host.to_owned(), addresses, key }))
            }
            Some(Line::Version(theirs)) if theirs < VERSION => Err(session.is_too_old(args)),
            Some(Line::Version(_)) => bail!("longhaul here is too old for the one at {host}; renew it here: {INSTALL}"),
            Some(Line::Failed(error)) => bail!("{host}: {}", escaped(&error)),
            Some(Line::LeftOut(..)) => bail!("longhaul at {host} answers with something else"),
            None => {
                let has_ended = session.output.limit() > 0;
                let status = if has_ended { timeout(REST, session.ssh.wait()).await.ok() } else { None };
                Err(session.explain(args, status.and_then(Result::ok)))
            }
        }
    }

    fn is_too_old(&self, args: &SshArgs) -> anyhow::Error {
        let program = &args.remote_program;
        anyhow!("`{program}` at {} is too old to be started by ssh; renew it there: {INSTALL}", self.host)
    }

    /// Returns the reason why there is no line.
    fn explain(&self, args: &SshArgs, status: Option<ExitStatus>) -> anyhow::Error {
        let (host, program) = (&self.host, &args.remote_program);
        match status.and_then(|status| status.code()) {
            // Exit codes of POSIX shells for a command that is not found, or cannot be executed.
            Some(126 | 127) => anyhow!(
                "there is no `{program}` at {host}; install it there ({INSTALL}), or say where it is by \
                 --remote-program"
            ),
            Some(255) => anyhow!("ssh has not reached {host}"),
            // Usage error: the sub-command is unknown.
            Some(2) => self.is_too_old(args),
            Some(code) => anyhow!("`{program}` at {host} ended with exit code {code} before it was ready"),
            None => anyhow!("`{program}` at {host} does not say that it is ready"),
        }
    }

    /// Returns the next line of the other end, or `None` if there is no more.
    async fn line(&mut self) -> Result<Option<Line>> {
        loop {
            let mut line = Vec::new();
            if self.output.read_until(b'\n', &mut line).await.context("cannot read what ssh writes")? == 0 {
                return Ok(None);
            }
            let line = String::from_utf8_lossy(&line);
            if let Some((_, text)) = line.split_once(MARK) {
                let line = serde_json::from_str(text);
                return line.map(Some).with_context(|| format!("cannot read what longhaul at {} says", self.host));
            }
        }
    }

    /// Runs `work` until it completes or the other end has ended.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            done = work => return done,
            () = async {
                let is_done = self.ssh.wait().await.is_ok_and(|status| status.success());
                // The last segments of the other end may still be in flight.
                sleep(if is_done { REST } else { REST / 5 }).await;
            } => {}
        }
        Err(match timeout(REST, self.line()).await {
            Ok(Ok(Some(Line::Failed(error)))) => anyhow!("{}: {}", self.host, escaped(&error)),
            _ => anyhow!("longhaul at {} has ended, or the connection of ssh has", self.host),
        })
    }

    /// Waits until the other end has ended. Returns the files that it has left out, with the reasons.
    pub(super) async fn end(mut self) -> Vec<(String, String)> {
        let mut left_out = Vec::new();
        self.output.set_limit(MAX_TEXT);
        let _ = timeout(REST, async {
            while let Ok(Some(line)) = self.line().await {
                if let Line::LeftOut(file, reason) = line {
                    left_out.push((escaped(&file), escaped(&reason)));
                }
            }
            self.input = None;
            let _ = self.ssh.wait().await;
        })
        .await;
        left_out
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Unlike SIGKILL, SIGTERM lets ssh restore a terminal at which it asks for a password.
        if let Some(process) = self.ssh.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())) {
            let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
        }
    }
}

/// Returns the addresses of `host` for UDP. `told` is the one that ssh used, as the other end sees it.
///
/// Behind a NAT, the other end does not know the address under which it is reached, but the configuration of ssh does.
/// Where this machine cannot look up the name, such as behind a jump host, only the other end knows it.
async fn addresses(args: &SshArgs, host: &str, port: u16, told: Option<IpAddr>) -> Result<Vec<SocketAddr>> {
    let config = args.ssh().args(["-G", "--", host]).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let config = timeout(REST, config).await.ok().and_then(Result::ok).map(|output| output.stdout).unwrap_or_default();
    let config = String::from_utf8_lossy(&config);
    let name = config.lines().find_map(|line| line.strip_prefix("hostname "));
    let name = name.unwrap_or_else(|| host.rsplit_once('@').map_or(host, |(_, host)| host));
    let found = address::lookup(name, port).await;
    let told = told.map(|address| SocketAddr::new(address, port));
    match (found, told) {
        (Ok(found), Some(told)) if found.contains(&told) => Ok(vec![told]),
        (found, Some(told)) => {
            let found = found.unwrap_or_default().into_iter().filter(|address| address.is_ipv4() == told.is_ipv4());
            Ok(found.chain([told]).collect())
        }
        (found, None) => found.with_context(|| format!("cannot find {name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_not_addresses() {
        for (text, host, path) in [
            ("u@h:dir", "u@h", "dir"),
            ("h:dir/a b", "h", "dir/a b"),
            ("h:", "h", ""),
            ("u@h", "u@h", ""),
            ("u@h:7000", "u@h", "7000"),
            ("h:./7000", "h", "./7000"),
            ("h:~/dir", "h", "dir"),
            ("h:/a:b@c", "h", "/a:b@c"),
            ("h:a@b", "h", "a@b"),
            ("[2001:db8::7]:dir", "2001:db8::7", "dir"),
            ("u@[fe80::1%eth0]:", "u@fe80::1%eth0", ""),
            ("u@192.0.2.7:x", "u@192.0.2.7", "x"),
        ] {
            let place = Place::of_receiver(text);
            assert_eq!(place, Some(Place { host: host.to_owned(), path: path.to_owned() }), "{text}");
        }
        // Addresses without a path, and empty parts.
        for text in [
            "192.0.2.7",
            "192.0.2.7:7000",
            "h",
            "h:7000",
            "h:70000",
            "2001:db8::7",
            "fe80::1%eth0",
            "[2001:db8::7]",
            "[2001:db8::7]:7000",
            "[h]:dir",
            "::1",
            ":dir",
            "./a:b",
            "a/b:c",
            "h:a\nb",
            "",
        ] {
            assert_eq!(Place::of_receiver(text), None, "{text}");
        }
        let words = ["h:", "h:-", "h:-x", "h:x"].map(|text| Place::parse(text).unwrap().word());
        assert_eq!(words, [".", "./-", "./-x", "x"]);
    }

    #[test]
    fn ports_are_one_or_a_range() {
        assert_eq!(parse_ports("7000-7099"), Ok(7000..=7099));
        assert_eq!([parse_ports("0"), parse_ports("9")], [Ok(0..=0), Ok(9..=9)]);
        for bad in ["", "0-9", "9-8", "x", "65536", "-1"] {
            assert!(parse_ports(bad).is_err(), "{bad}");
        }
    }
}
