//! A checker: an entity changes at random moments, in content and length, and is purged, while many clients read ranges of
//! it by slices, and a few the whole. Some of its versions come from an origin that ignores `If-Range`, as some storages do. No answer mixes two
//! versions, and none is older than a purge before its request. `LARDER_SLICE_READS=10000` reads more, and `LARDER_SEED`
//! repeats the choices of a run that failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use larder_testkit::{Answer, Larder, Origin, Seen, site};

use crate::slices::{content, purge};

const LEN: usize = 1_000_000;
const READERS: usize = 50;
/// One in this many reads changes the entity, one purges it, and one is of the whole.
const RARELY: usize = 10;

/// The entity of the origin.
#[derive(Default)]
struct Entity {
    version: AtomicUsize,
    /// The version at the last purge: later requests get no earlier one.
    purged: AtomicUsize,
}

impl Entity {
    fn purge(&self, larder: &Larder, how: &str) {
        let version = self.version.load(Ordering::SeqCst);
        purge(larder, how);
        self.purged.fetch_max(version, Ordering::SeqCst);
    }

    fn answer(&self, seen: &Seen) -> Answer {
        let version = self.version.load(Ordering::SeqCst);
        let fields = format!("Cache-Control: max-age={}", if version.is_multiple_of(4) { 0 } else { 3600 });
        let mut seen = seen.clone();
        seen.fields.retain(|(name, _)| version.is_multiple_of(2) || !name.eq_ignore_ascii_case("if-range"));
        Answer::file(&seen, &format!("\"{version}\""), &fields, &content(version as u8, 0..len(version)))
    }
}

/// Returns the length of a version.
fn len(version: usize) -> usize {
    LEN - version % 3 * 70_000
}

/// Returns the value of a variable of the environment.
fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// Reads a random range, and checks that the answer is of the version that its tag names. Returns whether it is complete.
fn read(larder: &Larder, entity: &Entity, rng: &mut fastrand::Rng) -> bool {
    let first = rng.usize(..LEN - 1);
    let last = rng.usize(first..(first + 300_000).min(LEN));
    let (mut client, purged) = (larder.client(), entity.purged.load(Ordering::SeqCst));
    match rng.usize(..RARELY) {
        0 => client.send("GET /film"),
        _ => client.send(&format!("GET /film\nRange: bytes={first}-{last}")),
    }
    let head = client.head();
    if matches!(head.status, 416 | 502..=504) {
        // A version ends before the range; it has changed too often; or the machine is busy.
        return false;
    }
    let version: usize =
        head.field("etag").and_then(|tag| tag.trim_matches('"').parse().ok()).expect("a tag");
    assert!(
        version >= purged,
        "version {version}, though {purged} was current at a purge before the request"
    );
    let range = if head.status == 200 { 0..len(version) } else { first..(last + 1).min(len(version)) };
    let place = format!("bytes {}-{}/{}", range.start, range.end - 1, len(version));
    assert_eq!(head.field("content-range"), Some(&*place).filter(|_| head.status == 206));
    assert_eq!(head.field("content-length"), Some(&*range.len().to_string()), "{place}");
    let (body, expected) = (client.rest_of(range.len()), content(version as u8, range));
    assert!(
        expected.starts_with(&body),
        "{place} of version {version}: {} bytes of two entities",
        body.len()
    );
    body.len() == expected.len()
}

#[test]
fn no_answer_mixes_two_entities_that_change_under_fifty_readers() {
    let reads: usize = variable("LARDER_SLICE_READS").unwrap_or(300);
    let seed: u64 = variable("LARDER_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("LARDER_SEED={seed}, {reads} reads");
    let entity = Arc::<Entity>::default();
    let answers = Arc::clone(&entity);
    let origin = Origin::answering(move |seen: &Seen| answers.answer(seen));
    // Memory does not take all slices, so that some are missing again and again.
    let larder = Larder::start(&format!("[memory]\nsize = '1MiB'\n{}", site(&[&origin], "slice = '64KiB'")));
    let complete = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for reader in 0..READERS {
            let (larder, complete, entity) = (&larder, &complete, &entity);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed.wrapping_add(reader as u64));
                for _ in 0..reads.div_ceil(READERS) {
                    match rng.usize(..RARELY) {
                        0 => _ = entity.version.fetch_add(1, Ordering::SeqCst),
                        1 => entity.purge(larder, if rng.bool() { "&hard" } else { "" }),
                        _ => {}
                    }
                    complete.fetch_add(usize::from(read(larder, entity, &mut rng)), Ordering::Relaxed);
                }
            });
        }
    });
    let complete = complete.into_inner();
    println!("{complete} answers are complete, the others were cut short");
    assert!(complete > reads / 4, "{complete} of {reads} answers are complete");
}
