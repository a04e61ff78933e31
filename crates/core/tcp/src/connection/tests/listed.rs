//! Lists of delivered segments for the controller.

use std::sync::{Arc, Mutex};

use longhaul_cc::{Ack, AckedSegment, Congestion, Control, Controller, Needs, Pace, Path, Snapshot, Timeout};
use longhaul_units::{Bytes, Rate};

use super::*;

/// Controller with a window and bursts of 40 kB that keeps the lists of all ACKs.
#[derive(Clone, Debug)]
struct Keeper {
    each_segment: bool,
    lists: Arc<Mutex<Vec<AckedSegment>>>,
}

impl Controller for Keeper {
    fn name(&self) -> String {
        "keeper".to_owned()
    }
    fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        (needs.preferred.segments, needs.preferred.arrival_times) = (true, true);
        needs
    }
    fn on_ack(&mut self, ack: &Ack<'_>, _: &Path) {
        self.lists.lock().unwrap().extend(ack.acked);
    }
    fn on_timeout(&mut self, _: &Timeout, _: &Path) {}
    fn control(&self) -> Control {
        let mut control = Control::window(Bytes(40_000));
        let mut pace = Pace::new(Rate::from_bits_per_sec(1_000_000_000));
        pace.quantum = Some(Bytes(40_000));
        (control.pace, control.each_segment) = (Some(pace), self.each_segment);
        control
    }
    fn snapshot(&self) -> Snapshot {
        Snapshot::new("keeper")
    }
}

/// Returns the segments that a transfer listed, and its statistics.
fn transfer(each_segment: bool, lose: impl FnMut(u64, usize, &[u8]) -> bool + 'static) -> (Vec<AckedSegment>, Info) {
    let keeper = Keeper { each_segment, lists: Arc::default() };
    let mut net = Net::new(Span::from_millis(10));
    let ids = net.connect(Config {
        congestion: Congestion::new(Copies(keeper.clone())),
        extensions: true,
        ..Config::default()
    });
    net.lose = Box::new(lose);
    let info = net.transfer(ids, 1_000_000, Span::from_secs(60));
    let lists = keeper.lists.lock().unwrap().clone();
    (lists, info)
}

/// With and without losses, SACK and retransmissions.
#[test]
fn segments_with_arrival_times_are_listed_even_if_not_each_is() {
    for every in [u64::MAX, 50, 7] {
        let lose = move |number: u64, _: usize, _: &[u8]| number.is_multiple_of(every);
        let ((all, expected), (some, info)) = (transfer(true, lose), transfer(false, lose));
        let bytes: u64 = all.iter().map(|segment| segment.bytes.0).sum();
        let mut timed = all.clone();
        timed.retain(|segment| segment.arrival.is_some());
        assert_eq!((bytes, timed.is_empty(), timed.len() < all.len()), (1_000_000, false, true), "{every}");
        assert_eq!((some, format!("{info:?}")), (timed, format!("{expected:?}")), "{every}");
    }
}
