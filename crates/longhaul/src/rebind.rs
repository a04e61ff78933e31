//! Binding again to an address whose last listener is gone, but whose connections are not.
//!
//! The kernel's TCP can do so (`SO_REUSEADDR`, which tokio sets): connections and listeners of one port are sockets of their
//! own there. Here they share a UDP socket, and that stays bound until the last connection is over, up to a minute after
//! the streams were dropped if peers keep their ends open. A new listener on the same address takes the socket over, with
//! the connections that are left. Two sockets on one address (`SO_REUSEADDR` of UDP) would not do: the system gives all
//! datagrams to one of them.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use crate::listener::TcpListener;
use crate::setup::Setup;
use crate::shared::Shared;

/// Sockets that have been listened on, by their addresses.
static LISTENED: LazyLock<Mutex<HashMap<SocketAddr, Weak<Shared>>>> = LazyLock::new(Mutex::default);

/// Entries beyond which those of closed sockets are removed.
const SWEEP: usize = 64;

fn listened() -> MutexGuard<'static, HashMap<SocketAddr, Weak<Shared>>> {
    LISTENED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Remembers a listener's socket.
pub(crate) fn remember(shared: &Arc<Shared>) {
    let mut listened = listened();
    if listened.len() >= SWEEP {
        listened.retain(|_, socket| socket.strong_count() > 0);
    }
    listened.insert(shared.local, Arc::downgrade(shared));
}

/// A socket on exactly this address that has connections and no listener, driven by the current runtime.
pub(crate) fn abandoned(addr: SocketAddr) -> Option<Arc<Shared>> {
    let shared = listened().get(&addr)?.upgrade()?;
    let ours = tokio::runtime::Handle::try_current().is_ok_and(|runtime| runtime.id() == shared.runtime);
    let state = shared.lock();
    let free = ours && !state.ended && state.fatal.is_none() && !state.endpoint.is_listening();
    drop(state);
    free.then_some(shared)
}

/// Listens on `addr`, on a new socket or on one that a listener has left.
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

/// Listens on a socket that a listener has left.
pub(crate) fn take_over(shared: Arc<Shared>, mut setup: Setup) -> io::Result<TcpListener> {
    setup.check()?;
    let config = setup.endpoint_config(shared.local)?;
    let mut state = shared.lock();
    if state.ended || state.fatal.is_some() || state.endpoint.is_listening() {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    state.handles += 1;
    state.endpoint.set_limits(&config);
    state.endpoint.listen(Arc::new(std::mem::take(&mut setup.config)));
    drop(state);
    let habits = setup.apply(&shared);
    Ok(TcpListener { shared, habits })
}
