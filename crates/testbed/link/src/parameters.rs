//! Parameters of queue disciplines and routers: one declaration of the fields, their defaults, their ranges and their
//! text form.

/// Declares parameters as the public fields of a struct, which gets `Default` and `validate`.
///
/// A field is `name: Type = default, check("name in errors", range);`. The check is a function in
/// [`validate`](crate::validate); a field without a check may have any value.
macro_rules! parameters {
    ($(#[$meta:meta])* $vis:vis struct $config:ident {
        $($(#[$doc:meta])* $field:ident: $type:ty = $default:expr $(, $check:ident($what:literal $(, $range:expr)?))?;)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        $vis struct $config {
            $($(#[$doc])* pub $field: $type,)+
        }

        impl Default for $config {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl $config {
            pub(crate) fn validate(&self) -> Result<(), $crate::validate::ConfigError> {
                $($($crate::validate::$check($what, self.$field $(, $range)?)?;)?)+
                Ok(())
            }
        }
    };
}

/// Declares [`parameters`] that can be set by text; each of them needs a check.
macro_rules! text_parameters {
    ($(#[$meta:meta])* $vis:vis struct $config:ident {
        $($(#[$doc:meta])* $field:ident: $type:ty = $default:expr, $check:ident($($range:tt)*);)+
    }) => {
        $crate::parameters::parameters! {
            $(#[$meta])*
            $vis struct $config { $($(#[$doc])* $field: $type = $default, $check($($range)*);)+ }
        }

        impl $crate::parameters::TextForm for $config {
            fn names() -> Vec<String> {
                vec![$(stringify!($field).replace('_', "-")),+]
            }

            fn set(&mut self, name: &str, text: &str) -> Result<(), $crate::spec::value::ValueError> {
                match name.replace('-', "_").as_str() {
                    $(stringify!($field) => self.$field = $crate::parameters::read::$check(text)?,)+
                    _ => {}
                }
                Ok(())
            }
        }
    };
}

pub(crate) use {parameters, text_parameters};

/// Parameters that can be set by text.
pub(crate) trait TextForm: Default {
    fn names() -> Vec<String>;

    /// Reads the value of the parameter with one of these names.
    fn set(&mut self, name: &str, text: &str) -> Result<(), crate::spec::value::ValueError>;
}

/// Parsers of values, with the names of their checks.
pub(crate) mod read {
    use crate::spec::value::{ValueError, whole};
    pub(crate) use crate::spec::value::{number, share, span};

    pub(crate) fn count(text: &str) -> Result<u32, ValueError> {
        whole(text, "number")
    }
}
