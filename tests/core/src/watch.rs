//! Checks the protocol rules of a simulated connection after every event.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

use longhaul_sim::{Packet, Pattern, Sighting, Sim, Step, Tap};
use longhaul_tcp::{Connection, Info, State};
use longhaul_units::{Span, Time};
use longhaul_wire::{CheshireCodec, Header, Segment};

use crate::side::Side;

/// Maximum RTO of longhaul in this check. RFC 6298, section 2.5, requires a maximum of at least 60 s.
const MAX_RTO: Span = Span::from_secs(120);
/// Maximum number of events at one instant, at which a whole window may arrive. More events indicate an endless loop.
const MAX_AT_ONCE: u32 = 20_000;

/// Number of latest packets to show in error messages.
const RECENT: usize = 40;

/// State shared by the tap and the checks.
struct Wire {
    sides: [Side; 2],
    broken: Option<String>,
    recent: VecDeque<Seen>,
}

/// Packet to show in an error message.
struct Seen {
    now: Time,
    sighting: Sighting,
    header: Header,
    len: usize,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { now, sighting, header, len } = self;
        let Header { flags, seq, ack, window, options, .. } = header;
        let (stamps, sack) = (options.timestamps, &options.sack);
        write!(f, "{now} {sighting:?} {flags:?} seq {seq} ack {ack} win {window} len {len} {stamps:?} {sack:?}")
    }
}

struct WireTap(Rc<RefCell<Wire>>);

impl Tap for WireTap {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        let mut wire = self.0.borrow_mut();
        let Ok(segment) = Segment::parse::<CheshireCodec>(&packet.payload) else {
            wire.broken.get_or_insert(format!("{sighting:?} {now}: a datagram that is no segment"));
            return;
        };
        let (header, payload) = (&segment.header, segment.payload);
        if wire.recent.len() == RECENT {
            wire.recent.pop_front();
        }
        wire.recent.push_back(Seen { now, sighting, header: header.clone(), len: payload.len() });
        let [a, b] = &mut wire.sides;
        let result = match sighting {
            Sighting::Sent(0) => a.on_sent(now, b, header, payload),
            Sighting::Sent(_) => b.on_sent(now, a, header, payload),
            Sighting::Received(0) => {
                a.on_arrival(now, b, header, payload);
                Ok(())
            }
            Sighting::Received(_) => {
                b.on_arrival(now, a, header, payload);
                Ok(())
            }
            Sighting::Injected(_) => Ok(()),
        };
        if let Err(why) = result {
            wire.broken.get_or_insert(format!("{sighting:?} at {now}: {why}"));
        }
    }
}

/// State of one end after the previous event.
#[derive(Default)]
struct Last {
    state: Option<State>,
    info: Option<Info>,
}

/// Checks one connection between the two hosts of a simulation.
pub struct Watch {
    wire: Rc<RefCell<Wire>>,
    last: [Last; 2],
    at: Time,
    at_once: u32,
    /// Number of consecutive timer steps of each host after which a timer was still due.
    due_again: [u32; 2],
    min_rto: Span,
}

impl Watch {
    /// Starts to check `sim`, whose first connection carries the patterns of [`Sim::open`].
    #[must_use]
    pub fn new(sim: &mut Sim, min_rto: Span) -> Self {
        let sides = [Side::new(Pattern::new(0)), Side::new(Pattern::new(1))];
        let wire = Rc::new(RefCell::new(Wire { sides, broken: None, recent: Default::default() }));
        sim.add_tap(WireTap(Rc::clone(&wire)));
        Self { wire, last: Default::default(), at: Time::ZERO, at_once: 0, due_again: [0; 2], min_rto }
    }

    /// Runs `sim` until `done`, for at most `limit`, and checks the rules after every step.
    ///
    /// # Errors
    /// Returns the rule that was violated, or that the limit has passed, with the latest packets.
    pub fn run(&mut self, sim: &mut Sim, limit: Span, mut done: impl FnMut(&Sim) -> bool) -> Result<(), String> {
        let end = sim.now() + limit;
        self.explain(Ok(()))?;
        while !done(sim) {
            if sim.now() > end {
                return self.explain(Err(format!("not done after {limit}: {}", describe(sim))));
            }
            let step = sim.step();
            let result = match step {
                Some(step) => self.check(sim, step),
                None => Err(format!("nothing left to happen: {}", describe(sim))),
            };
            self.explain(result)?;
        }
        Ok(())
    }

    /// Suspends both ends for `span`.
    pub fn jump(&mut self, sim: &mut Sim, span: Span) {
        sim.jump(span);
        self.wire.borrow_mut().sides.iter_mut().for_each(|side| side.sleep(span));
    }

    /// Fails with `why`, the state of both ends and the latest packets.
    ///
    /// # Errors
    /// Always returns an error.
    pub fn fail<T>(&self, sim: &Sim, why: &str) -> Result<T, String> {
        self.explain(Err(format!("{why}: {}", describe(sim)))).and_then(|()| Err(why.to_owned()))
    }

    fn explain(&self, result: Result<(), String>) -> Result<(), String> {
        let wire = self.wire.borrow();
        let broken = wire.broken.clone().map_or(result, Err);
        broken.map_err(|why| {
            let recent: Vec<String> = wire.recent.iter().map(Seen::to_string).collect();
            format!("{why}\nlast packets:\n{}", recent.join("\n"))
        })
    }

