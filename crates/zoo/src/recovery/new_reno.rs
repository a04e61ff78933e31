//! NewReno fast recovery (RFC 6582), for peers without SACK.

use longhaul_cc::compose::{Recovery, Stage, Step, Window};
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{Ack, Demands, Detection, Needs, Path, update};

pub(crate) static ENTRY: Entry = Entry::recovery("new-reno", |values| Box::new(NewReno::from_values(values)))
    .described("fast recovery without SACK: one retransmission per RTT", "RFC 6582")
    .with_options(NewReno::OPTIONS)
    .tested_in(&[
        "reno-classic",
        "swift-start(gamma=1,handshake-rtt=on)+reno-classic",
        "slow-start=slow-start(l=1),avoidance=new-reno,recovery=new-reno(careful-exit=off,partial-acks=off)",
    ])
    .internet_safe();

longhaul_cc::options! {
    /// Fast recovery of RFC 6582, with duplicate ACKs that reduce the bytes in flight.
    ///
    /// In RFC 6582 the window grows by a segment per duplicate ACK and shrinks at a partial ACK, because FlightSize
    /// cannot decrease before a cumulative ACK. This transport lowers the bytes in flight by a segment per duplicate
    /// ACK instead (RFC 9937, section 6.2). A constant window of ssthresh then yields the same behaviour.
    pub struct NewReno {
        /// Whether recovery ends with a window of `min(ssthresh, in flight + 1 segment)`, which avoids a burst, instead
        /// of ssthresh (RFC 6582, section 3.2, step 3, options 1 and 2).
        careful_exit: bool =
            OptionSpec::flag("careful-exit", true, "end with at most one segment more than in flight"),
        /// Whether it continues at partial ACKs, which NewReno has in addition to Reno.
        partial_acks: bool =
            OptionSpec::flag("partial-acks", true, "continue until the whole window is acknowledged; off: Reno"),
        /// Window of the episode, bytes.
        target: f64 => 0.0,
    }
}

impl Stage for NewReno {
    fn needs(&self) -> Needs {
        let detection = if self.partial_acks { Detection::DuplicateAcks } else { Detection::Reno };
        let preferred = update!(Demands { detection: Some(detection), ..Demands::default() });
        update!(Needs { preferred, ..Needs::default() })
    }
}

impl Recovery for NewReno {
    fn enter(&mut self, target: f64, _ack: &Ack<'_>, _path: &Path, window: &mut Window) {
        self.target = target;
        window.cwnd = target;
    }

    fn on_ack(&mut self, _ack: &Ack<'_>, _path: &Path, _window: &mut Window) -> Step {
        Step::Stay
    }

    fn exit(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        let flight = ack.in_flight.max(path.mss) + path.mss;
        window.cwnd = if self.careful_exit { self.target.min(flight.as_f64()) } else { self.target };
        Step::Done
    }
}

#[cfg(test)]
mod tests;
