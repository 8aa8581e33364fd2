//! Coded forms after the stored response changes, and the rules about compression.

use crate::{accepting, all, coded, compressing, decode, page, rest, stays_plain, text};
use larder_testkit::{Client, Larder, Origin, eventually, site};

#[test]
fn a_purge_reaches_all_forms() {
    let origin =
        Origin::by(|seen| page(&format!("Cache-Tag: t\nX-Number: {}\n", seen.number), 5_000 + seen.number));
    let larder = compressing(&origin, "");
    for (number, purge) in ["url=http://site.test/&hard", "tag=t&hard", "tag=t"].into_iter().enumerate() {
        larder.get("/");
        let answer = coded(&larder, "/", "br");
        assert_eq!(decode("br", &answer.body), text(5_000 + number));
        assert_eq!(larder.ask_admin(&format!("POST /purge?{purge}\nLarder-Admin: 1")).status, 200, "{purge}");
        let number = number + 1;
        let answer = accepting(&larder, "/", "br");
        assert_eq!(answer.field("x-number"), Some(&*number.to_string()), "{purge}");
        assert_eq!(decode("br", &answer.body), text(5_000 + number), "{purge}");
    }
}

#[test]
fn forms_count_towards_the_memory_and_go_with_their_responses() {
    let origin = Origin::by(|seen| page("", 20_000 + seen.target.len()));
    let larder =
        Larder::start(&format!("[memory]\nsize = '2MiB'\n{}", site(&[&origin], "compress = 'gzip'")));
    larder.get("/0");
    let before = larder.stat("bytes_stored");
    let form = coded(&larder, "/0", "gzip").body.len() as u64;
    let grown = larder.stat("bytes_stored") - before;
    assert!((form..form + 300).contains(&grown), "{grown} for {form}");
    for n in 0..200 {
        accepting(&larder, &format!("/{n}"), "gzip");
        accepting(&larder, &format!("/{n}"), "gzip");
    }
    rest(&larder);
    assert!(larder.stat("evictions") > 0 && larder.stat("bytes_stored") <= 2 << 20);
    assert_eq!(larder.ask_admin("POST /purge?all&hard\nLarder-Admin: 1").status, 200);
    larder.wait_for("objects", 0);
}

#[test]
fn rules_say_what_is_compressed_and_how() {
    let origin = Origin::by(|_| page("", 5_000));
    let rules = "compress = ['br', 'gzip']\n\
                 [[site.rule]]\nmatch = { path = '/raw/*' }\ncompress = false\n\
                 [[site.rule]]\nmatch = { path = '/old/*' }\ncompress = 'gzip'\n";
    let larder = Larder::start(&site(&[&origin], rules));
    assert!(stays_plain(&larder, "/raw/a"));
    assert_eq!(all(&larder.get("/raw/a"), "vary").len(), 0);
    for (path, coding) in [("/old/a", "gzip"), ("/new/a", "br")] {
        larder.get(path);
        coded(&larder, path, coding);
        rest(&larder);
        assert_eq!(accepting(&larder, path, "br, gzip").field("content-encoding"), Some(coding), "{path}");
    }
}

#[test]
fn rules_on_the_response_decide_too() {
    let origin = Origin::by(|seen| match seen.target.as_str() {
        "/odd" => page("", 5_000).replace("text/html", "application/x-odd"),
        "/data" => page("", 5_000).replace("text/html", "application/json"),
        _ => page("", 5_000),
    });
    let rules = "compress_types = ['text/*', 'application/*']\n\
                 [[site.rule]]\nmatch = { type = 'application/*' }\ncompress = ['gzip', 'br']\n\
                 [[site.rule]]\nmatch = { type = 'application/json', max_length = '1MiB' }\ncompress = false\n";
    let larder = Larder::start(&site(&[&origin], rules));
    larder.get("/odd");
    assert_eq!(decode("gzip", &coded(&larder, "/odd", "gzip").body), text(5_000));
    for path in ["/", "/data"] {
        assert!(stays_plain(&larder, path), "{path}");
        assert_eq!(all(&larder.get(path), "vary").len(), 0, "{path}");
    }
}

#[test]
fn a_response_restored_from_disk_is_compressed_again() {
    let origin = Origin::by(|_| page("ETag: \"a\"\n", 5_000));
    let directory = tempfile::tempdir().expect("a directory");
    let disk = format!("[[disk]]\npath = '{}'\nsize = '64MiB'\n", directory.path().display());
    let config = disk + &site(&[&origin], "compress = 'gzip'");
    let mut larder = Larder::start(&config);
    larder.get("/");
    let form = coded(&larder, "/", "gzip").body;
    eventually("it is on the disk", || {
        (larder.stats()["disks"][0]["stored"].as_u64() > Some(0)).then_some(())
    });
    larder.stop();
    let larder = Larder::start(&config);
    eventually("a disk in use", || (larder.stats()["disks"][0]["state"] == "ready").then_some(()));
    let first = accepting(&larder, "/", "gzip");
    assert_eq!((first.text(), first.field("etag")), (&*text(5_000), Some("\"a\"")));
    assert_eq!(first.field("vary"), Some("Accept-Encoding"));
    assert_eq!(coded(&larder, "/", "gzip").body, form);
    assert_eq!(origin.count(), 1);
}

#[test]
fn why_tells_of_the_forms() {
    let origin = Origin::by(|_| page("ETag: \"a\"\n", 5_000));
    let larder = compressing(&origin, "");
    larder.get("/");
    let form = coded(&larder, "/", "br").body.len() as u64;
    let why = || -> serde_json::Value {
        let why = larder.ask_admin("GET /why?url=http://site.test/");
        why.json()
    };
    assert_eq!(why()["stored"]["forms"], serde_json::json!({ "br": form }));
    assert_eq!(why()["stored"]["bytes"], 5_000);
}

#[test]
fn the_forward_proxy_compresses_too_and_a_reload_ends_it() {
    let origin = Origin::by(|_| page("", 5_000));
    let larder = Larder::start("[forward]\nallow_private = true\ncompress = ['gzip']\n");
    let url = origin.url();
    let ask = || Client::to(larder.forward).ask(&format!("GET {url}/\nAccept-Encoding: gzip"));
    eventually("a coded form", || (ask().cache() == "hit; coding=gzip").then_some(()));
    larder.reload("[forward]\nallow_private = true\n");
    eventually("the reload", || ask().field("content-encoding").is_none().then_some(()));
    assert_eq!(all(&ask(), "vary").len(), 0);
}

#[test]
fn the_coding_follows_the_clients_accept_encoding_despite_request_rules() {
    let origin = Origin::by(|_| page("", 5_000));
    let larder = compressing(&origin, "[[site.rule]]\nrequest = { set = { Accept-Encoding = 'gzip' } }\n");
    larder.get("/");
    assert_eq!(decode("br", &coded(&larder, "/", "br").body), text(5_000));
    assert_eq!(decode("gzip", &coded(&larder, "/", "gzip").body), text(5_000));
    assert_eq!(larder.get("/").field("content-encoding"), None);
    assert_eq!(origin.last().field("accept-encoding"), Some("gzip"));
}
