//! Calls of two applications in arbitrary order over a network driven by a script. The fuzz target `api` and the
//! replay of its corpus call [`api`].

use std::sync::Arc;

use longhaul_tcp::{Config, HostError};
use longhaul_units::Span;

#[path = "ends.rs"]
#[expect(dead_code, reason = "the check of the network needs more of it")]
mod ends;

use ends::script::Script;
use ends::{App, DELAY, Ends, config, tuple};

/// Maximum number of connections per side.
const MOST: usize = 6;
/// Virtual time within which all state of released connections must be gone.
const BOUND: Span = Span::from_secs(3600);

struct World {
    ends: Ends,
    apps: Vec<App>,
    /// Released connections.
    gone: Vec<App>,
    configs: [Arc<Config>; 2],
    /// Fate of the next datagrams, one bit per datagram: dropped or duplicated.
    drops: u8,
    doubles: u8,
    /// Maximum lead of a clock: timers set then remain when the clock goes back.
    latest: Span,
}

/// Plays a script. The lowest 5 bits of a byte select the call and the next one the side; arguments follow.
pub fn api(script: &[u8]) {
    let mut script = Script(script);
    let configs = [config(&mut script), config(&mut script)];
    let mut world = World {
        ends: Ends::new([None; 2]),
        apps: Vec::new(),
        gone: Vec::new(),
        configs,
        drops: 0,
        doubles: 0,
        latest: Span::ZERO,
    };
    while !script.is_over() {
        let byte = script.byte();
        world.act(byte & 31, usize::from(byte >> 5 & 1), &mut script);
        world.flush();
    }
    world.finish();
}

impl World {
    fn act(&mut self, call: u8, side: usize, script: &mut Script<'_>) {
        let now = self.ends.clock(side);
        match call {
            0 | 1 => self.connect(side, script.byte() & 7),
            2 => self.ends.sides[side].listen(self.configs[side].clone()),
            3 => self.ends.sides[side].unlisten(now),
            4 => self.accept(side),
            5..=7 => self.app(script, |ends, app, script| {
                app.write(ends, usize::from(script.word()) % 20_000);
            }),
            8..=10 => self.app(script, |ends, app, script| {
                app.read(ends, usize::from(script.word()));
            }),
            11 => self.app(script, |ends, app, script| {
                let (side, now, len) = (app.side, ends.clock(app.side), usize::from(script.byte()));
                let mut room = vec![0; len];
                if let Some(Ok(seen)) = ends.sides[side].drive(now, app.id, |c| c.reader().peek(&mut room)) {
                    assert!(
                        room[..seen] == ends::part(1 - side, app.read, seen),
                        "peeked at data that was not written"
                    );
                }
            }),
            12 => self.connection(script, longhaul_tcp::Connection::shutdown),
            13 => self.connection(script, longhaul_tcp::Connection::abort),
            14 => self.connection(script, longhaul_tcp::Connection::close_read),
            15 => self.release(script.byte()),
            16 => self.connection(script, |c| {
                let nodelay = c.status().nodelay();
                c.writer().set_nodelay(!nodelay);
            }),
            17 => {
                let byte = script.byte();
                self.connection(script, |c| {
                    c.update_config(|config| {
                        config.send_buffer = 1 << (byte & 15);
                        config.recv_buffer_max = 1 << (byte >> 4 | 8);
                        config.user_timeout = (byte & 1 != 0).then_some(Span::from_secs(u64::from(byte)));
                        config.max_pacing_rate = longhaul_units::Rate::from_bits_per_sec(100_000 << (byte >> 4));
                    });
                });
            }
            18 => self.icmp_error(side, script.byte()),
            19 => {
                let now = self.ends.clock(side);
                self.app(script, |ends, app, _| {
                    ends.sides[app.side].drive(now, app.id, |c| c.handle_too_long(now));
                });
            }
            20 => self.drops = script.byte(),
            21 => self.doubles = script.byte(),
            // Moves the clock of one side forward, as after a suspend, or back; a clock that goes back stands still.
            22 => {
                self.ends.ahead[side] = Span::from_millis(u64::from(script.word()) * 100);
                self.latest = self.latest.max(self.ends.ahead[side]);
            }
            23 => self.ends.ahead[side] = Span::ZERO,
            24 => self.ends.happen(self.ends.now + Span::from_millis(u64::from(script.word()))),
            25 => self.ends.happen(self.ends.now + Span::from_secs(u64::from(script.word()))),
            26 => self.ends.sides[side].abandon(now),
            _ => {
                if let Some(next) = self.ends.next() {
                    self.ends.happen(next);
                }
            }
        }
    }

