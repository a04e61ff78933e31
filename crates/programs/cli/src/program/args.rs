//! Command line.

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use longhaul_tls::Fingerprint;
use longhaul_units::Rate;

use super::{code::CodeArg, home, ssh::SshArgs, units};
use crate::address;
use crate::perf;
use crate::perf::units::parse_size;
use crate::probe;
use crate::receiver::Existing;
use crate::sender::Options;
use crate::transport::TransportArgs;

mod tunnels;
mod via;

pub(super) use tunnels::StdioArgs;
pub(super) use via::ViaArgs;

pub(super) use tunnels::{AccessArgs, ForwardArgs, GatewayArgs};

/// UDP port of receivers.
pub(super) const PORT: u16 = 7000;
/// UDP port of gateways.
pub(super) const GATEWAY_PORT: u16 = 7443;
/// UDP port of rendezvous.
pub(super) const MEET_PORT: u16 = 7070;

/// Transfers files and forwards TCP connections over long, lossy links, encrypted.
///
/// Both ends have a key, which `longhaul identity` shows. Receivers and gateways accept the keys that they know, and
/// senders and forwarders remember the keys of receivers and gateways.
#[derive(Debug, Parser)]
#[command(
    name = "longhaul",
    version,
    propagate_version = true,
    after_help = "Examples:
  longhaul send user@host.example:incoming big.iso   Send a file; ssh starts the receiver
  longhaul identity                                  Show the key of this machine
  longhaul receive --allow SHA256:... --out incoming Receive files from the machine with this key
  longhaul send 192.0.2.7 big.iso -C bbr             Send a file, with BBR as the congestion control
  longhaul gateway --allow SHA256:... --permit any   Connect the machine with this key to any target
  longhaul forward -D 1080 192.0.2.7                 Offer these connections as a SOCKS5 and HTTP proxy
  longhaul perf -c 192.0.2.7 -C bbr                  Measure the throughput of a path

Exit codes: 0 success, 1 failure, 2 wrong use, 130 interrupted."
)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
    /// Show more: a line per file, details of doctor and probe, or the log
    ///
    /// If given twice, also show the events of the transport and the log of transfers.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(super) verbose: u8,
    /// Do not change lines in place: a transfer writes a line every ten seconds
    #[arg(long, global = true)]
    pub(super) plain: bool,
    /// Show only warnings, errors, and the address on which a receiver listens
    #[arg(short, long, global = true)]
    pub(super) quiet: bool,
    /// Read options from this file instead of $XDG_CONFIG_HOME/longhaul/config.toml: TOML with a table per sub-command,
    /// whose keys are its long options. The command line has precedence
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Send files to `longhaul receive`
    Send(Box<SendArgs>),
    /// Receive files from `longhaul send`
    Receive(Box<ReceiveArgs>),
    /// Forward TCP connections of this machine through `longhaul gateway`
    Forward(Box<ForwardArgs>),
    /// Connect standard input and output to a target through `longhaul gateway`, for ssh, rsync and git
    Stdio(Box<StdioArgs>),
    /// Open TCP connections for `longhaul forward`
    Gateway(Box<GatewayArgs>),
    /// Introduce senders and receivers that are behind NATs to each other
    Meet(MeetArgs),
    /// Find settings of this machine, and properties of a path, that slow longhaul down
    Doctor(DoctorArgs),
    /// Measure the throughput of a path, as iperf3 does
    Perf(Box<perf::options::Options>),
    /// Draw a connection from its event log, as SVG
    Plot(PlotArgs),
    /// Measure the capacity, available bandwidth, round trip, buffer and loss of a path
    Probe(probe::Options),
    /// Run a program over an emulated link (Linux)
    #[cfg(target_os = "linux")]
    #[command(
        subcommand,
        after_help = "Examples:
  longhaul link relay --listen 127.0.0.1:7001 --to 127.0.0.1:7000 --scenario geo
  sudo longhaul link shell --scenario geo -- ping 198.18.0.1
  longhaul link list                               The scenarios"
    )]
    Link(Box<longhaul_linkem::args::Command>),
    /// Show the fingerprint of this machine's key, which is created on first use
    #[command(after_help = "Examples:
  longhaul identity          SHA256:...
  longhaul identity --json   {\"fingerprint\":\"SHA256:...\",\"file\":\"/home/...\"}")]
    Identity(IdentityArgs),
    /// Print the completions of a shell
    #[command(after_help = "Examples:
  longhaul completions bash > /etc/bash_completion.d/longhaul")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Remote end that another longhaul starts by ssh
    #[command(hide = true)]
    SshServer,
    /// Print a man page, or write all of them
    #[command(after_help = "Examples:
  longhaul man | man -l -
  longhaul man send | man -l -
  longhaul man --out /usr/local/share/man/man1")]
    Man {
        /// Sub-command that the page describes; the default is the page of the program
        command: Option<String>,
        /// Write all pages into this directory, which must exist
        #[arg(long, value_name = "DIR", conflicts_with = "command")]
        out: Option<PathBuf>,
    },
}

