//! Unmodified programs through a forwarder.
use std::fs::{self, File, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::machine::{Machine, Receiver};

/// A server, killed when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server, and waits until its port is open.
fn serve(command: &mut Command, port: u16) -> Server {
    let mut server = Server(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    for _ in 0..600 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return server;
        }
        assert!(server.0.try_wait().unwrap().is_none(), "the server ended: {command:?}");
        thread::sleep(Duration::from_millis(100));
    }
    panic!("the server does not listen: {command:?}");
}

/// Returns a port that was free a moment ago.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// Forwards a local port to `port` of this machine. The address of the forwarder is that of the local port.
fn forward(port: u16) -> (Machine, Machine, Receiver, Receiver) {
    let (there, here) = (Machine::new(), Machine::new());
    let target = format!("127.0.0.1:{port}");
    let gateway = there.gateway(&["--allow", &here.key(), "--permit", &target]);
    let forward = here.forward(&gateway.address, &["-L", &format!("0:{target}")]);
    (there, here, gateway, forward)
}

fn local_port(forward: &Receiver) -> &str {
    forward.address.rsplit_once(':').unwrap().1
}

/// A server of OpenSSH that lets root in with a key of its own.
pub(crate) struct Sshd {
    directory: TempDir,
    pub(crate) port: u16,
    _server: Server,
}

impl Sshd {
    /// Starts a server, if the machine has what it needs.
    #[track_caller]
    pub(crate) fn start() -> Option<Self> {
        let sshd = "/usr/sbin/sshd";
        if !needs::programs(&[sshd, "/usr/bin/ssh"]) || !needs::root() {
            return None;
        }
        let directory = TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name).into_os_string().into_string().unwrap();
        for name in ["host", "user"] {
            let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &path(name)]).status();
            assert!(made.unwrap().success());
        }
        // sshd needs this directory to drop its privileges.
        fs::create_dir_all("/run/sshd").unwrap();
        let port = free_port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nPidFile none\n\
             PermitRootLogin yes\nUsePAM no\nSubsystem sftp internal-sftp\n",
            path("host"),
            path("user.pub")
        );
        fs::write(path("config"), config).unwrap();
        let server = serve(Command::new(sshd).args(["-D", "-f", &path("config")]), port);
        Some(Self { directory, port, _server: server })
    }

    /// Writes a configuration file for ssh that has this line, too; returns its path.
    pub(crate) fn config(&self, line: &str) -> String {
        let path = |name: &str| self.directory.path().join(name).into_os_string().into_string().unwrap();
        let config = format!(
            "User root\nIdentityFile {}\nIdentitiesOnly yes\nBatchMode yes\nLogLevel ERROR\n\
             StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n{line}\n",
            path("user")
        );
        fs::write(path("ssh"), config).unwrap();
        path("ssh")
    }
}

#[test]
fn ssh_runs_a_command_and_copies_its_input() {
    let Some(sshd) = Sshd::start() else { return };
    let (_there, here, _gateway, forward) = forward(sshd.port);
    let input = here.path("input");
    fs::write(&input, crate::forward::contents(1, 2_000_000)).unwrap();
    let output = Command::new("ssh")
        .args(["-F", &sshd.config(&format!("Port {}", local_port(&forward)))])
        .args(["127.0.0.1", "cat; echo done >&2; exit 7"])
        .stdin(File::open(&input).unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(output.stdout == fs::read(&input).unwrap() && said.contains("done"), "{said}");
}

/// Returns the directory with the programs of the newest PostgreSQL server.
fn postgres() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    versions.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).filter(|bin| bin.join("initdb").exists()).max()
}

#[test]
fn psql_queries_a_server() {
    let bin = postgres();
    if !needs::that(bin.is_some(), "postgres", "a PostgreSQL server; apt-get install postgresql")
        || !needs::program("/usr/bin/psql")
    {
        return;
    }
    let bin = bin.unwrap();
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    fs::create_dir(&data).unwrap();
    // The PostgreSQL server refuses to run as root.
    let program = |name: &str| {
        let mut command = Command::new(if is_root() { "runuser" } else { "env" });
        if is_root() {
            command.args(["-u", "postgres", "--"]);
        }
        command.arg(bin.join(name)).arg("-D").arg(&data).current_dir("/");
        command
    };
    if is_root() {
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        assert!(Command::new("chown").arg("postgres").arg(&data).status().unwrap().success());
    }
    let made = program("initdb").args(["-U", "postgres", "-A", "trust", "--no-sync"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let port = free_port();
    let _server = serve(program("postgres").args(["-h", "127.0.0.1", "-p", &port.to_string(), "-k", "", "-F"]), port);
    let (_there, _here, _gateway, forward) = forward(port);
    let rows = "select sum(n), max(length(repeat('x', n))) from generate_series(1, 10000) n";
    let output = Command::new("psql")
        .args(["-h", "127.0.0.1", "-p", local_port(&forward), "-U", "postgres", "-At", "-c", rows])
        .args(["-c", "select repeat('y', 1000000)"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let expected = format!("50005000|10000\n{}\n", "y".repeat(1_000_000));
    assert!(text == expected, "{}", String::from_utf8_lossy(&output.stderr));
}
