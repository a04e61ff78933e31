//! Command lines of tunnels: `forward`, `stdio` and `gateway`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use longhaul_tls::Fingerprint;
use longhaul_units::Rate;

use super::{GATEWAY_PORT, ViaArgs};
use crate::address;
use crate::forward::{DynamicForward, LocalForward, parse_remote};
use crate::gateway::listen::ListenPermit;
use crate::gateway::permit::Permit;
use crate::program::{code::CodeArg, monitoring::MonitorArgs, units};
use crate::transport::TransportArgs;
use crate::tunnel::{ParseTargetError, Target};

/// Forwards TCP connections of this machine through `longhaul gateway`.
///
/// Programs connect to a port of this machine, and the gateway connects to the target. Between the two, each connection has
/// an encrypted longhaul connection of its own, which was opened before and is used again afterwards. A connection is
/// accepted at once, and reset if the gateway cannot connect to the target.
///
/// The congestion control of the gateway (-C) determines how fast responses arrive.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul forward -L 8080:intranet.example:80 192.0.2.7
  longhaul forward -D 1080 192.0.2.7               A SOCKS5 and HTTP proxy
  longhaul forward -R 8080:localhost:80 192.0.2.7  Port 8080 there leads here
  curl http://127.0.0.1:8080/                      Use the first one
  curl --proxy socks5h://127.0.0.1:1080 http://intranet.example/

The keys of gateways are in ~/.local/share/longhaul/known-peers.")]
pub(in crate::program) struct ForwardArgs {
    /// Gateway; the default port is 7443
    #[arg(value_name = "GATEWAY[:PORT]")]
    pub(in crate::program) gateway: Option<String>,
    /// Forward connections to PORT on this machine to HOST:HOSTPORT
    ///
    /// May be given several times. The gateway resolves HOST. Without BIND, only this machine can connect.
    #[arg(short = 'L', value_name = "[BIND:]PORT:HOST:HOSTPORT")]
    pub(in crate::program) local: Vec<LocalForward>,
    /// Forward connections to PORT on this machine to targets named by SOCKS5 or HTTP CONNECT
    ///
    /// May be given several times. Names are resolved by the gateway.
    #[arg(short = 'D', value_name = "[BIND:]PORT")]
    pub(in crate::program) dynamic: Vec<DynamicForward>,
    /// Forward connections that nftables diverts to this port, to their original destinations
    ///
    /// The packet filter diverts them to the loopback addresses with REDIRECT or TPROXY; --print-rules prints the
    /// rules.
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(in crate::program) transparent: Option<u16>,
    /// Print rules for nftables that divert all connections to the port of --transparent, and exit
    #[cfg(target_os = "linux")]
    #[arg(long, requires = "transparent")]
    pub(in crate::program) print_rules: bool,
    /// Forward connections to PORT of the gateway to HOST:HOSTPORT near this machine
    ///
    /// May be given several times. Without BIND, only programs on the gateway's machine can connect. The gateway must
    /// permit this.
    #[arg(short = 'R', value_name = "[BIND:]PORT:HOST:HOSTPORT", value_parser = parse_remote)]
    pub(in crate::program) remote: Vec<LocalForward>,
    #[command(flatten)]
    pub(in crate::program) access: AccessArgs,
    /// Forward at most this many connections at the same time in each direction; further ones wait, and are reset after
    /// the time of --timeout. The gateway also has a limit
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(in crate::program) max_connections: u16,
    /// Reset connections that have been idle for this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u32).range(1..=604_800))]
    pub(in crate::program) idle: u32,
    /// Limit the rate of all connections together, in each direction, such as 20M (bit/s)
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub(in crate::program) max_rate: Option<Rate>,
    #[command(flatten)]
    pub(in crate::program) monitor: MonitorArgs,
    #[command(flatten)]
    pub(in crate::program) transport: TransportArgs,
    #[command(flatten)]
    pub(in crate::program) via: ViaArgs,
}

/// Options by which a gateway and this machine authenticate each other.
#[derive(Debug, Args)]
pub(in crate::program) struct AccessArgs {
    /// Trust the key of a gateway that is not known yet, and remember it
    #[arg(long)]
    pub(in crate::program) accept_new: bool,
    /// Also trust a gateway whose certificate the authority in this file (PEM) has signed for its name or address
    #[arg(long, value_name = "FILE", conflicts_with = "code")]
    pub(in crate::program) ca: Option<PathBuf>,
    /// Authenticate both ends with the one-time code that `longhaul gateway --code` shows
    ///
    /// Keys are then not needed. With `-`, or if CODE is missing at the end of the command line, the program asks for
    /// the code or reads it from standard input: other users can see the command line. `stdio` cannot ask.
    #[arg(long, value_name = "CODE", num_args = 0..=1, default_missing_value = "-", conflicts_with = "accept_new")]
    pub(in crate::program) code: Option<CodeArg>,
    /// Remember the key of a gateway that knows the code
    #[arg(long, requires = "code")]
    pub(in crate::program) remember: bool,
}

/// Connects standard input and output to a target through `longhaul gateway`.
///
/// For programs that run a command in place of a connection, as ssh does for its option ProxyCommand. Each end may end its
/// direction first. If `longhaul forward` runs for the same user and gateway, it carries the connection over one that is
/// ready, unless -C, another option of the transport, --ca or --code demands one of its own.
///
/// The exit code is 0 if both directions have ended in order.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ssh -o ProxyCommand='longhaul stdio 192.0.2.7 %h:%p' intranet.example
  scp -o ProxyCommand='longhaul stdio 192.0.2.7 %h:%p' a intranet.example:
  RSYNC_CONNECT_PROG='longhaul stdio 192.0.2.7 %H:873' rsync rsync://a.example

