//! Both ends of a picoquic flow, which are processes of its demo program: the server, which sends, runs in the senders'
//! namespace, and the client outside. The client writes what it receives to a named pipe, whose reader is thus the
//! receiving application.

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tokio::net::unix::pipe;

use super::network::Network;
use super::{NO_PICOQUIC, picoquic_program};

/// Bytes of a flow without an end: more than any run transfers, and few enough for QUIC's 62 bits.
const ENDLESS: u64 = 1_000_000_000_000_000;
/// Size of the client's socket buffers in bytes, which the kernel may limit (net.core.rmem_max). The server keeps the
/// program's buffer sizes, because the size of its batches depends on them.
const BUFFERS: &str = "1000000";
/// Number of intervals of 10 ms for which the server may take to listen.
const PATIENCE: u32 = 500;

/// Number of flows of this process so far.
static NUMBER: AtomicU32 = AtomicU32::new(0);

pub(super) struct Demo {
    program: PathBuf,
    congestion: String,
    /// Number of bytes to fetch. The server generates them, and the pipe is named after this number.
    bytes: u64,
    folder: PathBuf,
    server: Cell<Option<SocketAddr>>,
    processes: RefCell<Vec<Child>>,
}

impl Demo {
    /// Creates a flow of this many bytes, and the pipe from which they can be read.
    pub(super) fn new(congestion: &str, bytes: u64) -> io::Result<(Self, pipe::Receiver)> {
        let program = picoquic_program().ok_or_else(|| io::Error::other(NO_PICOQUIC))?;
        let bytes = bytes.min(ENDLESS);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("longhaul-picoquic-{}-{number}", process::id()));
        fs::create_dir(&folder)?;
        let pipe = folder.join(bytes.to_string());
        let (server, processes) = (Cell::default(), RefCell::default());
        let demo = Self { program, congestion: congestion.into(), bytes, folder, server, processes };
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        Ok((demo, pipe::OpenOptions::new().open_receiver(pipe)?))
    }

    /// Starts the server, and waits until it listens.
    pub(super) fn serve(&self, network: &Network) -> io::Result<()> {
        let certs = self.program.with_file_name("certs");
        let of = |name| certs.join(name).display().to_string();
        let mut command = self.command("server")?;
        command.args(["-1", "-G", &self.congestion, "-c", &of("cert.pem"), "-k", &of("key.pem")]);
        let (server, port) = network.inside(|| {
            let port = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?.local_addr()?.port();
            let server = command.args(["-p", &port.to_string()]).spawn()?;
            let mut patience = PATIENCE;
            while patience > 0 && !listens(port) {
                patience -= 1;
                sleep(Duration::from_millis(10));
            }
            Ok((server, (patience > 0).then_some(port)))
        })?;
        self.processes.borrow_mut().push(server);
        let port = port.ok_or_else(|| self.failed("server", "does not listen"))?;
        self.server.set(Some((network.sender(), port).into()));
        Ok(())
    }

    /// Starts the client.
    pub(super) fn fetch(&self) -> io::Result<()> {
        let Some(server) = self.server.get() else { return Err(io::ErrorKind::NotConnected.into()) };
        let (address, port, document) =
            (server.ip().to_string(), server.port().to_string(), format!("0:/{}", self.bytes));
        let mut command = self.command("client")?;
        command.args(["-G", &self.congestion, "-B", BUFFERS, "-n", "test", "-a", "h3", "-o", "."]);
        self.processes.borrow_mut().push(command.args([address, port, document]).spawn()?);
        Ok(())
    }

    /// Fails if a process has failed, or has ended before anything was read. A connection that ends later, because its
    /// peer was silent, has the goodput of the data read.
    pub(super) fn check(&self, read: u64) -> io::Result<()> {
        for (process, name) in self.processes.borrow_mut().iter_mut().zip(["server", "client"]) {
            if let Some(status) = process.try_wait()?.filter(|status| !status.success() || read == 0) {
                return Err(self.failed(name, &format!("ended with {status}")));
            }
        }
        Ok(())
    }

    fn command(&self, name: &str) -> io::Result<Command> {
        let log = File::create(self.log(name))?;
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(command)
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.join(name).with_extension("log")
    }

    fn failed(&self, name: &str, what: &str) -> io::Error {
        let log = fs::read_to_string(self.log(name)).unwrap_or_default();
        io::Error::other(format!("picoquic's {name} {what}: {}", log.lines().last().unwrap_or_default()))
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        for process in self.processes.get_mut() {
            // A process that has already ended must still be waited for.
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns whether a UDP socket of this network namespace has the port (proc_net(5)).
fn listens(port: u16) -> bool {
    let sockets = fs::read_to_string("/proc/thread-self/net/udp").unwrap_or_default();
    sockets.contains(&format!(":{port:04X} "))
}