    fn check(&mut self, sim: &mut Sim, step: Step) -> Result<(), String> {
        self.at_once = if sim.now() == self.at { self.at_once + 1 } else { 0 };
        self.at = sim.now();
        if self.at_once > MAX_AT_ONCE {
            return Err(format!("{MAX_AT_ONCE} events at {}", self.at));
        }
        for number in 0..2 {
            self.check_host(sim, number)?;
        }
        if let Step::Timer(number) = step {
            let clock = sim.host(number).clock(sim.now());
            let next = sim.host_mut(number).endpoint.poll_timeout();
            let due_again = &mut self.due_again[number];
            *due_again = if next.is_some_and(|at| at <= clock) { *due_again + 1 } else { 0 };
            // A timeout may end a phase of the controller, which then requests a tick at once, so one due timer is
            // allowed.
            if *due_again > 1 {
                return Err(format!("host {number}: a timer is still due at {next:?}, after two calls at {clock}"));
            }
        }
        Ok(())
    }

    fn check_host(&mut self, sim: &mut Sim, number: usize) -> Result<(), String> {
        let now = sim.now();
        let host = sim.host(number);
        let Some(session) = host.sessions.first() else { return Ok(()) };
        if !session.intact {
            return Err(format!("host {number} read what was not written"));
        }
        let connection = host.endpoint.connection(session.id);
        // A connection that discards data need not acknowledge it.
        let acknowledges =
            |c: &Connection| c.state().is_synchronized() && c.state() != State::TimeWait && !c.status().discards();
        let alive = connection.is_some_and(acknowledges);
        self.wire.borrow().sides[number].check_time(now, alive).map_err(|e| format!("host {number}: {e}"))?;
        let Some(connection) = connection else { return Ok(()) };
        let info = connection.info(host.clock(now));
        let [first, second] = &mut self.last;
        let last = if number == 0 { first } else { second };
        check_info(&info, last.info.as_ref(), self.min_rto).map_err(|e| format!("host {number}: {e}"))?;
        check_edge(last.state, info.state)?;
        check_timer(connection, &info).map_err(|e| format!("host {number}: {e}"))?;
        last.state = Some(info.state);
        last.info = Some(info);
        let armed = sim.host_mut(number).endpoint.poll_timeout().is_some();
        let connection = sim.host(number).endpoint.connection(sim.host(number).sessions[0].id);
        if !armed && connection.is_some_and(|c| c.poll_timeout().is_some()) {
            return Err(format!("host {number}: the endpoint does not know of its connection's timer"));
        }
        Ok(())
    }

    /// Returns the initial sequence numbers of both ends.
    #[must_use]
    pub fn initial_sequences(&self) -> [Option<u32>; 2] {
        self.wire.borrow().sides.each_ref().map(Side::isn)
    }

    /// Returns whether both ends have sent a SYN.
    #[must_use]
    pub fn both_opened(&self) -> bool {
        self.wire.borrow().sides.iter().all(Side::syn_seen)
    }
}

/// Describes the sessions of both hosts, and their connections, for a failed test.
#[must_use]
pub fn describe(sim: &Sim) -> String {
    let mut text = format!("at {}", sim.now());
    for host in [sim.host(0), sim.host(1)] {
        for session in &host.sessions {
            text += &format!(
                "\n  wrote {} of {}, read {}, ended {}, error {:?}, released {}",
                session.written, session.plan.send, session.read, session.ended, session.error, session.released
            );
            if let Some(connection) = host.endpoint.connection(session.id) {
                text += &format!("\n    {:?}", connection.info(sim.now()));
            }
        }
        text += &format!("\n  {} connections, {} in TIME-WAIT", host.endpoint.len(), host.endpoint.time_wait_len());
    }
    text
}

fn check_info(info: &Info, last: Option<&Info>, min_rto: Span) -> Result<(), String> {
    let holds = |holds: bool, what: &str| if holds { Ok(()) } else { Err(format!("{what}: {info:?}")) };
    holds(info.rto >= min_rto && info.rto <= MAX_RTO, "RTO out of bounds")?;
    holds(info.challenge_acks <= 1 + info.age.as_millis() / 500, "too many challenge ACKs")?;
    holds(info.unread.0 <= info.recv_buffer.0 + 65_535, "more unread than the buffer holds")?;
    holds(info.mss > 0 && info.cwnd.0 >= u64::from(info.mss), "no window at all")?;
    let Some(last) = last else { return Ok(()) };
    holds(info.bytes_acked >= last.bytes_acked, "SND.UNA went back")?;
    holds(info.delivered >= last.delivered, "delivered went back")?;
    holds(info.bytes_received >= last.bytes_received, "received went back")
}

/// Checks a transition of RFC 9293, section 3.3.2. One event can cause two, for example a FIN that also acknowledges
/// this end's FIN.
fn check_edge(last: Option<State>, now: State) -> Result<(), String> {
    let Some(last) = last.filter(|last| *last != now) else { return Ok(()) };
    let reachable = last.may_become(now) || State::ALL.iter().any(|s| last.may_become(*s) && s.may_become(now));
    if reachable { Ok(()) } else { Err(format!("{last} became {now}")) }
}

fn check_timer(connection: &Connection, info: &Info) -> Result<(), String> {
    use State::{Closed, Closing, FinWait1, LastAck, SynReceived, SynSent, TimeWait};
    let waits = matches!(info.state, SynSent | SynReceived | FinWait1 | Closing | LastAck | TimeWait)
        || (info.state != Closed && (info.unacked_segments > 0 || info.unsent.0 > 0));
    match (connection.poll_timeout(), info.state) {
        (None, _) if waits => Err(format!("no timer is armed: {info:?}")),
        (Some(_), Closed) => Err(format!("a timer is armed in CLOSED: {info:?}")),
        _ => Ok(()),
    }
}
