//! Large responses that are fetched and stored by slices (`docs/internals/slices.md`).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use larder_testkit::{Answer, Gate, Larder, Origin, Response, Seen, eventually, site};

/// Bytes in a slice, and in the content: 15 slices and a part of one.
const SLICE: usize = 64 << 10;
const LEN: usize = 1_000_000;

const KEYS: &str = "slice = '64KiB'";

/// Returns bytes of the content. No byte of one version is that of another version.
pub(crate) fn content(version: u8, range: Range<usize>) -> Vec<u8> {
    let period: Vec<u8> = (0..251_u8).map(|at| at ^ version.wrapping_mul(37)).collect();
    let from = range.start % period.len();
    period.repeat(range.len() / period.len() + 2)[from..from + range.len()].to_vec()
}

/// Answers as a server of files does, with this version of the content, which its tag names.
pub(crate) fn file(seen: &Seen, version: u8, len: usize) -> Answer {
    let tag = format!("\"{version}\"");
    Answer::file(seen, &tag, "Cache-Control: max-age=3600", &content(version, 0..len))
}

/// Starts an origin with such a file, and counts the bytes of content that it sends.
fn counted() -> (Origin, Arc<AtomicUsize>) {
    let sent = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&sent);
    let origin = Origin::answering(move |seen| {
        let range = seen.range(LEN).unwrap_or(0..LEN);
        let is_short = seen.field("if-none-match").is_some() || seen.method == "HEAD";
        counting.fetch_add(if is_short { 0 } else { range.len() }, Ordering::Relaxed);
        file(seen, 1, LEN)
    });
    (origin, sent)
}

fn get(larder: &Larder, range: &str) -> Response {
    larder.ask(&format!("GET /film\nRange: bytes={range}"))
}

fn part(larder: &Larder, range: Range<usize>) -> Response {
    let part = get(larder, &format!("{}-{}", range.start, range.end - 1));
    let place = format!("bytes {}-{}/{LEN}", range.start, range.end - 1);
    assert_eq!((part.status, part.field("content-range")), (206, Some(&*place)), "{range:?} {part:?}");
    assert!(part.body == content(1, range.clone()), "{range:?}");
    part
}

pub(crate) fn purge(larder: &Larder, how: &str) {
    let purged = larder.ask_admin(&format!("POST /purge?url=http://site.test/film{how}\nLarder-Admin: 1"));
    assert_eq!(purged.status, 200, "{}", purged.text());
}

#[test]
fn a_range_fetches_the_slices_that_it_needs_and_no_others() {
    let (origin, sent) = counted();
    let larder = Larder::with_site(&[&origin], KEYS);
    let first = part(&larder, 300_000..400_000);
    assert_eq!(first.cache(), "fwd=uri-miss; fwd-status=206; stored");
    assert_eq!((origin.count(), sent.load(Ordering::Relaxed)), (3, 3 * SLICE));
    for range in [300_000..400_000, 4 * SLICE..7 * SLICE, 270_000..270_001, 5 * SLICE - 1..5 * SLICE + 1] {
        assert!(part(&larder, range).is_hit());
    }
    assert_eq!(sent.load(Ordering::Relaxed), 3 * SLICE);
    let beside = part(&larder, 7 * SLICE - 10..7 * SLICE + 10);
    assert_eq!(beside.cache(), "fwd=partial; fwd-status=206; stored; detail=range-absent");
    part(&larder, LEN - 5..LEN);
    assert_eq!(sent.load(Ordering::Relaxed), 4 * SLICE + LEN % SLICE);
}

#[test]
fn stored_slices_answer_all_kinds_of_range_requests() {
    let (origin, sent) = counted();
    let larder = Larder::with_site(&[&origin], KEYS);
    part(&larder, 100_000..300_000);
    let before = sent.load(Ordering::Relaxed);
    let several = get(&larder, "120000-120003, 200000-200001");
    assert_eq!(several.status, 206);
    for range in [120_000..120_004, 200_000..200_002] {
        let expected = content(1, range);
        assert!(several.body.windows(expected.len()).any(|bytes| bytes == expected));
    }
    let resumed = larder.ask("GET /film\nRange: bytes=150000-150009\nIf-Range: \"1\"");
    assert_eq!((resumed.status, resumed.body), (206, content(1, 150_000..150_010)));
    assert_eq!(larder.ask("GET /film\nRange: bytes=0-1\nIf-None-Match: \"1\"").status, 304);
    assert_eq!(get(&larder, "1000000-").status, 416);
    let head = larder.ask("HEAD /film");
    assert_eq!((head.status, head.field("content-length")), (200, Some("1000000")));
    assert_eq!(sent.load(Ordering::Relaxed), before);
    assert!(get(&larder, "-100").body == content(1, LEN - 100..LEN));
    let other = larder.ask("GET /film\nRange: bytes=0-1\nIf-Range: \"2\"");
    assert_eq!(other.status, 200);
    assert!(other.body == content(1, 0..LEN));
    assert_eq!(sent.load(Ordering::Relaxed), LEN, "each byte was sent once");
    let whole = larder.get("/film");
    assert!(whole.is_hit() && whole.body == content(1, 0..LEN));
}

