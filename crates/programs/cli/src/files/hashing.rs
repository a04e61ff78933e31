//! Limits on the hashing that a sender can request with few bytes.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use longhaul_tls::Fingerprint;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::sync::lock;

/// Maximum number of files that are hashed on demand at the same time.
const ALL: usize = 2;

/// Admits requests to hash files: one at a time per key, and one at a time for all senders without a key. Hashes are
/// not cached: a file may change within the resolution of its modification time, and an old hash would confirm contents
/// that no longer exist.
#[derive(Debug)]
pub(crate) struct Hashing {
    all: Arc<Semaphore>,
    peers: Mutex<HashMap<Option<Fingerprint>, Arc<Semaphore>>>,
}

impl Default for Hashing {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(ALL)), peers: Mutex::default() }
    }
}

impl Hashing {
    /// Waits until the sender may have a file hashed. The permission ends when the result is dropped.
    pub(crate) async fn turn(&self, peer: Option<Fingerprint>) -> Vec<OwnedSemaphorePermit> {
        let own = {
            let mut peers = lock(&self.peers);
            peers.retain(|_, turns| Arc::strong_count(turns) > 1);
            Arc::clone(peers.entry(peer).or_insert_with(|| Arc::new(Semaphore::new(1))))
        };
        // The sender's own permit comes first, so that a sender occupies at most one of the shared permits. Neither
        // semaphore is ever closed.
        let own = own.acquire_owned().await;
        own.into_iter().chain(Arc::clone(&self.all).acquire_owned().await).collect()
    }
}

/// Flag that tells a thread to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Returns a guard that sets the flag when dropped.
    pub(crate) fn on_drop(&self) -> impl Drop + Send + use<> {
        struct Guard(Stop);
        impl Drop for Guard {
            fn drop(&mut self) {
                self.0.0.store(true, Ordering::Relaxed);
            }
        }
        Guard(self.clone())
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns a reader of `file` that fails once the flag is set.
    pub(crate) fn reader<R: Read>(&self, file: R) -> impl Read + use<R> {
        struct Reader<R>(R, Stop);
        impl<R: Read> Read for Reader<R> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                if self.1.is_set() { Err(io::ErrorKind::ConnectionAborted.into()) } else { self.0.read(buffer) }
            }
        }
        Reader(file, self.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn keys() -> [Option<Fingerprint>; 3] {
        [(); 3].map(|()| Some(longhaul_tls::Identity::generate().unwrap().fingerprint()))
    }

    #[tokio::test]
    async fn a_key_hashes_one_file_at_a_time_and_all_keys_two() {
        let hashing = Hashing::default();
        let mut context = Context::from_waker(Waker::noop());
        let [one, other, third] = keys();
        let first = hashing.turn(one).await;
        let (mut again, mut beside) = (pin!(hashing.turn(one)), pin!(hashing.turn(other)));
        assert!(again.as_mut().poll(&mut context).is_pending());
        let Poll::Ready(second) = beside.as_mut().poll(&mut context) else { panic!("a key waits for another one") };
        let mut late = pin!(hashing.turn(third));
        assert!(late.as_mut().poll(&mut context).is_pending());
        drop(second);
        assert!(late.as_mut().poll(&mut context).is_ready());
        assert!(again.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert!(again.as_mut().poll(&mut context).is_ready());
        // Keys that hash nothing are forgotten.
        drop(hashing.turn(None).await);
        assert!(hashing.peers.lock().unwrap().len() <= 3);
    }

    #[test]
    fn a_reader_fails_when_its_connection_has_ended() {
        let stop = Stop::default();
        let mut reader = stop.reader(&b"abc"[..]);
        let guard = stop.on_drop();
        assert_eq!(reader.read(&mut [0]).unwrap(), 1);
        drop(guard);
        assert_eq!(reader.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    }
}
