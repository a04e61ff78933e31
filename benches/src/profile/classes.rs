//! Classification of functions by their names.

use std::fmt;

/// Purpose of a function, as far as its name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    KernelCopy,
    KernelNetwork,
    WakeUp,
    Pages,
    UserCopy,
    Engine,
    Driver,
    Runtime,
    Allocator,
    Clock,
    Other,
}

impl Class {
    /// All classes in the order of the table.
    pub(super) const ALL: [Self; 11] = [
        Self::KernelCopy,
        Self::KernelNetwork,
        Self::WakeUp,
        Self::Pages,
        Self::UserCopy,
        Self::Engine,
        Self::Driver,
        Self::Runtime,
        Self::Allocator,
        Self::Clock,
        Self::Other,
    ];

    /// Returns the class of a function. `object` is the binary that contains the function, and `function` its name, as
    /// printed by perf.
    pub(super) fn of(object: &str, function: &str) -> Self {
        let find = |rules: &[Rule], matches: &dyn Fn(&str) -> bool| {
            rules.iter().find(|rule| rule.1.iter().any(|part| matches(part))).map(|rule| rule.0)
        };
        match object {
            "[kernel.kallsyms]" => {
                let name = function.trim_start_matches('_');
                find(KERNEL, &|part| name.starts_with(part)).unwrap_or(Self::KernelNetwork)
            }
            "[vdso]" => Self::Clock,
            _ => find(USER, &|part| function.contains(part)).unwrap_or(Self::Other),
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KernelCopy => "copies between user and kernel memory",
            Self::KernelNetwork => "other work of system calls: sockets, UDP, IP, packet memory",
            Self::WakeUp => "wake-ups, scheduling, epoll and timers of the kernel",
            Self::Pages => "page faults and page allocation",
            Self::UserCopy => "copies and clearing in user memory",
            Self::Engine => "engine: `longhaul-tcp`, `-cc`, `-wire`",
            Self::Driver => "driver and streams: `longhaul`, `longhaul-sys`",
            Self::Runtime => "tokio and `bytes`",
            Self::Allocator => "allocator",
            Self::Clock => "reading the clock",
            Self::Other => "other",
        })
    }
}

/// Class, and parts of names, one of which must match.
type Rule = (Class, &'static [&'static str]);

/// Rules for the kernel's functions by the beginnings of their names, without leading underscores. The first rule that
/// matches counts.
const KERNEL: &[Rule] = &[
    (Class::KernelCopy, &["copy_from_iter", "copy_to_iter", "rep_movs"]),
    (
        Class::WakeUp,
        &[
            "finish_task_switch",
            // A wake-up ends by enabling interrupts, so that interrupts that became pending meanwhile are sampled here.
            "raw_spin_unlock_irq",
            "raw_callee_save___pv",
            "native_write_msr",
            "try_to_wake_up",
            "ttwu",
            "wake_up",
            "schedule",
            "sched_",
            "pick_",
            "enqueue_task",
            "enqueue_entity",
            "dequeue_task",
            "dequeue_entit",
            "update_curr",
            "update_load",
            "select_",
            "sock_def_",
            "ep_",
            "do_epoll",
            "x64_sys_epoll",
            "eventpoll",
            "hrtimer",
            "timerfd",
            "do_timerfd",
            "futex",
            "do_futex",
        ],
    ),
    (
        Class::Pages,
        &[
            "exc_page_fault",
            "asm_exc_page_fault",
            "do_user_addr_fault",
            "handle_mm_fault",
            "do_anonymous_page",
            "clear_page",
            "alloc_pages",
            "alloc_frozen_pages",
            "free_frozen",
            "get_page_from_freelist",
            "rmqueue",
            "folio",
            "vma_",
            "lock_vma",
            "get_vma",
            "policy_node",
            "mas_",
            "memcg",
            "mod_memcg",
            "charge_memcg",
            "try_charge",
            "mem_cgroup",
            "get_mem_cgroup",
            "lruvec",
            "pte_",
            "set_pte",
            "unmap",
            "zap_",
            "tlb",
            "do_brk",
        ],
    ),
];

/// Rules for all other functions by parts of their names.
const USER: &[Rule] = &[
    (Class::UserCopy, &["memmove", "memcpy", "memset"]),
    (
        Class::Allocator,
        &["malloc", "_int_free", "cfree", "realloc", "calloc", "unlink_chunk", "__rust_alloc", "__rdl", "sysmalloc"],
    ),
    (Class::Clock, &["clock_gettime"]),
    (Class::Engine, &["longhaul_tcp", "longhaul_cc", "longhaul_wire", "longhaul_units"]),
    (Class::Driver, &["longhaul::", "longhaul_sys", "sendmsg", "recvmmsg", "epoll_wait"]),
    (Class::Runtime, &["tokio", "bytes::", "mio::"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_classified_by_object_and_name() {
        let kernel = |name| Class::of("[kernel.kallsyms]", name);
        assert_eq!(kernel("_copy_from_iter"), Class::KernelCopy);
        assert_eq!(kernel("udp_sendmsg"), Class::KernelNetwork);
        assert_eq!(kernel("__udp_enqueue_schedule_skb"), Class::KernelNetwork);
        assert_eq!(kernel("finish_task_switch.isra.0"), Class::WakeUp);
        assert_eq!(kernel("ep_send_events"), Class::WakeUp);
        assert_eq!(kernel("__handle_mm_fault"), Class::Pages);
        let user = |name| Class::of("server", name);
        assert_eq!(user("__memmove_avx512_unaligned_erms"), Class::UserCopy);
        assert_eq!(user("longhaul_tcp::endpoint::Endpoint::poll_transmit"), Class::Engine);
        assert_eq!(
            user("<longhaul_cc::recovery::prr::Prr as longhaul_cc::compose::stage::Stage>::on_sent"),
            Class::Engine
        );
        assert_eq!(user("longhaul::shared::State::transmit"), Class::Driver);
        // The class depends on the type, not on the trait, which belongs to another crate.
        assert_eq!(user("<longhaul::driver::Driver as core::future::future::Future>::poll"), Class::Driver);
        assert_eq!(user("<longhaul::stream::TcpStream as tokio::io::async_read::AsyncRead>::poll_read"), Class::Driver);
        assert_eq!(user("tokio::runtime::io::driver::Driver::turn"), Class::Runtime);
        assert_eq!(user("main"), Class::Other);
        assert_eq!(Class::of("[vdso]", "__vdso_clock_gettime"), Class::Clock);
    }

    #[test]
    fn the_table_has_each_class_once() {
        let mut sorted = Class::ALL;
        sorted.sort();
        assert_eq!(sorted, Class::ALL);
        assert!(sorted.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
