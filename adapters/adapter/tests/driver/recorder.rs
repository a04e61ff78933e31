//! A controller that records what it is told, and lets another one decide.

use std::sync::{Arc, Mutex};

use longhaul_cc::{
    Ack, AckedSegment, BuildParams, Congestion, Control, Controller, ControllerFactory, Demands, Episode, LostSegment,
    Needs, Path, PathEvent, RateSample, SendLimit, Sent, Timeout, forward_controller, update,
};
use longhaul_units::{Bytes, Time};

/// Call that a controller has received.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    Sent(Sent),
    Ack {
        now: Time,
        acked: Vec<AckedSegment>,
        lost: Vec<LostSegment>,
        rate: Option<RateSample>,
        delivered: Bytes,
        newly_lost: Bytes,
        in_flight: Bytes,
        limit: SendLimit,
        episode: Episode,
    },
    Timeout(Timeout),
    Event(PathEvent),
}

pub(crate) type Log = Arc<Mutex<Vec<Told>>>;

#[derive(Clone, Debug)]
struct Recorder {
    inner: Box<dyn Controller>,
    log: Log,
}

impl Recorder {
    fn push(&self, told: Told) {
        self.log.lock().unwrap().push(told);
    }
}

impl Controller for Recorder {
    forward_controller!(inner: name, on_tick, next_tick, snapshot);

    fn needs(&self) -> Needs {
        let needs = self.inner.needs();
        let wanted = update!(Demands { segments: true, ..Demands::default() });
        update!(Needs { preferred: needs.preferred.union(wanted), ..needs })
    }

    fn on_sent(&mut self, event: &Sent, path: &Path) {
        self.push(Told::Sent(*event));
        self.inner.on_sent(event, path);
    }

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        self.push(Told::Ack {
            now: event.now,
            acked: event.acked.to_vec(),
            lost: event.lost.to_vec(),
            rate: event.rate,
            delivered: event.delivered,
            newly_lost: event.newly_lost,
            in_flight: event.in_flight,
            limit: event.limit,
            episode: event.episode,
        });
        self.inner.on_ack(event, path);
    }

    fn on_timeout(&mut self, event: &Timeout, path: &Path) {
        self.push(Told::Timeout(*event));
        self.inner.on_timeout(event, path);
    }

    fn on_event(&mut self, event: &PathEvent, path: &Path) {
        self.push(Told::Event(event.clone()));
        self.inner.on_event(event, path);
    }

    fn control(&self) -> Control {
        update!(Control { each_segment: true, ..self.inner.control() })
    }
}

#[derive(Debug)]
struct Recorders(Congestion, Log);

impl ControllerFactory for Recorders {
    fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        Box::new(Recorder { inner: self.0.build(params), log: Arc::clone(&self.1) })
    }

    fn name(&self) -> String {
        self.0.name()
    }
}

/// Returns the controllers of `text`, and the record of what all of them are told.
pub(crate) fn recorded(text: &str) -> (Congestion, Log) {
    let log = Log::default();
    (Congestion::new(Recorders(text.parse().unwrap(), Arc::clone(&log))), log)
}
