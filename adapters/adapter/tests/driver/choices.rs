//! Controllers that cannot be used are refused before a connection begins.

use longhaul_adapter::{Choice, ChoiceError};
use longhaul_cc::{BuildParams, Congestion, Controller, ControllerFactory};

use crate::play::{LISTS, SUMS};

#[test]
fn what_a_stack_cannot_run_is_refused_with_the_reason() {
    let error = |text, stack| Choice::parse(text, stack).unwrap_err().to_string();
    assert!(error("cubik", LISTS).contains("unknown congestion control `cubik`"));
    assert!(error("slow-start(iw=0)+cubic", LISTS).contains("iw"), "{}", error("slow-start(iw=0)+cubic", LISTS));
    let text = "sums does not offer what is needed: congestion controller bbr needs pacing, which this path or peer does not offer";
    assert_eq!(error("bbr", SUMS), text);
    for text in ["cubic", "new-reno", "copa", "copa-cubic", "hystart-pp+new-reno"] {
        Choice::parse(text, SUMS).unwrap();
        Choice::parse(text, LISTS).unwrap();
    }
    Choice::parse("bbr", LISTS).unwrap();
}

/// An algorithm of the application's own.
#[derive(Debug)]
struct Unassessed;

impl ControllerFactory for Unassessed {
    fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        Congestion::default().build(params)
    }

    fn name(&self) -> String {
        "unassessed".to_owned()
    }
}

#[test]
fn controllers_for_controlled_environments_have_to_be_allowed() {
    let unassessed = Congestion::new(Unassessed);
    assert_eq!(unassessed.safety(), longhaul_cc::registry::Safety::Controlled);
    Choice::controlled(unassessed, LISTS).unwrap();
    let refused = Choice::parse("slow-start(iw=40)+cubic", LISTS);
    assert!(!matches!(refused, Err(ChoiceError::Need { .. })), "{refused:?}");
}