#[test]
fn a_client_that_reads_on_finds_the_next_slice() {
    let (origin, _) = counted();
    let larder = Larder::with_site(&[&origin], KEYS);
    let hits = (0..8).map(|n| part(&larder, (n + 1) * 65_536..(n + 2) * 65_536).is_hit());
    assert_eq!(hits.collect::<Vec<_>>(), [false, false, true, false, true, false, true, false]);
}

#[test]
fn equal_ranges_at_once_share_each_fetch() {
    let gate = Gate::default();
    let (held, sent) = (gate.clone(), Arc::new(AtomicUsize::new(0)));
    let counting = Arc::clone(&sent);
    let origin = Origin::answering(move |seen| {
        counting.fetch_add(seen.range(LEN).map_or(LEN, |range| range.len()), Ordering::Relaxed);
        held.pass();
        file(seen, 1, LEN)
    });
    let larder = Larder::with_site(&[&origin], KEYS);
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let mut client = larder.client();
            client.send("GET /film\nRange: bytes=131072-393215");
            std::thread::spawn(move || client.receive("GET"))
        })
        .collect();
    origin.wait_for(1);
    gate.open();
    for reader in readers {
        let part = reader.join().expect("an answer");
        assert!(part.status == 206 && part.body == content(1, 131_072..393_216));
    }
    assert_eq!(sent.load(Ordering::Relaxed), 4 * SLICE);
}

#[test]
fn a_purge_removes_all_slices_and_the_list_has_one_object() {
    let (origin, _) = counted();
    let larder = Larder::with_site(&[&origin], KEYS);
    part(&larder, 0..LEN);
    let listed = larder.ask_admin("GET /cache");
    assert_eq!(listed.text().lines().count(), 1, "{}", listed.text());
    assert_eq!(larder.stat("objects"), 1);
    let before = origin.count();
    purge(&larder, "&hard");
    part(&larder, 70_000..70_010);
    assert_eq!(origin.count(), before + 1);
    eventually("the removal of the old slices", || {
        (larder.stat("bytes_stored") < 2 * SLICE as u64).then_some(())
    });
    assert_eq!(larder.stat("objects"), 1);
}

#[test]
fn why_tells_whether_the_slices_of_a_range_are_stored() {
    let (origin, _) = counted();
    let larder = Larder::with_site(&[&origin], KEYS);
    part(&larder, 0..7 * SLICE);
    larder.settle();
    let requests = origin.count();
    for (range, outcome, stored) in [
        ("0-99", "hit", None),
        ("900000-900001", "miss", Some("0 of the 1")),
        ("0-", "hit", Some("7 of the 16")),
    ] {
        let why = larder.ask_admin(&format!("GET /why?url=http://site.test/film&header=Range:bytes={range}"));
        let said = why.json();
        assert_eq!(said["decision"]["outcome"], outcome, "{range}: {said}");
        assert_eq!(why.text().contains("slices that the reply needs"), stored.is_some(), "{range}: {said}");
        assert!(stored.is_none_or(|stored| why.text().contains(stored)), "{range}: {said}");
    }
    assert_eq!(origin.count(), requests);
    assert!(part(&larder, 0..100).is_hit() && !part(&larder, 900_000..900_002).is_hit());
}

