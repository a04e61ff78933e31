//! Batches of a paced connection.

use longhaul_cc::{Ack, Congestion, Control, Controller, Needs, Pace, Path, SendLimit, Snapshot, Timeout};
use longhaul_units::{Bytes, Rate};

use super::*;

/// 30 bytes per microsecond: the quantum of 250 us has five segments.
const RATE: Rate = Rate::from_bits_per_sec(240_000_000);

/// Controller with a constant window and pacing rate.
#[derive(Clone, Copy, Debug)]
struct Constant {
    window: Bytes,
    rate: Rate,
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
        let mut control = Control::window(self.window);
        control.pace = Some(Pace::new(self.rate));
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

fn connect(net: &mut Net, window: u64, rate: Rate) -> (ConnId, ConnId) {
    let congestion = Congestion::new(Copies(Constant { window: Bytes(window), rate }));
    net.connect(Config { congestion, ..Config::default() })
}

/// Returns a paced connection with much to send, the payload of a segment, and the connection's ID.
fn paced_within(window: u64) -> (Net, u64, ConnId) {
    let mut net = Net::new(Span::from_millis(50));
    let (a, _) = connect(&mut net, window, RATE);
    let now = net.now;
    let mss = net.ends[0].drive(now, a, |c| {
        c.write(&[0; 200_000]).unwrap();
        u64::from(c.info(now).mss)
    });
    (net, mss.unwrap(), a)
}

fn paced() -> (Net, u64) {
    let (net, mss, _) = paced_within(1_000_000);
    (net, mss)
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

/// After an ACK, a connection that was limited by its window waits for its turn. Without a wait, one quantum could leave then.
#[test]
fn quanta_missed_between_an_ack_and_a_late_turn_leave_as_well() {
    const WINDOW: u64 = 22_400;
    let (mut net, mss, a) = paced_within(WINDOW);
    net.run_until(Span::from_millis(110), |net| net.flying.iter().any(|flying| flying.1 == 0));
    net.run_until(Span::from_millis(1), |net| net.flying.iter().all(|flying| flying.1 == 0));
    let acks = std::mem::take(&mut net.flying);
    net.now = acks.back().unwrap().0;
    net.ends[0].drive(net.now, a, |c| c.writer().set_others(1)).unwrap();
    for (_, to, _, datagram) in acks {
        let meta = DatagramMeta::new(Net::tuple(1 - to).remote, datagram.len());
        net.ends[to].handle_datagram(net.now, &meta, &datagram, None);
    }
    net.now += Span::from_micros(750);
    let sent = batches(&mut net);
    assert!(sent[0] > WINDOW - 2 * mss, "{sent:?}");
}

/// A tail loss probe does not wait for the pacer. If it leaves nothing to send, the wait is over.
#[test]
fn a_wait_ends_with_the_data_that_waited() {
    let mut net = Net::new(Span::from_millis(50));
    let (a, _) = connect(&mut net, 1_000_000, Rate::from_bytes_per_sec(2_000));
    let now = net.now;
    net.ends[0].drive(now, a, |c| c.write(&[0; 4_000])).unwrap().unwrap();
    let limit = |net: &Net| net.ends[0].connection(a).unwrap().cc.limits.current;
    net.run_until(Span::from_millis(1), |net| limit(net) == SendLimit::Pacing);
    net.run_until(Span::from_secs(10), |net| net.ends[0].connection(a).unwrap().snd.unsent() == 0);
    net.run_until(Span::from_secs(10), |net| limit(net) == SendLimit::App);
}
