//! Choice of the congestion control that a transport uses, from the registry or from elsewhere.

use core::fmt;
use core::str::FromStr;
use std::sync::{Arc, LazyLock};

use crate::copa_cubic;
use crate::describe::Safety;
use crate::registry::{Spec, SpecError};
use crate::{BuildParams, Controller};

/// Builds one controller per connection. Applications implement it to provide their own algorithms.
pub trait ControllerFactory: fmt::Debug + Send + Sync {
    /// Builds a controller, in the state before the handshake.
    fn build(&self, params: &BuildParams) -> Box<dyn Controller>;

    /// Returns the name for logs; for a registered algorithm, this is the text that builds it.
    fn name(&self) -> String;

    /// Returns whether the algorithm's flows may share a network with others. By default they may not: a transport
    /// over real sockets then runs it only if the application explicitly allows this.
    fn safety(&self) -> Safety {
        Safety::Controlled
    }
}

/// A choice of congestion control for the configuration of a transport; cheap to clone. The default is the standard
/// of the internet, CUBIC; sockets of `longhaul` use [`copa_cubic`](Self::copa_cubic) unless told otherwise.
///
/// ```
/// use longhaul_cc::Congestion;
/// let default = Congestion::default();
/// assert_eq!(default.name(), "cubic");
/// let chosen: Congestion = "slow-start(iw=4)+new-reno".parse()?;
/// # Ok::<(), longhaul_cc::registry::SpecError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Congestion(Arc<dyn ControllerFactory>);

impl Congestion {
    /// A choice whose controllers `factory` builds.
    pub fn new(factory: impl ControllerFactory + 'static) -> Self {
        Self(Arc::new(factory))
    }

    /// Returns the choice `copa-cubic` with its default options.
    #[must_use]
    pub fn copa_cubic() -> Self {
        static CHOICE: LazyLock<Congestion> = LazyLock::new(|| Spec::of(&copa_cubic::ENTRY).into());
        CHOICE.clone()
    }

    /// Builds a controller, in the state before the handshake.
    #[must_use]
    pub fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        self.0.build(params)
    }

    /// Returns the name for logs.
    #[must_use]
    pub fn name(&self) -> String {
        self.0.name()
    }

    /// Returns whether the algorithm's flows may share a network with others.
    #[must_use]
    pub fn safety(&self) -> Safety {
        self.0.safety()
    }
}

/// A registered algorithm and its name, which is made once for all connections.
#[derive(Debug)]
struct Named {
    spec: Spec,
    name: String,
}

impl ControllerFactory for Named {
    fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        self.spec.build_named(self.name.clone(), params)
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn safety(&self) -> Safety {
        self.spec.safety()
    }
}

/// CUBIC with HyStart++ and PRR.
impl Default for Congestion {
    fn default() -> Self {
        static DEFAULT: LazyLock<Congestion> = LazyLock::new(|| Spec::default().into());
        DEFAULT.clone()
    }
}

impl From<Spec> for Congestion {
    fn from(spec: Spec) -> Self {
        let name = spec.to_string();
        Self::new(Named { spec, name })
    }
}

impl FromStr for Congestion {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        text.parse().map(|spec: Spec| spec.into())
    }
}

impl fmt::Display for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}