/// Sends files to `longhaul receive`.
///
/// Files and directories are sent over one encrypted connection. The receiver confirms each with the BLAKE3 hash of the
/// data that it has written. If the connection fails, a new one is opened, and large files continue where they were
/// interrupted.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul send user@host.example:incoming photos  ssh starts the receiver
  longhaul send 192.0.2.7 big.iso photos           A file and a directory
  longhaul send 192.0.2.7 big.iso --code 4821-harbor-violet
  tar c data | longhaul send 192.0.2.7 -           Standard input (file `stdin`)
  longhaul send 192.0.2.7 big.iso --accept-new     Trust the receiver's key without a question
  longhaul send --to relay.example:7100 a b c -C bbr

The keys of receivers are in ~/.local/share/longhaul/known-peers.")]
pub(super) struct SendArgs {
    /// The receiver, unless --to is given, and files or directories; `-` is standard input. With [USER@]HOST:DIR, ssh
    /// starts a receiver at HOST that writes into DIR, and only the program is needed there
    #[arg(value_name = "[RECEIVER] PATH")]
    words: Vec<OsString>,
    /// The receiver, HOST[:PORT] or [USER@]HOST:DIR
    #[arg(long, value_name = "RECEIVER")]
    to: Option<OsString>,
    /// Trust the key of a receiver that is not known yet, and remember it
    #[arg(long, conflicts_with = "plaintext")]
    pub(super) accept_new: bool,
    /// Also trust a receiver whose certificate the authority in this file (PEM) has signed for HOST
    #[arg(long, value_name = "FILE", conflicts_with_all = ["plaintext", "code"])]
    pub(super) ca: Option<PathBuf>,
    /// Authenticate both ends with the one-time code that `longhaul receive --code` shows
    ///
    /// Keys are then not needed. With `-`, or if CODE is missing at the end of the command line, the program asks for
    /// the code or reads it from standard input: other users can see the command line.
    #[arg(long, value_name = "CODE", num_args = 0..=1, default_missing_value = "-",
        conflicts_with_all = ["plaintext", "accept_new"])]
    pub(super) code: Option<CodeArg>,
    /// Remember the key of a receiver that knows the code
    #[arg(long, requires = "code")]
    pub(super) remember: bool,
    /// Find the receiver with the code through this rendezvous (`longhaul meet`), HOST[:PORT]; no RECEIVER is given then
    #[arg(long, value_name = "HOST", requires = "code", conflicts_with_all = ["to", "remember", "via"])]
    pub(super) meet: Option<OsString>,
    /// Do not encrypt, and do not check who receives
    #[arg(long)]
    pub(super) plaintext: bool,
    /// Include symbolic links in directories that lead to a place inside the directory
    #[arg(long)]
    pub(super) links: bool,
    /// Do not keep permissions and modification times
    #[arg(long)]
    no_attributes: bool,
    /// Compress contents (Zstandard) if this saves bytes
    #[arg(long)]
    compress: bool,
    /// Continue interrupted files where they were interrupted (default)
    #[arg(long, overrides_with = "no_resume")]
    resume: bool,
    /// Send files from their beginning
    #[arg(long, overrides_with = "resume")]
    no_resume: bool,
    /// Send at most this many bits per second, with a suffix K, M, G (of 1000)
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub(super) limit: Option<Rate>,
    /// Time for which to try to reconnect, such as 90s, 5m or 1h; 0 disables retries
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = units::parse_duration)]
    pub(super) retry: Duration,
    /// Draw the transfer into this file, as SVG: rate, round trip, windows and losses over time, and what limited the sender
    #[arg(long, value_name = "FILE")]
    pub(super) plot: Option<PathBuf>,
    /// Print a JSON object per file, each on a line of standard output
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) transport: TransportArgs,
    #[command(flatten)]
    pub(super) mirror: MirrorArgs,
    #[command(flatten)]
    pub(super) via: ViaArgs,
    /// Send over all --via at the same time, over a connection for each
    #[arg(long, requires = "via", conflicts_with = "code")]
    pub(super) bond: bool,
    // Its heading is also that of the options that follow.
    #[command(flatten)]
    pub(super) ssh: SshArgs,
    #[command(flatten)]
    pub(super) existing: ExistingArgs,
}

