//! Control socket: `longhaul stdio` hands its standard input and output to a forwarder that runs for the same user, key
//! and gateway, so that it needs no separate connection.
//!
//! The forwarder sends a line with the version, the key of the gateway, and the [terms](Terms) of its connections. The
//! other process sends a line with the target, together with both file descriptors (`SCM_RIGHTS`). When the stream has
//! ended, the forwarder reports the outcome. If either process closes the socket earlier, the stream is reset.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use longhaul_tls::Fingerprint;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::pool::Pool;
use crate::tunnel::{Ended, Reason, Standard, Stdio, Target};

const VERSION: &str = "longhaul-forward-1";
/// Maximum length of a line in bytes.
const MAX_LINE: usize = 1024;
/// Maximum time that a running process takes to answer on the same machine.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(100);

/// Received descriptors are not inherited by other programs. Apple's systems lack the flag, but a forwarder starts no
/// programs.
#[cfg(not(target_vendor = "apple"))]
const RECEIVE: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(target_vendor = "apple")]
const RECEIVE: RecvFlags = RecvFlags::empty();

/// Location of the control socket of a forwarder.
#[derive(Clone, Debug)]
pub(crate) struct Place(PathBuf);

/// Properties on which the forwarder and a process that hands over a connection must agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) gateway: Fingerprint,
    /// Digest of the options of the connections, or `-` if they have their defaults.
    pub(crate) options: String,
}

impl Place {
    /// Returns the location in `directory` for forwarders to `gateway` that present the key `ours`.
    pub(crate) fn new(directory: &Path, gateway: &str, ours: Fingerprint) -> Self {
        let name = blake3::hash(format!("{ours} {gateway}").as_bytes());
        Self(directory.join(&name.to_hex()[..16]))
    }
}

/// Control socket of a forwarder, removed when dropped.
#[derive(Debug)]
pub(crate) struct Control {
    listener: UnixListener,
    place: Place,
    /// Device and inode of the socket.
    inode: (u64, u64),
}

impl Control {
    /// Listens at `place`, in a directory that only this user can enter. Replaces a socket left by a killed forwarder.
    /// Fails with `AddrInUse` if another forwarder listens there.
    pub(crate) async fn listen(place: Place) -> io::Result<Self> {
        let path = &place.0;
        private(path.parent().unwrap_or(path))?;
        match UnixStream::connect(path).await {
            Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)?,
            Err(error) => return Err(error),
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        let inode = inode(path)?;
        Ok(Self { listener, place, inode })
    }

    /// Accepts connections and forwards them through `pool`. Does not return.
    pub(crate) async fn run(self, pool: Arc<Pool>, terms: Terms) {
        let mut tasks = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let (pool, terms) = (Arc::clone(&pool), terms.clone());
                        tasks.spawn(async move {
                            if let Err(error) = serve(stream, &pool, &terms).await {
                                tracing::info!(target: "longhaul::forward", "control socket: {error}");
                            }
                        });
                    }
                    Err(error) => {
                        tracing::warn!(target: "longhaul::forward", "control socket: {error}");
                        sleep(PAUSE).await;
                    }
                },
                Some(_) = tasks.join_next() => {}
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Another forwarder may have replaced the socket.
        if inode(&self.place.0).is_ok_and(|inode| inode == self.inode) {
            let _ = fs::remove_file(&self.place.0);
        }
    }
}

async fn serve(mut stream: UnixStream, pool: &Pool, terms: &Terms) -> io::Result<()> {
    check_user(&stream)?;
    let Terms { gateway, options } = terms;
    stream.write_all(format!("{VERSION} {gateway} {options}\n").as_bytes()).await?;
    let (target, [input, output]) = timeout(PATIENCE, receive(&stream)).await??;
    let local = Stdio::new(input, output, Some(Arc::new(stream)))?;
    pool.forward(Box::new(local), target).await;
    Ok(())
}

