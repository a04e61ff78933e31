//! Connections of the programs: command-line options, and the displayed state of a connection.

use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use longhaul::{
    Congestion, KeepAlive, LimitedBy, LocalPath, ParseCongestionError, TcpListener, TcpSocket, TcpState, TcpStream,
    UdpBackend,
};
use longhaul_tls::{Fingerprint, SecureStream};
use longhaul_units::Rate;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tracing_subscriber::filter::{EnvFilter, LevelFilter};

use crate::memory::Memory;
use crate::output;
use crate::progress::{Detail, Log, Screen};

const BACKLOG: u32 = 1024;
/// Time allowed for sending a reset if the UDP socket's buffer is full. The TCP stack is part of the process: queued
/// segments are lost when the process ends.
const LEAVING: Duration = Duration::from_millis(100);
/// Directive for messages about each connection whose peer does not respond: the programs report this themselves.
const SAID: &str = "longhaul::observe=error";

/// Largest window of TCP in bytes (RFC 7323, section 2.2).
const WIDE: usize = 1 << 30;

/// Options of every program that opens connections.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TransportArgs {
    /// Congestion control, by name or composition; `list` prints the registry
    #[arg(short = 'C', long, value_name = "SPEC", value_parser = parse_congestion)]
    pub(crate) congestion: Option<Choice>,
    /// Capture the connections' packets as plain TCP, for Wireshark, tshark and tcptrace
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// Write a qlog file for each connection into this directory; the default is the environment's QLOGFILE (of the
    /// first connection only) or QLOGDIR
    #[arg(long, value_name = "DIR")]
    pub(crate) qlog: Option<PathBuf>,
    /// The qlog variables of the environment, as QUIC implementations use them.
    #[arg(skip = QlogEnvironment::read())]
    qlog_environment: QlogEnvironment,
    /// Save the properties of paths in this file: later connections to the same host start from the measurements of
    /// earlier ones, which careful-resume and cached-start also use
    #[arg(long, value_name = "FILE", value_parser = open_memory)]
    pub(crate) path_cache: Option<Memory>,
    /// Allow congestion control that takes more than a fair share; only for networks that nobody else uses
    #[arg(long)]
    pub(crate) allow_unsafe_congestion: bool,
    /// Send requests to routers if the congestion control uses them (quick-start, rcp, xcp); all routers on the path
    /// must support them
    #[arg(long)]
    pub(crate) routers_answer: bool,
    /// Do not use ECN; for paths that drop ECN-capable packets or that conceal marks undetected by longhaul
    #[arg(long)]
    pub(crate) no_ecn: bool,
    /// Highest rate at which data is sent, for programs with an option for it.
    #[arg(skip)]
    pub(crate) limit: Option<Rate>,
    /// Local paths, for programs with an option for them, and whether the next one is kept open.
    #[arg(skip)]
    via: (Vec<LocalPath>, bool),
    /// Whether connections are opened over the first local path only.
    #[arg(skip)]
    is_bonded: bool,
    /// Whether buffers may grow to [`WIDE`].
    #[arg(skip)]
    is_wide: bool,
    /// Abandon a peer that has been silent for this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) timeout: u32,
}

fn open_memory(file: &str) -> Result<Memory> {
    Memory::open(Path::new(file))
}

/// Paths of qlog files from the environment, for use if the command line has none (draft-ietf-quic-qlog-main-schema).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct QlogEnvironment {
    file: Option<PathBuf>,
    dir: Option<PathBuf>,
}

impl QlogEnvironment {
    fn read() -> Self {
        let path = |name| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        Self { file: path("QLOGFILE"), dir: path("QLOGDIR") }
    }
}

/// Value of `--congestion`.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    /// Print the registry.
    List,
    /// Use this congestion control.
    Use(Congestion),
}

fn parse_congestion(text: &str) -> Result<Choice, ParseCongestionError> {
    if matches!(text, "list" | "help") { Ok(Choice::List) } else { text.parse().map(Choice::Use) }
}

impl TransportArgs {
    /// Returns whether the program is only to print the registry.
    pub(crate) fn wants_list(&self) -> bool {
        matches!(self.congestion, Some(Choice::List))
    }

