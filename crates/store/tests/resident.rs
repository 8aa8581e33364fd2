//! The process stays near the budget by the system's count of its memory, for any sequence of response sizes:
//! pages that the allocator can use only in part are counted, too. An upgrade takes little more.
//!
//! Prints its seed; `LARDER_SEED` repeats a run. The test uses the allocator of the program, which reads its
//! options when a process starts, so the test starts a process of itself.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::Arc;

use fastrand::Rng;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use larder_evict::{By, Capacity, Spec};
use larder_semantics::coding::Coding;
use larder_semantics::freshness::Freshness;
use larder_store::entry::Parts;
use larder_store::handover::{MemoryImport, MemoryOffer, Piece};
use larder_store::{Arena, Body, Disks, Entry, Fills, Generation, Memory, Store};
use tikv_jemalloc_ctl::{epoch, stats};
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static HEAP: Jemalloc = Jemalloc;

const OPTIONS: &str = "dirty_decay_ms:0,muzzy_decay_ms:0,slab_sizes:513-4096:8,tcache_nslots_small_min:64,\
                       tcache_gc_incr_bytes:1048576";
const BUDGET: u64 = 128 << 20;
/// The limit beyond the budget: 15% of it and 64 MiB, of which a process takes some 24 MiB before any
/// response is stored.
const BEYOND: u64 = BUDGET / 100 * 15 + (40 << 20);
/// Periods, each with one kind of response.
const PERIODS: u64 = 2;
/// Bytes stored between two checks of the allocator.
const LOOK: u64 = 2 << 20;

/// Returns fields of `size` bytes together, of which `unique` percent are different in each response.
fn fields(rng: &mut Rng, size: usize, unique: usize) -> HeaderMap {
    let count = (size / 80).clamp(2, 16);
    let each = size / count;
    let field = |at: usize| {
        let value = match at * 100 < unique * count {
            true => format!("{:0>each$x}", rng.u64(..)),
            false => "v".repeat(each),
        };
        let name = HeaderName::try_from(format!("x-field-{at}")).expect("a name");
        (name, HeaderValue::try_from(value).expect("letters"))
    };
    (0..count).map(field).collect()
}

/// Returns the bytes of resident memory without mapped files.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("it is Linux");
    let mut pages = text.split(' ').skip(1).map(|pages| pages.parse::<u64>().expect("a number"));
    let (all, of_files) = (pages.next().expect("all"), pages.next().expect("files"));
    (all - of_files) * 4096
}

/// Returns the bytes in active pages that are not allocated.
fn unused() -> u64 {
    epoch::advance().expect("figures");
    let (active, allocated) = (stats::active::read(), stats::allocated::read());
    active.expect("a figure").saturating_sub(allocated.expect("a figure")) as u64
}

/// Stores responses of one kind after the other, and validates some. Returns the bytes by which the process
/// exceeded [`BEYOND`], with or without reports of unused memory to the tier (`is_told`).
fn excess(seed: u64, is_told: bool) -> u64 {
    let mut rng = Rng::with_seed(seed);
    let before = resident();
    let policy = Spec::parse(["adaptive", "lru", "s3fifo"][rng.usize(..3)]).expect("a policy");
    let memory = Memory::new(Capacity { by: By::Bytes, amount: BUDGET }, &policy, 3);
    let (mut number, mut most) = (0, 0);
    for period in 0..PERIODS {
        let (head, unique) = (1 << rng.u32(8..14), rng.usize(..=100));
        let body = 1 << rng.u32(4..13);
        let (mut stored, mut looked, first) = (0, 0, number);
        while stored < BUDGET + BUDGET / 2 {
            number += 1;
            let key = if rng.u8(..4) == 0 { rng.u64(first..=number) } else { number };
            let size = rng.usize(head / 2..=head);
            let fields = fields(&mut rng, size, unique);
            let entry = entry(&memory, (key, &[]), &fields, rng.usize(..body));
            stored += entry.charge();
            memory.put(entry, None);
            if stored - looked > LOOK {
                looked = stored;
                most = most.max(resident().saturating_sub(before));
                if is_told {
                    memory.make_room(unused());
                }
            }
        }
        let usage = memory.usage();
        println!(
            "{period}: {policy}, heads {head}, {unique}% unique, bodies {body}: {most} at most resident, {} stored, {} withheld",
            usage.bytes, usage.withheld
        );
        assert!(usage.bytes <= BUDGET, "{} bytes accounted for", usage.bytes);
        memory.validate().expect("valid");
    }
    most.saturating_sub(BUDGET + BEYOND)
}

/// Returns the bytes of resident memory, and those of memory files.
fn with_files() -> u64 {
    let files = fs::read_dir("/proc/self/fd").expect("it is Linux").flatten().map(|file| file.path());
    let files = files.filter(|file| {
        fs::read_link(file).is_ok_and(|name| name.to_string_lossy().starts_with("/memfd:larder"))
    });
    let blocks: BTreeMap<u64, u64> = files
        .filter_map(|file| fs::metadata(file).ok())
        .map(|file| (file.ino(), file.blocks() * 512))
        .collect();
    resident() + blocks.values().sum::<u64>()
}

