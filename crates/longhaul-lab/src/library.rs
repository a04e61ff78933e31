//! The experiments that come with the program.

/// Each file's name and text.
pub const FILES: &[(&str, &str)] = &[
    ("swift-start-figures-1-3.toml", include_str!("../experiments/swift-start-figures-1-3.toml")),
    ("swift-start-figure-6.toml", include_str!("../experiments/swift-start-figure-6.toml")),
    ("swift-start-table-4.toml", include_str!("../experiments/swift-start-table-4.toml")),
    ("tcp-swift-figure-5.toml", include_str!("../experiments/tcp-swift-figure-5.toml")),
    ("tcp-swift-figure-7.toml", include_str!("../experiments/tcp-swift-figure-7.toml")),
    ("westwood-table-5.toml", include_str!("../experiments/westwood-table-5.toml")),
];
