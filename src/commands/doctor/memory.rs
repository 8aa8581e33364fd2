//! Memory: the capacity against what the process may use, and how the kernel gives memory out.

use larder_evict::{By, Capacity};
use larder_proxy::Settings;

use super::Finding;
use crate::cli::units::{about_size, show_size};
use crate::config::machine::Machine;

const MEMORY: &str = "memory";
const HUGE_PAGES: &str = "huge pages";
const OVERCOMMIT: &str = "overcommit";

/// The most memory that the process takes for each byte of capacity, and beside it, in bytes.
const FACTOR: f64 = 1.15;
const BESIDE: u64 = 64 << 20;

/// Compares the capacity of the memory tier with the memory of the machine and of the control group.
pub(super) fn capacity(settings: &Settings, machine: &Machine) -> Finding {
    let Capacity { by, amount } = settings.memory.capacity;
    let limit = machine.memory();
    if by == By::Entries {
        let found = format!("a number of responses, of any size, in {}", about_size(limit));
        return Finding::warning(MEMORY, found, "memory.size instead of memory.entries limits the memory");
    }
    let needed = (amount as f64 * FACTOR) as u64 + BESIDE;
    let (size, process) = (show_size(amount), about_size(needed));
    if needed <= limit {
        return Finding::ok(
            MEMORY,
            format!("memory.size {size}, the process up to {process} of {}", about_size(limit)),
        );
    }
    let most = (limit.saturating_sub(BESIDE) as f64 / FACTOR) as u64;
    let most = show_size((most & !((1 << 20) - 1)).max(1 << 20));
    let (of, raise) = match machine.memory_limit() {
        Some(group) if group == limit => {
            ("the control group", ", or raise MemoryMax= (or the container's limit)")
        }
        _ => ("this machine", ""),
    };
    Finding::problem(
        MEMORY,
        format!("memory.size {size}: the process takes up to {process}, and {of} has {}", about_size(limit)),
        format!("set memory.size to {most} at most{raise}: otherwise the kernel ends the process"),
    )
}

/// Examines whether the kernel joins pages into huge ones everywhere.
pub(super) fn huge_pages(machine: &Machine) -> Finding {
    let modes = machine.read("sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    match modes.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']')) {
        Some("always") => Finding::warning(
            HUGE_PAGES,
            "always",
            "write madvise to /sys/kernel/mm/transparent_hugepage/enabled: a huge page with one small response \
             stays resident as a whole, so the process may take more memory than planned",
        ),
        Some(mode) => Finding::ok(HUGE_PAGES, mode),
        None => Finding::ok(HUGE_PAGES, "none in this kernel"),
    }
}

/// Examines whether the kernel refuses memory that is not there yet.
pub(super) fn overcommit(machine: &Machine) -> Finding {
    match machine.read("proc/sys/vm/overcommit_memory").as_deref() {
        Some("2") => Finding::warning(
            OVERCOMMIT,
            "vm.overcommit_memory is 2",
            "set it to 0: the kernel refuses allocations while there is free memory, and a refused one ends the process",
        ),
        _ => Finding::ok(OVERCOMMIT, "the kernel grants memory until it is used up"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::commands::doctor::Level;
    use crate::config::flags::Flags;
    use crate::config::load;

    /// Returns a machine with one file.
    fn machine(path: &str, text: &str) -> (tempfile::TempDir, Machine) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().map_or(Path::new("/"), |parent| parent)).unwrap();
        fs::write(path, text).unwrap();
        let machine = Machine::at(folder.path());
        (folder, machine)
    }

    #[test]
    fn a_control_group_smaller_than_the_capacity_is_a_problem() {
        let (_folder, group) = machine("sys/fs/cgroup/memory.max", "536870912\n");
        let settings = |size| load(None, &Flags { memory: Some(size), ..Flags::default() }).unwrap();
        let found = capacity(&settings(1 << 30), &group);
        assert_eq!(found.level, Level::Problem);
        assert_eq!(
            found.found,
            "memory.size 1GiB: the process takes up to 1.21 GiB, and the control group has 512.0 MiB"
        );
        let advice = found.advice.unwrap();
        assert!(advice.starts_with("set memory.size to 389MiB at most, or raise MemoryMax="), "{advice}");
        // Its advice is taken.
        assert_eq!(capacity(&settings(389 << 20), &group).level, Level::Ok);
        assert_eq!(capacity(&settings(390 << 20), &group).level, Level::Problem);
        let entries = load(None, &Flags { entries: Some(7), ..Flags::default() }).unwrap();
        assert_eq!(capacity(&entries, &group).level, Level::Warning);
    }

    #[test]
    fn modes_of_the_kernel_that_cost_memory_are_warnings() {
        for (text, level) in
            [("[always] madvise never\n", Level::Warning), ("always [madvise] never\n", Level::Ok)]
        {
            let (_folder, machine) = machine("sys/kernel/mm/transparent_hugepage/enabled", text);
            assert_eq!(huge_pages(&machine).level, level, "{text}");
        }
        for (text, level) in [("2\n", Level::Warning), ("0\n", Level::Ok)] {
            let (_folder, machine) = machine("proc/sys/vm/overcommit_memory", text);
            assert_eq!(overcommit(&machine).level, level, "{text}");
        }
    }
}
