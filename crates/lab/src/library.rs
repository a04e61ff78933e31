//! The experiments included in the program.

/// Returns the file name and text of an included experiment.
#[must_use]
pub fn find(id: &str) -> Option<(&'static str, &'static str)> {
    FILES.iter().copied().find(|(file, _)| file.strip_suffix(".toml") == Some(id))
}

/// Includes the files of these names.
macro_rules! files {
    ($($name:literal)+) => {
        &[$((concat!($name, ".toml"), include_str!(concat!("../experiments/", $name, ".toml")))),+]
    };
}

/// Each file's name and text.
pub const FILES: &[(&str, &str)] = files! {
    "adversary" "bbe-buffers" "bbe-figure-2" "bbe-figure-3" "bbe-figure-4" "bbe-figure-5" "bbe-figure-8" "bbe-figure-9"
    "bbe-figures-6-7" "bbe-udp-loss" "bulk-over-loss" "bursts" "changing-paths" "crowds" "cubic-pacing" "emulated"
    "estimates-within" "estimates" "fairness" "handovers-sockets" "handovers" "hard-paths-sockets" "hard-paths" "kernel"
    "limited-slow-start" "links-sockets" "losses" "matrix-loss" "matrix" "messages" "modern-starts" "own-kind" "peers"
    "picoquic-satellite" "rc3-flows" "rc3-load" "receive-offload-sockets" "receive-offload" "recoveries" "rfc9743-path"
    "rfc9743-sharing" "rfc9743-standard" "satellite" "scharf-buffer" "scharf-fairness" "scharf-limits" "scharf-load"
    "scharf-speedup" "scores" "shares-sockets" "shares" "start-closed-forms" "starts-and-paths" "starts-and-priorities"
    "starts-by-avoidance" "starts" "swift-start-deep-queue" "swift-start-delays" "swift-start-figure-16"
    "swift-start-figure-5" "swift-start-figure-6" "swift-start-figures-1-3" "swift-start-figures-14-15"
    "swift-start-figures-8-13" "swift-start-queues" "swift-start-rates" "swift-start-recovery" "swift-start-table-3"
    "swift-start-table-4" "swift-start-table-6" "swift-start-theory" "swift-start-two-flows" "swift-start-window"
    "tcp-swift-figure-5" "tcp-swift-figure-7" "tcp-swift-recovery" "tcp-swift-speedy-start" "tcp-swift-two-losses"
    "tcpeval-basic" "tcpeval-fairness" "tcpeval-geo" "tcpeval-impact" "tcpeval-parking-lot-flows" "tcpeval-parking-lot"
    "tcpeval-ramp-up-gigabit" "tcpeval-ramp-up" "tcpeval-transients" "tolerance" "westwood-acks" "westwood-clock"
    "westwood-fairness" "westwood-figure-4" "westwood-figure-5" "westwood-figure-7" "westwood-figure-8"
    "westwood-introduction" "westwood-losses" "westwood-paths" "westwood-starts" "westwood-table-4" "westwood-table-5"
    "westwood-table-6"
};
