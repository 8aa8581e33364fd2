//! The answer to a client, and the entry in the access log for the same call.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;

use larder_rpc::Answer as Said;
use larder_testkit::{Answer, Larder, Origin, PATIENCE, eventually};

use crate::caller::{Caller, DOORS, get, open_with};

const BARE: &str = "[line]\nlisten = '127.0.0.1:0'\nform = 'bare'\n[forward]\nallow_private = true\n";

/// Starts an origin with one page that clients receive, and others that they do not receive.
fn origin() -> Origin {
    Origin::answering(|seen| match seen.target.as_str() {
        "/page" => Answer::with_body("200 OK\nCache-Control: max-age=100", b"the page"),
        "/round" => Answer::with_body("302 Found\nLocation: /round", b""),
        "/coded" => Answer::with_body("200 OK\nContent-Encoding: rot13", b"cntr"),
        "/cut" => Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234").then_close(),
        _ => Answer::with_body("404 Not Found", b"nothing"),
    })
}

/// Waits for `count` lines in the log from line number `first` on, and returns their statuses and reasons.
fn logged(log: &Path, first: usize, count: usize) -> Vec<(u64, String)> {
    let text = eventually("lines", || {
        let text = fs::read_to_string(log).unwrap_or_default();
        (text.lines().count() >= first + count).then_some(text)
    });
    let lines = text.lines().skip(first).map(|line| serde_json::from_str(line).expect("json"));
    lines
        .map(|line: serde_json::Value| {
            (line["status"].as_u64().expect("a status"), line["cache"].to_string())
        })
        .collect()
}

#[test]
fn the_access_log_records_the_result_that_rpc_clients_receive() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("access.log");
    let origin = origin();
    let larder = Larder::start(&format!(
        "access_log = 'json'\naccess_log_file = '{}'\n[thrift]\nlisten = '127.0.0.1:0'\n[onc]\nlisten = '127.0.0.1:0'\n\
         rpcbind = 'off'\n[line]\nlisten = '127.0.0.1:0'\n[forward]\nallow_private = true\n",
        log.display()
    ));
    let mut before = 0;
    for door in DOORS {
        for (path, status, reason) in [
            ("/page", 200, ""),
            ("/none", 404, ""),
            ("/round", 502, "undelivered"),
            ("/coded", 502, "undelivered"),
            ("/cut", 502, "undelivered"),
        ] {
            let mut caller = Caller::to(&larder, door);
            let call = caller.encode(&get(&format!("{}{path}", origin.url())));
            caller.send(&call);
            match caller.answer() {
                Some(Said::Page(page)) => assert_eq!((&page[..], status), (&b"the page"[..], 200), "{door}"),
                Some(Said::Failure(failure)) if door == "onc" => assert_eq!(failure.status, 0),
                Some(Said::Failure(failure)) => assert_eq!(failure.status, status, "{door} {path}"),
                // The connection was closed within the page.
                None => assert_eq!(path, "/cut", "{door}"),
                other => panic!("{door} {path}: {other:?}"),
            }
            let lines = logged(&log, before, 1);
            let [(said, cache)] = &lines[..] else { panic!("{door} {path}: {lines:?}") };
            assert_eq!(*said, u64::from(status), "{door} {path}");
            assert!(cache.contains(reason) && !(status == 502 && cache.contains("hit")), "{cache}");
            before += 1;
        }
        let mut caller = Caller::to(&larder, door);
        caller.failure("");
        assert_eq!(logged(&log, before, 1)[0].0, 400, "{door}");
        before += 1;
    }
    assert_eq!(larder.stat("requests"), before as u64);
}

#[test]
fn by_bare_lines_a_failure_is_a_reset() {
    let origin = origin();
    let larder = open_with(BARE);
    for (line, expected) in [
        (format!("{}/page", origin.url()), Ok("the page")),
        (format!("{}/none", origin.url()), Err(ErrorKind::ConnectionReset)),
        (format!("{}/coded", origin.url()), Err(ErrorKind::ConnectionReset)),
        (format!("{}/cut", origin.url()), Err(ErrorKind::ConnectionReset)),
        (String::new(), Err(ErrorKind::ConnectionReset)),
        ("nothing".to_owned(), Err(ErrorKind::ConnectionReset)),
        ("*NOTHING".to_owned(), Err(ErrorKind::ConnectionReset)),
    ] {
        let mut stream = TcpStream::connect(larder.door("line")).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        writeln!(stream, "{line}").expect("it reads");
        let mut page = String::new();
        let ended = stream.read_to_string(&mut page).map_err(|error| error.kind());
        assert_eq!(ended.map(|_| page.as_str()), expected, "{line}");
    }
}