    pub(crate) fn congestion_name(&self) -> Option<String> {
        match &self.congestion {
            Some(Choice::Use(congestion)) => Some(congestion.to_string()),
            _ => None,
        }
    }

    /// Returns the options that the other end of a transfer also needs, as words of a command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let congestion = self.congestion_name().map(|name| format!("--congestion={name}"));
        let flags = [
            (self.allow_unsafe_congestion, "--allow-unsafe-congestion"),
            (self.routers_answer, "--routers-answer"),
            (self.no_ecn, "--no-ecn"),
        ];
        let flags = flags.into_iter().filter(|(is_given, _)| *is_given).map(|(_, flag)| flag.to_owned());
        flags.chain(congestion).chain([format!("--timeout={}", self.timeout)]).collect()
    }

    /// Returns the options that change the properties of a connection, or `None` if all have their defaults.
    pub(crate) fn kind(&self) -> Option<String> {
        let flags = [self.allow_unsafe_congestion, self.routers_answer, self.no_ecn];
        let congestion = self.congestion_name();
        (congestion.is_some() || flags.contains(&true)).then(|| format!("{congestion:?} {flags:?}"))
    }

    /// Returns whether a capture or log of the connection is requested on the command line.
    pub(crate) fn is_logged(&self) -> bool {
        self.pcap.is_some() || self.qlog.is_some()
    }

    /// Returns the options without captures and logs.
    pub(crate) fn unlogged(&self) -> Self {
        Self { pcap: None, qlog: None, qlog_environment: QlogEnvironment::default(), ..self.clone() }
    }

    /// Returns the options with a limit on the rate at which data is sent.
    pub(crate) fn limited(&self, limit: Option<Rate>) -> Self {
        Self { limit, ..self.clone() }
    }

    /// Returns the options with local paths; the next one is kept open if `warm`.
    pub(crate) fn over(&self, paths: &[LocalPath], warm: bool) -> Self {
        Self { via: (paths.to_vec(), warm), ..self.clone() }
    }

    /// Returns the options for connections over all local paths at the same time if `is_bonded`: each is opened over its
    /// first path only, and may move to the others later.
    pub(crate) fn bonded(&self, is_bonded: bool) -> Self {
        Self { is_bonded, ..self.clone() }
    }

    pub(crate) fn path_count(&self) -> usize {
        self.via.0.len()
    }

    /// Rotates the local paths, so that the one `by` places after the first one comes first.
    fn turn_path(&mut self, by: usize) {
        let by = by.checked_rem(self.via.0.len()).unwrap_or(0);
        self.via.0.rotate_left(by);
    }

    /// Returns the options with buffers that hold several bandwidth-delay products of any path, as losses on a long one
    /// require: for connections that carry one transfer between ends that know each other.
    pub(crate) fn wide(&self) -> Self {
        Self { is_wide: true, ..self.clone() }
    }

    /// Returns the options for the `index`th of several connections that are opened one by one, counted from 0. A
    /// capture file holds one of them: from the second connection on, its name ends in the number. Each begins at the
    /// next local path.
    pub(crate) fn for_connection(&self, index: usize) -> Self {
        let mut options = self.clone();
        options.turn_path(index);
        if index > 0 {
            options.qlog_environment.file = None;
            options.pcap = self.pcap.as_ref().map(|file| {
                let mut name = file.file_stem().unwrap_or_default().to_owned();
                name.push(format!("-{}", index + 1));
                if let Some(extension) = file.extension() {
                    name.push(".");
                    name.push(extension);
                }
                file.with_file_name(name)
            });
        }
        options
    }

    /// Returns the maximum time to wait for a silent peer.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(self.timeout.into())
    }

    /// Opens a connection to the first of `addresses` that answers (Happy Eyeballs, [`longhaul::race`]).
    /// Returns the error of the address that failed last, or if a capture or log file cannot be created. If there are
    /// several local paths, they are tried in turn, unless the others have connections of their own.
    pub(crate) async fn connect(&self, addresses: &[SocketAddr]) -> Result<TcpStream> {
        let mut connected = self.connect_over_first(addresses).await;
        for more in 1..self.via.0.len() {
            if connected.is_ok() || self.is_bonded {
                break;
            }
            let mut options = self.clone();
            options.turn_path(more);
            connected = options.connect_over_first(addresses).await;
        }
        connected
    }

    async fn connect_over_first(&self, addresses: &[SocketAddr]) -> Result<TcpStream> {
        // Only the first attempt captures: concurrent attempts would write to the same file.
        let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
        let first = self.socket(addresses.first().copied().unwrap_or(unspecified))?;
        let others = Self { pcap: None, ..self.clone() };
        let (first, others) = (&first, &others);
        let attempt = |address: SocketAddr| async move {
            let path = others.via.0.first().filter(|_| others.is_bonded);
            if matches!(path, Some(LocalPath::Address(ip)) if ip.is_ipv4() != address.is_ipv4()) {
                return Err(io::Error::from(io::ErrorKind::AddrNotAvailable).into());
            }
            let socket = others.socket(address)?;
            socket.share_pcap(first);
            socket.set_server_addrs(addresses);
            socket.set_local_paths(&others.via.0, others.via.1);
            Ok::<_, anyhow::Error>(socket.connect(address).await?)
        };
        longhaul::race(addresses.iter().copied(), attempt).await.with_context(|| {
            let list: Vec<_> = addresses.iter().map(ToString::to_string).collect();
            format!("cannot connect to {}", list.join(" or "))
        })
    }

    /// Listens on `address`.
    pub(crate) fn listen(&self, address: SocketAddr) -> Result<TcpListener> {
        self.listen_on(address, self.socket(address)?)
    }

    /// Listens on `address` with a socket that [`socket`](Self::socket) created for it.
    pub(crate) fn listen_on(&self, address: SocketAddr, socket: TcpSocket) -> Result<TcpListener> {
        let listener = socket.bind(address).and_then(|()| socket.listen(BACKLOG));
        listener.with_context(|| format!("cannot listen on {address}"))
    }

    /// Creates a socket for `address` with the settings of the command line. Returns the system's error, including if a
    /// capture or log file cannot be created, or an error if the environment requests an unknown implementation of UDP
    /// sockets.
    pub(crate) fn socket(&self, address: SocketAddr) -> Result<TcpSocket> {
        let mut socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_udp_backend(udp_backend(std::env::var_os("LONGHAUL_UDP"))?);
        let config = socket.config();
        config.path_cache(self.path_cache.as_ref().map(Memory::paths));
        config.routers_answer(self.routers_answer).ecn(!self.no_ecn);
        if let Some(Choice::Use(congestion)) = &self.congestion {
            config.congestion(congestion.clone());
        }
        if self.is_wide {
            config.send_buffer(WIDE).recv_buffer_max(WIDE);
        }
        config.max_pacing_rate(self.limit.map(Rate::as_bytes_per_sec));
        config.allow_unsafe_congestion(self.allow_unsafe_congestion);
        // Each write is large, or is the end of a message that the peer waits for, so Nagle's algorithm would only
        // delay it.
        config.nodelay(true);
        // A killed peer sends nothing, because its TCP stack ends with its process. With data in flight, the user
        // timeout detects this, otherwise the keep-alive, with an idle time of a third of the timeout and then five
        // probes.
        let patience = self.patience();
        let keep_alive = KeepAlive::default().with_idle(patience / 3).with_interval(patience * 2 / 15).with_probes(5);
        config.user_timeout(Some(patience)).keep_alive(Some(keep_alive));
        if let Some(file) = &self.pcap {
            socket.set_pcap(file).with_context(|| format!("cannot write {}", file.display()))?;
        }
        self.set_qlog(&socket)?;
        // A connection dropped before its orderly end has failed or was interrupted. A reset notifies the peer at once,
        // while a FIN would wait behind all queued data and be lost when the process ends.
        socket.set_zero_linger()?;
        Ok(socket)
    }

    fn set_qlog(&self, socket: &TcpSocket) -> Result<()> {
        let QlogEnvironment { file, dir } = &self.qlog_environment;
        match (&self.qlog, file, dir) {
            (None, Some(file), _) => socket.set_qlog_file(file),
            (Some(dir), _, _) | (None, None, Some(dir)) => {
                std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
                socket.set_qlog_dir(dir);
            }
            (None, None, None) => {}
        }
        Ok(())
    }
}

