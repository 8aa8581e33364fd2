//! Sweeps of memory after purges: they free and count the objects that purges reach, and change no response
//! to a request.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use fastrand::Rng;
use larder_evict::{By, Capacity};
use larder_semantics::purge::{Effect, Scope};
use larder_store::reclaim::{Count, ReclaimCount};
use larder_store::{Disks, Generation};

use super::purges::{find, group, host, key_of, open, put, tag};
use super::{seed, store_on};

/// A purge is in force within this time, for any number of stored responses.
const IN_FORCE: Duration = Duration::from_millis(1);

/// Stores 50,000 responses, or `LARDER_OBJECTS`.
#[test]
fn a_purge_is_in_force_without_a_look_at_what_is_stored() {
    let given = std::env::var("LARDER_OBJECTS").ok().and_then(|text| text.parse().ok());
    let stored: usize = given.unwrap_or(50_000);
    let (store, fills) = store_on(Disks::default(), Capacity { by: By::Entries, amount: 1 << 22 }, 1 << 20);
    let key = |n: usize| key_of("http", "a", &format!("/{n}"));
    let fields: Vec<_> = (0..50).map(|n| n.to_string()).collect();
    for n in 0..stored {
        put(&store, &key(n), &[("cache-tag", &fields[n % 50])], store.purges.now());
    }
    let mut shortest = Duration::MAX;
    for n in 0..20 {
        let scopes = [tag(&n.to_string()), host("b"), group("a", "g")];
        let begun = Instant::now();
        let ordered = fills.enforce(scopes.to_vec(), Effect::Remove, 0);
        shortest = shortest.min(begun.elapsed());
        assert!(find(&store, &key(n)).is_none(), "it is in force");
        let mut count = Count::of(ordered, true);
        if n == 0 {
            store.sweep_memory(&mut [&mut count], store.purges.now());
            // The first response was looked up, and is removed already.
            assert_eq!(count.reached().objects, (stored / 50 - 1) as u64);
        }
    }
    println!("in force after {shortest:?} with {stored} responses stored");
    assert!(shortest < IN_FORCE, "{shortest:?} with {stored} responses stored");
    let left = store.memory.usage().objects;
    store.sweep_memory(&mut [], store.purges.now());
    let freed = left - store.memory.usage().objects;
    assert_eq!(freed, (19 * (stored / 50 - 1)) as u64, "unrequested responses are freed, too");
}

/// The model of the stored responses: their names, and the generation in which each was stored or last
/// changed by a sweep.
#[derive(Default)]
struct Model {
    stored: BTreeMap<usize, Generation>,
    /// The last purge of each scope with each effect, as in [`larder_store::Purges`].
    rules: BTreeMap<(usize, bool), Generation>,
}

/// The number of names, each with a tag, a group and a host.
const NAMES: usize = 60;

fn scope(number: usize) -> Scope {
    match number {
        0..4 => tag(&format!("t{number}")),
        4..7 => group(&format!("h{}", number % 2), &format!("g{}", number - 4)),
        7..9 => host(&format!("h{}", number - 7)),
        _ => Scope::All,
    }
}

fn reaches(scope: usize, name: usize) -> bool {
    match scope {
        0..4 => name % 4 == scope,
        4..7 => name % 3 == scope - 4 && name % 2 == scope % 2,
        7..9 => name % 2 == scope - 7,
        _ => true,
    }
}

impl Model {
    /// Whether a rule later than the response and no later than `until` removes it.
    fn removes(&self, name: usize, since: Generation, until: Generation) -> bool {
        self.rules.iter().any(|((scope, removes), last)| {
            *removes && reaches(*scope, name) && *last > since && *last <= until
        })
    }

