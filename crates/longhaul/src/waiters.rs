//! Who waits for what of a connection.

use std::task::{Context, Waker};

use longhaul_tcp::HostError;
use longhaul_units::{Span, Time};

/// Tasks that wait for one thing. Usually one; a second reader or a `readable()` beside a read makes more.
#[derive(Debug, Default)]
pub(crate) struct WakerSet {
    first: Option<Waker>,
    /// Boxed, as it is rarely there and idle connections are many.
    #[expect(clippy::box_collection, reason = "an empty one takes a word instead of three")]
    more: Option<Box<Vec<Waker>>>,
}

impl WakerSet {
    pub(crate) fn register(&mut self, cx: &Context<'_>) {
        let waker = cx.waker();
        match &mut self.first {
            None => self.first = Some(waker.clone()),
            Some(first) if first.will_wake(waker) => {}
            Some(_) => {
                let more = self.more.get_or_insert_default();
                if !more.iter().any(|w| w.will_wake(waker)) {
                    more.push(waker.clone());
                }
            }
        }
    }

    /// Moves the wakers to `out`: they are woken once the endpoint's lock is released.
    pub(crate) fn take(&mut self, out: &mut Vec<Waker>) {
        out.extend(self.first.take());
        out.extend(self.more.take().into_iter().flat_map(|more| *more));
    }
}

/// The waiting tasks of one connection.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    pub(crate) read: WakerSet,
    pub(crate) write: WakerSet,
    /// For the handshake, for the acknowledgment of the FIN, for the end.
    pub(crate) state: WakerSet,
    /// What was heard against the path while the handshake was under way.
    pub(crate) unreachable: Unreachable,
    /// The connection's, if anybody subscribes to it.
    pub(crate) span: Option<Box<tracing::Span>>,
}

/// Whether a connection attempt goes to a host or network that cannot be reached.
///
/// One ICMP message is no proof: it may be forged, or be of a route that changes at this moment (RFC 5461, section 2.2).
/// Another one, of a later SYN, is enough to give the attempt up, so that another address of the name may be tried. An
/// established connection is ended by neither.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unreachable {
    first: Option<Time>,
    confirmed: Option<HostError>,
}

impl Unreachable {
    /// Reports closer together than this may be of the same SYN; the first is repeated after a second.
    const APART: Span = Span::from_millis(500);

    /// Notes what the host says; whether that settles the matter.
    pub(crate) fn note(&mut self, now: Time, error: HostError) -> bool {
        use HostError::{HostUnreachable, NetworkDown, NetworkUnreachable, Prohibited};
        if !matches!(error, HostUnreachable | NetworkUnreachable | NetworkDown | Prohibited) {
            return false;
        }
        let first = *self.first.get_or_insert(now);
        if now - first >= Self::APART {
            self.confirmed.get_or_insert(error);
        }
        self.confirmed.is_some()
    }

    /// Why the attempt is to be given up, if it is.
    pub(crate) fn confirmed(&self) -> Option<HostError> {
        self.confirmed
    }
}

impl Waiters {
    /// Everybody who waits.
    pub(crate) fn into_wakers(mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for set in [&mut self.read, &mut self.write, &mut self.state] {
            set.take(&mut wakers);
        }
        wakers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_report_of_a_later_syn_confirms_the_first() {
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        let mut unreachable = Unreachable::default();
        assert!(!unreachable.note(at(0), HostError::HostUnreachable));
        assert!(!unreachable.note(at(499), HostError::HostUnreachable), "of the same SYN");
        assert!(!unreachable.note(at(1000), HostError::Refused), "the transport's matter");
        assert_eq!(unreachable.confirmed(), None);
        assert!(unreachable.note(at(1000), HostError::NetworkUnreachable));
        assert_eq!(unreachable.confirmed(), Some(HostError::NetworkUnreachable));
    }
}
