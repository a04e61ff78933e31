//! Models of concurrent code, whose interleavings the tests explore. A model that waits for an event that never
//! happens, such as a lost wake-up, is a deadlock, which shuttle reports.
#![allow(clippy::unwrap_used, missing_docs, reason = "models are part of tests")]

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use longhaul_tcp::{Config, Endpoint, EndpointConfig, EndpointGroup};
use shuttle::future::block_on;
use shuttle::thread;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use self::network::Network;
use crate::accept_queue::{AcceptQueue, Accepting};
use crate::connect;
use crate::driver::Driver;
use crate::io::{Buffers, Io, Role};
use crate::listener::TcpListener;
use crate::setup::Setup;
use crate::shards::Shards;
use crate::shared::Shared;
use crate::stream::TcpStream;

pub use crate::io::{a_dropped_timer_does_not_fire_for_its_successor, each_timer_fires_once};

#[path = "network.rs"]
mod network;

const SERVER: SocketAddr = address(1, 7000);
const CLIENTS: [SocketAddr; 2] = [address(2, 1), address(3, 2)];

const fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::V4(std::net::SocketAddrV4::new(std::net::Ipv4Addr::new(192, 0, 2, host), port))
}

/// Counts how often it has been woken, and passes the wake-ups on.
struct Counter {
    waker: Waker,
    woken: AtomicUsize,
}

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::Relaxed);
        self.waker.wake_by_ref();
    }
}

/// Waits for `future`, which may be woken once, if it has to wait at all.
fn block_on_one_event<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut counter = None;
    block_on(poll_fn(|cx| {
        let counter =
            counter.get_or_insert_with(|| Arc::new(Counter { waker: cx.waker().clone(), woken: AtomicUsize::new(0) }));
        let polled = future.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(counter))));
        assert!(counter.woken.load(Ordering::Relaxed) <= 1, "woken more than once");
        polled
    }))
}

/// Polls `future` once, and drops it.
fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
    let mut future = Some(Box::pin(future));
    block_on(poll_fn(|cx| Poll::Ready(future.take().unwrap().as_mut().poll(cx))))
}

/// Waits for a connection, as a listener's `accept` does.
fn accept(queue: &Arc<AcceptQueue>) -> impl Future<Output = io::Result<u32>> + use<> {
    let queue = Arc::clone(queue);
    async move {
        let mut accepting = Accepting::new(&queue);
        poll_fn(|cx| {
            let popped = queue.poll_pop(cx, Some(accepting.key));
            accepting.waits = popped.is_pending();
            popped
        })
        .await
    }
}

fn push(queue: &AcceptQueue, shard: u32) {
    let mut wake = Vec::new();
    queue.push(shard, &mut wake);
    assert!(wake.len() <= 1, "a connection wakes {} tasks", wake.len());
    wake.into_iter().for_each(Waker::wake);
}

/// A connection is ready for one of two tasks, of which one gives up: the other one gets it, unless the first one has.
pub fn an_accepted_connection_is_not_lost() {
    let queue = Arc::new(AcceptQueue::default());
    let gives_up = accept(&queue);
    let gives_up = thread::spawn(move || poll_once(gives_up).is_ready());
    let waits = accept(&queue);
    let waits = thread::spawn(move || block_on(waits).unwrap());
    push(&queue, 0);
    if gives_up.join().unwrap() {
        push(&queue, 1);
    }
    waits.join().unwrap();
    assert!(queue.poll_pop(&Context::from_waker(Waker::noop()), None).is_pending(), "a connection too many");
}

/// Two connections are ready for two tasks, each of which gets one. A connection wakes one task at most.
pub fn each_connection_wakes_a_task() {
    let queue = Arc::new(AcceptQueue::default());
    let tasks = [(); 2].map(|()| {
        let accepting = accept(&queue);
        thread::spawn(move || block_on(accepting).unwrap())
    });
    for shard in 0..2 {
        push(&queue, shard);
    }
    let mut accepted = tasks.map(|task| task.join().unwrap());
    accepted.sort_unstable();
    assert_eq!(accepted, [0, 1]);
}

/// Sockets with their drivers.
struct World {
    network: Arc<Network>,
    drivers: Vec<thread::JoinHandle<()>>,
}

impl World {
    fn new() -> Self {
        Self { network: Arc::default(), drivers: Vec::new() }
    }

    /// Opens a socket whose inbox is the next one of its address.
    fn open(&self, local: SocketAddr, role: Role, shards: Option<(&Arc<Shards>, u32)>) -> Arc<Shared> {
        let config = EndpointConfig::new([1; 32]);
        let endpoint = match shards {
            Some((shards, index)) => Endpoint::in_group(config, Io::now(), shards.group.clone(), Some(index)),
            None => Endpoint::new(config, Io::now()),
        };
        let io = Io::over(self.network.socket(local), role);
        let buffers = Buffers { send: 1 << 20, recv: 1 << 20 };
        Shared::new(io, endpoint, local, buffers, shards.map(|(shards, _)| Arc::clone(shards)))
    }

