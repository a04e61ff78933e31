//! Struct update for structs that may get more fields.

/// Returns a value with some of its fields changed, in the syntax of struct update. Outside of this crate, the compiler
/// does not accept that syntax for structs that are `#[non_exhaustive]`.
///
/// ```
/// use longhaul_cc::{Demands, Needs, update};
///
/// let preferred = update!(Demands { pacing: true, segments: true, ..Demands::default() });
/// let needs = update!(Needs { preferred, ..Needs::default() });
/// assert!(needs.preferred.pacing && !needs.required.pacing);
/// ```
#[macro_export]
macro_rules! update {
    (@set $updated:ident $field:ident $value:expr) => { $updated.$field = $value };
    (@set $updated:ident $field:ident) => { $updated.$field = $field };
    ($type:ident { $($field:ident $(: $value:expr)?,)+ ..$base:expr }) => {{
        let mut updated: $type = $base;
        $($crate::update!(@set updated $field $($value)?);)+
        updated
    }};
}
