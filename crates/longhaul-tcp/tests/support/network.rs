//! Two connections' ends under any two compositions, data both ways, over a network that does what a script says with each datagram.
//! The fuzz target and the replay of its corpus both call [`network`].

use longhaul_tcp::{ConnectionError, Ecn};
use longhaul_units::Span;

#[path = "ends.rs"]
#[expect(dead_code, reason = "the check of the order of calls needs more of it")]
mod ends;

use ends::script::Script;
use ends::{App, DELAY, Datagram, Ends, config, is_demanding, tuple};

/// What is left after the script meets a network without faults, so that a transfer of some 100 kB ends by then. Two ends that have
/// lost each other know it by then too.
const BOUND: Span = Span::from_secs(3600);
/// Datagrams lost by which a handshake may fail: a server repeats its SYN-ACK twice.
const FATAL: u32 = 3;

/// What a script does with datagrams.
struct Weather<'a> {
    script: Script<'a>,
    lost: u32,
}

impl Weather<'_> {
    fn meet(&mut self, ends: &mut Ends, mut datagram: Datagram) {
        let fate = self.script.byte();
        match fate & 7 {
            4 => {
                self.lost += 1;
                return;
            }
            5 => ends.send(datagram.clone(), DELAY + Span::from_millis(u64::from(fate >> 3))),
            6 => {
                let delay = Span::from_millis(u64::from(self.script.byte()) * 8);
                return ends.send(datagram, delay);
            }
            7 if datagram.ecn != Ecn::NotEct => datagram.ecn = Ecn::Ce,
            _ => {}
        }
        // Behind the datagrams of the next few milliseconds, if the script wants it.
        ends.send(datagram, DELAY + Span::from_micros(u64::from(fate >> 3) * 200));
    }
}

/// Two ends, 100 kB each way at most, until both are done.
pub fn network(script: &[u8]) {
    let mut script = Script(script);
    let configs = [config(&mut script), config(&mut script)];
    let sizes = [script.word(), script.word()].map(|size| u64::from(size) * 3 / 2);
    // Near where sequence numbers wrap, or not.
    let initial = [script.byte(), script.byte()].map(|byte| Some(u32::MAX - u32::from(byte) * 256));
    let mut weather = Weather { script, lost: 0 };
    let mut ends = Ends::new(initial);
    ends.sides[1].listen(configs[1].clone());
    let now = ends.now;
    let id = ends.sides[0].connect(now, tuple(0, 0), configs[0].clone()).expect("the first connection");
    let mut apps = [Some(App::new(0, id)), None];
    let mut released = [false; 2];
    let end = ends.now + BOUND;
    loop {
        if apps[1].is_none() {
            apps[1] = ends.sides[1].accept().map(|id| App::new(1, id));
        }
        for (side, app) in apps.iter_mut().enumerate() {
            if let Some(app) = app.as_mut().filter(|_| !released[side]) {
                released[side] = act(&mut ends, app, sizes);
            }
        }
        for side in 0..2 {
            ends.flush(side, |ends, datagram| weather.meet(ends, datagram));
        }
        check(&ends, &apps);
        let over = released[0] && (released[1] || apps[1].is_none());
        match ends.next() {
            Some(next) if next <= end => ends.happen(next),
            None if over => break,
            next => panic!("not over by {end}, next at {next:?}: {apps:?} {sizes:?} {}", infos(&ends, &apps)),
        }
    }
    // An old SYN may have opened one more, which nobody accepts.
    let now = ends.clock(1);
    ends.sides[1].unlisten(now);
    ends.flush(1, |_, _| {});
    ends.assert_idle();
    if configs.iter().any(|config| is_demanding(&config.congestion)) && errors(&apps).iter().any(Option::is_some) {
        return;
    }
    judge(&apps, sizes, weather.lost);
}

/// An application writes, closes, reads to the end, and lets go; whether it has.
fn act(ends: &mut Ends, app: &mut App, sizes: [u64; 2]) -> bool {
    while app.read(ends, 5_000) > 0 {}
    let size = sizes[app.side];
    while app.written < size && app.write(ends, 4_000.min((size - app.written) as usize)) {}
    let (side, now) = (app.side, ends.clock(app.side));
    let Some((established, error)) = ends.sides[side].drive(now, app.id, |c| (c.state().is_synchronized(), c.error()))
    else {
        return true;
    };
    app.error = app.error.or(error);
    if app.written == size && established {
        ends.sides[side].drive(now, app.id, longhaul_tcp::Connection::shutdown);
    }
    let done = app.error.is_some() || (app.ended && app.written == size);
    if done {
        ends.sides[side].release(now, app.id);
    }
    done
}

/// What one end holds for acknowledged the other has received.
fn check(ends: &Ends, apps: &[Option<App>; 2]) {
    let infos = apps.each_ref().map(|app| {
        let app = app.as_ref()?;
        Some(ends.sides[app.side].connection(app.id)?.info(ends.clock(app.side)))
    });
    let [Some(first), Some(second)] = infos else { return };
    for (sender, receiver) in [(&first, &second), (&second, &first)] {
        // The SYN and the FIN are acknowledged, too.
        let (acked, received) = (sender.bytes_acked, receiver.bytes_received);
        assert!(acked <= received + 2, "acknowledged {acked} of {received} that arrived");
        assert!(sender.cwnd.0 >= u64::from(sender.mss), "no window at all");
        assert!(sender.memory < 8 << 20, "{} bytes of memory", sender.memory);
    }
}

fn infos(ends: &Ends, apps: &[Option<App>; 2]) -> String {
    let info = |app: &App| Some(ends.sides[app.side].connection(app.id)?.info(ends.clock(app.side)));
    apps.iter().flatten().map(|app| format!("\n{:?}", info(app))).collect()
}

fn errors(apps: &[Option<App>; 2]) -> [Option<ConnectionError>; 2] {
    apps.each_ref().map(|app| app.as_ref().and_then(|app| app.error))
}

/// Both ends have read what the other wrote, unless the network was too bad.
fn judge(apps: &[Option<App>; 2], sizes: [u64; 2], lost: u32) {
    let errors = errors(apps);
    if lost >= FATAL {
        return;
    }
    for (side, app) in apps.iter().enumerate() {
        let Some(app) = app else { panic!("no connection after {lost} losses: {errors:?}") };
        let done = app.read == sizes[1 - side] && app.ended && app.error.is_none();
        assert!(done, "{lost} lost: {app:?} of {sizes:?}, {errors:?}");
    }
}
