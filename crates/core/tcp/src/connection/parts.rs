//! Parts of a connection that each processing phase borrows for reading and for writing.

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

/// Declares the methods of the connection or of [`Engine`] that lend its parts.
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
    /// Parts that are set before the first segment, offer options in a SYN, and receive the result of the negotiation.
    opening -> Opening {
        reads: { life: Lifecycle }
        changes: { config: Arc<Config>, negotiated: Negotiated, numbers: Numbers, snd: Sender, rcv: Receiver, rtt: RttEstimator,
            cc: CongestionDriver, pmtu: Pmtu, ext: Extensions, peer: Liveness, timers: Timers }
    }

    /// Parts whose changes are reported to observers.
    watch -> Watch {
        reads: { life: Lifecycle, negotiated: Negotiated, numbers: Numbers, snd: Sender, rtt: RttEstimator, loss: Loss,
            cc: CongestionDriver, pmtu: Pmtu, ext: Extensions, timers: Timers, stats: Stats }
        changes: { observers: Observers }
    }

    /// Parts that process the data delivered by an ACK and its information about the path.
    acking -> Acking {
        reads: { negotiated: Negotiated, numbers: Numbers, pmtu: Pmtu }
        changes: { snd: Sender, rtt: RttEstimator, loss: Loss, cc: CongestionDriver, ext: Extensions }
    }

    /// Parts that detect losses, and those notified of losses.
    recovery -> Recovery {
        reads: { negotiated: Negotiated, numbers: Numbers, rtt: RttEstimator }
        changes: { snd: Sender, loss: Loss, cc: CongestionDriver, pmtu: Pmtu, ext: Extensions, timers: Timers, stats: Stats,
            observers: Observers }
    }

    /// All parts except the state machine, which is read only.
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

    /// Parts that the controller reads, and those that its decision changes.
    control_loop -> ControlLoop {
        reads: { config: Arc<Config>, rtt: RttEstimator, pmtu: Pmtu }
        changes: { snd: Sender, loss: Loss, cc: CongestionDriver, ext: Extensions, timers: Timers }
    }

    /// Parts that process the text of a segment and its ECN marks.
    receiving -> Receiving {
        reads: { negotiated: Negotiated, numbers: Numbers }
        changes: { rcv: Receiver, stats: Stats }
    }

    /// Parts that determine a header, and those that change when an ACK is built.
    headers -> Headers {
        reads: { negotiated: Negotiated, numbers: Numbers, snd: Sender, pmtu: Pmtu }
        changes: { rcv: Receiver, ext: Extensions, timers: Timers, stats: Stats }
    }

    /// Parts that select the next segment, and those that record it. Parts that determine headers are not included,
    /// because all segments of a batch use the same header template.
    send_loop -> SendLoop {
        reads: { config: Arc<Config>, negotiated: Negotiated, numbers: Numbers, rtt: RttEstimator }
        changes: { snd: Sender, loss: Loss, cc: CongestionDriver, pmtu: Pmtu, ext: Extensions, timers: Timers, stats: Stats }
    }
} }
