//! Safe wrappers of system calls. This is the only unsafe code of longhaul.
#![expect(unsafe_code, reason = "system calls that the standard library does not wrap")]

use std::io::{self, IoSlice};
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use libc::{c_int, c_long, socklen_t};

use super::addr::RawAddr;
use super::cmsg::{RecvControl, SendControl};

/// Largest number of messages per [`sendmmsg`] or [`recvmmsg`].
pub(super) const MAX_BATCH: usize = 32;

pub(super) struct OutMessage<'a> {
    pub(super) name: Option<RawAddr>,
    pub(super) control: SendControl,
    pub(super) slices: &'a [IoSlice<'a>],
}

/// Sender, control messages, length and flags of a received datagram, as written by the kernel.
#[derive(Debug, Default)]
pub(super) struct InMessage {
    pub(super) name: RawAddr,
    pub(super) control: RecvControl,
    pub(super) len: usize,
    /// `MSG_TRUNC` and `MSG_CTRUNC`.
    pub(super) flags: c_int,
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn retry(mut call: impl FnMut() -> c_int) -> io::Result<c_int> {
    loop {
        match check(call()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Returns whether a system call does not exist, or a seccomp filter denies it.
pub(super) fn is_denied(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM))
}

#[cfg(test)]
thread_local! {
    /// Makes `sendmmsg` and `recvmmsg` fail in this thread, as a seccomp filter does.
    pub(super) static DENIED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

#[cfg(test)]
fn is_denied_in_test() -> bool {
    if DENIED.get() {
        // SAFETY: a system call that does not exist sets the error to ENOSYS.
        assert_eq!(unsafe { libc::syscall(-1) }, -1);
    }
    DENIED.get()
}

/// Returns the number of calls before the first error, or the error if there is none.
fn count_until_error(calls: impl Iterator<Item = io::Result<()>>) -> io::Result<usize> {
    let mut done = 0;
    for call in calls {
        match call {
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
            Ok(()) => done += 1,
        }
    }
    Ok(done)
}

/// Converts a length, whose type depends on the C library, to `usize`.
fn size(len: impl TryInto<usize>) -> usize {
    len.try_into().unwrap_or(0)
}

fn headers() -> [libc::mmsghdr; MAX_BATCH] {
    // SAFETY: `mmsghdr` holds integers and raw pointers only, for which all zeros is a valid value.
    unsafe { mem::zeroed() }
}

fn fill_out(header: &mut libc::msghdr, message: &OutMessage<'_>) {
    if let Some(name) = &message.name {
        header.msg_name = name.as_bytes().as_ptr().cast_mut().cast();
        header.msg_namelen = name.as_bytes().len() as socklen_t;
    }
    let control = message.control.as_bytes();
    if !control.is_empty() {
        header.msg_control = control.as_ptr().cast_mut().cast();
        header.msg_controllen = control.len() as _;
    }
    // IoSlice has the layout of iovec (guaranteed by the standard library on Unix).
    header.msg_iov = message.slices.as_ptr().cast_mut().cast();
    header.msg_iovlen = message.slices.len() as _;
}

/// Undoes `connect(2)`. The local address and port are given up, too, if the system had chosen them.
pub(super) fn disconnect(fd: BorrowedFd<'_>) -> io::Result<()> {
    let nobody = libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: [0; 14] };
    // SAFETY: the kernel reads an address of this length.
    check(unsafe { libc::connect(fd.as_raw_fd(), &raw const nobody, size_of_val(&nobody) as socklen_t) }).map(drop)
}

/// Calls `sendmsg(2)` without blocking.
pub(super) fn sendmsg(fd: BorrowedFd<'_>, message: &OutMessage<'_>) -> io::Result<()> {
    // SAFETY: `msghdr` holds integers and raw pointers only, for which all zeros is a valid value.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    fill_out(&mut header, message);
    let sent = loop {
        // SAFETY: every pointer of `header` comes with its length from `message`, which outlives the call; the kernel
        // only reads through them.
        let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &header, libc::MSG_DONTWAIT) };
        if sent >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            break sent;
        }
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Calls `sendmmsg(2)` without blocking for the first [`MAX_BATCH`] messages. Returns how many were sent, at least one.
pub(super) fn sendmmsg(fd: BorrowedFd<'_>, messages: &[OutMessage<'_>]) -> io::Result<usize> {
    let mut headers = headers();
    for (header, message) in headers.iter_mut().zip(messages) {
        fill_out(&mut header.msg_hdr, message);
    }
    let count = messages.len().min(MAX_BATCH) as libc::c_uint;
    let sent = retry(|| {
        #[cfg(test)]
        if is_denied_in_test() {
            return -1;
        }
        // SAFETY: the first `count` headers were filled with pointers and lengths from `messages`, which outlives the
        // call; the kernel reads through them and writes only `msg_len` of the headers.
        unsafe { libc::sendmmsg(fd.as_raw_fd(), headers.as_mut_ptr(), count, libc::MSG_DONTWAIT as _) }
    })?;
    Ok(sent as usize)
}

