//! Rebinding of an address whose listener has been dropped while some of its connections remain.
//!
//! Kernel TCP allows this with `SO_REUSEADDR`, which tokio sets, because each connection and each listener has a socket
//! of its own. Here they share one UDP socket, which stays bound until the last connection has ended: up to a minute
//! after the streams were dropped, if peers do not close their direction. A new listener on the same address therefore
//! takes over the socket together with the remaining connections. Two UDP sockets on one address (`SO_REUSEADDR` for
//! UDP) are no solution, because the system delivers all datagrams to only one of them.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, LazyLock, Weak};

use crate::listener::TcpListener;
use crate::setup::Setup;
use crate::shared::{Shared, State};
use crate::sync::Mutex;

/// Sockets (all shards) that have or had a listener, by local address.
static LISTENED: LazyLock<Mutex<HashMap<SocketAddr, Vec<Weak<Shared>>>>> = LazyLock::new(Mutex::default);

/// Number of entries above which those of closed sockets are removed.
const SWEEP: usize = 64;

/// Records the sockets of a listener, so that a later listener can take them over.
pub(crate) fn remember(shards: &[Arc<Shared>]) {
    let Some(first) = shards.first() else { return };
    let mut listened = LISTENED.lock();
    if listened.len() >= SWEEP {
        listened.retain(|_, sockets| sockets.iter().any(|socket| socket.strong_count() > 0));
    }
    listened.insert(first.local, shards.iter().map(Arc::downgrade).collect());
}

/// Returns the sockets bound to exactly this address that have connections but no listener and are driven by the
/// current runtime.
pub(crate) fn abandoned(addr: SocketAddr) -> Vec<Arc<Shared>> {
    let all: Vec<_> = LISTENED.lock().get(&addr).into_iter().flatten().filter_map(Weak::upgrade).collect();
    let runtime = tokio::runtime::Handle::try_current().map(|runtime| runtime.id());
    let ours = |shared: &Arc<Shared>| runtime.as_ref().is_ok_and(|id| *id == shared.runtime);
    all.into_iter().filter(|shared| ours(shared) && is_free(&shared.lock())).collect()
}

fn is_free(state: &State) -> bool {
    !state.ended && state.fatal.is_none() && !state.endpoint.is_listening()
}

/// Listens on `addr` with new sockets or with the remaining sockets of an earlier listener.
pub(crate) fn listen(addr: SocketAddr, setup: Setup) -> io::Result<TcpListener> {
    match UdpSocket::bind(addr) {
        Ok(socket) => TcpListener::over(socket, setup),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => match abandoned(addr) {
            free if free.is_empty() => Err(error),
            free => take_over(free, setup),
        },
        Err(error) => Err(error),
    }
}

/// Listens on the remaining sockets of an earlier listener that are still free.
pub(crate) fn take_over(shards: Vec<Arc<Shared>>, setup: Setup) -> io::Result<TcpListener> {
    setup.check()?;
    let mut taken = Vec::new();
    for shared in shards {
        let config = setup.endpoint_config(shared.local)?;
        let mut state = shared.lock();
        if is_free(&state) {
            state.handles += 1;
            state.endpoint.set_limits(&config);
            setup.apply(&mut state);
            drop(state);
            taken.push(shared);
        }
    }
    if taken.is_empty() {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    let (habits, config) = setup.split();
    Ok(TcpListener::on(taken, habits, config))
}
