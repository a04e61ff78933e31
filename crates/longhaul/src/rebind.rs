//! Rebinding an address whose listener is gone while some of its connections remain.
//!
//! Kernel TCP allows this with `SO_REUSEADDR`, which tokio sets, because each connection and each listener has a
//! socket of its own. Here they share one UDP socket, which stays bound until the last connection has ended: up to
//! a minute after the streams were dropped, if peers keep their ends open. A new listener on the same address
//! therefore takes over the socket together with the remaining connections. Two UDP sockets on one address
//! (`SO_REUSEADDR` for UDP) are no solution, because the system delivers all datagrams to only one of them.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use crate::listener::TcpListener;
use crate::setup::Setup;
use crate::shared::Shared;

/// Sockets that have, or have had, a listener, by local address.
static LISTENED: LazyLock<Mutex<HashMap<SocketAddr, Weak<Shared>>>> = LazyLock::new(Mutex::default);

/// Number of entries above which those of closed sockets are removed.
const SWEEP: usize = 64;

fn listened() -> MutexGuard<'static, HashMap<SocketAddr, Weak<Shared>>> {
    LISTENED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records a listener's socket, so that a later listener can take it over.
pub(crate) fn remember(shared: &Arc<Shared>) {
    let mut listened = listened();
    if listened.len() >= SWEEP {
        listened.retain(|_, socket| socket.strong_count() > 0);
    }
    listened.insert(shared.local, Arc::downgrade(shared));
}

/// Returns the socket bound to exactly this address, if it has connections but no listener and is driven by the
/// current runtime.
pub(crate) fn abandoned(addr: SocketAddr) -> Option<Arc<Shared>> {
    let shared = listened().get(&addr)?.upgrade()?;
    let ours = tokio::runtime::Handle::try_current().is_ok_and(|runtime| runtime.id() == shared.runtime);
    let state = shared.lock();
    let free = ours && !state.ended && state.fatal.is_none() && !state.endpoint.is_listening();
    drop(state);
    free.then_some(shared)
}

/// Listens on `addr`, with a new socket or one that an earlier listener has left.
pub(crate) fn listen(addr: SocketAddr, setup: Setup) -> io::Result<TcpListener> {
    match UdpSocket::bind(addr) {
        Ok(socket) => TcpListener::over(socket, setup),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => match abandoned(addr) {
            Some(shared) => take_over(shared, setup),
            None => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// Listens on a socket that an earlier listener has left.
pub(crate) fn take_over(shared: Arc<Shared>, mut setup: Setup) -> io::Result<TcpListener> {
    setup.check()?;
    let config = setup.endpoint_config(shared.local)?;
    let mut state = shared.lock();
    if state.ended || state.fatal.is_some() || state.endpoint.is_listening() {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    state.handles += 1;
    state.endpoint.set_limits(&config);
    let habits = setup.apply(&mut state);
    habits.observe_incoming(&mut state, shared.local);
    state.endpoint.listen(Arc::new(std::mem::take(&mut setup.config).engine));
    drop(state);
    Ok(TcpListener { shared, habits })
}