/// Calls `recvmmsg(2)` without blocking. Returns the number of received messages, at least one.
///
/// The limit is the number of buffers, the number of slots, or [`MAX_BATCH`], whichever is lowest. `flags` may select
/// the error queue.
pub(super) fn recvmmsg<'a>(
    fd: BorrowedFd<'_>,
    flags: c_int,
    buffers: impl Iterator<Item = &'a mut [u8]>,
    slots: &mut [InMessage],
) -> io::Result<usize> {
    // Each header refers to one buffer, and to the address and the control messages of one slot.
    let mut headers = headers();
    let mut iovecs = [const { libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 } }; MAX_BATCH];
    let mut count = 0;
    for (((header, iovec), buffer), slot) in headers.iter_mut().zip(&mut iovecs).zip(buffers).zip(&mut *slots) {
        iovec.iov_base = buffer.as_mut_ptr().cast();
        iovec.iov_len = buffer.len();
        let name = slot.name.storage();
        header.msg_hdr.msg_name = name.as_mut_ptr().cast();
        header.msg_hdr.msg_namelen = name.len() as socklen_t;
        let control = slot.control.storage();
        header.msg_hdr.msg_control = control.as_mut_ptr().cast();
        header.msg_hdr.msg_controllen = control.len() as _;
        header.msg_hdr.msg_iov = iovec;
        header.msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    let flags = flags | libc::MSG_DONTWAIT;
    let one_call = || {
        #[cfg(test)]
        if is_denied_in_test() {
            return -1;
        }
        // SAFETY: the first `count` headers point, with the right lengths, into distinct slots, iovecs and buffers, all
        // exclusively borrowed until after the call; all are initialized bytes, for which any value is valid.
        unsafe {
            libc::recvmmsg(fd.as_raw_fd(), headers.as_mut_ptr(), count as libc::c_uint, flags as _, ptr::null_mut())
        }
    };
    let received = match retry(one_call) {
        Err(error) if is_denied(&error) => {
            let each = headers.iter_mut().take(count).map(|header| {
                // SAFETY: as above, for one header.
                let len = retry(|| unsafe { libc::recvmsg(fd.as_raw_fd(), &mut header.msg_hdr, flags) } as c_int)?;
                header.msg_len = len as libc::c_uint;
                Ok(())
            });
            count_until_error(each)?
        }
        result => result? as usize,
    };
    // Store the lengths and flags written by the kernel.
    for (slot, header) in slots.iter_mut().zip(&headers).take(received) {
        slot.len = header.msg_len as usize;
        slot.flags = header.msg_hdr.msg_flags;
        slot.name.set_len(size(header.msg_hdr.msg_namelen));
        slot.control.set_len(size(header.msg_hdr.msg_controllen));
    }
    Ok(received)
}

/// Calls `setsockopt(2)` for an `int`.
pub(super) fn set_option(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let len = size_of::<c_int>() as socklen_t;
    // SAFETY: the pointer and length are those of `value`, which the kernel only reads.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, ptr::from_ref(&value).cast(), len) })?;
    Ok(())
}

pub(super) fn option(fd: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the size of `value`, for which any bits are valid.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, ptr::from_mut(&mut value).cast(), &mut len) })?;
    Ok(value)
}

/// Returns the hour, minute and second of local time at `time`, seconds since 1970.
#[must_use]
pub fn local_time(time: u64) -> [i32; 3] {
    // SAFETY: zero is a valid value of all fields of this struct.
    let mut local: libc::tm = unsafe { mem::zeroed() };
    // SAFETY: the function reads one time, and writes one struct.
    unsafe { libc::localtime_r(&(time as _), &mut local) };
    [local.tm_hour, local.tm_min, local.tm_sec]
}

/// Gives the calling thread, but not its children, real-time priority (`SCHED_RR`), so that it runs before all threads of
/// ordinary priority. Use this for a thread that must wake up on time and is mostly idle. By default, Linux limits real-time
/// threads to 95 % of CPU time. Needs `CAP_SYS_NICE` or an `RLIMIT_RTPRIO`.
///
/// # Errors
/// Returns the system's error if this is not permitted.
pub fn run_first() -> io::Result<()> {
    // The kernel's `struct sched_param` has one field, the priority. musl's function fails without a system call.
    let (myself, policy, lowest): (c_long, c_long, c_int) = (0, (libc::SCHED_RR | libc::SCHED_RESET_ON_FORK).into(), 1);
    // SAFETY: the kernel reads one `int`.
    check(unsafe { libc::syscall(libc::SYS_sched_setscheduler, myself, policy, ptr::from_ref(&lowest)) } as c_int)?;
    Ok(())
}
