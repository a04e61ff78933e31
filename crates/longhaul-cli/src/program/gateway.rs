//! `longhaul gateway`.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use longhaul_tls::admission::{Admission, Limits};
use longhaul_tls::{Fingerprint, Identity, SecureListener};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Screen;
use super::args::GatewayArgs;
use super::home::Home;
use super::lists::{AllowedPeers, Permission};
use crate::gateway::permit::Permits;
use crate::gateway::{Event, Gateway};
use crate::transport::Connection;
use crate::tunnel::{CONGESTION, Ended};

/// Maximum numbers of tunnels. A forwarder has up to 64.
const LIMITS: Limits = Limits { all: 4096, per_address: 256 };
/// Maximum number of tunnels of a key.
const PER_KEY: usize = 256;
/// Maximum time to close a tunnel in order.
const CLOSE: Duration = Duration::from_secs(5);

pub(super) async fn run(args: &GatewayArgs, screen: &Screen) -> Result<()> {
    if args.permit.is_empty() {
        bail!("nothing is permitted: name the targets that may be reached by --permit HOST:PORT, or use --permit any");
    }
    let (identity, allowed) = keys(args)?;
    let listener = args.transport.or_congestion(CONGESTION)?.listen(args.listen)?;
    screen.warn(&format!("listening on {}", listener.local_addr()?));
    let count = super::receive::count(allowed.count(Permission::Forward));
    screen.say(&format!("the key is {}, and {count} may forward", identity.fingerprint()));
    let allowed = Arc::new(allowed);
    let keys = Arc::clone(&allowed);
    let mut listener = SecureListener::new(listener, &identity, move |key| keys.may(key, Permission::Forward))?;
    let idle = Duration::from_secs(args.idle.into());
    let gateway = Arc::new(Gateway { permits: Permits::new(args.permit.clone()), idle });
    let admission = Admission::new(LIMITS);
    let (end, ending) = watch::channel(false);
    let mut terminated = pin!(super::signals::terminated());
    let places = Arc::default();
    let mut tunnels = JoinSet::new();
    loop {
        tokio::select! {
            () = &mut terminated => break,
            accepted = listener.accept() => {
                let (stream, peer) = accepted?;
                let name = allowed.find(&stream.peer()).map_or("", |entry| entry.name.as_str());
                let from = format!("{peer} ({name})");
                let place = Place::take(&places, stream.peer());
                let Some((ticket, place)) = admission.admit(peer.ip()).zip(place) else {
                    stream.abort();
                    screen.warn(&format!("{from}: refused: too many connections"));
                    continue;
                };
                ticket.is_known();
                let (gateway, screen, ending) = (Arc::clone(&gateway), screen.clone(), ending.clone());
                tunnels.spawn(async move {
                    let log = |event: Event<'_>| report(&screen, &from, &event);
                    match gateway.serve(stream, ending, log).await {
                        Ok(Some(stream)) => {
                            // The forwarder has ended its direction, and waits for nothing.
                            let _ = timeout(CLOSE, Connection::close(stream)).await;
                        }
                        Ok(None) => {}
                        Err(error) => tracing::info!(target: "longhaul::gateway", "{from}: the tunnel ended: {error}"),
                    }
                    drop((ticket, place));
                });
            }
            Some(_) = tunnels.join_next() => {}
        }
    }
    // Streams in progress may end, but no further tunnel is accepted.
    drop(listener);
    screen.say("ending when all connections have ended");
    end.send_replace(true);
    super::signals::drain(async { while tunnels.join_next().await.is_some() {} }, screen).await
}

/// A tunnel's place among those of its key.
struct Place {
    places: Arc<Mutex<HashMap<Fingerprint, usize>>>,
    key: Fingerprint,
}

impl Place {
    fn take(places: &Arc<Mutex<HashMap<Fingerprint, usize>>>, key: Fingerprint) -> Option<Self> {
        let mut count = places.lock().unwrap_or_else(PoisonError::into_inner);
        let count = count.entry(key).or_default();
        if *count >= PER_KEY {
            return None;
        }
        *count += 1;
        Some(Self { places: Arc::clone(places), key })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = places.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                places.remove(&self.key);
            }
        }
    }
}

fn report(screen: &Screen, from: &str, event: &Event<'_>) {
    match event {
        Event::Opened(target) => tracing::debug!(target: "longhaul::gateway", "{from}: {target}: connected"),
        Event::Refused(target, reason) => screen.say(&format!("{from}: {target}: {reason}")),
        Event::Ended(target, Ended::Orderly) => tracing::debug!(target: "longhaul::gateway", "{from}: {target}: ended"),
        Event::Ended(target, ended) => tracing::debug!(target: "longhaul::gateway", "{from}: {target}: {ended:?}"),
    }
}

/// Returns our key and the keys that may forward.
fn keys(args: &GatewayArgs) -> Result<(Identity, AllowedPeers)> {
    let home = Home::find()?;
    let identity = home.identity()?;
    let mut allowed = home.allowed_peers()?;
    for key in &args.allow {
        allowed.allow(*key, Permission::Forward);
    }
    if allowed.count(Permission::Forward) == 0 {
        bail!(
            "nobody may forward: give the forwarder's key, which `longhaul identity` shows there, by --allow, or add the \
             line `SHA256:... NAME forward` to {}",
            home.allowed_file().display()
        );
    }
    Ok((identity, allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_a_limited_number_of_tunnels() {
        let places = Arc::default();
        let [one, other] = [(); 2].map(|()| Identity::generate().unwrap().fingerprint());
        let mut taken: Vec<_> = (0..PER_KEY).map(|_| Place::take(&places, one).unwrap()).collect();
        assert!(Place::take(&places, one).is_none());
        assert!(Place::take(&places, other).is_some());
        taken.pop();
        assert!(Place::take(&places, one).is_some());
        drop(taken);
        assert!(places.lock().unwrap().is_empty());
    }
}
