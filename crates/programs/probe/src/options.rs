//! Constants of the methods: structs whose fields are declared with their values.

/// Declares a struct and its `Default`. A field is `name: Type = value;`.
macro_rules! options {
    ($(#[$meta:meta])* pub(crate) struct $name:ident {
        $($(#[$doc:meta])* $field:ident: $type:ty = $default:expr;)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub(crate) struct $name {
            $($(#[$doc])* pub(crate) $field: $type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }
    };
}

pub(crate) use options;