/// Returns the implementation of UDP sockets that the environment variable `LONGHAUL_UDP` names.
fn udp_backend(name: Option<OsString>) -> Result<UdpBackend> {
    match name.as_ref().map(|name| name.to_str()) {
        None | Some(Some("")) => Ok(UdpBackend::Default),
        Some(Some("quinn")) => Ok(UdpBackend::Quinn),
        Some(_) => bail!("the environment variable LONGHAUL_UDP is {name:?}; it can be empty or `quinn`"),
    }
}

/// Ends this end's direction of a connection, and waits until the peer has ended its own.
pub(crate) async fn drain(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<()> {
    stream.shutdown().await?;
    let mut rest = [0; 64];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

/// Closes a connection after the last message of both ends, as [`TcpStream::close`] does.
pub(crate) async fn close(stream: TcpStream) -> io::Result<()> {
    stream.set_linger(None)?;
    stream.close().await
}

pub(crate) fn rtt(stream: &TcpStream) -> Option<Duration> {
    stream.info().ok().and_then(|info| info.rtt)
}

fn has_failed(stream: &TcpStream) -> bool {
    stream.info().map_or(true, |info| info.state == TcpState::Closed)
}

/// State of a connection as the programs display it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Snapshot {
    pub(crate) congestion: String,
    /// The congestion window in bytes.
    pub(crate) cwnd_bytes: u64,
    /// The smoothed round-trip time.
    pub(crate) rtt: Option<Duration>,
    pub(crate) min_rtt: Option<Duration>,
    pub(crate) acked_bytes: u64,
    pub(crate) retransmissions: u64,
    /// Payload bytes sent more than once.
    pub(crate) retransmitted_bytes: u64,
    /// Bytes written that the peer has not acknowledged yet.
    pub(crate) unacknowledged_bytes: u64,
    /// Time so far by the factor that limited the sender.
    pub(crate) limited_by: LimitedBy,
    /// Reason why the controller's start-up scheme was abandoned, if it was.
    pub(crate) startup_given_up: Option<&'static str>,
}

impl Snapshot {
    /// Returns the state of a connection, unless it has failed.
    fn of(stream: &TcpStream) -> Option<Self> {
        let info = stream.info().ok()?;
        Some(Self {
            congestion: info.congestion,
            cwnd_bytes: info.snd_cwnd_bytes,
            rtt: info.rtt,
            min_rtt: info.min_rtt,
            acked_bytes: info.bytes_acked,
            retransmissions: info.total_retrans,
            retransmitted_bytes: info.bytes_retrans,
            unacknowledged_bytes: (info.bytes_sent + info.notsent_bytes)
                .saturating_sub(info.bytes_retrans)
                .saturating_sub(info.bytes_acked),
            limited_by: info.limited_by,
            startup_given_up: info.startup_given_up,
        })
    }
}

/// A connection, or a substitute in tests.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin {
    /// Returns the state of the connection, unless it has failed.
    fn snapshot(&self) -> Option<Snapshot> {
        None
    }

    /// Returns whether the connection has failed, which reads do not show after the end of the peer's data.
    fn has_failed(&self) -> bool {
        false
    }

    /// Returns the key of the peer if it has been authenticated.
    fn peer_key(&self) -> Option<Fingerprint> {
        None
    }

    /// Lets the connection start with a window that other connections have found, as [`TcpStream::share_window`] does.
    fn share_window(&self, _bytes: u64) {}
}