#[test]
fn a_client_gets_one_entity_although_the_origin_changes_it() {
    let version = Arc::new(AtomicU8::new(1));
    let current = Arc::clone(&version);
    let origin = Origin::answering(move |seen| file(seen, current.load(Ordering::SeqCst), LEN));
    let larder = Larder::with_site(&[&origin], KEYS);
    part(&larder, 0..200_000);
    version.store(2, Ordering::SeqCst);
    assert!(part(&larder, 100..200).is_hit(), "it is fresh");
    // The first slice is stored and of the old entity, the others are of the new one.
    let mut client = larder.client();
    client.send("GET /film\nRange: bytes=190000-500000");
    assert_eq!(client.head().field("etag"), Some("\"1\""));
    let read = client.rest_of(310_001);
    assert!(read.len() < 310_001 && content(1, 190_000..500_001).starts_with(&read), "{} bytes", read.len());
    larder.settle();
    let new = get(&larder, "100-70000");
    assert!(new.field("etag") == Some("\"2\"") && new.body == content(2, 100..70_001));
    // The first slice that is needed is missing: the answer is made again.
    version.store(3, Ordering::SeqCst);
    let newest = get(&larder, "500000-600000");
    assert!(newest.status == 206 && newest.body == content(3, 500_000..600_001), "{newest:?}");
}

/// An origin.
type MakeAnswer = fn(&Seen) -> Answer;

/// Answers with a part and these fields: one that lacks some bytes at its beginning and its end, and names a length with
/// these further digits.
fn odd(seen: &Seen, fields: &str, digits: &str, lacking: (usize, usize)) -> Answer {
    let range = seen.range(LEN).unwrap_or(0..LEN);
    let (first, end) = (range.start + lacking.0, range.end - lacking.1);
    let head =
        format!("206 Partial Content\n{fields}\nContent-Range: bytes {first}-{}/{LEN}{digits}", end - 1);
    Answer::with_body(&head, &content(1, first..end))
}

#[test]
fn origins_that_send_no_slices_are_asked_for_what_clients_want() {
    let cases: [(&str, MakeAnswer); 4] = [
        ("ignores ranges", |_| {
            Answer::with_body("200 OK\nCache-Control: max-age=3600\nETag: \"1\"", &content(1, 0..LEN))
        }),
        ("has weak tags", |seen| odd(seen, "ETag: W/\"1\"", "", (0, 0))),
        ("forbids storing", |seen| odd(seen, "ETag: \"1\"\nCache-Control: no-store", "", (0, 0))),
        ("codes all", |seen| odd(seen, "ETag: \"1\"\nContent-Encoding: x", "", (0, 0))),
    ];
    for (name, answer) in cases {
        let origin = Origin::answering(answer);
        let larder = Larder::with_site(&[&origin], KEYS);
        for range in [100_000..200_000, 150_000..150_010, 400_000..600_000] {
            let part = get(&larder, &format!("{}-{}", range.start, range.end - 1));
            assert_eq!(part.status, 206, "{name}");
            assert!(part.body == content(1, range), "{name}");
        }
    }
}

#[test]
fn a_signed_range_reaches_the_origin_as_its_client_wrote_it() {
    for refusal in ["403 Forbidden", "400 Bad Request"] {
        let origin = Origin::answering(move |seen| match seen.field("range") {
            Some("bytes=100000-200000") => file(seen, 1, LEN),
            _ => Answer::with_body(&format!("{refusal}\nCache-Control: max-age=60"), b"not signed"),
        });
        let larder = Larder::with_site(&[&origin], KEYS);
        for _ in 0..2 {
            part(&larder, 100_000..200_001);
        }
        let other = get(&larder, "300000-400000");
        assert_eq!((other.status, other.text()), (refusal[..3].parse().expect("a number"), "not signed"));
    }
}

/// Asks for the end of `path`, from this byte on, and returns whether all of it came.
fn is_whole(larder: &Larder, path: &str, from: usize) -> bool {
    let mut client = larder.client();
    client.send(&format!("GET {path}\nRange: bytes={from}-"));
    assert_eq!(client.head().status, 206, "{path}");
    let read = client.rest_of(LEN - from);
    assert!(content(1, from..LEN).starts_with(&read), "{path}");
    larder.settle();
    read.len() == LEN - from
}

#[test]
fn servers_whose_tags_differ_send_whole_ranges() {
    let server = |tag: &'static str| {
        Origin::answering(move |seen| {
            Answer::file(seen, tag, "Cache-Control: max-age=3600", &content(1, 0..LEN))
        })
    };
    let origins = [server("\"a\""), server("\"b\"")];
    for balance in ["round-robin", "two-choices", "client"] {
        let keys = format!("{KEYS}\nbalance = '{balance}'");
        let larder = Larder::with_site(&[&origins[0], &origins[1]], &keys);
        for path in ["/1", "/2", "/3", "/4", "/5", "/6"] {
            assert!(is_whole(&larder, path, 100_000), "{balance} {path}");
        }
    }
}

