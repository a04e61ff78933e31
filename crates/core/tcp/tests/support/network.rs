//! Two connected endpoints with any two compositions, data in both directions, and a network whose faults a script
//! selects for each datagram. The fuzz target and the replay of its corpus call [`network`].

use longhaul_tcp::{ConnectionError, Ecn};
use longhaul_units::Span;

#[path = "ends.rs"]
#[expect(dead_code, reason = "the check of the order of calls needs more of it")]
mod ends;

use ends::script::Script;
use ends::{App, DELAY, Datagram, Ends, config, is_demanding, tuple};

/// Maximum duration. After the end of the script, the network has no faults, so a transfer of some 100 kB completes
/// by then, and ends that have lost each other time out.
const BOUND: Span = Span::from_secs(3600);
/// Number of lost datagrams after which a handshake may fail: a server retransmits its SYN-ACK twice.
const FATAL: u32 = 3;

/// Network faults selected by a script.
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
        // A small extra delay selected by the script reorders the datagram.
        ends.send(datagram, DELAY + Span::from_micros(u64::from(fate >> 3) * 200));
    }
}

/// Transfers up to 100 kB in each direction until both applications are done.
pub fn network(script: &[u8]) {
    let mut script = Script(script);
    let configs = [config(&mut script), config(&mut script)];
    let sizes = [script.word(), script.word()].map(|size| u64::from(size) * 3 / 2);
    // The initial sequence numbers are less than 64 KiB before the wrap-around.
    let initial = [script.byte(), script.byte()].map(|byte| Some(u32::MAX - u32::from(byte) * 256));
    let mut weather = Weather { script, lost: 0 };
    let mut ends = Ends::new(initial);
    ends.sides[1].listen(configs[1].clone());
    let now = ends.now;
    let id = ends.sides[0].connect(now, tuple(0, 0), configs[0].clone()).expect("the first connection");
    let mut apps = [Some(App::new(0, id)), None];
    let mut released = [false; 2];
    let end = ends.now + BOUND;
    // Run both applications, transmit, and check the invariants at each event until nothing is left to do.
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
    // A delayed SYN may have opened another connection, which nobody accepts.
    let now = ends.clock(1);
    ends.sides[1].unlisten(now);
    ends.flush(1, |_, _| {});
    ends.assert_idle();
    if configs.iter().any(|config| is_demanding(&config.congestion)) && errors(&apps).iter().any(Option::is_some) {
        return;
    }
    judge(&apps, sizes, weather.lost);
}

/// Lets an application write, shut down, read to the end, and release the connection; returns whether it has done so.
fn act(ends: &mut Ends, app: &mut App, sizes: [u64; 2]) -> bool {
    while app.read(ends, 5_000) > 0 {}
    let size = sizes[app.side];
    while app.written < size && app.write(ends, 4_000.min((size - app.written) as usize)) {}
    let (side, now) = (app.side, ends.clock(app.side));
    let Some((established, error)) =
        ends.sides[side].drive(now, app.id, |c| (c.state().is_synchronized(), c.status().error()))
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

/// Asserts that all acknowledged data has been received at the other end.
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
        assert!(sender.cwnd.0 >= u64::from(sender.mss), "cwnd is below one segment");
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

/// Asserts that both ends have read all data, unless too many datagrams were lost.
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