impl Transport for TcpStream {
    fn snapshot(&self) -> Option<Snapshot> {
        Snapshot::of(self)
    }

    fn has_failed(&self) -> bool {
        has_failed(self)
    }
}

impl Transport for SecureStream {
    fn snapshot(&self) -> Option<Snapshot> {
        Snapshot::of(self.tcp())
    }

    fn has_failed(&self) -> bool {
        has_failed(self.tcp())
    }

    fn peer_key(&self) -> Option<Fingerprint> {
        Some(self.peer())
    }

    fn share_window(&self, bytes: u64) {
        // If the connection has failed, its next use shows that.
        let _ = self.tcp().share_window(bytes);
    }
}

/// A connection of a [`TcpSocket`] that [`TransportArgs::socket`] created, plain or encrypted.
pub(crate) trait Connection: Transport {
    fn tcp(&self) -> &TcpStream;

    /// Closes the connection after the last message of both ends, as [`TcpStream::close`] does.
    fn close(self) -> impl Future<Output = io::Result<()>> + Send;
}

impl Connection for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }

    async fn close(self) -> io::Result<()> {
        close(self).await
    }
}

impl Connection for SecureStream {
    fn tcp(&self) -> &TcpStream {
        self.tcp()
    }

    async fn close(self) -> io::Result<()> {
        self.tcp().set_linger(None)?;
        Self::close(self).await
    }
}

