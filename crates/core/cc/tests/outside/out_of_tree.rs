//! An algorithm outside of the crate, by its public interface only: Scalable TCP with the crate's own stages.

use longhaul_cc::compose::{
    AvoidanceStep, Composed, CongestionAvoidance, CongestionEvent, Stage, Stages, Target, Window,
};
use longhaul_cc::registry::Safety;
use longhaul_cc::{Ack, BuildParams, Congestion, Controller, ControllerFactory, Granted, Path, PathEvent, Sent, TxId};
use longhaul_units::{Bytes, Time};

/// Increases by a hundredth of the bytes acknowledged, decreases by an eighth (Kelly, CCR 2003).
#[derive(Clone, Debug)]
struct Scalable;

impl Stage for Scalable {}

impl CongestionAvoidance for Scalable {
    fn on_ack(&mut self, _ack: &Ack<'_>, grow: Bytes, _path: &Path, window: &mut Window) -> AvoidanceStep {
        window.cwnd += grow.as_f64() / 100.0;
        AvoidanceStep::Stay
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        Target::multiplicative(event, 0.875, path.mss)
    }
}

#[derive(Debug)]
struct ScalableFactory;

impl ControllerFactory for ScalableFactory {
    fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        let mut stages = Stages::new(self.name());
        stages.avoidance = Box::new(Scalable);
        Box::new(Composed::new(stages, params))
    }

    fn name(&self) -> String {
        "scalable".to_owned()
    }
}

#[test]
fn a_factory_of_ones_own_makes_controllers() {
    let congestion = Congestion::new(ScalableFactory);
    assert_eq!((congestion.to_string().as_str(), congestion.safety()), ("scalable", Safety::Controlled));
    let mut controller = congestion.build(&BuildParams::default());
    let (path, now) = (Path::new(Bytes(1448)), Time::ZERO);
    let granted = Granted::basic();
    controller.on_granted(&granted, &path).expect("nothing is required");
    controller.on_event(&PathEvent::Established { now, granted }, &path);
    assert_eq!(controller.control().cwnd, Bytes(14_480));
    controller.on_sent(&Sent::new(now, TxId(0), Bytes(1448)), &path);
    let mut ack = Ack::new(now);
    (ack.delivered, ack.cumulative, ack.cwnd_limited) = (Bytes(1448), Bytes(1448), true);
    controller.on_ack(&ack, &path);
    assert_eq!(controller.control().cwnd, Bytes(15_928));
}

#[test]
fn it_passes_the_suite() {
    use longhaul_conformance::{Expect, check};
    check(&ScalableFactory, Expect::default(), 256);
}

/// What a connection of quinn or noq has: its controller has to be `Clone`, `Send` and `Sync`.
#[derive(Clone, Debug)]
struct Adapter(Box<dyn Controller>);

#[test]
fn the_loop_of_another_stack_can_hold_a_controller() {
    fn is_fit<T: Clone + Send + Sync + 'static>(adapter: T) -> T {
        adapter
    }
    let adapter = is_fit(Adapter(Congestion::default().build(&BuildParams::default())));
    let mut moved = adapter.clone();
    let (path, now, granted) = (Path::new(Bytes(1448)), Time::ZERO, Granted::basic());
    moved.0.on_event(&PathEvent::Established { now, granted }, &path);
    let read = |adapter: &Adapter| adapter.0.control().cwnd;
    let windows =
        std::thread::scope(|scope| [&adapter, &moved].map(|it| scope.spawn(move || read(it)).join().unwrap()));
    assert_eq!(windows, [Bytes(536), Bytes(14_480)]);
}
