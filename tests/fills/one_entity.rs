//! A checker: an entity changes at random moments while many clients read ranges of it by slices. No answer mixes two
//! entities. `LARDER_SLICE_READS=10000` reads more, and `LARDER_SEED` repeats the choices of a run that failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use larder_testkit::{Answer, Larder, Origin, Seen, site};

use crate::slices::content;

const LEN: usize = 1_000_000;
const READERS: usize = 50;
/// One in this many reads changes the entity.
const RARELY: usize = 10;

/// Returns the value of a variable of the environment.
fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// Reads a random range, and checks that all bytes of the answer are of the entity that its tag names. Returns whether the
/// answer is complete.
fn read(larder: &Larder, rng: &mut fastrand::Rng) -> bool {
    let first = rng.usize(..LEN - 1);
    let last = rng.usize(first..(first + 300_000).min(LEN));
    let mut client = larder.client();
    client.send(&format!("GET /film\nRange: bytes={first}-{last}"));
    let head = client.head();
    let range = match head.status {
        200 => 0..LEN,
        206 => first..last + 1,
        // It has changed too often meanwhile, or the machine is busy.
        502..=504 => return false,
        other => panic!("status {other}"),
    };
    let version = head.field("etag").and_then(|tag| tag.trim_matches('"').parse().ok()).expect("a tag");
    let body = client.rest_of(range.len());
    let expected = content(version, range.clone());
    assert!(
        expected.starts_with(&body),
        "{range:?} of version {version}: {} bytes of two entities",
        body.len()
    );
    body.len() == expected.len()
}

#[test]
fn no_answer_mixes_two_entities_that_change_under_fifty_readers() {
    let reads: usize = variable("LARDER_SLICE_READS").unwrap_or(300);
    let seed: u64 = variable("LARDER_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("LARDER_SEED={seed}, {reads} reads");
    let version = Arc::new(AtomicU8::new(0));
    let current = Arc::clone(&version);
    let origin = Origin::answering(move |seen: &Seen| {
        let version = current.load(Ordering::SeqCst);
        let lifetime = if version.is_multiple_of(4) { "max-age=0" } else { "max-age=3600" };
        let fields = format!("Cache-Control: {lifetime}");
        Answer::file(seen, &format!("\"{version}\""), &fields, &content(version, 0..LEN))
    });
    // Memory does not take all slices, so that some are missing again and again.
    let larder = Larder::start(&format!("[memory]\nsize = '1MiB'\n{}", site(&[&origin], "slice = '64KiB'")));
    let complete = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for reader in 0..READERS {
            let (larder, complete, version) = (&larder, &complete, &version);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed.wrapping_add(reader as u64));
                for _ in 0..reads.div_ceil(READERS) {
                    version.fetch_add(u8::from(rng.usize(..RARELY) == 0), Ordering::SeqCst);
                    complete.fetch_add(usize::from(read(larder, &mut rng)), Ordering::Relaxed);
                }
            });
        }
    });
    let complete = complete.into_inner();
    println!("{complete} answers are complete, the others were cut short");
    assert!(complete > reads / 4, "{complete} of {reads} answers are complete");
}
