//! Any bytes as a slice of the memory tier, or as the purges in force, from another process: no panic, nothing of a slice that
//! cannot be read, and every invariant of the tier afterwards.

#![no_main]

use std::sync::Arc;

use larder_evict::{By, Capacity, Spec};
use larder_store::handover::{MemoryImport, MemoryOffer, Piece};
use larder_store::{Arena, Disks, Fills, Memory, Store};
use libfuzzer_sys::fuzz_target;

fn process() -> Arc<Fills> {
    let memory = Memory::new(Capacity { by: By::Bytes, amount: 1 << 20 }, &Spec::default(), 3);
    let store = Arc::new(Store::new(memory, Disks::default()));
    Arc::new(Fills::new(store, Arena::new().expect("memory files"), u64::MAX))
}

fuzz_target!(|bytes: &[u8]| {
    let Some((late, bytes)) = bytes.split_first() else { return };
    let fills = process();
    let _ = fills.store().purges.restore_copy(bytes);
    let mut import = MemoryImport::new(&fills);
    if late % 2 == 1 {
        import.complete();
    }
    let taken = import.slice(bytes, &|_| false);
    let memory = &fills.store().memory;
    assert!(taken.is_ok() || memory.usage().objects == 0);
    assert_eq!(memory.validate(), Ok(()));
    // What was taken can be handed on.
    let next = process();
    let mut import = MemoryImport::new(&next);
    let sent = MemoryOffer::new(&fills).send(&mut |piece| {
        if let Piece::Slice(slice) = piece {
            assert_eq!(import.slice(slice, &|_| false), Ok(()));
        }
        Ok(())
    });
    assert!(sent.is_ok());
    assert_eq!(next.store().memory.validate(), Ok(()));
});
