//! The allocator of the programs, and its return of memory: the memory tier has a budget, so freed pages must go back soon.
//!
//! It is a crate of its own, since the crate `larder` is compiled without optimisation and each allocation passes here.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use larder_store::Store;
use tikv_jemalloc_ctl::{Access, AsName, Error, epoch, stats};
use tikv_jemallocator::Jemalloc;

/// The interval at which the memory tier reads how much memory the allocator holds without using it.
const INTERVAL: Duration = Duration::from_millis(100);

#[global_allocator]
static HEAP: Jemalloc = Jemalloc;

/// One second of decay keeps the resident size near the memory in use. There are no background threads, since the
/// workers' own calls drive the decay and a cache without traffic has nothing to return. Allocations of a few hundred
/// bytes to a few KiB, such as entries and small bodies, come from runs of eight pages: each run costs 128 bytes of
/// bookkeeping, and only four bodies of 1 KiB share a run of the usual length. Each thread caches up to 64 free
/// allocations of each size, not 20: the state of a request in flight takes a few KiB, and under load many requests end
/// and begin at once. It looks for sizes of which it caches more than it uses after each MiB allocated, not after each 64 KiB,
/// which some six passed requests allocate: that took 3% of their instructions in user space.
const OPTIONS: &[u8; 139] =
    b"background_thread:false,dirty_decay_ms:1000,muzzy_decay_ms:0,slab_sizes:513-4096:8,tcache_nslots_small_min:64,\
      tcache_gc_incr_bytes:1048576\0";

// SAFETY: the allocator declares this symbol as `const char *` and reads it as a NUL-terminated string. A reference to
// a sized array is such a pointer, `OPTIONS` ends with NUL, and no other item exports the symbol.
#[unsafe(export_name = "_rjem_malloc_conf")]
static MALLOC_CONF: &[u8; 139] = OPTIONS;

/// The time of decay in [`OPTIONS`].
const DECAY_MS: isize = 1_000;

/// Makes the memory tier leave room for unused memory of the allocator, for as long as the process lives.
///
/// # Errors
/// The kernel's error, if it refuses a thread.
pub fn watch(store: Arc<Store>) -> std::io::Result<()> {
    store.memory.set_trim(trim);
    let watch = move || {
        let mut stored = 0;
        loop {
            thread::sleep(INTERVAL);
            let admissions = store.memory.admissions();
            // Without new entries, the amount has not changed. To look takes no lock, for which workers would wait.
            if admissions == stored && !store.memory.withholds() {
                continue;
            }
            stored = admissions;
            if let Ok(unused) = unused() {
                store.memory.make_room(unused);
            }
        }
    };
    thread::Builder::new().name("heap".to_owned()).spawn(watch).map(drop)
}

/// Returns the bytes of pages in use that are not allocated. Freed pages are excluded: the allocator returns them
/// within a second.
fn unused() -> Result<u64, Error> {
    epoch::advance()?;
    Ok(stats::active::read()?.saturating_sub(stats::allocated::read()?) as u64)
}

/// Returns all freed pages to the system.
fn trim() {
    let arenas: u32 = b"arenas.narenas\0".name().read().unwrap_or_default();
    for arena in 0..arenas {
        let decay = format!("arena.{arena}.dirty_decay_ms\0");
        // An arena that is not in use has none. A time of 0 frees pages at once.
        for time in [0, DECAY_MS] {
            let _ = decay.name().write(time);
        }
    }
}