impl SendArgs {
    pub(super) fn options(&self) -> Options {
        Options {
            resume: self.resume || !self.no_resume,
            attributes: !self.no_attributes,
            compress: self.compress,
            cache: home::cache_directory(),
        }
    }

    pub(super) fn target_and_paths(&self) -> Option<(&OsStr, &[OsString])> {
        let (target, paths) = match self.to.as_ref().or(self.meet.as_ref()) {
            Some(to) => (to.as_os_str(), self.words.as_slice()),
            None => self.words.split_first().map(|(first, rest)| (first.as_os_str(), rest))?,
        };
        (!paths.is_empty()).then_some((target, paths))
    }
}

/// Introduces `longhaul send --meet` to `longhaul receive --code --meet`, which may both be behind NATs.
///
/// It learns the addresses of both and the digits of the code, and neither the words of the code nor the contents.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul meet                                    On a machine that both reach
  longhaul receive --code --meet meet.example
  longhaul send --code 4821-harbor-violet --meet meet.example big.iso")]
pub(super) struct MeetArgs {
    /// Address and UDP port to listen on
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::from(([0, 0, 0, 0], MEET_PORT)), value_parser = address::parse)]
    pub(super) listen: SocketAddr,
    /// Relay at most this many transfers at a time, if no direct connection passes the NATs
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) relays: u16,
    /// End a relayed transfer after this time, such as 90s, 5m or 1h
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = units::parse_limit)]
    pub(super) relay_time: Duration,
}

/// Options of mirrors.
#[derive(Debug, Args)]
pub(super) struct MirrorArgs {
    /// Send only differences from the copy at the receiver, which needs --overwrite
    ///
    /// A file with the same size and modification time is not sent. Of a changed file, only the differences are sent,
    /// in blocks of 1 KiB, or above 2 MiB in groups of 1 MiB.
    #[arg(long, conflicts_with = "no_attributes")]
    pub(super) mirror: bool,
    /// With --mirror, list entries that only the receiver has in the directories, ask, and delete them; the receiver
    /// needs --allow-delete
    #[arg(long, requires = "mirror")]
    pub(super) delete: bool,
    /// With --delete, do not ask
    #[arg(long, requires = "delete")]
    pub(super) yes: bool,
    /// With --mirror, only show what would be sent and deleted
    #[arg(long, requires = "mirror")]
    pub(super) dry_run: bool,
    /// With --mirror, also compare the contents of files with the same size and modification time, by hashes
    #[arg(long, requires = "mirror")]
    pub(super) checksum: bool,
}

impl MirrorArgs {
    /// Returns the options that the receiver needs.
    pub(super) fn words(&self) -> impl Iterator<Item = &'static str> {
        let words = [(self.mirror, "--overwrite"), (self.delete, "--allow-delete")];
        words.into_iter().filter(|(is_needed, _)| *is_needed).map(|(_, word)| word)
    }
}

