//! Requirements of tests: programs, permissions and devices that a machine may lack.
//!
//! A test asks for its requirements, and returns if one is missing:
//!
//! ```no_run
//! if !needs::root() || !needs::program("sshd") {
//!     return;
//! }
//! ```
//!
//! If a requirement is missing, the test is left out, and recorded in a file. The last test binary of a run of the
//! whole workspace (`tests/summary.rs`) prints this file. If `LONGHAUL_REQUIRE` is set, as in `.ci/run`, the test fails
//! instead, unless `LONGHAUL_MAY_SKIP` lists the requirement (names separated by spaces or commas).
//!
//! Tests that need another operating system have a `#[cfg]` instead.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::net::UdpSocket;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs whose Debian package has another name, and that name.
const PACKAGES: [(&str, &str); 15] = [
    ("c++", "g++"),
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("postgres", "postgresql"),
    ("promtool", "prometheus"),
    ("psql", "postgresql-client"),
    ("runuser", "util-linux"),
    ("scp", "openssh-client"),
    ("script", "bsdutils"),
    ("setpriv", "util-linux"),
    ("setsid", "util-linux"),
    ("ssh", "openssh-client"),
    ("sshd", "openssh-server"),
    ("tc", "iproute2"),
    ("unshare", "util-linux"),
];

/// Returns whether `program` is installed. The requirement has the name of the program.
#[must_use]
#[track_caller]
pub fn program(program: &str) -> bool {
    let name = Path::new(program).file_name().and_then(OsStr::to_str).unwrap_or(program);
    let package = PACKAGES.iter().find(|(known, _)| *known == name).map_or(name, |(_, package)| package);
    that(is_installed(program), name, &format!("the program `{program}`; apt-get install {package}"))
}

/// Returns whether all these programs are installed.
#[must_use]
#[track_caller]
pub fn programs(programs: &[&str]) -> bool {
    programs.iter().all(|name| program(name))
}

/// Returns whether the tests run as root. The requirement is `root`.
#[must_use]
#[track_caller]
pub fn root() -> bool {
    that(is_root(), "root", "root's rights; run the tests as root")
}

/// Returns whether network namespaces can be created. The requirement is `namespaces`.
#[must_use]
#[track_caller]
pub fn namespaces() -> bool {
    let can = succeeds("unshare", &["--net", "true"]);
    that(can, "namespaces", "network namespaces; run the tests as root with CAP_SYS_ADMIN, and install util-linux")
}

/// Returns whether network namespaces can be created and connected by veth pairs. The requirement is `veth`.
#[must_use]
#[track_caller]
pub fn veth() -> bool {
    let add = ["--net", "ip", "link", "add", "near", "type", "veth", "peer", "name", "far"];
    namespaces()
        && programs(&["ip", "ethtool"])
        && that(succeeds("unshare", &add), "veth", "virtual Ethernet devices; use a kernel with CONFIG_VETH")
}

/// Returns whether network namespaces and TUN devices can be created. The requirement is `tun`.
#[must_use]
#[track_caller]
pub fn tun() -> bool {
    const TUN: &str = "/dev/net/tun";
    let how = format!("TUN devices; mkdir -p /dev/net && mknod {TUN} c 10 200, with a kernel that has CONFIG_TUN");
    namespaces() && that(OpenOptions::new().read(true).write(true).open(TUN).is_ok(), "tun", &how)
}

/// Returns whether file systems can be mounted in a mount namespace. The requirement is `mounts`.
#[must_use]
#[track_caller]
pub fn mounts() -> bool {
    let can = succeeds("unshare", &["--mount", "mount", "-t", "tmpfs", "none", "/tmp"]);
    that(can, "mounts", "mount namespaces; run the tests as root with CAP_SYS_ADMIN, and install util-linux")
}

/// Returns whether IPv6 is available, in this network namespace and in new ones. The requirement is `ipv6`.
#[must_use]
#[track_caller]
pub fn ipv6() -> bool {
    let is_off = |name: &str| {
        let value = fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"));
        value.is_ok_and(|value| value.trim() != "0")
    };
    let has = UdpSocket::bind("[::1]:0").is_ok() && !is_off("all") && !is_off("default");
    that(has, "ipv6", "IPv6; sysctl net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0")
}