#[test]
fn a_url_whose_tags_alternate_is_soon_forwarded_as_clients_want() {
    let turn = AtomicUsize::new(0);
    let origin = Origin::answering(move |seen| {
        let tag = ["\"a\"", "\"b\""][turn.fetch_add(1, Ordering::Relaxed) % 2];
        Answer::file(seen, tag, "Cache-Control: max-age=3600", &content(1, 0..LEN))
    });
    let larder = Larder::with_site(&[&origin], KEYS);
    let whole: Vec<_> = (0..6).map(|at| is_whole(&larder, "/film", at * 100_000)).collect();
    assert_eq!(whole[2..], [true; 4], "{whole:?}");
}

#[test]
fn answers_that_are_no_slice_reach_no_client_as_one() {
    let cases: [(&str, MakeAnswer); 4] = [
        ("a shorter part", |seen| odd(seen, "ETag: \"1\"", "", (0, 100))),
        ("another part", |seen| odd(seen, "ETag: \"1\"", "", (1, 0))),
        ("another length", |seen| odd(seen, "ETag: \"1\"", "1", (0, 0))),
        ("a coded part", |seen| odd(seen, "ETag: \"1\"\nContent-Encoding: x", "", (0, 0))),
    ];
    for (name, answer) in cases {
        let origin = Origin::answering(move |seen| match seen.range(LEN) {
            // The first slices are right, and so is what clients ask for themselves.
            Some(range) if range.start >= 4 * SLICE && seen.field("if-range").is_some() => answer(seen),
            _ => file(seen, 1, LEN),
        });
        let larder = Larder::with_site(&[&origin], KEYS);
        part(&larder, 0..200_000);
        let mut client = larder.client();
        client.send("GET /film\nRange: bytes=200000-500000");
        assert_eq!(client.head().status, 206, "{name}");
        let read = client.rest_of(300_001);
        assert!(content(1, 200_000..500_001).starts_with(&read), "{name}");
        larder.settle();
        part(&larder, 200_000..500_001);
    }
}

#[test]
fn content_that_breaks_off_is_cut_short_and_fetched_again() {
    let breaks = Arc::new(AtomicUsize::new(0));
    let broken = Arc::clone(&breaks);
    let origin = Origin::answering(move |seen| match seen.range(LEN) {
        Some(range) if range.start == 4 * SLICE && broken.fetch_add(1, Ordering::Relaxed) == 0 => {
            let head = format!(
                "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Range: bytes {}-{}/{LEN}\r\nContent-Length: {}\r\n\r\n",
                range.start,
                range.end - 1,
                range.len(),
            );
            Answer::raw([head.as_bytes(), &content(1, range.start..range.start + 1000)].concat()).then_close()
        }
        _ => file(seen, 1, LEN),
    });
    let larder = Larder::with_site(&[&origin], KEYS);
    let mut client = larder.client();
    client.send("GET /film\nRange: bytes=200000-500000");
    client.head();
    let read = client.rest_of(300_001);
    assert!(read.len() < 300_001 && content(1, 200_000..500_001).starts_with(&read));
    larder.settle();
    part(&larder, 200_000..500_001);
}

#[test]
fn expired_slices_are_validated_once_and_used_again() {
    let origin = Origin::answering(|seen| file(seen, 1, LEN));
    let larder = Larder::with_site(&[&origin], KEYS);
    part(&larder, 100_000..300_000);
    let before = origin.count();
    purge(&larder, "&soft");
    part(&larder, 100_000..300_000);
    assert_eq!((origin.count(), origin.last().field("if-none-match")), (before + 1, Some("\"1\"")));
    assert!(part(&larder, 100_000..300_000).is_hit());
}

