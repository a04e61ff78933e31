//! Observers of the packets on a link, which may also edit them: routers that answer requests, logs.

use longhaul_units::{Rate, Time};
use longhaul_wire::network::{Forward, edit_forward};

use crate::packet::{Packet, Payload};
use crate::stats::Cause;

/// State of the link as passed to a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The current rate, the mean rate of a trace, or `None` if the rate is unlimited.
    pub rate: Option<Rate>,
    /// The number of packets waiting, without the packet at hand.
    pub packets: u64,
    /// The number of bytes waiting, in IP packets.
    pub bytes: u64,
}

/// Observer of every packet on a link. The default methods do nothing.
///
/// All times are those of the model and are exact even if a real-time driver calls late.
pub trait Hook<T> {
    /// Called when a packet is offered to the link.
    fn offered(&mut self, now: Time, packet: &mut Packet<T>, view: &View) {
        let _ = (now, packet, view);
    }

    /// Called when a packet leaves the queue and its transmission begins; `ends` is when its last bit is sent.
    /// Routers edit packets here.
    fn egress(&mut self, now: Time, ends: Time, packet: &mut Packet<T>, view: &View) {
        let _ = (now, ends, packet, view);
    }

    /// Called when a packet is dropped. If a packet is lost on the link, this follows immediately on its
    /// [`egress`](Self::egress), and `now` is when its last bit is sent.
    fn dropped(&mut self, now: Time, packet: &Packet<T>, cause: Cause) {
        let _ = (now, packet, cause);
    }
}

impl<T> Hook<T> for () {}

/// Passes each call on to the existing hooks, in order.
macro_rules! pass_on {
    ($self:ident to $($hook:expr),+) => {
        fn offered(&mut $self, now: Time, packet: &mut Packet<T>, view: &View) {
            $($hook.into_iter().for_each(|hook| hook.offered(now, packet, view));)+
        }

        fn egress(&mut $self, now: Time, ends: Time, packet: &mut Packet<T>, view: &View) {
            $($hook.into_iter().for_each(|hook| hook.egress(now, ends, packet, view));)+
        }

        fn dropped(&mut $self, now: Time, packet: &Packet<T>, cause: Cause) {
            $($hook.into_iter().for_each(|hook| hook.dropped(now, packet, cause));)+
        }
    };
}

/// Two hooks, called in order.
impl<T, A: Hook<T>, B: Hook<T>> Hook<T> for (A, B) {
    pass_on!(self to Some(&mut self.0), Some(&mut self.1));
}

impl<T, A: Hook<T>> Hook<T> for Option<A> {
    pass_on!(self to self.as_mut());
}

impl<T, H: Hook<T> + ?Sized> Hook<T> for Box<H> {
    pass_on!(self to Some(&mut **self));
}

/// A custom router, in addition to those of [`RouterConfig`](crate::RouterConfig). If a segment carries a request in
/// its network-feedback option, the function edits it, given the time, the state of the link and the packet's size.
/// The function must count the router in [`Forward::stamps`](longhaul_wire::network::Forward::stamps).
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
