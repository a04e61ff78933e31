//! Batches of a paced connection.

use longhaul_cc::{
    Ack, BuildParams, Congestion, Control, Controller, ControllerFactory, Needs, Pace, Path, Snapshot, Timeout,
};
use longhaul_units::{Bytes, Rate};

use super::*;

/// 30 bytes per microsecond: the quantum of 250 us has five segments.
const RATE: Rate = Rate::from_bits_per_sec(240_000_000);

/// Controller with a window of 1 MB and a constant pacing rate.
#[derive(Clone, Copy, Debug)]
struct Constant;

impl ControllerFactory for Constant {
    fn build(&self, _: &BuildParams) -> Box<dyn Controller> {
        Box::new(*self)
    }
    fn name(&self) -> String {
        "constant".to_owned()
    }
}

impl Controller for Constant {
    fn name(&self) -> String {
        "constant".to_owned()
    }
    fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        needs.preferred.pacing = true;
        needs
    }
    fn on_ack(&mut self, _: &Ack<'_>, _: &Path) {}
    fn on_timeout(&mut self, _: &Timeout, _: &Path) {}
    fn control(&self) -> Control {
        let mut control = Control::window(Bytes(1_000_000));
        control.pace = Some(Pace::new(RATE));
        control
    }
    fn snapshot(&self) -> Snapshot {
        Snapshot::new("constant")
    }
}

/// Sends what may leave now, and returns the payload of each batch.
fn batches(net: &mut Net) -> Vec<u64> {
    let mut batch = Batch::default();
    let mut all = Vec::new();
    while net.ends[0].poll_transmit(net.now, &mut batch, 64).is_some() {
        all.push(batch.payload_len().0);
    }
    all
}

/// Returns a paced connection with much to send, and the payload of a segment.
fn paced() -> (Net, u64) {
    let mut net = Net::new(Span::from_millis(50));
    let (a, _) = net.connect(Config { congestion: Congestion::new(Constant), ..Config::default() });
    let now = net.now;
    let mss = net.ends[0].drive(now, a, |c| {
        c.write(&[0; 200_000]).unwrap();
        u64::from(c.info(now).mss)
    });
    (net, mss.unwrap())
}

/// Returns the batches of a wake-up `late` after the due time, and the payload of a segment.
fn after_a_wake_up(late: Span) -> (Vec<u64>, u64) {
    let (mut net, mss) = paced();
    let first = batches(&mut net);
    assert_eq!(first.len(), 1, "{first:?}");
    net.now = net.ends[0].poll_timeout().unwrap() + late;
    net.ends[0].handle_timeout(net.now);
    (batches(&mut net), mss)
}

/// Each quantum that a late wake-up missed would otherwise take a system call.
#[test]
fn missed_quanta_leave_in_one_batch() {
    let (punctual, mss) = after_a_wake_up(Span::ZERO);
    // One quantum of 7500 bytes, and what is missing for a whole segment.
    assert_eq!(punctual, [7_500_u64.div_ceil(mss) * mss]);
    // The credit of four quanta suffices for three of whole segments.
    let (late, _) = after_a_wake_up(Span::from_micros(750));
    assert_eq!(late, [3 * punctual[0]]);
}

/// A connection that sends in turn with others is polled again only when they have sent, and has waited for its pacer all the
/// time. Without a wait, one quantum could leave at each turn.
#[test]
fn quanta_that_a_late_turn_missed_leave_as_well() {
    const LATE: Span = Span::from_micros(750);
    let (mut net, _) = paced();
    let mut batch = Batch::default();
    net.ends[0].poll_transmit(net.now, &mut batch, 64).unwrap();
    net.now += RATE.time_for(batch.payload_len()) + LATE;
    assert_eq!(batches(&mut net), after_a_wake_up(LATE).0);
}
