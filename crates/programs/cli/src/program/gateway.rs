//! `longhaul gateway`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use longhaul::TcpListener;
use longhaul_tls::admission::{Admission, Limits};
use longhaul_tls::{Authority, Fingerprint, SecureListener, SecureStream, limiter};
use longhaul_units::Rate;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Screen;
use super::access::Access;
use super::args::GatewayArgs;
use super::code::{CodeDesk, known};
use super::home::Home;
use super::lists::Permission;
use super::places::Places;
use super::signals::Hangups;
use crate::code::Code;
use crate::gateway::listen::ListenPermits;
use crate::gateway::members::{GroupFile, Members};
use crate::gateway::permit::Permits;
use crate::gateway::remote::Groups;
use crate::gateway::{Gateway, Peer};
use crate::monitor::{Monitor, Phase, Role};
use crate::progress::Detail;
use crate::transport::rtt;
use crate::tunnel::rate::Limits as RateLimits;
use crate::tunnel::{self, Ended, Event, Lookups};

/// Maximum numbers of tunnels. Several forwarders may share an address.
const LIMITS: Limits = Limits { all: 4096, per_address: 1024 };
/// Maximum number of simultaneous name look-ups per key: all keys share the threads of the resolver.
const LOOKUPS: usize = 16;

pub(super) async fn run(args: &GatewayArgs, screen: &Screen) -> Result<()> {
    if let (Some(path), [_, ..]) = (&args.group, args.create_group.as_slice()) {
        GroupFile::create(path, &args.create_group)?;
        screen.say(&format!("created {}; copy it and the key to the other gateways", path.display()));
        return Ok(());
    }
    // Creates the key at the first start, even if the start then fails.
    let (identity, home) = Home::open(args.code, screen)?;
    let access = forwarders(args, Home::allowed_file_of(home.as_ref()));
    let access = access.with_context(|| format!("the key of this gateway is {}", identity.fingerprint()))?;
    let access = Arc::new(access);
    let mut terminated = pin!(super::signals::terminated());
    let hangups = Hangups::new();
    let monitor = Monitor::new(Role::Gateway);
    let _servers = args.monitor.start(&monitor, screen).await?;
    let members = args.group.as_deref().map(Members::join).transpose()?;
    let listener = listen(args, members.as_ref())?;
    let _group = members.as_ref().map(|members| join(members, &listener, &monitor, screen));
    monitor.set_phase(Phase::Ready);
    screen.warn(&format!("Ready on UDP {}", listener.local_addr()?));
    screen.say(&format!("the key is {}, and {} may forward", identity.fingerprint(), access.keys(Permission::Forward)));
    let permissions = permissions(args);
    let service = Service {
        gateway: Arc::new(Gateway {
            permits: Permits::new(args.permit.clone()),
            idle: Duration::from_secs(args.idle.into()),
            patience: args.transport.patience(),
            monitor: Arc::clone(&monitor),
            listen: ListenPermits::new(args.permit_listen.clone()),
            groups: Groups::default(),
        }),
        access: Arc::clone(&access),
        vouched: permissions,
        admission: Admission::new(Limits {
            per_address: LIMITS.per_address.max(args.max_connections.into()),
            ..LIMITS
        }),
        places: Places::new(args.max_connections.into()),
        all: RateLimits::default().and(args.max_total_rate),
        each: args.max_rate,
        screen: screen.clone(),
    };
    let remember = if args.remember { permissions } else { &[] };
    let invitation = |code: &Code| format!("The code is {code}, for a forwarder that connects within ten minutes.");
    let mut desk = if args.code { Some(CodeDesk::open(remember, invitation, screen)?) } else { None };
    // While the code is valid, unknown keys are accepted, and the code decides.
    let expects_code = Arc::new(AtomicBool::new(args.code));
    let (keys, code) = (Arc::clone(&access), Arc::clone(&expects_code));
    let allowed = move |key: &Fingerprint| is_allowed(&keys, key) || code.load(Ordering::Relaxed);
    let authority = args.ca.as_deref().map(Authority::open).transpose()?;
    let mut listener = SecureListener::trusting(listener, &identity, authority, allowed)?;
    let (end, ending) = watch::channel(false);
    let mut reload = pin!(access.reload_on(hangups, Permission::Forward, screen));
    let mut tunnels = JoinSet::new();
    loop {
        tokio::select! {
            () = &mut terminated => break,
            () = &mut reload => {}
            accepted = listener.accept() => {
                let (stream, address) = accepted?;
                match &mut desk {
                    _ if stream.is_vouched_for() || is_allowed(&access, &stream.peer()) => {
                        listener.remember(address);
                        service.begin(stream, address, &ending, &mut tunnels);
                    }
                    Some(desk) => desk.begin(stream, address),
                    // The code has already been used.
                    None => stream.abort(),
                }
            }
            known = known(&mut desk) => {
                expects_code.store(false, Ordering::Relaxed);
                desk = None;
                match known {
                    Ok((stream, address)) => {
                        access.admit(stream.peer(), permissions, "--code");
                        service.begin(stream, address, &ending, &mut tunnels);
                    }
                    Err(error) if access.count(Permission::Forward) == 0 => return Err(error.into()),
                    Err(error) => screen.warn(&error.to_string()),
                }
            }
            Some(_) = tunnels.join_next() => {}
        }
    }
    // Streams in progress may complete, but no further tunnel is accepted.
    monitor.set_phase(Phase::Draining);
    if let Some(members) = &members {
        members.drain();
    }
    drop(listener);
    screen.say("ending when all connections have ended");
    end.send_replace(true);
    let patience = Duration::from_secs(args.drain.into());
    super::signals::drain(async { while tunnels.join_next().await.is_some() {} }, patience, screen).await
}

