//! Access logs: the laboratory reads each form; and log files that are moved away under load.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use larder_testkit::{Client, Larder, Origin, eventually, mixed, site};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Returns the output of `larder`.
fn answer(words: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_larder")).args(words).output().expect("it runs");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("json")
}

pub(crate) fn keys(form: &str, log: &Path) -> String {
    format!("access_log = '{form}'\naccess_log_file = '{}'\n", log.display())
}

pub(crate) fn lines(log: &Path) -> Vec<String> {
    fs::read_to_string(log).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn the_laboratory_reads_the_same_requests_from_each_form() {
    let requests = [
        "GET /a",
        "GET /b",
        "GET /a",
        "GET /v",
        "GET /a?q",
        "GET /v",
        "GET /b",
        "HEAD /a",
        "POST /a",
        "GET /f",
        "GET /a\nA b: c",
        "GET /c\nReferer: \"quoted\\\nUser-Agent: \"",
        "GET /a",
    ];
    for (form, name) in [("text", "larder"), ("combined", "ncsa"), ("squid", "squid"), ("json", "json")] {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("access.log");
        let origin = Origin::by(mixed);
        let larder = Larder::with(&origin, &keys(form, &log));
        for (before, request) in requests.iter().enumerate() {
            larder.ask(request);
            // A line is written once the response has been sent: without this wait, the next request's line could be
            // first.
            eventually("a line", || (lines(&log).len() > before).then_some(()));
        }
        let log = log.to_str().expect("text");
        let trace = &answer(&["describe", "--json", log])["traces"][0];
        assert_eq!(
            (&trace["format"], &trace["description"]["requests"], &trace["description"]["objects"]),
            (&json!(name), &json!(9), &json!(5)),
            "{form}: {trace}"
        );
        let words = ["simulate", "--json", "--policy", "lru", "--by", "entries", "--capacity", "3", log];
        let cell = &answer(&words)["cells"][0];
        assert_eq!((&cell["requests"], &cell["hits"]), (&json!(9), &json!(2)), "{form}: {cell}");
    }
}

#[test]
fn a_json_line_has_the_client_and_a_time_that_tools_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("access.log");
    let origin = Origin::by(mixed);
    let larder = Larder::with(&origin, &keys("json", &log));
    larder.ask("GET /a\nReferer: http://r/?\"q\"\nUser-Agent: curl/8.5.0");
    let line = eventually("a line", || lines(&log).into_iter().next());
    let line: Value = serde_json::from_str(&line).expect("json");
    assert_eq!((&line["referer"], &line["user_agent"]), (&json!("http://r/?\"q\""), &json!("curl/8.5.0")));
    let time: jiff::Timestamp = line["time"].as_str().expect("text").parse().expect("RFC 3339");
    let ago = jiff::Timestamp::now().duration_since(time).as_secs();
    assert!((0..60).contains(&ago) && line["time"].as_str().map(str::len) == Some(24), "{line}");
}

#[test]
fn a_file_that_is_moved_away_takes_no_line_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("access.log");
    let origin = Origin::by(mixed);
    let larder = Larder::with(&origin, &keys("text", &log));
    let moved = |number: usize| -> PathBuf { folder.path().join(format!("access.log.{number}")) };
    let done = AtomicBool::new(false);
    let ask = |client: usize| {
        let (mut connection, mut asked) = (Client::to(larder.address()), 0);
        while !done.load(Ordering::Relaxed) {
            connection.ask(&format!("GET /a?{client}-{asked}"));
            asked += 1;
        }
        asked
    };
    let sent: usize = std::thread::scope(|scope| {
        let ask = &ask;
        let clients = [0, 1, 2, 3].map(|client| scope.spawn(move || ask(client)));
        for number in 0..8 {
            eventually("a line", || (!lines(&log).is_empty()).then_some(()));
            fs::rename(&log, moved(number)).expect("moved");
            larder.signal(Signal::HUP);
            eventually("a new file", || log.exists().then_some(()));
        }
        done.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().expect("it ends")).sum()
    });
    let files: Vec<_> = (0..8).map(moved).chain([log.clone()]).collect();
    let all = eventually("all lines", || {
        let all: Vec<_> = files.iter().flat_map(|log| lines(log)).collect();
        (all.len() >= sent).then_some(all)
    });
    let urls: HashSet<_> =
        all.iter().map(|line| line.split("/a?").nth(1).and_then(|url| url.split(' ').next())).collect();
    assert_eq!((all.len(), urls.len(), urls.contains(&None)), (sent, sent, false));
    assert!(all.iter().all(|line| line.contains("Z 127.0.0.1 GET http://")), "a broken line");
}

