//! noq and quinn as stacks of the laboratory.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use longhaul_lab::stack::{Stack, Transfer};
use longhaul_sim::Agent;

use crate::host::{Plan, noq, quinn};
use crate::identity::Identity;

/// Prefix of the stacks' own controllers.
const OWN: &str = "own-";

static IDENTITY: LazyLock<Identity> = LazyLock::new(|| Identity::new().expect("the system has random numbers"));

/// Returns the stacks `noq` and `quinn`. The name of a controller selects one of longhaul's; `own-cubic`,
/// `own-new-reno` and `own-bbr` select the stack's own.
#[must_use]
pub fn stacks() -> Vec<Box<dyn Stack>> {
    vec![Box::new(Noq), Box::new(Quinn)]
}

fn boxed<A: Agent + 'static>(agents: [A; 2]) -> [Box<dyn Agent>; 2] {
    agents.map(|agent| Box::new(agent) as Box<dyn Agent>)
}

fn plan(transfer: &Transfer<'_>) -> Plan {
    let mut plan = Plan::new(transfer.addresses);
    // The low bits of the seed differ between runs, the high ones between flows.
    plan.seed = (transfer.seed ^ transfer.seed >> 32) as u8;
    (plan.start, plan.bytes) = (transfer.start, transfer.bytes);
    plan.qlog = transfer.qlog.map(Path::to_owned);
    plan
}

macro_rules! stack {
    ($stack:ident, $module:ident of $proto:ident, adapter $adapter:ident, bbr $bbr:ident) => {
        #[derive(Debug)]
        struct $stack;

        impl $stack {
            fn factory(
                congestion: &str,
            ) -> Result<Arc<dyn $proto::congestion::ControllerFactory + Send + Sync>, String> {
                use $proto::congestion;

                match congestion.strip_prefix(OWN) {
                    None => match $adapter::congestion(congestion) {
                        Ok(factory) => Ok(factory),
                        Err(error) => Err(error.to_string()),
                    },
                    Some("cubic") => Ok(Arc::new(congestion::CubicConfig::default())),
                    Some("new-reno") => Ok(Arc::new(congestion::NewRenoConfig::default())),
                    Some("bbr") => Ok(Arc::new(congestion::$bbr::default())),
                    Some(_) => Err(format!("{congestion:?} is none of own-cubic, own-new-reno and own-bbr")),
                }
            }
        }

        impl Stack for $stack {
            fn name(&self) -> &'static str {
                stringify!($module)
            }

            fn check(&self, congestion: &str) -> Result<(), String> {
                Self::factory(congestion).map(drop)
            }

            fn connect(&self, transfer: &Transfer<'_>) -> [Box<dyn Agent>; 2] {
                let factory = Self::factory(transfer.congestion).expect("the name was checked");
                let choose = |transport: &mut $proto::TransportConfig| {
                    transport.congestion_controller_factory(Arc::clone(&factory));
                };
                boxed($module::pair(&IDENTITY, &plan(transfer), &choose))
            }
        }
    };
}

stack!(Noq, noq of noq_proto, adapter longhaul_noq, bbr Bbr3Config);
stack!(Quinn, quinn of quinn_proto, adapter longhaul_quinn, bbr BbrConfig);
