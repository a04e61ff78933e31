//! longhaul's controllers in the stacks themselves.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::sync::Arc;

use longhaul_cc::{Ack, BuildParams, Congestion, Control, Controller, ControllerFactory, Path, Snapshot, Timeout};
use longhaul_link::topology::Duplex;
use longhaul_link::{Limit, LinkConfig, Loss, Mtu};
use longhaul_sim::{Agent, Setup, Sim};
use longhaul_units::{Bytes, Rate, Span, Time};

use crate::Identity;
use crate::host::{self, Plan};

/// What happens after two of six seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happens {
    Nothing,
    /// Large packets are dropped from now on.
    BlackHole,
    /// The server, which sends, sees its client at another port, so that its path is validated anew.
    Rebinding,
}

/// 20 Mb/s, 40 ms, a queue of one BDP, and losses of 0.1 %.
fn links(happens: Happens) -> Duplex {
    let (rate, rtt) = (Rate::from_bits_per_sec(20_000_000), Span::from_millis(40));
    let back = LinkConfig::new(rate, rtt / 2).queue(Limit::Bytes(rate.bytes_in(rtt).0));
    let mut there = back.clone().loss(Loss::Uniform(0.001));
    if happens == Happens::BlackHole {
        there.mtu = Some(Mtu { from: Time::ZERO + Span::from_secs(2), size: 1300 });
    }
    Duplex { there, back }
}

/// Returns the goodput in Mb/s in six seconds. After a rebinding, the client has another port; the server, which then
/// sends, validates the path anew.
fn goodput(happens: Happens, agents: impl Fn(&Plan) -> [Box<dyn Agent>; 2]) -> f64 {
    let mut sim = Sim::new(Setup::pair(3, links(happens)));
    let [left, right] = [0, 1].map(|node| sim.host(node).address);
    let is_rebinding = happens == Happens::Rebinding;
    let (nodes, addresses) = if is_rebinding { ([1, 0], [right, left]) } else { ([0, 1], [left, right]) };
    let mut plan = Plan::new(addresses);
    (plan.ordered, plan.server_sends) = (true, is_rebinding);
    plan.moves_at = is_rebinding.then_some(Time::ZERO + Span::from_secs(2));
    sim.place_agents(nodes, agents(&plan));
    sim.run_for(Span::from_secs(6));
    let read = sim.host(1).agent().unwrap().progress().read;
    read as f64 * 8e-6 / 6.0
}

macro_rules! goodput {
    ($module:ident, $proto:ident, $factory:expr, $happens:expr) => {
        goodput($happens, |plan| {
            let factory = $factory.unwrap();
            let choose = |transport: &mut $proto::TransportConfig| {
                transport.congestion_controller_factory(Arc::clone(&factory) as Arc<_>);
            };
            host::$module::pair(&Identity::new().unwrap(), plan, &choose).map(|agent| Box::new(agent) as Box<dyn Agent>)
        })
    };
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

/// Neither the clock nor the keys have an effect.
#[test]
fn results_are_reproducible() {
    assert_eq!(noq("copa", Happens::Nothing).to_bits(), noq("copa", Happens::Nothing).to_bits());
}

#[test]
fn what_a_stack_cannot_run_is_refused() {
    for stack in crate::stacks() {
        let told = |name: &str| stack.check(name).unwrap_err();
        assert!(told("cubik").contains("unknown congestion control `cubik`"), "{}", told("cubik"));
        assert!(told("slow-start(iw=0)+cubic").contains("iw"));
        assert_eq!(told("own-vegas"), "\"own-vegas\" is none of own-cubic, own-new-reno and own-bbr");
        for name in ["own-cubic", "own-new-reno", "own-bbr", "copa-cubic"] {
            stack.check(name).unwrap();
        }
        let bbr = stack.check("bbr");
        assert_eq!(bbr.is_ok(), stack.name() == "noq", "{bbr:?}");
    }
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
