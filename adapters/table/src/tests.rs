//! longhaul's controllers in the stacks themselves.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use longhaul_cc::{Ack, BuildParams, Congestion, Control, Controller, ControllerFactory, Path, Snapshot, Timeout};
use longhaul_link::Mtu;
use longhaul_units::{Bytes, Span, Time};

use crate::host::{self, Identity};
use crate::links::Place;
use crate::stack::transfer;

/// What happens after two of six seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happens {
    Nothing,
    /// Large packets are dropped from now on.
    BlackHole,
    /// The server, which sends, sees its client at another port, so that its path is validated anew.
    Rebinding,
}

fn place(happens: Happens) -> Place {
    let mut place = Place::new("test", 20, 40, None, 0.001, 6);
    if happens == Happens::BlackHole {
        place.up.mtu = Some(Mtu { from: Time::ZERO + Span::from_secs(2), size: 1300 });
    }
    place
}

macro_rules! goodput {
    ($module:ident, $proto:ident, $factory:expr, $happens:expr) => {{
        let (identity, origin) = (Identity::new().unwrap(), crate::real_time());
        let factory = $factory.unwrap();
        let choose = |transport: &mut $proto::TransportConfig| {
            transport.congestion_controller_factory(Arc::clone(&factory) as Arc<_>);
        };
        let (mut client, mut server) = host::$module::pair(&identity, origin, 3, true, &choose).unwrap();
        if $happens == Happens::Rebinding {
            (client.sends, server.sends) = (None, Some(None));
            server.moves_at = Some(origin + Duration::from_secs(2));
        }
        transfer(&place($happens), &mut client, &mut server, origin, 3).unwrap().goodput
    }};
}

fn noq(name: &str, happens: Happens) -> f64 {
    goodput!(noq, noq_proto, longhaul_noq::congestion(name), happens)
}

fn quinn(name: &str, happens: Happens) -> f64 {
    goodput!(quinn, quinn_proto, longhaul_quinn::congestion(name), happens)
}

#[test]
fn controllers_use_the_path() {
    for name in ["bbr", "copa", "copa-cubic"] {
        let goodput = noq(name, Happens::Nothing);
        assert!(goodput > 15.0, "noq, {name}: {goodput}");
    }
    for name in ["copa", "copa-cubic"] {
        let goodput = quinn(name, Happens::Nothing);
        assert!(goodput > 13.0, "quinn, {name}: {goodput}");
    }
}

#[test]
fn connections_survive_a_black_hole_and_a_rebinding() {
    for happens in [Happens::BlackHole, Happens::Rebinding] {
        for name in ["cubic", "copa", "copa-cubic"] {
            let (noq, quinn) = (noq(name, happens), quinn(name, happens));
            println!("{happens:?}, {name}: {noq:.1} {quinn:.1}");
            assert!(noq > 4.0 && quinn > 4.0, "{happens:?}, {name}: {noq} {quinn}");
        }
    }
}

/// A time that only a clock makes is not a part of any result.
#[test]
fn results_do_not_depend_on_when_they_are_made() {
    let first: Instant = crate::real_time();
    assert_eq!(noq("copa", Happens::Nothing).to_bits(), noq("copa", Happens::Nothing).to_bits());
    assert!(crate::real_time() > first);
}

/// A controller whose window is as small as possible.
#[derive(Clone, Debug)]
struct Least;

impl Controller for Least {
    fn name(&self) -> String {
        "least".to_owned()
    }

    fn on_ack(&mut self, _: &Ack<'_>, _: &Path) {}

    fn on_timeout(&mut self, _: &Timeout, _: &Path) {}

    fn control(&self) -> Control {
        Control::window(Bytes(1))
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::new("least")
    }
}

impl ControllerFactory for Least {
    fn build(&self, _: &BuildParams) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn name(&self) -> String {
        "least".to_owned()
    }
}

/// One datagram per round trip of 40 ms, and for up to 25 ms more the peer holds its ACK back: at least 0.17 Mb/s. quinn does
/// not send what would fill its window.
#[test]
fn a_window_of_one_datagram_is_used() {
    let least = || Congestion::new(Least);
    let noq = goodput!(noq, noq_proto, longhaul_noq::controlled(least()), Happens::Nothing);
    let quinn = goodput!(quinn, quinn_proto, longhaul_quinn::controlled(least()), Happens::Nothing);
    assert!(noq > 0.1 && quinn > 0.1, "{noq} {quinn}");
}
