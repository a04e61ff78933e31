//! When an ACK frequency is requested.

use longhaul_cc::{Ack, AckFrequency, Congestion, Control, Controller, Needs, Path, Snapshot, Timeout};
use longhaul_units::Bytes;
use longhaul_wire::{CheshireCodec, Codec};

use super::*;

/// Controller that requests another ACK frequency after every ACK.
#[derive(Clone, Copy, Debug)]
struct Restless {
    ratio: u8,
}

impl Controller for Restless {
    fn name(&self) -> String {
        "restless".to_owned()
    }
    fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        needs.preferred.ack_frequency = AckFrequency::Varied;
        needs
    }
    fn on_ack(&mut self, _: &Ack<'_>, _: &Path) {
        self.ratio = 6 - self.ratio;
    }
    fn on_timeout(&mut self, _: &Timeout, _: &Path) {}
    fn control(&self) -> Control {
        let mut control = Control::window(Bytes(20_000));
        control.ack_ratio = self.ratio;
        control
    }
    fn snapshot(&self) -> Snapshot {
        Snapshot::new("restless")
    }
}

/// The change of the last ACK concerns no data, and would reach a peer that has closed the connection.
#[test]
fn nothing_is_requested_once_all_data_is_acknowledged() {
    let mut net = Net::new(Span::from_millis(50));
    let config = Config { congestion: Congestion::new(Copies(Restless { ratio: 2 })), ..Config::default() };
    let ids = net.connect(config);
    let requests = Rc::new(Cell::new([0; 2]));
    let seen = Rc::clone(&requests);
    net.lose = Box::new(move |_, from, datagram| {
        let (header, _) = CheshireCodec::parse(datagram).unwrap();
        let mut counts = seen.get();
        counts[from] += u32::from(header.options.ack_rate.is_some());
        seen.set(counts);
        false
    });
    let info = net.transfer(ids, 100_000, Span::from_secs(5));
    assert!(requests.get()[0] > 1 && requests.get()[1] == 0, "{:?}", requests.get());
    // Each end has sent a FIN, and nobody answered with a RST.
    assert_eq!(net.ends.each_ref().map(|end| end.stats().resets_sent), [0; 2], "{info:?}");
    let before = requests.get();
    while net.step() {}
    assert_eq!(requests.get(), before);
}
