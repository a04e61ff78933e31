//! Who looks at the packets of a link, and may write on them: a router that answers, a log.

use longhaul_units::{Rate, Time};
use longhaul_wire::network::{Forward, edit_forward};

use crate::packet::{Packet, Payload};
use crate::stats::Cause;

/// What a hook is told of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Its rate now, the mean one of a trace; `None` if it is unlimited.
    pub rate: Option<Rate>,
    /// Packets that wait. The packet in question is not among them.
    pub packets: u64,
    /// Bytes of IP packets that wait.
    pub bytes: u64,
}

/// Sees every packet of a link. Every method does nothing unless it is written.
///
/// The times are those of the model, exact also when a real-time driver calls late.
pub trait Hook<T> {
    /// A packet is offered to the link.
    fn offered(&mut self, now: Time, packet: &mut Packet<T>, view: &View) {
        let _ = (now, packet, view);
    }

    /// A packet leaves the queue, and its transmission begins; `ends` is when its last bit is sent. What a router writes
    /// it writes here.
    fn egress(&mut self, now: Time, ends: Time, packet: &mut Packet<T>, view: &View) {
        let _ = (now, ends, packet, view);
    }

    /// A packet goes no further. One that is lost on the link is reported with its [`egress`](Self::egress), and `now`
    /// is when its last bit is sent.
    fn dropped(&mut self, now: Time, packet: &Packet<T>, cause: Cause) {
        let _ = (now, packet, cause);
    }
}

/// Nobody looks.
impl<T> Hook<T> for () {}

/// Both look, the first one first.
impl<T, A: Hook<T>, B: Hook<T>> Hook<T> for (A, B) {
    fn offered(&mut self, now: Time, packet: &mut Packet<T>, view: &View) {
        self.0.offered(now, packet, view);
        self.1.offered(now, packet, view);
    }

    fn egress(&mut self, now: Time, ends: Time, packet: &mut Packet<T>, view: &View) {
        self.0.egress(now, ends, packet, view);
        self.1.egress(now, ends, packet, view);
    }

    fn dropped(&mut self, now: Time, packet: &Packet<T>, cause: Cause) {
        self.0.dropped(now, packet, cause);
        self.1.dropped(now, packet, cause);
    }
}

/// Somebody looks, or nobody.
impl<T, A: Hook<T>> Hook<T> for Option<A> {
    fn offered(&mut self, now: Time, packet: &mut Packet<T>, view: &View) {
        if let Some(hook) = self {
            hook.offered(now, packet, view);
        }
    }

    fn egress(&mut self, now: Time, ends: Time, packet: &mut Packet<T>, view: &View) {
        if let Some(hook) = self {
            hook.egress(now, ends, packet, view);
        }
    }

    fn dropped(&mut self, now: Time, packet: &Packet<T>, cause: Cause) {
        if let Some(hook) = self {
            hook.dropped(now, packet, cause);
        }
    }
}

/// Whoever looks, chosen when the program runs.
impl<T, H: Hook<T> + ?Sized> Hook<T> for Box<H> {
    fn offered(&mut self, now: Time, packet: &mut Packet<T>, view: &View) {
        (**self).offered(now, packet, view);
    }

    fn egress(&mut self, now: Time, ends: Time, packet: &mut Packet<T>, view: &View) {
        (**self).egress(now, ends, packet, view);
    }

    fn dropped(&mut self, now: Time, packet: &Packet<T>, cause: Cause) {
        (**self).dropped(now, packet, cause);
    }
}

/// A router of one's own, beside those of [`RouterConfig`](crate::RouterConfig): it edits the request in the
/// network-feedback option of segments, if there is one, by a function of the time, the link, the packet's size and the
/// request. The function counts the router in [`Forward::stamps`](longhaul_wire::network::Forward::stamps).
#[derive(Debug)]
pub struct Router<F>(pub F);

impl<T: Payload, F: FnMut(Time, &View, u32, &mut Forward)> Hook<T> for Router<F> {
    fn egress(&mut self, now: Time, _ends: Time, packet: &mut Packet<T>, view: &View) {
        let size = packet.size;
        packet
            .payload
            .edit_datagram(&mut |datagram| edit_forward(datagram, |forward| (self.0)(now, view, size, forward)));
    }
}
