//! A network for models, which loses nothing.

use super::*;
use crate::io::{ErrorClass, Incoming, Outgoing, Receiver, Socket, Writable};
use longhaul_tcp::HostError;
use longhaul_units::Time;
use shuttle::sync::Mutex;
use std::collections::VecDeque;

#[derive(Default)]
pub(super) struct Network {
    inboxes: Mutex<HashMap<SocketAddr, Vec<Arc<Inbox>>>>,
    /// Number of datagrams that have been sent.
    sent: AtomicUsize,
    /// Whether the sockets of an address get datagrams in turn, instead of the first one alone.
    alternates: Mutex<bool>,
    end: Mutex<(bool, Vec<Waker>)>,
}

#[derive(Default)]
struct Inbox(Mutex<Arrived>);

#[derive(Default)]
struct Arrived {
    datagrams: VecDeque<(SocketAddr, Vec<u8>)>,
    waker: Option<Waker>,
}

impl Network {
    pub(super) fn socket(self: &Arc<Self>, local: SocketAddr) -> Arc<dyn Socket> {
        let inbox = Arc::new(Inbox::default());
        self.inboxes.lock().unwrap().entry(local).or_default().push(Arc::clone(&inbox));
        Arc::new(Port { local, inbox, network: Arc::clone(self) })
    }

    pub(super) fn alternates(&self) {
        *self.alternates.lock().unwrap() = true;
    }

    /// Ends all drivers.
    pub(super) fn end(&self) {
        let mut end = self.end.lock().unwrap();
        end.0 = true;
        let wakers = std::mem::take(&mut end.1);
        drop(end);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Whether drivers should end. If not, they are woken when they should.
    pub(super) fn has_ended(&self, cx: &Context<'_>) -> bool {
        let mut end = self.end.lock().unwrap();
        end.1.push(cx.waker().clone());
        end.0
    }
}

struct Port {
    local: SocketAddr,
    inbox: Arc<Inbox>,
    network: Arc<Network>,
}

impl Socket for Port {
    fn descriptor(&self) -> std::os::fd::BorrowedFd<'_> {
        unreachable!("it has none")
    }

    fn options(&self) -> socket2::SockRef<'_> {
        unreachable!("it has none")
    }

    fn max_segments(&self) -> usize {
        1
    }

    fn set_buffers(&self, wanted: Buffers) -> io::Result<Buffers> {
        Ok(wanted)
    }

    fn send(&self, outgoing: &Outgoing<'_>) -> io::Result<()> {
        let data = outgoing.slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        let inboxes = self.network.inboxes.lock().unwrap();
        let Some(sockets) = inboxes.get(&outgoing.destination) else { return Ok(()) };
        let turn = if *self.network.alternates.lock().unwrap() {
            self.network.sent.fetch_add(1, Ordering::Relaxed)
        } else {
            0
        };
        let inbox = Arc::clone(&sockets[turn % sockets.len()]);
        drop(inboxes);
        let mut arrived = inbox.0.lock().unwrap();
        arrived.datagrams.push_back((self.local, data));
        let waker = arrived.waker.take();
        drop(arrived);
        waker.into_iter().for_each(Waker::wake);
        Ok(())
    }

    fn take_errors(&self, _: &mut dyn FnMut(Option<SocketAddr>, HostError)) -> bool {
        false
    }

    /// Nothing is lost: no timer has to expire.
    fn arm(&self, _: Time) {}

    fn poll_timer(&self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn class(&self, _: &io::Error) -> ErrorClass {
        ErrorClass::Fatal
    }

    fn receiver(self: Arc<Self>) -> Box<dyn Receiver> {
        Box::new(Reader(self))
    }
}

struct Reader(Arc<Port>);

impl Receiver for Reader {
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        _: bool,
        each: &mut dyn FnMut(Incoming<'_>, Option<u32>),
    ) -> Poll<io::Result<bool>> {
        let mut arrived = self.0.inbox.0.lock().unwrap();
        let Some((source, data)) = arrived.datagrams.pop_front() else {
            arrived.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        drop(arrived);
        let incoming = Incoming {
            source,
            dst_ip: None,
            stride: data.len(),
            ecn: 0,
            tos: None,
            ttl: None,
            rx_time: None,
            coalesced: false,
            data: &data,
            shared: None,
        };
        each(incoming, None);
        Poll::Ready(Ok(false))
    }

    fn poll_writable(&mut self, _: &mut Context<'_>, _: &mut dyn FnMut() -> bool) -> Poll<Writable> {
        Poll::Ready(Writable::Yes)
    }

    fn poll_error(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}