/// Receives files from `longhaul send`.
///
/// Accepts the senders whose keys are in `allowed-peers` or given by --allow. A file gets its name after its BLAKE3
/// hash has been verified; until then, it is in a private directory. Symbolic links are not followed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul receive user@host.example:photos        Fetch; ssh starts the sender
  longhaul receive --code                          Accept a sender by a code
  longhaul receive --allow SHA256:... --out incoming
  longhaul receive --out - | tar x                 The files of one connection
  longhaul receive --listen [::]:7100 --once --json

Keys of senders that are always allowed are in ~/.local/share/longhaul/allowed-peers, one per line:
  SHA256:... NAME send")]
pub(super) struct ReceiveArgs {
    /// Files or directories to fetch: ssh starts a sender at HOST, and only the program is needed there
    #[arg(value_name = "[USER@]HOST:PATH", conflicts_with_all = ["plaintext", "allow", "ca", "code", "listen"])]
    pub(super) from: Vec<String>,
    /// Address and UDP port to listen on
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::from(([0, 0, 0, 0], PORT)), value_parser = address::parse)]
    pub(super) listen: SocketAddr,
    /// Directory for the received files, or `-` for standard output
    ///
    /// A missing directory is created. Standard output receives the files of one connection.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(super) out: PathBuf,
    /// Accept the sender with this key; may be given several times
    #[arg(long, value_name = "FINGERPRINT", conflicts_with = "plaintext")]
    pub(super) allow: Vec<Fingerprint>,
    /// Also accept senders whose certificate the authority in this file (PEM) has signed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["plaintext", "code"])]
    pub(super) ca: Option<PathBuf>,
    /// Show a one-time code, and accept one connection of a sender that knows it
    ///
    /// The code is valid for ten minutes and three attempts. Keys are not needed.
    #[arg(long, conflicts_with_all = ["plaintext", "allow"])]
    pub(super) code: bool,
    /// Wait for the sender with the code at this rendezvous (`longhaul meet`), HOST[:PORT], as behind a NAT
    #[arg(long, value_name = "HOST", requires = "code", conflicts_with = "remember")]
    pub(super) meet: Option<String>,
    /// Add the key of a sender that knows the code to `allowed-peers`
    #[arg(long, requires = "code")]
    pub(super) remember: bool,
    /// End after the first connection of an accepted sender, and return its success as the exit code
    #[arg(long)]
    pub(super) once: bool,
    #[command(flatten)]
    pub(super) existing: ExistingArgs,
    /// Accept at most this many bytes in total, with a suffix K, M, G, T (of 1024)
    ///
    /// The limit holds until the receiver ends. Each file, directory and link counts as at least 4K, and bytes of
    /// interrupted files that can be continued also count.
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(super) max_bytes: Option<u64>,
    /// Accept at most this many bytes from each key
    #[arg(long, value_name = "BYTES", value_parser = parse_size, conflicts_with = "plaintext")]
    pub(super) max_bytes_per_peer: Option<u64>,
    /// End a connection if its sender delivers nothing for this long, such as 90s, 5m or 1h; default: one day for
    /// senders with a key, which may pause; for others 60 s, in which at least 16 KiB must arrive
    #[arg(long, value_name = "DURATION", value_parser = units::parse_limit)]
    pub(super) idle: Option<Duration>,
    /// Let senders with --mirror --delete delete entries that their directories do not contain
    #[arg(long, conflicts_with = "plaintext", requires = "overwrite")]
    pub(super) allow_delete: bool,
    /// Accept names that begin with a dot or a dash
    #[arg(long)]
    pub(super) allow_hidden: bool,
    /// Do not encrypt, and accept any sender; on an address other than loopback, `--plaintext=yes-on-this-network`
    #[arg(long, value_name = "CONFIRMATION", num_args = 0..=1, require_equals = true, default_missing_value = "loopback")]
    pub(super) plaintext: Option<Plaintext>,
    /// Also answer path probes, such as those of `longhaul doctor` and `longhaul probe`, with their arrival times; they are
    /// not authenticated
    #[arg(long)]
    pub(super) reflect: bool,
    /// Print a JSON object per received file, each on a line of standard output
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) transport: TransportArgs,
    #[command(flatten)]
    pub(super) ssh: SshArgs,
}