    fn drive(&mut self, shared: &Arc<Shared>) {
        let (mut driver, network) = (Box::pin(Driver::new(Arc::clone(shared))), Arc::clone(&self.network));
        self.drivers.push(thread::spawn(move || {
            block_on(poll_fn(|cx| if network.has_ended(cx) { Poll::Ready(()) } else { driver.as_mut().poll(cx) }));
        }));
    }

    /// Listens with `count` shards.
    fn listen(&mut self, count: u32) -> TcpListener {
        let shards = Shards::new(EndpointGroup::new(&[1; 32]));
        let members: Vec<_> =
            (0..count).map(|index| self.open(SERVER, Role::Listener, Some((&shards, index)))).collect();
        shards.set_members(&members);
        members.iter().for_each(|shared| shared.lock().handles += 1);
        members.iter().for_each(|shared| self.drive(shared));
        let (habits, config) = Setup::default().split();
        TcpListener::on(members, habits, config)
    }

    /// Returns a client's attempt to connect.
    fn connect(&mut self, local: SocketAddr) -> impl Future<Output = io::Result<TcpStream>> + use<> {
        let shared = self.open(local, Role::Connected, None);
        shared.lock().client = Some(SERVER);
        let (habits, _) = Setup::default().split();
        let mut config = Config::default();
        config.congestion = "new-reno".parse().unwrap();
        let stream = connect::open(&shared, &habits, Arc::new(config), [local, SERVER]).unwrap();
        self.drive(&shared);
        connect::connected(stream)
    }

    fn end(self) {
        self.network.end();
        self.drivers.into_iter().for_each(|driver| driver.join().unwrap());
    }
}

/// A client and a server wait for each other: to be connected, for a request, and for the answer.
pub fn a_connection_is_made_and_used() {
    let mut world = World::new();
    let listener = world.listen(1);
    let server = thread::spawn(move || {
        block_on(async {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert_eq!(stream.read_u8().await.unwrap(), 7);
            stream.write_all(&[8]).await.unwrap();
            (listener, stream)
        })
    });
    let connecting = world.connect(CLIENTS[0]);
    let client = thread::spawn(move || {
        block_on(async {
            let mut stream = connecting.await.unwrap();
            stream.write_all(&[7]).await.unwrap();
            assert_eq!(stream.read_u8().await.unwrap(), 8);
            stream
        })
    });
    let streams = (client.join().unwrap(), server.join().unwrap());
    world.end();
    drop(streams);
}

/// Data arrives while three tasks wait for it, of which one gives up: the others are woken, by the event once.
pub fn data_wakes_all_who_wait_for_it() {
    let mut world = World::new();
    let listener = world.listen(1);
    let connecting = world.connect(CLIENTS[0]);
    let accepting = thread::spawn(move || (block_on(listener.accept()).unwrap().0, listener));
    let mut client = block_on(connecting).unwrap();
    // The server accepts the connection by this.
    block_on(client.write_all(&[1])).unwrap();
    let (mut server, listener) = accepting.join().unwrap();
    assert_eq!(block_on(server.read_u8()).unwrap(), 1);
    let server = Arc::new(server);
    let reader = |server: &Arc<TcpStream>| {
        let server = Arc::clone(server);
        thread::spawn(move || block_on_one_event(server.readable()).unwrap())
    };
    let readers = [reader(&server), reader(&server)];
    let gives_up = Arc::clone(&server);
    let gives_up = thread::spawn(move || drop(poll_once(gives_up.readable())));
    let writer = thread::spawn(move || {
        block_on(client.write_all(&[2])).unwrap();
        client
    });
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    gives_up.join().unwrap();
    assert_eq!(server.try_read(&mut [0; 2]).unwrap(), 1);
    assert_eq!(server.try_read(&mut [0; 2]).unwrap_err().kind(), ErrorKind::WouldBlock);
    let client = writer.join().unwrap();
    world.end();
    drop((client, server, listener));
}

/// The system delivers each datagram to either of two shards, which pass on the datagrams of the other one.
pub fn shards_pass_datagrams_on() {
    let mut world = World::new();
    world.network.alternates();
    let listener = world.listen(2);
    let clients = CLIENTS.map(|local| {
        let connecting = world.connect(local);
        thread::spawn(move || {
            block_on(async {
                let mut stream = connecting.await.unwrap();
                let name = stream.local_addr().unwrap().port() as u8;
                stream.write_all(&[name]).await.unwrap();
                assert_eq!(stream.read_u8().await.unwrap(), name);
                stream
            })
        })
    });
    let server = thread::spawn(move || {
        let serve = |_| {
            let (mut stream, peer) = block_on(listener.accept()).unwrap();
            thread::spawn(move || {
                block_on(async {
                    let name = stream.read_u8().await.unwrap();
                    assert_eq!(u16::from(name), peer.port());
                    stream.write_all(&[name]).await.unwrap();
                    stream
                })
            })
        };
        let streams = [0, 1].map(serve).map(|served| served.join().unwrap());
        (streams, listener)
    });
    let clients = clients.map(|client| client.join().unwrap());
    let server = server.join().unwrap();
    world.end();
    drop((clients, server));
}