In ~/.ssh/config, for ssh, scp, sftp, git and rsync:
  Host *.example
    ProxyCommand longhaul stdio 192.0.2.7 %h:%p

OpenSSH has at most 2 MiB in flight, which slows it down on long paths. rsync without ssh is faster.")]
pub(in crate::program) struct StdioArgs {
    /// Gateway; the default port is 7443
    #[arg(value_name = "GATEWAY[:PORT]")]
    pub(in crate::program) gateway: String,
    /// Target, whose name the gateway resolves
    #[arg(value_name = "HOST:PORT", value_parser = parse_target)]
    pub(in crate::program) target: Target,
    #[command(flatten)]
    pub(in crate::program) access: AccessArgs,
    #[command(flatten)]
    pub(in crate::program) transport: TransportArgs,
}

/// Parses a target. An IPv6 address may have no brackets, as in `%h:%p` of ssh.
fn parse_target(text: &str) -> Result<Target, ParseTargetError> {
    text.parse().or_else(|_| {
        let (host, port) = text.rsplit_once(':').ok_or(ParseTargetError)?;
        Target::new(host, port.parse().map_err(|_| ParseTargetError)?)
    })
}

/// Opens TCP connections for `longhaul forward`.
///
/// Accepts the forwarders whose keys are in `allowed-peers` with the permission `forward`, or given by --allow. They
/// can reach only the targets that --permit names. Addresses are checked after names have been resolved: a name cannot
/// resolve to a loopback or link-local address, unless a rule names such addresses.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul gateway --permit any --code             Accept a forwarder by a code
  longhaul gateway --permit intranet.example:80 --allow SHA256:...
  longhaul gateway --permit-listen 8080            Let forwarders listen here
  longhaul gateway --permit 10.0.0.0/8:443 --listen [::]:7443

Keys of forwarders that are always allowed are in ~/.local/share/longhaul/allowed-peers, one per line:
  SHA256:... NAME forward
  SHA256:... NAME forward,listen")]
pub(in crate::program) struct GatewayArgs {
    /// Address and UDP port to listen on
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::from(([0, 0, 0, 0], GATEWAY_PORT)), value_parser = address::parse)]
    pub(in crate::program) listen: SocketAddr,
    /// Permit connections to this target, or to all with `any`
    ///
    /// May be given several times. HOST is a name, an address, a prefix such as 10.0.0.0/8, or `any`; PORT is a number, a
    /// range such as 8000-8099, or `any`.
    #[arg(long, value_name = "HOST:PORT")]
    pub(in crate::program) permit: Vec<Permit>,
    /// Permit forwarders to open listening ports at this address
    ///
    /// May be given several times. ADDR is an address, `localhost` or `any`; PORT is a number, a range such as
    /// 8000-8099, or `any`. Without this option, keys with the permission `listen` in `allowed-peers` may use loopback
    /// addresses with ports from 1024. With it, keys of --allow also have the permission.
    #[arg(long, value_name = "[ADDR:]PORT")]
    pub(in crate::program) permit_listen: Vec<ListenPermit>,
    /// Accept the forwarder with this key; may be given several times
    #[arg(long, value_name = "FINGERPRINT")]
    pub(in crate::program) allow: Vec<Fingerprint>,
    /// Also accept forwarders whose certificate the authority in this file (PEM) has signed, with the rights of --allow
    #[arg(long, value_name = "FILE", conflicts_with = "code")]
    pub(in crate::program) ca: Option<PathBuf>,
    /// Show a one-time code, and accept a forwarder that knows it until this program ends
    ///
    /// The code is valid for ten minutes and three attempts.
    #[arg(long)]
    pub(in crate::program) code: bool,
    /// Add the key of a forwarder that knows the code to `allowed-peers`
    #[arg(long, requires = "code")]
    pub(in crate::program) remember: bool,
    /// Accept at most this many connections of each forwarder, one for each connection that it forwards and a few that are
    /// ready
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(in crate::program) max_connections: u16,
    /// Reset connections on which nothing has been transferred for this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u32).range(1..=604_800))]
    pub(in crate::program) idle: u32,
    /// Limit the rate of each forwarder in each direction, such as 20M (bit/s)
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub(in crate::program) max_rate: Option<Rate>,
    /// Limit the rate of all connections together, in each direction
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub(in crate::program) max_total_rate: Option<Rate>,
    #[command(flatten)]
    pub(in crate::program) monitor: MonitorArgs,
    #[command(flatten)]
    pub(in crate::program) transport: TransportArgs,
    /// Share the address with the other gateways in this file, behind a load balancer without memory of connections
    ///
    /// The file names the internal address of each member and a secret that no other user may read. A member passes
    /// segments of another member's tunnel to that member, which answers from the address to which they were sent. All
    /// members need the same key and service address.
    #[arg(long, value_name = "FILE")]
    pub(in crate::program) group: Option<PathBuf>,
    /// Create the file of --group with a new secret and the internal addresses of all members, and exit
    #[arg(long, value_name = "ADDR:PORT,...", requires = "group", value_delimiter = ',')]
    pub(in crate::program) create_group: Vec<SocketAddr>,
    /// After SIGTERM, let tunnels continue for this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(0..=604_800))]
    pub(in crate::program) drain: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_as_ssh_writes_them() {
        for (text, host, port) in
            [("h.example:22", "h.example", 22), ("::1:22", "::1", 22), ("[2001:db8::1]:2222", "2001:db8::1", 2222)]
        {
            let target = parse_target(text).unwrap();
            assert_eq!((target.host(), target.port()), (host, port));
        }
        for bad in ["", "h.example", "h.example:", ":22", "a:b:22", "[h.example]:22", "h.example:0"] {
            assert_eq!(parse_target(bad), Err(ParseTargetError), "{bad}");
        }
    }
}