/// The program was interrupted before its work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// Runs `work` until it completes or `end` does, and saves the path cache. Returns the error of `work`,
/// [`Interrupted`], or the reason why the path cache cannot be saved.
pub(crate) async fn finish(
    options: &TransportArgs,
    work: impl Future<Output = Result<()>>,
    end: impl Future<Output = ()>,
) -> Result<()> {
    let result = tokio::select! {
        // Checks for a signal before the work begins.
        biased;
        () = end => Err(Interrupted.into()),
        result = work => result,
    };
    if result.is_err() {
        // `work` and its connections have been dropped, which sent resets.
        tokio::time::sleep(LEAVING).await;
    }
    let saved = options.path_cache.as_ref().map_or(Ok(()), Memory::save);
    result.and(saved)
}

/// Shows the library's messages of at least `level`, or the events that `RUST_LOG` selects. Warnings are formatted as
/// plain sentences, unless more detail is requested.
pub(crate) fn init_log(level: LevelFilter, screen: &Screen) {
    let is_detailed = level > LevelFilter::WARN || std::env::var_os(EnvFilter::DEFAULT_ENV).is_some();
    let filter = EnvFilter::builder().with_default_directive(level.into());
    let filter = if is_detailed { filter.from_env() } else { Ok(EnvFilter::new(format!("{level},{SAID}"))) };
    let filter = filter.unwrap_or_else(|error| {
        output::say(&format!("RUST_LOG is ignored: {error}"));
        EnvFilter::default().add_directive(level.into())
    });
    let screen = screen.clone();
    // Failures of the subscriber itself would be reported by a macro that panics.
    let log = tracing_subscriber::fmt().with_env_filter(filter).log_internal_errors(false);
    if is_detailed {
        log.with_writer(move || Log(screen.clone(), Screen::warn)).init();
    } else {
        let warn = |screen: &Screen, line: &str| screen.event(Detail::Quiet, line);
        let log = log.without_time().with_target(false).with_level(false);
        log.with_writer(move || Log(screen.clone(), warn)).init();
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        transport: TransportArgs,
    }

    #[tokio::test]
    async fn wide_buffers_are_as_large_as_tcp_permits() {
        let Arguments { transport } = Arguments::parse_from(["x"]);
        let shown = |args: &TransportArgs| {
            let mut socket = args.socket(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
            format!("{:?}", socket.config())
        };
        let largest = ["send_buffer: 1073741824", "recv_buffer_max: 1073741824"];
        assert!(largest.iter().all(|buffer| shown(&transport.limited(None).wide()).contains(buffer)));
        assert!(largest.iter().all(|buffer| !shown(&transport).contains(buffer)));
    }

    #[test]
    fn an_unknown_implementation_of_udp_sockets_is_an_error() {
        let named = |name: &str| udp_backend(Some(name.into()));
        assert_eq!(udp_backend(None).unwrap(), UdpBackend::Default);
        assert_eq!(named("").unwrap(), UdpBackend::Default);
        assert_eq!(named("quinn").unwrap(), UdpBackend::Quinn);
        assert!(named("Quinn").unwrap_err().to_string().contains("Quinn"));
    }
}