async fn receive(stream: &UnixStream) -> io::Result<(Target, [OwnedFd; 2])> {
    let (mut line, mut files) = (Vec::new(), Vec::new());
    while line.last() != Some(&b'\n') && line.len() < MAX_LINE {
        let mut part = [0; MAX_LINE];
        let read = stream.async_io(Interest::READABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [IoSliceMut::new(&mut part)];
            let read = rustix::net::recvmsg(stream, &mut parts, &mut control, RECEIVE)?.bytes;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = message {
                    files.extend(rights);
                }
            }
            Ok(read)
        });
        match read.await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => line.extend(part.iter().take(read)),
        }
    }
    let target = str::from_utf8(&line).ok().and_then(|line| line.trim_end().parse().ok());
    target.zip(files.try_into().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Reports to the process that has handed over a connection how it ended.
pub(super) async fn tell(owner: &UnixStream, ended: &Result<Ended, String>) {
    let line = text(ended);
    // The socket's buffer is empty, so this fails only if the process has ended.
    if owner.writable().await.is_ok() {
        let _ = owner.try_write(line.as_bytes());
    }
}

#[derive(Debug)]
pub(crate) struct Forwarder {
    stream: UnixStream,
    pub(crate) terms: Terms,
}

impl Forwarder {
    /// Finds the forwarder that listens at `place`. Returns none if its process has ended or is stopped.
    pub(crate) async fn find(place: &Place) -> Option<Self> {
        let greeted = async {
            let stream = UnixStream::connect(&place.0).await?;
            check_user(&stream)?;
            let mut reader = BufReader::new(stream.take(MAX_LINE as u64));
            let mut line = String::new();
            reader.read_line(&mut line).await?;
            let terms = parse_terms(&line).ok_or(io::ErrorKind::InvalidData)?;
            Ok::<_, io::Error>(Self { stream: reader.into_inner().into_inner(), terms })
        };
        match timeout(PATIENCE, greeted).await {
            Ok(Ok(found)) => Some(found),
            Ok(Err(error)) => {
                tracing::debug!(target: "longhaul::forward", "no forwarder at {}: {error}", place.0.display());
                None
            }
            Err(_) => None,
        }
    }

    /// Hands over the connection, and waits until it has ended.
    pub(crate) async fn hand_over(mut self, standard: Standard, target: &Target) -> io::Result<Result<Ended, String>> {
        let line = format!("{target}\n");
        self.stream.writable().await?;
        {
            let files = [standard.input.as_fd(), standard.output.as_fd()];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(&files));
            // The socket's buffer is empty, so the line fits.
            rustix::net::sendmsg(&self.stream, &[IoSlice::new(line.as_bytes())], &mut control, SendFlags::empty())?;
        }
        drop(standard);
        let mut line = String::new();
        self.stream.read_to_string(&mut line).await?;
        Ok(parse(&line).unwrap_or_else(|| Err("the forwarder has ended".to_owned())))
    }
}

fn parse_terms(line: &str) -> Option<Terms> {
    let [VERSION, gateway, options] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
    Some(Terms { gateway: gateway.parse().ok()?, options: options.to_owned() })
}

/// Returns the outcome of a stream as a line.
fn text(ended: &Result<Ended, String>) -> String {
    match ended {
        Ok(Ended::Orderly) => "orderly\n".to_owned(),
        Ok(Ended::Here(reason)) => format!("here {}\n", reason.name()),
        Ok(Ended::There(reason)) => format!("there {}\n", reason.name()),
        Err(error) => format!("failed {}\n", error.replace('\n', " ")),
    }
}

fn parse(line: &str) -> Option<Result<Ended, String>> {
    let line = line.strip_suffix('\n')?;
    let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
    let reason = Reason::all().find(|reason| reason.name() == rest).unwrap_or(Reason::Other);
    Some(match kind {
        "orderly" => Ok(Ended::Orderly),
        "here" => Ok(Ended::Here(reason)),
        "there" => Ok(Ended::There(reason)),
        _ => Err(rest.to_owned()),
    })
}

/// Creates a directory that only this user can enter, or checks that an existing one is such a directory.
fn private(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(directory)?;
    let ours = found.uid() == rustix::process::geteuid().as_raw();
    if found.is_dir() && ours && found.mode() & 0o077 == 0 {
        Ok(())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// Checks that the process at the other end belongs to this user.
fn check_user(stream: &UnixStream) -> io::Result<()> {
    let ours = stream.peer_cred()?.uid() == rustix::process::geteuid().as_raw();
    if ours { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_stream_comes_back_as_it_was() {
        let reasons = Reason::all().flat_map(|reason| [Ok(Ended::Here(reason)), Ok(Ended::There(reason))]);
        for ended in reasons.chain([Ok(Ended::Orderly), Err("it failed".to_owned())]) {
            assert_eq!(parse(&text(&ended)), Some(ended));
        }
        for cut in ["", "orderly", "there ref"] {
            assert_eq!(parse(cut), None);
        }
    }

    #[test]
    fn a_directory_that_others_can_enter_is_refused() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("run");
        private(&path).unwrap();
        private(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o750)).unwrap();
        assert_eq!(private(&path).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(private(&directory.path().join("a/b")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
