//! Pool of receive buffers that are converted to [`Bytes`] without a copy and return when the last slice is dropped.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Length of a receive buffer in bytes. UDP datagrams and batches coalesced by GRO are shorter, because the length
/// field of the IP header has 16 bits.
pub const BUFFER_LEN: usize = 65_536;

/// Pool of equally sized receive buffers, shared by sockets and threads. A clone is a handle to the same pool.
///
/// Buffers are allocated on demand. Up to a limit, unused buffers are kept in a spare list; further ones are freed.
#[derive(Clone)]
pub struct RecvPool {
    shared: Arc<Shared>,
}

struct Shared {
    buffer_len: usize,
    max_spare: usize,
    max_kept: usize,
    spare: Mutex<Vec<Box<[u8]>>>,
    live: AtomicUsize,
    kept: AtomicUsize,
}

impl RecvPool {
    /// Creates a pool of buffers of [`BUFFER_LEN`] bytes with at most `max_spare` spare buffers. While `max_kept`
    /// buffers are in use as [`Bytes`], [`RecvBuffer::take`] copies the received bytes instead.
    #[must_use]
    pub fn new(max_spare: usize, max_kept: usize) -> Self {
        Self::with_buffer_len(BUFFER_LEN, max_spare, max_kept)
    }

    /// Creates a pool like [`new`](Self::new), with buffers of `buffer_len` bytes. Buffers shorter than [`BUFFER_LEN`]
    /// truncate longer datagrams and batches.
    #[must_use]
    pub fn with_buffer_len(buffer_len: usize, max_spare: usize, max_kept: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                buffer_len,
                max_spare,
                max_kept,
                spare: Mutex::new(Vec::new()),
                live: AtomicUsize::new(0),
                kept: AtomicUsize::new(0),
            }),
        }
    }

    /// Returns the number of buffers in use for receiving or as [`Bytes`], not counting spare ones.
    #[must_use]
    pub fn live(&self) -> usize {
        self.shared.live.load(Ordering::Relaxed)
    }

    /// Returns the number of buffers in use as [`Bytes`].
    #[must_use]
    pub fn kept(&self) -> usize {
        self.shared.kept.load(Ordering::Relaxed)
    }

    /// Returns the number of spare buffers.
    #[must_use]
    pub fn spare(&self) -> usize {
        self.shared.lock_spare().len()
    }

    /// Creates a receive buffer. Its memory is taken from the pool by the first [`RecvBuffer::writable`].
    #[must_use]
    pub fn buffer(&self) -> RecvBuffer {
        RecvBuffer { pool: self.clone(), held: Held::Nothing }
    }

    fn lend(&self) -> Lent {
        let spare = self.shared.lock_spare().pop();
        let bytes = spare.unwrap_or_else(|| vec![0; self.shared.buffer_len].into_boxed_slice());
        self.shared.live.fetch_add(1, Ordering::Relaxed);
        Lent { bytes, shared: Arc::clone(&self.shared) }
    }
}

impl fmt::Debug for RecvPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvPool")
            .field("buffer_len", &self.shared.buffer_len)
            .field("live", &self.live())
            .field("kept", &self.kept())
            .field("spare", &self.spare())
            .finish()
    }
}

impl Shared {
    fn lock_spare(&self) -> std::sync::MutexGuard<'_, Vec<Box<[u8]>>> {
        // The list is consistent even if a thread panicked while it held the lock.
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Memory taken from the pool, which returns to it when dropped.
struct Lent {
    bytes: Box<[u8]>,
    shared: Arc<Shared>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.shared.live.fetch_sub(1, Ordering::Relaxed);
        let mut spare = self.shared.lock_spare();
        if spare.len() < self.shared.max_spare {
            spare.push(mem::take(&mut self.bytes));
        }
    }
}