    /// Sweeps the model; returns the number of responses that each of `counted` reaches.
    fn sweep(&mut self, counted: &[(usize, bool, Generation)], until: Generation) -> Vec<u64> {
        let mut counts = vec![0; counted.len()];
        let mut gone = BTreeSet::new();
        for (name, since) in &self.stored {
            for ((scope, removes, generation), count) in counted.iter().zip(&mut counts) {
                if reaches(*scope, *name) && since < generation {
                    *count += 1;
                    gone.extend(removes.then_some(*name));
                }
            }
            gone.extend(self.removes(*name, *since, until).then_some(*name));
        }
        self.stored.retain(|name, _| !gone.contains(name));
        self.stored.values_mut().for_each(|since| *since = until.max(*since));
        counts
    }
}

/// Stores, purges and looks up at random, in a store that is swept and in one that is not.
#[test]
fn looks_count_what_purges_reach_and_change_nothing_that_is_found() {
    let mut rng = seed();
    for _ in 0..40 {
        let (swept, untouched) = (open(Disks::default()), open(Disks::default()));
        let (mut model, mut waiting) = (Model::default(), Vec::new());
        let key = |n: usize| key_of("http", &format!("h{}", n % 2), &format!("/{n}"));
        for second in 0..150 {
            match rng.u8(..8) {
                0..5 => {
                    let name = rng.usize(..NAMES);
                    let (tag, group) = (format!("t{}", name % 4), format!("\"g{}\"", name % 3));
                    let fields = [("cache-tag", &*tag), ("cache-groups", &*group)];
                    for (store, _) in [&swept, &untouched] {
                        put(store, &key(name), &fields, store.purges.now());
                    }
                    model.stored.insert(name, swept.0.purges.now());
                }
                5..7 => {
                    let (number, removes) = (rng.usize(..10), rng.bool());
                    let effect = if removes { Effect::Remove } else { Effect::Stale };
                    untouched.1.order(&[scope(number)], effect, 1_000 + second);
                    let ordered = swept.1.enforce(vec![scope(number)], effect, 1_000 + second);
                    let generation = ordered.generation();
                    if number == 9 && removes {
                        model.rules.clear();
                    }
                    model.rules.insert((number, removes), generation);
                    if rng.bool() {
                        waiting.push((Count::of(ordered, true), (number, removes, generation)));
                    }
                }
                _ => look(&swept.0, &mut model, &mut waiting, &mut rng),
            }
        }
        while !waiting.is_empty() {
            look(&swept.0, &mut model, &mut waiting, &mut rng);
        }
        swept.0.sweep_memory(&mut [], swept.0.purges.now());
        model.sweep(&[], swept.0.purges.now());
        assert_eq!(swept.0.memory.usage().objects, model.stored.len() as u64);
        swept.0.memory.list(&mut |resident, _| {
            let checked = resident.variants().iter().all(|entry| entry.checked() == swept.0.purges.now());
            assert!(checked, "no request compares this with a rule any more");
        });
        for name in 0..NAMES {
            let found = |store| find(store, &key(name)).map(|entry| entry.freshness().is_fresh(1_200));
            assert_eq!(found(&swept.0), found(&untouched.0), "{name}");
            assert_eq!(found(&swept.0).is_some(), model.stored.contains_key(&name), "{name}");
        }
        assert_eq!(swept.0.memory.validate(), Ok(()));
    }
}

type Waiting = (Count, (usize, bool, Generation));

/// Sweeps for the first of the waiting purges.
fn look(store: &larder_store::Store, model: &mut Model, waiting: &mut Vec<Waiting>, rng: &mut Rng) {
    let mut batch: Vec<_> = waiting.drain(..rng.usize(..=waiting.len())).collect();
    let until = waiting.first().map_or(store.purges.now(), |(_, (_, _, next))| next.before());
    let counted: Vec<_> = batch.iter().map(|(_, purge)| *purge).collect();
    let expected = model.sweep(&counted, until);
    store.sweep_memory(&mut batch.iter_mut().map(|(count, _)| count).collect::<Vec<_>>(), until);
    for ((count, purge), expected) in batch.iter().zip(expected) {
        let ReclaimCount { objects, bytes } = count.reached();
        assert_eq!(objects, expected, "{purge:?} up to {until:?}");
        assert!(bytes >= 100 * objects, "{bytes} bytes of {objects}");
    }
}
