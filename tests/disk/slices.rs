//! Slices on the disk.

use std::ops::Range;

use larder_testkit::{Answer, Larder, Origin};

use crate::{config, kill, page, ready, written};

const PATH: &str = "/film-2000000";

fn part(larder: &Larder, range: Range<usize>) -> bool {
    let part = larder.ask(&format!("GET {PATH}\nRange: bytes={}-{}", range.start, range.end - 1));
    assert!(part.status == 206 && part.body == page(PATH)[range.clone()], "{range:?}: {part:?}");
    part.is_hit()
}

#[test]
fn slices_stored_before_a_crash_are_used_after_it() {
    let directory = tempfile::tempdir().unwrap();
    let fields = "Cache-Control: max-age=3600";
    let origin = Origin::answering(move |seen| Answer::file(seen, "\"1\"", fields, &page(&seen.target)));
    let config = config(directory.path(), &origin, "") + "slice = '64KiB'\n";
    let larder = Larder::start(&config);
    part(&larder, 300_000..400_000);
    // The response, and three slices.
    written(&larder, 4);
    kill(larder);
    let larder = Larder::start(&config);
    ready(&larder);
    let before = origin.count();
    assert!(part(&larder, 350_000..360_000) && part(&larder, 300_000..400_000));
    assert_eq!(origin.count(), before);
    part(&larder, 390_000..500_000);
    assert_eq!(origin.count(), before + 1, "one slice was missing");
}

#[test]
fn a_response_larger_than_memory_is_stored_by_slices_in_both_tiers() {
    let directory = tempfile::tempdir().unwrap();
    let fields = "Cache-Control: max-age=3600\nAccept-Ranges: bytes";
    let origin = Origin::answering(move |seen| Answer::file(seen, "\"1\"", fields, &page(&seen.target)));
    let config = config(directory.path(), &origin, "[memory]\nsize = '4MiB'\n") + "slice = '64KiB'\n";
    let larder = Larder::start(&config);
    for is_hit in [false, true] {
        let whole = larder.get(PATH);
        assert!(whole.status == 200 && whole.body == page(PATH) && whole.is_hit() == is_hit, "{is_hit}");
        written(&larder, 32);
    }
    assert!(part(&larder, 1_000_000..1_100_000));
    assert_eq!(origin.count(), 1);
}