fn listen(args: &GatewayArgs, members: Option<&Arc<Members>>) -> Result<TcpListener> {
    let socket = args.transport.socket(args.listen)?;
    if let Some(members) = members {
        // The next process on this machine can listen before this one ends.
        socket.set_reuseport(true)?;
        let handler = Arc::clone(members);
        socket.share_address(members.secret(), handler);
    }
    args.transport.listen_on(args.listen, socket)
}

/// Starts to take part in a group, until the result is dropped.
fn join(members: &Arc<Members>, listener: &TcpListener, monitor: &Monitor, screen: &Screen) -> JoinSet<()> {
    screen.say(&format!("this is {} of the group", members.own()));
    monitor.set_members(Arc::clone(members));
    let (members, intake, screen) = (Arc::clone(members), listener.intake(), screen.clone());
    let mut task = JoinSet::new();
    task.spawn(async move {
        if let Err(error) = members.run(&intake, &screen).await {
            screen.warn(&format!("warning: this gateway has left the group: {error:#}"));
        }
    });
    task
}

fn is_allowed(access: &Access, key: &Fingerprint) -> bool {
    access.may(key, Permission::Forward) || access.may(key, Permission::Listen)
}

/// Returns the permissions of keys from the command line, of a forwarder that knows the code, and of forwarders with a
/// certificate of the authority.
fn permissions(args: &GatewayArgs) -> &'static [Permission] {
    if args.permit_listen.is_empty() { &[Permission::Forward] } else { &[Permission::Forward, Permission::Listen] }
}

/// State shared by the tunnels of a key.
#[derive(Clone)]
struct Share {
    limits: RateLimits,
    lookups: Lookups,
}

struct Service {
    gateway: Arc<Gateway>,
    access: Arc<Access>,
    /// Permissions of forwarders with a certificate of the authority.
    vouched: &'static [Permission],
    admission: Admission,
    places: Places<Share>,
    all: RateLimits,
    each: Option<Rate>,
    screen: Screen,
}