#[test]
fn slices_answer_only_whom_a_304_selects() {
    let fields = [
        "Cache-Control: max-age=3600\nVary: X-V",
        "Cache-Control: max-age=3600\nVary: *",
        "Cache-Control: private",
        "Cache-Control: no-store",
    ];
    for new in fields {
        // Each client has a version of its own, though one tag names all.
        let confirmed = Arc::new(AtomicUsize::new(0));
        let confirms = Arc::clone(&confirmed);
        let origin = Origin::answering(move |seen| {
            let by_tag = seen.field("if-none-match").is_some();
            confirms.fetch_add(by_tag.into(), Ordering::Relaxed);
            let version = seen.field("x-v").map_or(0, |version| version.parse().expect("a number"));
            let fields = if version == 1 { "Cache-Control: max-age=3600" } else { new };
            Answer::file(seen, "\"1\"", fields, &content(version, 0..LEN))
        });
        let larder = Larder::with_site(&[&origin], KEYS);
        let get = |version: u8| {
            let part = larder.ask(&format!("GET /film\nRange: bytes=100000-299999\nX-V: {version}"));
            assert_eq!(part.status, 206, "{new}");
            larder.settle();
            part
        };
        assert!(get(1).body == content(1, 100_000..300_000), "{new}");
        purge(&larder, "&soft");
        get(2);
        assert_eq!(confirmed.load(Ordering::Relaxed), 1, "{new}");
        for version in [3, 4] {
            let part = get(version);
            assert!(part.body == content(version, 100_000..300_000), "{new}: {version} {}", part.cache());
        }
    }
}

#[test]
fn a_client_overtakes_a_slow_one_where_the_origin_ignores_ranges() {
    let whole = content(1, 0..8 << 20);
    let body = whole.clone();
    let origin = Origin::answering(move |_| {
        Answer::with_body("200 OK\nCache-Control: max-age=3600\nETag: \"1\"", &body)
    });
    let larder = Larder::start(&format!("[memory]\nsize = '1MiB'\n{}", site(&[&origin], KEYS)));
    let [mut slow, mut quick] = [(), ()].map(|()| larder.client());
    for client in [&mut slow, &mut quick] {
        client.send("GET /film");
        assert_eq!(client.head().status, 200);
    }
    assert!(quick.rest_of(whole.len()) == whole);
    assert!(slow.rest_of(whole.len()) == whole);
}

#[test]
fn small_objects_and_sites_without_slices_are_fetched_as_clients_want() {
    let origin = Origin::answering(|seen| file(seen, 1, if seen.target == "/film" { LEN } else { 300_000 }));
    let larder = Larder::with_site(&[&origin], "slice = 'off'");
    part(&larder, 100_000..200_000);
    assert_eq!(origin.last().field("range"), Some("bytes=100000-199999"));
    let larder = Larder::with_site(&[&origin], KEYS);
    let small = larder.ask("GET /small\nRange: bytes=70000-80000");
    assert!(small.status == 206 && small.body == content(1, 70_000..80_001), "{small:?}");
    assert_eq!(small.field("content-range"), Some("bytes 70000-80000/300000"));
    let small = larder.ask("GET /small\nRange: bytes=100000-200000");
    assert!(small.status == 206 && small.body == content(1, 100_000..200_001));
    assert_eq!(origin.last().field("range"), Some("bytes=100000-200000"));
}

#[test]
fn content_beyond_max_object_is_stored_by_no_slice() {
    let (origin, _) = counted();
    let larder = Larder::start(&format!("[memory]\nmax_object = '900KiB'\n{}", site(&[&origin], KEYS)));
    assert!(!larder.get("/film").is_hit() && !larder.get("/film").is_hit());
    part(&larder, 300_000..400_000);
    assert_eq!(origin.last().field("range"), Some("bytes=300000-399999"));
}

#[test]
fn clients_get_the_error_of_the_origin_where_slices_are_missing() {
    const FRESH: &str = "Cache-Control: max-age=3600";
    const STALE: &str = "Cache-Control: max-age=9\nAge: 99";
    for (fields, range) in
        [(FRESH, "700000-700009"), (FRESH, "0-"), (STALE, "700000-700009"), (STALE, "150000-300000")]
    {
        let down = Gate::default();
        let state = down.clone();
        let origin = Origin::answering(move |seen| match state.is_open() {
            true => Answer::with_body("503 Busy\nRetry-After: 9", b"busy"),
            false => Answer::file(seen, "\"1\"", fields, &content(1, 0..LEN)),
        });
        let larder = Larder::with_site(&[&origin], KEYS);
        get(&larder, "100000-200000");
        down.open();
        let answer = get(&larder, range);
        assert_eq!((answer.status, answer.field("retry-after")), (503, Some("9")), "{fields} {range}");
        assert!(get(&larder, "150000-150009").body == content(1, 150_000..150_010), "{fields} {range}");
    }
}