#[test]
fn a_wrong_config_does_not_keep_the_log_from_being_reopened() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("access.log");
    let origin = Origin::by(mixed);
    let larder = Larder::with(&origin, &keys("combined", &log));
    fs::rename(&log, folder.path().join("old")).expect("moved");
    larder.reload("this is no config");
    eventually("a new file", || log.exists().then_some(()));
    larder.get("/a");
    eventually("a line", || (lines(&log).len() == 1).then_some(()));
    assert_eq!(lines(&folder.path().join("old")).len(), 0);
}

#[test]
fn a_log_that_cannot_be_opened_is_reported_at_the_start() {
    let words =
        ["serve", "--access-log", "squid", "--access-log-file", "/nowhere/access.log", "--stats", "none"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    let output =
        command.args(words).args(["--forward", "127.0.0.1:0", "--admin", "off"]).output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("cannot write the access log: /nowhere/access.log: "), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_rule_leaves_lines_out_by_status_time_and_chance() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("access.log");
    let origin = Origin::by(|seen| {
        if seen.target.ends_with("any") {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        format!("{} X\n\n", &seen.target[1..4])
    });
    let rules = "log = { status = ['4xx', 500] }\n[[site.rule]]\nmatch = { query = 'some' }\nlog = { share = '50%' }\n[[site.rule]]\nmatch = { query = 'slow' }\nlog = { slower = '1h' }\n[[site.rule]]\nmatch = { query = 'any' }\nlog = { slower = '1ms' }\n";
    let config = format!("{}{}", keys("json", &log), site(&[&origin], &format!("[[site.rule]]\n{rules}")));
    let larder = Larder::start(&config);
    // One connection stays on one worker, whose lines keep their order.
    let mut client = larder.client();
    for path in ["/200", "/404", "/500", "/502"] {
        client.ask(&format!("GET {path}"));
    }
    // Fewer than one run in 10^11 has no line, or all of them.
    (0..40).for_each(|_| drop(client.ask("GET /200?some")));
    ["/200?slow", "/200?any", "/400"].iter().for_each(|path| drop(client.ask(&format!("GET {path}"))));
    let all = eventually("the last line", || {
        Some(lines(&log)).filter(|lines| lines.last().is_some_and(|last| last.contains("/400")))
    });
    let of = |text: &str| all.iter().filter(|line| line.contains(text)).count();
    assert_eq!((of("/404"), of("/500"), of("/502"), of("/200\"")), (1, 1, 0, 0), "{all:?}");
    assert!((1..40).contains(&of("some")), "{all:?}");
    assert_eq!((of("slow"), of("any")), (0, 1), "{all:?}");
}

#[test]
fn a_log_shows_no_more_of_clients_than_is_wanted() {
    for (detail, shown) in [("whole", "198.51.100.77"), ("truncated", "198.51.100.0"), ("off", "0.0.0.0")] {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("access.log");
        let trust =
            format!("trust = '127.0.0.1'\naccess_log_client = '{detail}'\n{}", keys("combined", &log));
        let larder = Larder::with(&Origin::by(mixed), &trust);
        larder.ask("GET /a\nX-Forwarded-For: 198.51.100.77");
        let line = eventually("a line", || lines(&log).pop());
        assert!(line.starts_with(&format!("{shown} - - [")), "{line}");
    }
}

#[test]
fn characters_that_change_what_is_shown_are_escaped_in_logs() {
    for form in ["text", "combined", "squid", "json"] {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("access.log");
        let origin = Origin::always("200 OK\n\nbody");
        let larder = Larder::with(&origin, &keys(form, &log));
        let agent = "\u{202e}gnp\u{2066}\u{200b}\u{85}";
        larder.ask(&format!("GET /a\nUser-Agent: {agent}\nReferer: http://{agent}/"));
        eventually("a line", || (lines(&log).len() == 1).then_some(()));
        let line = lines(&log).remove(0);
        assert!(line.chars().all(|shown| !agent.contains(shown) || shown.is_ascii()), "{form}: {line}");
    }
}
