//! Responses on the disk that are used after a restart, after a crash, or after their eviction from memory.

use crate::{config, end, kill, page, pages, ready, written};
use larder_testkit::{Answer, Client, Gate, Larder, Origin, eventually};

const PAGES: [&str; 5] = ["/a-0", "/b-100", "/c-70000", "/d-300000", "/e-5000000"];

#[test]
fn stored_responses_outlive_an_orderly_end_and_a_crash() {
    for stop in [end, kill] {
        let (directory, origin) = (tempfile::tempdir().unwrap(), pages());
        let config = config(directory.path(), &origin, "");
        let larder = Larder::start(&config);
        PAGES.iter().for_each(|path| assert_eq!(larder.get(path).body, page(path)));
        written(&larder, PAGES.len() as u64);
        stop(larder);
        let larder = Larder::start(&config);
        ready(&larder);
        for path in PAGES.iter().chain(&PAGES) {
            let response = larder.get(path);
            assert!(response.is_hit(), "{path}: {response:?}");
            assert!(response.body == page(path), "{path}");
            assert_eq!(response.field("etag"), Some("\"1\""));
        }
        assert_eq!(origin.count(), PAGES.len());
        assert!(larder.stat("disk_hits") >= PAGES.len() as u64);
    }
}

#[test]
fn responses_evicted_from_memory_are_served_from_the_disk() {
    let (directory, origin) = (tempfile::tempdir().unwrap(), pages());
    let larder = Larder::start(&config(directory.path(), &origin, "[memory]\nsize = '1MiB'"));
    let paths: Vec<_> = (0..60).map(|n| format!("/{n}-50000")).collect();
    paths.iter().for_each(|path| assert_eq!(larder.get(path).body, page(path)));
    written(&larder, 60);
    for path in paths.iter().rev().chain(&paths) {
        let response = larder.get(path);
        assert!(response.is_hit() && response.body == page(path), "{path}: {}", response.status);
    }
    assert_eq!(origin.count(), 60);
}

#[test]
fn a_page_larger_than_memory_is_stored_even_if_clients_leave() {
    let (directory, gate) = (tempfile::tempdir().unwrap(), Gate::default());
    let (held, path) = (gate.clone(), "/large-20000000");
    let origin = Origin::answering(move |seen| {
        let body = page(&seen.target);
        let (begin, rest) = body.split_at(15_000_000);
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 20000000\r\n\r\n";
        Answer::raw([head.as_bytes(), begin].concat()).then_wait(&held).then(rest)
    });
    let config = config(directory.path(), &origin, "[memory]\nsize = '4MiB'").replace("64MiB", "256MiB");
    let larder = Larder::start(&config);
    let mut client = Client::to(larder.address());
    client.send(&format!("GET {path}"));
    client.head();
    // The client gets a part before the origin has sent the whole content, and disconnects.
    assert!(client.exactly(10_000_000) == page(path)[..10_000_000]);
    drop(client);
    gate.open();
    written(&larder, 1);
    let whole = larder.get(path);
    assert!(whole.is_hit() && whole.body == page(path));
    let part = larder.ask(&format!("GET {path}\nRange: bytes=16000000-16000009"));
    assert_eq!((part.status, &part.body[..]), (206, &page(path)[16_000_000..16_000_010]));
    let parts = larder.ask(&format!("GET {path}\nRange: bytes=0-0, 19999999-19999999"));
    assert!(parts.status == 206 && parts.is_hit(), "{parts:?}");
    assert_eq!(origin.count(), 1);
}

/// Cuts a response of `len` bytes off after `come` bytes, and requests ranges of it, and the rest.
fn break_off(len: usize, come: usize, memory: &str) {
    let (directory, path) = (tempfile::tempdir().unwrap(), format!("/broken-{len}"));
    let origin = Origin::answering(move |seen| {
        let (body, etag) = (page(&seen.target), "Cache-Control: max-age=60\r\nETag: \"1\"");
        match seen.field("range") {
            None => {
                let head = format!("HTTP/1.1 200 OK\r\n{etag}\r\nContent-Length: {len}\r\n\r\n");
                Answer::raw([head.as_bytes(), &body[..come]].concat()).then_close()
            }
            Some(range) => {
                assert_eq!((range, seen.field("if-range")), (&*format!("bytes={come}-"), Some("\"1\"")));
                let (last, rest) = (len - 1, len - come);
                let range = format!("Content-Range: bytes {come}-{last}/{len}\r\nContent-Length: {rest}");
                let head = format!("HTTP/1.1 206 Partial Content\r\n{etag}\r\n{range}\r\n\r\n");
                Answer::raw([head.as_bytes(), &body[come..]].concat())
            }
        }
    });
    let config = config(directory.path(), &origin, &format!("[memory]\nsize = '{memory}'"));
    let larder = Larder::start(&config);
    let mut client = larder.client();
    client.send(&format!("GET {path}"));
    client.head();
    assert!(client.rest().is_none_or(|rest| rest.len() < len), "it must not seem whole");
    larder.settle();
    written(&larder, 1);
    end(larder);
    let larder = Larder::start(&config);
    ready(&larder);
    let (from, to) = (come - 10_000, come - 1);
    let part = larder.ask(&format!("GET {path}\nRange: bytes={from}-{to}"));
    assert!(part.is_hit() && part.status == 206 && part.body == page(&path)[from..=to], "{}", part.status);
    assert_eq!(origin.count(), 1);
    let whole = larder.get(&path);
    assert!(whole.status == 200 && whole.body == page(&path));
    written(&larder, 1);
    assert!(larder.get(&path).is_hit());
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_page_that_broke_off_answers_ranges_and_is_completed() {
    break_off(200_000, 150_000, "64MiB");
    break_off(60_000, 40_000, "64MiB");
}

#[test]
fn a_broken_off_page_larger_than_memory_answers_ranges_and_is_completed() {
    break_off(6_000_000, 5_000_000, "4MiB");
}

#[test]
fn variants_outlive_a_restart_and_each_request_gets_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let origin = Origin::by(|seen| {
        let language = seen.field("accept-language").unwrap_or("none").to_owned();
        format!("200 OK\nCache-Control: max-age=60\nVary: Accept-Language\n\npage in {language}")
    });
    let config = config(directory.path(), &origin, "");
    let ask = |larder: &Larder, language: &str| larder.ask(&format!("GET /\nAccept-Language: {language}"));
    let larder = Larder::start(&config);
    for language in ["de", "en", "fr"] {
        ask(&larder, language);
    }
    // Three variants, and one entry with their Vary fields.
    written(&larder, 4);
    end(larder);
    let larder = Larder::start(&config);
    ready(&larder);
    for language in ["fr", "de", "en", "de"] {
        let response = ask(&larder, language);
        assert!(response.is_hit(), "{language}: {response:?}");
        assert_eq!(response.text(), format!("page in {language}"));
    }
    assert!(!ask(&larder, "it").is_hit());
}