/// Fills a store with responses of so many bytes, each in so many variants with so many forms in other codings, and hands
/// them to another one as an upgrade does. Returns the bytes by which both exceed 1.1 times the memory that they take before;
/// on the way, 1.15 times.
fn excess_of_upgrade(seed: u64, lengths: Range<usize>, variants: usize, forms: usize) -> u64 {
    let (mut rng, empty) = (Rng::with_seed(seed), with_files());
    let process = || {
        let memory = Memory::new(
            Capacity { by: By::Bytes, amount: BUDGET },
            &Spec::parse("lru").expect("a policy"),
            3,
        );
        let store = Arc::new(Store::new(memory, Disks::default()));
        Arc::new(Fills::new(store, Arena::new().expect("memory files"), u64::MAX))
    };
    let (old, new) = (process(), process());
    let memory = &old.store().memory;
    for key in 0.. {
        let fields = fields(&mut rng, 300, 30);
        for variant in 0..variants {
            let signature = &b"abc"[..if variants > 1 { variant + 1 } else { 0 }];
            let entry = entry(memory, (key, signature), &fields, rng.usize(lengths.clone()));
            memory.put(entry.clone(), None);
            for coding in Coding::ALL.iter().take(forms) {
                let form = Body::Heap(vec![0; entry.body().len() as usize / 2].into());
                let entry = stored(memory, entry.key(), signature).expect("it is stored");
                assert!(memory.add_form(&entry, *coding, Some(form)));
            }
        }
        // The other store deals them to its shards otherwise.
        if memory.usage().bytes > BUDGET / 2 {
            break;
        }
    }
    // Uses in another order than that of the stores.
    memory.list(&mut |resident, _| {
        let key = resident.variants()[0].key();
        memory.find(key, memory.hash(key), rng.u32(..));
    });
    let (before, objects, mut most) = (with_files(), memory.usage().objects, 0);
    let (mut offer, mut import) = (MemoryOffer::new(&old), MemoryImport::new(&new));
    let mut take = |piece: Piece<'_>| {
        match piece {
            Piece::File(number, file) => import.file(number, file).expect("a memory file"),
            Piece::Slice(bytes) => import.slice(bytes, &|_| false).expect("a slice"),
        }
        most = most.max(with_files());
        Ok(())
    };
    offer.send(&mut take).expect("no error");
    offer.give(true);
    assert_eq!(import.complete().objects, objects);
    let both = with_files() - empty;
    drop((offer, old));
    import.predecessor_ended();
    new.store().memory.unpack();
    most = most.max(with_files());
    let (own, end) = (before - empty, with_files() - empty);
    println!(
        "{objects} objects of {lengths:?} bytes, {variants} variants, {forms} forms take {own} bytes, {} each; in both {both}, {} each; at most {}, at the end {end}",
        own / objects,
        both / objects,
        most - empty
    );
    assert_eq!(new.arena().held(), 0, "everything has left the memory files");
    both.saturating_sub(own / 100 * 110).max((most - empty).saturating_sub(own / 100 * 115))
}

/// Returns an entry for `key` with this signature: a new one, or the stored one after a 304.
fn entry(memory: &Memory, (key, signature): (u64, &[u8]), fields: &HeaderMap, body: usize) -> Entry {
    let key = format!("http://site.test/{key}");
    let fields = memory.keep(fields, 0);
    if let Some(old) = stored(memory, key.as_bytes(), signature) {
        return old
            .refreshed(signature, &fields, Freshness::default(), Generation::default())
            .expect("a short head");
    }
    let parts = Parts {
        key: key.as_bytes(),
        signature,
        status: StatusCode::OK,
        freshness: Freshness::default(),
        cost: 0,
        born: Generation::default(),
        fields: &fields,
        body: Body::Heap(vec![0; body].into()),
    };
    Entry::new(parts).expect("a short head")
}

fn stored(memory: &Memory, key: &[u8], signature: &[u8]) -> Option<Entry> {
    memory.peek(key, memory.hash(key))?.into_variant(|entry| entry.signature() == signature)
}

#[test]
fn the_process_stays_near_the_budget_whatever_sizes_come() {
    let seed =
        env::var("LARDER_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    println!("LARDER_SEED={seed}");
    assert_eq!(in_a_process_of_its_own(seed, "told"), 0, "bytes too many, seed {seed}");
}

/// The negative control, with sizes that are known to leave pages half empty.
#[test]
fn the_process_exceeds_the_budget_if_unused_memory_goes_unreported() {
    assert!(in_a_process_of_its_own(2, "untold") > 0, "nothing would have been seen");
}

#[test]
fn an_upgrade_takes_a_tenth_more_memory_for_small_responses() {
    for kind in ["200 4000 1 0", "128 129 1 0", "128 129 3 0", "32 64 2 2"] {
        assert_eq!(in_a_process_of_its_own(7, kind), 0, "bytes too many: {kind}");
    }
}

/// Returns the excess of a process that is started with the allocator's options.
fn in_a_process_of_its_own(seed: u64, told: &str) -> u64 {
    let test = env::current_exe().expect("a path");
    let output = Command::new(test)
        .args(["--exact", "a_process", "--ignored", "--nocapture"])
        .envs([("_RJEM_MALLOC_CONF", OPTIONS), ("LARDER_SEED", &seed.to_string()), ("LARDER_TOLD", told)])
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{text}");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = text.lines().find_map(|line| line.strip_prefix("excess "));
    found.expect("a line with the excess").parse().expect("a number")
}

/// Not a separate test: the other tests start it.
#[test]
#[ignore = "started by the other tests, with the allocator's options"]
fn a_process() {
    let (Ok(seed), Ok(told)) = (env::var("LARDER_SEED"), env::var("LARDER_TOLD")) else { return };
    let seed = seed.parse().expect("a number");
    let kind: Vec<usize> = told.split(' ').filter_map(|number| number.parse().ok()).collect();
    println!(
        "excess {}",
        match kind[..] {
            [from, to, variants, forms] => excess_of_upgrade(seed, from..to, variants, forms),
            _ => excess(seed, told == "told"),
        }
    );
}
