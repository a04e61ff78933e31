//! Standard input and output as the forwarded connection.

use std::fs::{File, OpenOptions};
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as Pair;
use std::sync::Mutex;
use std::task::{Context, Poll, ready};
use std::thread::JoinHandle;

use futures_util::future::BoxFuture;
use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, ReadBuf};

use super::{Local, Owner};
use crate::sync::{blocking, lock};

/// Standard input and output of this process, as pipes or sockets. The process itself no longer uses them, so that both
/// end when these are closed.
pub(crate) struct Standard {
    pub(crate) input: OwnedFd,
    pub(crate) output: OwnedFd,
    copy: Option<JoinHandle<io::Result<()>>>,
}

impl Standard {
    pub(crate) fn take() -> io::Result<Self> {
        let (input, output) = (io::stdin().as_fd().try_clone_to_owned()?, io::stdout().as_fd().try_clone_to_owned()?);
        let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdin(&null)?;
        rustix::stdio::dup2_stdout(&null)?;
        let input = if is_pollable(&input)? { input } else { read_by_thread(input)? };
        let (output, copy) = if is_pollable(&output)? { (output, None) } else { write_by_thread(output)? };
        Ok(Self { input, output, copy })
    }

    /// Takes the handle with which to wait, after `output` was closed, until all output has been written.
    pub(crate) fn written(&mut self) -> impl Future<Output = io::Result<()>> + use<> {
        let copy = self.copy.take();
        async move {
            let Some(copy) = copy else { return Ok(()) };
            blocking(|| copy.join()).await.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        }
    }
}

/// Returns whether the system can report when a file is ready. It cannot for regular files, and terminals should not
/// become non-blocking, because other processes also use them.
fn is_pollable(fd: &OwnedFd) -> io::Result<bool> {
    Ok(matches!(FileType::from_raw_mode(fstat(fd)?.st_mode), FileType::Fifo | FileType::Socket))
}

/// Returns a socket from which a thread's copy of `input` can be read. The thread ends with the process, because a read
/// cannot be interrupted.
fn read_by_thread(input: OwnedFd) -> io::Result<OwnedFd> {
    let (near, far) = Pair::pair()?;
    std::thread::spawn(move || {
        // If the other end is closed, the rest is not needed.
        let _ = io::copy(&mut File::from(input), &mut &far);
    });
    Ok(near.into())
}

/// Returns a socket whose data a thread writes to `output`.
fn write_by_thread(output: OwnedFd) -> io::Result<(OwnedFd, Option<JoinHandle<io::Result<()>>>)> {
    let (near, far) = Pair::pair()?;
    let copy = std::thread::spawn(move || io::copy(&mut &far, &mut File::from(output)).map(|_| ()));
    Ok((near.into(), Some(copy)))
}

/// A pair of pipes or sockets, closed when dropped.
#[derive(Debug)]
pub(crate) struct Stdio {
    /// `None` after the end. Dropped before `input`, whose flags are those of both if they are one socket.
    output: Mutex<Option<End>>,
    input: End,
    /// Process that has handed over the pair. The stream is reset if it ends.
    owner: Option<Owner>,
}

impl Stdio {
    pub(crate) fn new(input: OwnedFd, output: OwnedFd, owner: Option<Owner>) -> io::Result<Self> {
        let input = End::new(input, Interest::READABLE)?;
        Ok(Self { output: Mutex::new(Some(End::new(output, Interest::WRITABLE)?)), input, owner })
    }
}

impl Local for Stdio {
    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut readable = ready!(self.input.file.poll_read_ready(cx))?;
            let read = readable.try_io(|file| Ok(rustix::io::read(file, buf.initialize_unfilled())?));
            if let Ok(read) = read {
                buf.advance(read?);
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn poll_write(&self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let output = lock(&self.output);
        let Some(output) = &*output else { return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) };
        loop {
            let mut writable = ready!(output.file.poll_write_ready(cx))?;
            if let Ok(written) = writable.try_io(|file| Ok(rustix::io::write(file, data)?)) {
                return Poll::Ready(written);
            }
        }
    }

    fn end(&self) -> io::Result<()> {
        if let Some(output) = lock(&self.output).take() {
            // A socket may also be the input, which continues. A pipe ends when it is dropped.
            let _ = socket2::SockRef::from(output.file.get_ref()).shutdown(Shutdown::Write);
        }
        Ok(())
    }

    fn failed(&self) -> BoxFuture<'_, ()> {
        let Some(owner) = &self.owner else { return Box::pin(std::future::pending()) };
        Box::pin(async {
            // The owner sends nothing more.
            while owner.readable().await.is_ok() {
                match owner.try_read(&mut [0]) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    _ => return,
                }
            }
        })
    }

    fn finish(&self) {}

    fn owner(&self) -> Option<Owner> {
        self.owner.clone()
    }
}

/// A pipe or socket, which is non-blocking until it is dropped. This flag affects all processes that have it open.
#[derive(Debug)]
struct End {
    file: AsyncFd<OwnedFd>,
    before: OFlags,
}

impl End {
    #[allow(
        deprecated,
        reason = "from tokio 1.54 on: its successor is unsafe, for types that replace their descriptor"
    )]
    fn new(fd: OwnedFd, interest: Interest) -> io::Result<Self> {
        let before = fcntl_getfl(&fd)?;
        fcntl_setfl(&fd, before | OFlags::NONBLOCK)?;
        Ok(Self { file: AsyncFd::with_interest(fd, interest)?, before })
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // The other processes may all have ended.
        let _ = fcntl_setfl(self.file.get_ref(), self.before);
    }
}