    fn connect(&mut self, side: usize, flow: u8) {
        if self.apps.iter().filter(|app| app.side == side).count() < MOST {
            let now = self.ends.clock(side);
            let id = self.ends.sides[side].connect(now, tuple(side, flow), self.configs[side].clone());
            self.apps.extend(id.map(|id| App::new(side, id)));
        }
    }

    fn accept(&mut self, side: usize) {
        if let Some(id) = self.ends.sides[side].accept() {
            self.apps.push(App::new(side, id));
        }
    }

    fn app(&mut self, script: &mut Script<'_>, act: impl FnOnce(&mut Ends, &mut App, &mut Script<'_>)) {
        let index = usize::from(script.byte());
        let count = self.apps.len().max(1);
        if let Some(app) = self.apps.get_mut(index % count) {
            act(&mut self.ends, app, script);
        }
    }

    fn connection(&mut self, script: &mut Script<'_>, act: impl FnOnce(&mut longhaul_tcp::Connection)) {
        self.app(script, |ends, app, _| {
            let now = ends.clock(app.side);
            ends.sides[app.side].drive(now, app.id, act);
        });
    }

    fn release(&mut self, which: u8) {
        if !self.apps.is_empty() {
            let app = self.apps.swap_remove(usize::from(which) % self.apps.len());
            let now = self.ends.clock(app.side);
            self.ends.sides[app.side].release(now, app.id);
            self.gone.push(app);
        }
    }

    fn icmp_error(&mut self, side: usize, which: u8) {
        let errors = [
            HostError::Refused,
            HostError::HostUnreachable,
            HostError::NetworkUnreachable,
            HostError::NetworkDown,
            HostError::Prohibited,
            HostError::Other,
        ];
        let now = self.ends.clock(side);
        let error = errors[usize::from(which >> 4) % errors.len()];
        self.ends.sides[side].handle_host_error(now, tuple(side, which & 7), error);
    }

    fn flush(&mut self) {
        for side in 0..2 {
            let (mut drops, mut doubles) = (self.drops, self.doubles);
            self.ends.flush(side, |ends, datagram| {
                if drops & 1 == 0 {
                    ends.send(datagram.clone(), DELAY);
                }
                if doubles & 1 != 0 {
                    ends.send(datagram, DELAY * 2);
                }
                (drops, doubles) = (drops >> 1, doubles >> 1);
            });
            (self.drops, self.doubles) = (drops, doubles);
        }
        for app in &self.apps {
            let Some(connection) = self.ends.sides[app.side].connection(app.id) else { continue };
            assert!(connection.status().memory() < 64 << 20, "{} bytes of memory", connection.status().memory());
        }
    }

    /// Releases all connections and asserts that all state is gone within the bound.
    fn finish(&mut self) {
        (self.drops, self.doubles) = (0, 0);
        for side in 0..2 {
            let now = self.ends.clock(side);
            self.ends.sides[side].unlisten(now);
        }
        while !self.apps.is_empty() {
            self.release(0);
        }
        let end = self.ends.now + self.latest + BOUND;
        loop {
            self.flush();
            match self.ends.next() {
                Some(next) if next <= end => self.ends.happen(next),
                None => break,
                next => panic!("not over by {end}, next at {next:?}: {:?}", self.ends.describe()),
            }
        }
        for App { side, id, .. } in &self.gone {
            let left = self.ends.sides[*side].connection(*id);
            assert!(left.is_none(), "side {side} keeps {:?}", left.map(|c| (c.info(self.ends.now), c.poll_timeout())));
        }
        self.ends.assert_idle();
    }
}