/// Options for files whose name is taken.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(super) struct ExistingArgs {
    /// Replace existing files
    ///
    /// The attributes of existing directories also change. Without this option, --rename or --skip, existing files are
    /// kept and the new ones are refused.
    #[arg(long)]
    overwrite: bool,
    /// Add a number to the names of files that already exist
    #[arg(long)]
    rename: bool,
    /// Keep existing files, and receive all others
    #[arg(long)]
    skip: bool,
}

impl ExistingArgs {
    /// Returns the option.
    pub(super) fn word(&self) -> Option<&'static str> {
        match self.policy() {
            Existing::Refuse => None,
            Existing::Overwrite => Some("--overwrite"),
            Existing::Rename => Some("--rename"),
            Existing::Skip => Some("--skip"),
        }
    }

    pub(super) fn policy(&self) -> Existing {
        match self {
            Self { overwrite: true, .. } => Existing::Overwrite,
            Self { rename: true, .. } => Existing::Rename,
            Self { skip: true, .. } => Existing::Skip,
            _ => Existing::Refuse,
        }
    }
}

/// Addresses on which connections may be plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Plaintext {
    /// On loopback addresses only.
    Loopback,
    /// On any address.
    YesOnThisNetwork,
}

/// Draws a connection from its event log, as SVG.
///
/// The picture shows rate, round trip, windows and losses over time, and what limited the sender. Event logs are
/// written with --qlog DIR, or the environment variables QLOGDIR and QLOGFILE. `longhaul send --plot` draws without a
/// log.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul send 192.0.2.7 big.iso --qlog logs
  longhaul plot logs/5d0c8f2e1b7a9034_client.sqlog > transfer.svg")]
pub(super) struct PlotArgs {
    /// The event log
    #[arg(value_name = "FILE.sqlog")]
    pub(super) log: PathBuf,
    /// Write the picture into this file, instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct IdentityArgs {
    /// Print a JSON object with the fingerprint and the file of the key
    #[arg(long)]
    pub(super) json: bool,
}

/// Finds settings of this machine, and properties of a path, that slow longhaul down.
///
/// Prints problems and the commands that fix them; -v adds the passed checks. With HOST, where `longhaul receive
/// --reflect` must be running, the path is also checked: whether it passes UDP, changes ECN or DSCP, its MTU, and whether
/// it limits the rate of UDP. For this, packets are sent for a few seconds, at up to --bandwidth, and only if HOST answers
/// probes.
///
/// The exit code is 1 if there is a problem.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul doctor                                  This machine only
  longhaul doctor --bandwidth 100M --rtt 600ms     Its buffers, for such a path
  longhaul doctor 192.0.2.7                        Also the path to a receiver
  longhaul doctor 192.0.2.7 --nat 2m               Also the lifetime of a NAT's binding, which takes two minutes")]
pub(super) struct DoctorArgs {
    /// Reflector; the default port is 7000
    #[arg(value_name = "HOST[:PORT]")]
    pub(super) host: Option<String>,
    /// Rate of the path in bit/s, with a suffix K, M, G (of 1000)
    ///
    /// The default is the highest rate that passed in a search up to 64M.
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub(super) bandwidth: Option<Rate>,
    /// Round-trip time of the path, such as 600ms. The default is that to HOST
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    pub(super) rtt: Option<Duration>,
    /// Measure the lifetime of a NAT binding, up to this time, which is also the duration of the check; at most 10m
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration, requires = "host")]
    pub(super) nat: Option<Duration>,
    /// Print a JSON object per finding, each on a line
    #[arg(long)]
    pub(super) json: bool,
}