#[test]
fn fields_of_a_304_outlive_a_restart_without_rewriting_the_content() {
    let (directory, path) = (tempfile::tempdir().unwrap(), "/long-3000000");
    let origin = Origin::answering(|seen| match seen.field("if-none-match") {
        Some("\"1\"") => {
            Answer::with_body("304 Not Modified\nETag: \"1\"\nCache-Control: max-age=3600\nX-News: yes", b"")
        }
        _ => Answer::with_body("200 OK\nCache-Control: max-age=0\nETag: \"1\"", &page(&seen.target)),
    });
    let config = config(directory.path(), &origin, "");
    let larder = Larder::start(&config);
    larder.get(path);
    written(&larder, 1);
    assert!(larder.get(path).body == page(path));
    written(&larder, 2);
    let bytes = larder.stats()["disks"][0]["bytes_written"].as_u64().unwrap();
    assert!(bytes < 3_100_000, "{bytes} bytes written");
    end(larder);
    let larder = Larder::start(&config);
    ready(&larder);
    let response = larder.get(path);
    assert!(response.is_hit() && response.body == page(path));
    assert_eq!((response.field("x-news"), origin.count()), (Some("yes"), 2));
}

#[test]
fn section_4_1_a_304s_new_vary_outlives_a_restart() {
    for path in ["/short-1000", "/file-100000", "/long-300000"] {
        let directory = tempfile::tempdir().unwrap();
        let origin = Origin::answering(|seen| match (seen.number, seen.field("if-none-match")) {
            (0, _) => Answer::with_body("200 OK\nCache-Control: max-age=0\nETag: \"1\"", &page(&seen.target)),
            (_, Some(_)) => Answer::with_body(
                "304 Not Modified\nETag: \"1\"\nCache-Control: max-age=3600\nVary: X-V",
                b"",
            ),
            _ => Answer::with_body("200 OK\nCache-Control: no-store", b"another"),
        });
        let config = config(directory.path(), &origin, "[memory]\nmax_object = '200KB'");
        let larder = Larder::start(&config);
        let ask = |larder: &Larder, value| larder.ask(&format!("GET {path}\nX-V: {value}"));
        ask(&larder, 1);
        written(&larder, 1);
        assert!(ask(&larder, 2).body == page(path), "{path}");
        assert_eq!([1, 3].map(|value| ask(&larder, value).body), [b"another"; 2], "{path}");
        written(&larder, 3);
        end(larder);
        let larder = Larder::start(&config);
        ready(&larder);
        assert_eq!([1, 3].map(|value| ask(&larder, value).body), [b"another"; 2], "{path}");
        let confirmed = ask(&larder, 2);
        assert!(confirmed.is_hit() && confirmed.body == page(path), "{path}: {confirmed:?}");
    }
}

#[test]
fn an_invalidation_by_an_unsafe_request_outlives_a_crash() {
    let (directory, origin) = (tempfile::tempdir().unwrap(), pages());
    let config = config(directory.path(), &origin, "");
    let larder = Larder::start(&config);
    for path in ["/a-100", "/b-100", "/c-300000"] {
        larder.get(path);
    }
    written(&larder, 3);
    larder.ask("POST /a-100\nContent-Length: 0");
    larder.ask("DELETE /c-300000");
    written(&larder, 3);
    kill(larder);
    let larder = Larder::start(&config);
    ready(&larder);
    let hits = ["/a-100", "/b-100", "/c-300000"].map(|path| larder.get(path).is_hit());
    assert_eq!(hits, [false, true, false]);
}

#[test]
fn policy_and_size_change_on_a_reload_and_what_is_stored_stays() {
    let (directory, origin) = (tempfile::tempdir().unwrap(), pages());
    let before = config(directory.path(), &origin, "[memory]\nentries = 1");
    let larder = Larder::start(&before);
    larder.get("/a-30000");
    larder.get("/b-30000");
    written(&larder, 2);
    larder.reload(&before.replace("size = '64MiB'", "size = '32MiB'\npolicy = 'secondhit+lru'"));
    eventually("the new settings", || {
        let disk = &larder.stats()["disks"][0];
        (disk["policy"] == "secondhit+lru" && disk["size"] == 32 << 20).then_some(())
    });
    assert!(larder.get("/a-30000").is_hit() && larder.get("/b-30000").is_hit());
    // The filter admits an object only at its second request.
    larder.get("/c-30000");
    eventually("a refusal", || (larder.stats()["disks"][0]["refused"] == 1).then_some(()));
}