/// Owner of the memory behind a [`Bytes`], which returns the memory to the pool when the last slice is dropped.
struct Kept {
    lent: Lent,
    len: usize,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        self.lent.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.lent.shared.kept.fetch_sub(1, Ordering::Relaxed);
    }
}

enum Held {
    Nothing,
    Buffer(Lent),
    Taken(Bytes),
}

/// Reusable receive buffer: [`writable`](Self::writable) returns the memory to receive into, [`filled`](Self::filled)
/// reads it in place, and [`take`](Self::take) returns its contents as [`Bytes`] that outlive the next receive.
pub struct RecvBuffer {
    pool: RecvPool,
    held: Held,
}

impl RecvBuffer {
    /// Returns the whole buffer for writing. If the previous memory was taken, new memory comes from the pool.
    pub fn writable(&mut self) -> &mut [u8] {
        if !matches!(self.held, Held::Buffer(_)) {
            self.held = Held::Buffer(self.pool.lend());
        }
        match &mut self.held {
            Held::Buffer(lent) => &mut lent.bytes,
            Held::Nothing | Held::Taken(_) => &mut [],
        }
    }

    /// Returns the first `len` bytes, or all bytes if there are fewer.
    #[must_use]
    pub fn filled(&self, len: usize) -> &[u8] {
        let all: &[u8] = match &self.held {
            Held::Nothing => &[],
            Held::Buffer(lent) => &lent.bytes,
            Held::Taken(bytes) => bytes,
        };
        all.get(..len).unwrap_or(all)
    }

    /// Returns the first `len` bytes as [`Bytes`].
    ///
    /// If they fill more than a quarter of the buffer, the memory itself is returned without a copy and goes back to
    /// the pool when its last slice is dropped. Otherwise they are copied, so that kept bytes occupy at most four times
    /// their number. [`filled`](Self::filled) returns the same bytes as before until the next
    /// [`writable`](Self::writable).
    pub fn take(&mut self, len: usize) -> Bytes {
        let shared = &self.pool.shared;
        let small = len <= shared.buffer_len / 4;
        if small || shared.kept.load(Ordering::Relaxed) >= shared.max_kept {
            return match &self.held {
                Held::Taken(bytes) => bytes.slice(..len.min(bytes.len())),
                Held::Nothing | Held::Buffer(_) => Bytes::copy_from_slice(self.filled(len)),
            };
        }
        match mem::replace(&mut self.held, Held::Nothing) {
            Held::Nothing => Bytes::new(),
            Held::Taken(bytes) => {
                let taken = bytes.slice(..len.min(bytes.len()));
                self.held = Held::Taken(bytes);
                taken
            }
            Held::Buffer(lent) => {
                shared.kept.fetch_add(1, Ordering::Relaxed);
                let len = len.min(lent.bytes.len());
                let bytes = Bytes::from_owner(Kept { lent, len });
                self.held = Held::Taken(bytes.clone());
                bytes
            }
        }
    }

    /// Drops the reference to memory that was taken. Memory that was not taken remains for the next receive.
    pub fn forget(&mut self) {
        if matches!(self.held, Held::Taken(_)) {
            self.held = Held::Nothing;
        }
    }

    /// Drops the memory, which returns to the pool unless it was taken. Meant for idle sockets.
    pub fn release(&mut self) {
        self.held = Held::Nothing;
    }
}