impl Service {
    /// Serves a tunnel until it ends or its key loses a permission.
    fn begin(
        &self,
        stream: SecureStream,
        address: SocketAddr,
        ending: &watch::Receiver<bool>,
        tunnels: &mut JoinSet<()>,
    ) {
        let key = stream.peer();
        let vouched = stream.is_vouched_for();
        let name = if vouched { "--ca".to_owned() } else { self.access.name(&key) };
        let from = format!("{address} ({name})");
        let share = || Share { limits: self.all.and(self.each), lookups: Lookups::new(LOOKUPS) };
        let place = self.places.take(key, share);
        let Some((ticket, place)) = self.admission.admit(address.ip(), rtt(stream.tcp())).zip(place) else {
            stream.abort();
            self.gateway.monitor.refuse_tunnel();
            if let Some(more) = limiter::admit("crowded") {
                self.screen.event(Detail::Quiet, &format!("{from} is refused: too many connections{more}"));
            }
            return;
        };
        ticket.is_known();
        // The list does not contain forwarders with a certificate of the authority.
        let may =
            |permission| if vouched { self.vouched.contains(&permission) } else { self.access.may(&key, permission) };
        let [may_forward, may_listen] = [Permission::Forward, Permission::Listen].map(may);
        let held: Vec<_> = [(may_forward, Permission::Forward), (may_listen, Permission::Listen)]
            .into_iter()
            .filter_map(|(held, permission)| held.then_some(permission))
            .collect();
        let Share { limits, lookups } = place.shared.clone();
        let peer = Peer { key, name, address, limits, lookups, may_forward, may_listen };
        let (gateway, access) = (Arc::clone(&self.gateway), Arc::clone(&self.access));
        let (screen, ending) = (self.screen.clone(), ending.clone());
        tunnels.spawn(async move {
            let log = |event: Event<'_>| report(&screen, &from, &event);
            let served = tokio::select! {
                served = gateway.serve(stream, &peer, ending, log) => served,
                () = access.revoked(&key, &held), if !vouched => {
                    screen.event(Detail::Usual, &format!("{from}: reset: the key is not allowed any more"));
                    Ok(None)
                }
            };
            match served {
                Ok(Some(stream)) => tunnel::close(stream).await,
                Ok(None) => {}
                Err(error) => tracing::info!(target: "longhaul::gateway", "{from}: the tunnel ended: {error}"),
            }
            drop((ticket, place));
        });
    }
}

fn report(screen: &Screen, from: &str, event: &Event<'_>) {
    let say = |what: String| screen.event(Detail::Usual, &format!("{from}: {what}"));
    match event {
        Event::Opened(target) => tracing::debug!(target: "longhaul::gateway", "{from}: {target}: connected"),
        Event::Refused(target, reason) => say(format!("{target}: {reason}")),
        Event::Ended(target, Ended::Orderly) => tracing::debug!(target: "longhaul::gateway", "{from}: {target}: ended"),
        Event::Listening(address, target) => say(format!("{address} leads to {target} there")),
        Event::NotListening(target, reason) => say(format!("not listening for {target}: {reason}")),
        Event::Ended(target, ended) => tracing::debug!(target: "longhaul::gateway", "{from}: {target}: {ended:?}"),
    }
}

fn forwarders(args: &GatewayArgs, allowed: PathBuf) -> Result<Access> {
    if args.permit.is_empty() && args.permit_listen.is_empty() {
        bail!("nothing is permitted: name the targets that may be reached by --permit HOST:PORT, or use --permit any");
    }
    let allow = args.allow.iter().flat_map(|key| permissions(args).iter().map(|permission| (*key, *permission)));
    let access = Access::open(allowed.clone(), allow)?;
    if !args.code && args.ca.is_none() && access.count(Permission::Forward) + access.count(Permission::Listen) == 0 {
        bail!(
            "nobody may forward: give the forwarder's key, which `longhaul identity` shows there, by --allow, or add the \
             line `SHA256:... NAME forward` to {}",
            allowed.display()
        );
    }
    Ok(access)
}