/// Returns `has`, which tells whether sockets use longhaul's own system calls instead of the crate `quinn-udp`. The
/// requirement is `system-sockets`.
#[must_use]
#[track_caller]
pub fn system_sockets(has: bool) -> bool {
    that(has, "system-sockets", "longhaul's own system calls; run the tests on Linux, and not over quinn-udp")
}

/// Returns `has`, which tells whether the machine was fast enough for a test in real time. The requirement is
/// `quiet-machine`.
#[must_use]
#[track_caller]
pub fn quiet_machine(has: bool) -> bool {
    that(has, "quiet-machine", "a machine that keeps time; run the tests while nothing else runs")
}

/// Returns `has`, which tells whether the machine meets the requirement `name`. If not, records the calling test as
/// left out. `what` describes the requirement, and how to meet it.
///
/// # Panics
/// Panics if `has` is false, `LONGHAUL_REQUIRE` is set, and `LONGHAUL_MAY_SKIP` does not list `name`.
#[must_use]
#[track_caller]
pub fn that(has: bool, name: &str, what: &str) -> bool {
    if !has {
        let is_required = env::var_os("LONGHAUL_REQUIRE").is_some_and(|value| !value.is_empty());
        let test = test(Location::caller());
        let line = format!("{test} needs {name}: {what}");
        assert!(!is_required || may_be_missing(name), "{line} (LONGHAUL_REQUIRE is set)");
        eprintln!("left out: {line}");
        // A test that cannot be recorded as left out must not pass.
        tell(&format!("{line}\n")).expect("the list of tests that were left out can be written");
    }
    has
}

fn may_be_missing(name: &str) -> bool {
    let list = env::var("LONGHAUL_MAY_SKIP").unwrap_or_default();
    list.split([' ', ',']).any(|listed| listed == name)
}

/// Returns the name of the test binary with that of the test, or with the place of the call if the test is unknown.
fn test(place: &Location<'_>) -> String {
    let binary = env::current_exe().ok().and_then(|path| Some(path.file_stem()?.to_str()?.to_owned()));
    let binary = binary.unwrap_or_default();
    let binary = binary.rsplit_once('-').map_or(&*binary, |(name, _)| name);
    // The test harness names the thread of each test after the test.
    let thread = std::thread::current();
    match thread.name().filter(|name| name.contains("::") || (*name != "main" && !name.contains('-'))) {
        Some(test) => format!("{binary}: {test}"),
        None => format!("{binary}: {}:{}", place.file(), place.line()),
    }
}

/// Appends a line to the list. Several processes may append at the same time.
fn tell(line: &str) -> std::io::Result<()> {
    let path = list();
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    File::options().create(true).append(true).open(path)?.write_all(line.as_bytes())
}

/// Returns the path of the list of tests that were left out in this run of cargo: the value of `LONGHAUL_LEFT_OUT`, or
/// a file in the target directory that is named by the PID of cargo, the parent of all test binaries.
#[must_use]
pub fn list() -> PathBuf {
    if let Some(path) = env::var_os("LONGHAUL_LEFT_OUT") {
        return path.into();
    }
    let program = env::current_exe().unwrap_or_default();
    let target = program.ancestors().find(|directory| directory.join("CACHEDIR.TAG").is_file());
    target.map_or_else(env::temp_dir, Path::to_path_buf).join("left-out").join(run())
}

#[cfg(unix)]
fn run() -> String {
    std::os::unix::process::parent_id().to_string()
}

#[cfg(not(unix))]
fn run() -> String {
    "tests".to_owned()
}

fn is_installed(program: &str) -> bool {
    let directories = env::var_os("PATH").unwrap_or_default();
    Path::new(program).is_absolute() && Path::new(program).is_file()
        || env::split_paths(&directories).any(|directory| {
            let path = directory.join(program);
            path.is_file() || path.with_extension("exe").is_file()
        })
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

#[cfg(unix)]
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}