impl fmt::Debug for RecvBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = match self.held {
            Held::Nothing => "nothing",
            Held::Buffer(_) => "buffer",
            Held::Taken(_) => "taken",
        };
        f.debug_struct("RecvBuffer").field("held", &held).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn filled(pool: &RecvPool, value: u8) -> RecvBuffer {
        let mut buffer = pool.buffer();
        buffer.writable().fill(value);
        buffer
    }

    #[test]
    fn a_large_take_lends_the_buffer_until_its_last_slice_is_dropped() {
        let pool = RecvPool::with_buffer_len(1000, 4, 4);
        let mut buffer = filled(&pool, 7);
        let memory = buffer.filled(1).as_ptr();
        let bytes = buffer.take(900);
        assert_eq!(bytes.as_ptr(), memory, "no copy");
        assert_eq!((pool.live(), pool.kept(), pool.spare()), (1, 1, 0));
        assert_eq!(buffer.filled(900), &bytes[..], "still readable in place");

        buffer.writable().fill(8);
        assert_eq!((pool.live(), pool.kept()), (2, 1));
        assert!(bytes.iter().all(|&b| b == 7), "kept bytes are not received into");

        let slice = bytes.slice(10..20);
        drop(bytes);
        assert_eq!(pool.kept(), 1);
        drop(slice);
        assert_eq!((pool.live(), pool.kept(), pool.spare()), (1, 0, 1));

        let mut again = pool.buffer();
        assert_eq!(again.writable().as_ptr(), memory, "reused");

        drop(again.take(900));
        assert_eq!(pool.kept(), 1, "the buffer itself still reads it");
        again.forget();
        assert_eq!((pool.live(), pool.kept()), (1, 0));
        let stays = buffer.writable().as_ptr();
        buffer.forget();
        assert_eq!(buffer.writable().as_ptr(), stays, "nobody took it");
    }

    #[test]
    fn a_small_take_copies_and_leaves_the_buffer_in_place() {
        let pool = RecvPool::with_buffer_len(1000, 4, 4);
        let mut buffer = filled(&pool, 7);
        let memory = buffer.filled(1).as_ptr();
        let bytes = buffer.take(250);
        assert_eq!(bytes.len(), 250);
        assert_ne!(bytes.as_ptr(), memory);
        assert_eq!(pool.kept(), 0);
        assert_eq!(buffer.writable().as_ptr(), memory);
        assert_eq!(&bytes[..], &[7; 250]);
    }

    #[test]
    fn takes_beyond_max_kept_copy() {
        let pool = RecvPool::with_buffer_len(1000, 4, 1);
        let mut buffer = filled(&pool, 1);
        let first = buffer.take(1000);
        let second = filled(&pool, 2).take(1000);
        assert_eq!((pool.kept(), first[0], second[0]), (1, 1, 2));
        drop(second);
        assert_eq!(pool.kept(), 1);
    }

    #[test]
    fn the_spare_list_is_bounded() {
        let pool = RecvPool::with_buffer_len(16, 2, 8);
        let buffers: Vec<_> = (0..5).map(|i| filled(&pool, i)).collect();
        assert_eq!(pool.live(), 5);
        drop(buffers);
        assert_eq!((pool.live(), pool.spare()), (0, 2));
    }

    #[test]
    fn lengths_beyond_the_buffer_and_empty_buffers_are_harmless() {
        let pool = RecvPool::with_buffer_len(16, 2, 8);
        assert!(pool.buffer().take(100).is_empty());
        assert!(pool.buffer().filled(100).is_empty());
        let mut buffer = filled(&pool, 3);
        assert_eq!(buffer.take(100).len(), 16);
        assert_eq!(buffer.take(100).len(), 16);
        assert_eq!(buffer.take(2).len(), 2);
        buffer.release();
        assert!(buffer.filled(1).is_empty());
        assert_eq!(pool.live(), 0);
    }

    #[test]
    fn bytes_may_be_dropped_on_another_thread() {
        let pool = RecvPool::with_buffer_len(64, 8, 1000);
        let kept: Vec<_> = (0..100).map(|i| filled(&pool, i).take(64)).collect();
        assert_eq!(pool.kept(), 100);
        thread::scope(|scope| {
            for chunk in kept.chunks(25).map(<[Bytes]>::to_vec) {
                scope.spawn(move || drop(chunk));
            }
        });
        drop(kept);
        assert_eq!((pool.live(), pool.kept(), pool.spare()), (0, 0, 8));
    }
}
