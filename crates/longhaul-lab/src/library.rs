//! The experiments that come with the program.

/// Each file's name and text.
pub const FILES: &[(&str, &str)] = &[
    ("rfc9743-path.toml", include_str!("../experiments/rfc9743-path.toml")),
    ("rfc9743-sharing.toml", include_str!("../experiments/rfc9743-sharing.toml")),
    ("rfc9743-standard.toml", include_str!("../experiments/rfc9743-standard.toml")),
    ("swift-start-deep-queue.toml", include_str!("../experiments/swift-start-deep-queue.toml")),
    ("swift-start-figure-16.toml", include_str!("../experiments/swift-start-figure-16.toml")),
    ("swift-start-figure-5.toml", include_str!("../experiments/swift-start-figure-5.toml")),
    ("swift-start-figure-6.toml", include_str!("../experiments/swift-start-figure-6.toml")),
    ("swift-start-figures-1-3.toml", include_str!("../experiments/swift-start-figures-1-3.toml")),
    ("swift-start-figures-14-15.toml", include_str!("../experiments/swift-start-figures-14-15.toml")),
    ("swift-start-figures-8-13.toml", include_str!("../experiments/swift-start-figures-8-13.toml")),
    ("swift-start-table-3.toml", include_str!("../experiments/swift-start-table-3.toml")),
    ("swift-start-table-4.toml", include_str!("../experiments/swift-start-table-4.toml")),
    ("swift-start-table-6.toml", include_str!("../experiments/swift-start-table-6.toml")),
    ("swift-start-two-flows.toml", include_str!("../experiments/swift-start-two-flows.toml")),
    ("tcp-swift-figure-5.toml", include_str!("../experiments/tcp-swift-figure-5.toml")),
    ("tcp-swift-figure-7.toml", include_str!("../experiments/tcp-swift-figure-7.toml")),
    ("westwood-figure-4.toml", include_str!("../experiments/westwood-figure-4.toml")),
    ("westwood-figure-5.toml", include_str!("../experiments/westwood-figure-5.toml")),
    ("westwood-figure-7.toml", include_str!("../experiments/westwood-figure-7.toml")),
    ("westwood-figure-8.toml", include_str!("../experiments/westwood-figure-8.toml")),
    ("westwood-paths.toml", include_str!("../experiments/westwood-paths.toml")),
    ("westwood-table-4.toml", include_str!("../experiments/westwood-table-4.toml")),
    ("westwood-table-5.toml", include_str!("../experiments/westwood-table-5.toml")),
    ("westwood-table-6.toml", include_str!("../experiments/westwood-table-6.toml")),
];
