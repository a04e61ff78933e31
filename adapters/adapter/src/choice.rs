//! Choice of a controller for a QUIC stack, which is checked when the transport is configured.

use longhaul_cc::registry::{Safety, SpecError};
use longhaul_cc::{BuildParams, Congestion, Controller, EcnMark, Granted, NeedError, Path};
use longhaul_units::Bytes;

/// Features that a QUIC stack offers to a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Name in errors.
    pub name: &'static str,
    /// Whether the stack sends at the controller's pacing rate. Every stack spreads a window over the round trip
    /// without one.
    pub paces: bool,
    /// Whether the stack reports each packet individually.
    pub lists_packets: bool,
}

impl Stack {
    /// Returns the features that controllers are granted. No stack subtracts the peer's ACK delay from the RTTs that it
    /// reports, and no stack sends ECT(1).
    #[must_use]
    pub fn granted(&self) -> Granted {
        let mut granted = Granted::basic();
        granted.ecn = EcnMark::Ect0;
        (granted.pacing, granted.segments) = (self.paces, self.lists_packets);
        granted.ack_delay_in_rtt = true;
        granted
    }
}

/// Reason why a controller cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChoiceError {
    /// The text names no controller, or an option is out of range.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The controller requires a feature that the stack lacks.
    #[error("{stack} does not offer what is needed: {source}")]
    Need {
        /// Name of the stack.
        stack: &'static str,
        /// The missing feature.
        source: NeedError,
    },
    /// The controller is for controlled environments only (RFC 8085, section 3.1).
    #[error("congestion controller {name} may not share a network with other flows")]
    Unsafe {
        /// The controller's name.
        name: String,
    },
}

/// A controller that a stack can run.
#[derive(Clone, Debug)]
pub struct Choice {
    congestion: Congestion,
    stack: Stack,
}

impl Choice {
    /// Parses the name of a controller.
    ///
    /// # Errors
    /// Returns an error if the name is unknown, an option is out of range, the stack lacks a feature that the
    /// controller requires, or the controller is for controlled environments only.
    pub fn parse(text: &str, stack: Stack) -> Result<Self, ChoiceError> {
        let congestion: Congestion = text.parse()?;
        if congestion.safety() == Safety::Controlled {
            return Err(ChoiceError::Unsafe { name: congestion.name() });
        }
        Self::controlled(congestion, stack)
    }

    /// Accepts a controller of any safety class: the caller is responsible for the network.
    ///
    /// # Errors
    /// Returns an error if the stack lacks a feature that the controller requires.
    pub fn controlled(congestion: Congestion, stack: Stack) -> Result<Self, ChoiceError> {
        let mut controller = congestion.build(&BuildParams::default());
        match controller.on_granted(&stack.granted(), &Path::new(BuildParams::default().mss)) {
            Ok(()) => Ok(Self { congestion, stack }),
            Err(source) => Err(ChoiceError::Need { stack: stack.name, source }),
        }
    }

    pub(crate) fn build(&self, mtu: Bytes) -> Box<dyn Controller> {
        let mut params = BuildParams::default();
        (params.mss, params.max_cwnd) = (mtu, crate::driver::MAX_WINDOW);
        self.congestion.build(&params)
    }

    pub(crate) fn granted(&self) -> Granted {
        self.stack.granted()
    }
}
