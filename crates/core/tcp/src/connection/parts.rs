//! Parts of a connection that each phase of processing borrows: which it reads, and which it changes.

use std::sync::Arc;

use super::{
    CongestionDriver, Extensions, Lifecycle, Liveness, Loss, Negotiated, Numbers, Observers, Pmtu, Receiver, Sender,
    Timers,
};
use crate::{Config, Connection, RttEstimator, Stats};

/// Declares a struct of borrowed parts per phase, with the names of the connection's fields.
macro_rules! structs {
    ({ $($(#[$doc:meta])* $lend:ident -> $phase:ident {
        reads: { $($read:ident: $read_type:ty),* }
        changes: { $($changed:ident: $changed_type:ty),* }
    })* }) => {
        $($(#[$doc])* pub(crate) struct $phase<'a> {
            $(pub(super) $read: &'a $read_type,)*
            $(pub(super) $changed: &'a mut $changed_type,)*
        })*
    };
}

/// Declares the methods of an owner of parts, the connection or [`Engine`], that lend them.
macro_rules! lent_by {
    ($owner:ty: { $($(#[$doc:meta])* $lend:ident -> $phase:ident {
        reads: { $($read:ident: $read_type:ty),* }
        changes: { $($changed:ident: $changed_type:ty),* }
    })* }) => {
        impl $owner {
            $(#[inline] pub(crate) fn $lend(&mut self) -> $phase<'_> {
                $phase { $($read: &self.$read,)* $($changed: &mut self.$changed,)* }
            })*
        }
    };
}

macro_rules! phases {
    ($([$owner:ty])*: $phases:tt) => {
        structs! { $phases }
        $(lent_by! { $owner: $phases })*
    };
}

phases! { [Connection]: {
    /// The parts that are set before the first segment, offer options in a SYN and learn which of them are agreed on.
    opening -> Opening {
        reads: { life: Lifecycle }
        changes: { config: Arc<Config>, negotiated: Negotiated, numbers: Numbers, snd: Sender, rcv: Receiver, rtt: RttEstimator,
            cc: CongestionDriver, pmtu: Pmtu, ext: Extensions, peer: Liveness, timers: Timers }
    }

    /// The parts that observers are told of.
    watch -> Watch {
        reads: { life: Lifecycle, negotiated: Negotiated, numbers: Numbers, snd: Sender, rtt: RttEstimator, loss: Loss,
            cc: CongestionDriver, pmtu: Pmtu, ext: Extensions, timers: Timers, stats: Stats }
        changes: { observers: Observers }
    }

    /// The parts that learn what an ACK delivers, and what it says about the path.
    acking -> Acking {
        reads: { negotiated: Negotiated, numbers: Numbers, pmtu: Pmtu }
        changes: { snd: Sender, rtt: RttEstimator, loss: Loss, cc: CongestionDriver, ext: Extensions }
    }

    /// The parts that find losses, and those that learn of them.
    recovery -> Recovery {
        reads: { negotiated: Negotiated, numbers: Numbers, rtt: RttEstimator }
        changes: { snd: Sender, loss: Loss, cc: CongestionDriver, pmtu: Pmtu, ext: Extensions, timers: Timers, stats: Stats,
            observers: Observers }
    }

    /// All parts but the state machine, which it reads.
    engine -> Engine {
        reads: { config: Arc<Config>, life: Lifecycle, negotiated: Negotiated, numbers: Numbers }
        changes: { snd: Sender, rcv: Receiver, rtt: RttEstimator, loss: Loss, cc: CongestionDriver, pmtu: Pmtu,
            ext: Extensions, peer: Liveness, timers: Timers, stats: Stats, observers: Observers }
    }
} }

phases! { [Connection] [Engine<'_>]: {
    checks -> Checks {
        reads: { life: Lifecycle, negotiated: Negotiated, numbers: Numbers, snd: Sender, rcv: Receiver }
        changes: { }
    }

    /// The parts that the controller reads, and those that its answer changes.
    control_loop -> ControlLoop {
        reads: { config: Arc<Config>, rtt: RttEstimator, pmtu: Pmtu }
        changes: { snd: Sender, loss: Loss, cc: CongestionDriver, ext: Extensions, timers: Timers }
    }

    /// The parts that take the text of a segment and the marks on it.
    receiving -> Receiving {
        reads: { negotiated: Negotiated, numbers: Numbers }
        changes: { rcv: Receiver, stats: Stats }
    }

    /// The parts that a header shows, and those that change when an ACK is made.
    headers -> Headers {
        reads: { negotiated: Negotiated, numbers: Numbers, snd: Sender, pmtu: Pmtu }
        changes: { rcv: Receiver, ext: Extensions, timers: Timers, stats: Stats }
    }

    /// The parts that decide on the next segment, and those that record it. What decides on a header is not among them: all
    /// segments of a batch have the same template.
    send_loop -> SendLoop {
        reads: { config: Arc<Config>, negotiated: Negotiated, numbers: Numbers, rtt: RttEstimator }
        changes: { snd: Sender, loss: Loss, cc: CongestionDriver, pmtu: Pmtu, ext: Extensions, timers: Timers, stats: Stats }
    }
} }
