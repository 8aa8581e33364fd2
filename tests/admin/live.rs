//! The live log, the most requested URLs, and the figures of each second.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use larder_testkit::{Answer, Gate, Larder, Origin, eventually};
use serde_json::{Value, json};

use super::{Events, command};

fn origin() -> Origin {
    Origin::by(|seen| match seen.target.as_str() {
        target if target.starts_with("/page") => "200 OK\nCache-Control: max-age=100\n\nbody".to_owned(),
        "/missing" => "404 Not Found\nCache-Control: no-store".to_owned(),
        _ => "200 OK".to_owned(),
    })
}

#[test]
fn the_log_shows_every_request_with_its_decision() {
    let origin = origin();
    let larder = Larder::with_site(&[&origin], "name = 'shop'");
    let log = Events::of(&larder, "/log");
    larder.get("/page/1");
    larder.get("/page/1");
    larder.get("/missing");
    larder.ask("POST /form");
    let seen: Vec<_> = log.take(4).collect();
    let words = |name: &str| seen.iter().map(|seen| seen[name].clone()).collect::<Vec<_>>();
    assert_eq!(words("outcome"), ["miss", "hit", "miss", "pass"]);
    assert_eq!(words("reason"), ["absent", "fresh", "response-no-store", "method"]);
    assert_eq!(words("status"), [200, 200, 404, 200]);
    assert_eq!((words("site")[0].clone(), words("route")[0].clone()), (json!("shop"), json!("page")));
    assert_eq!((&seen[1]["tier"], &seen[1]["url"]), (&json!("memory"), &json!("http://site.test/page/1")));
    assert_eq!((&seen[0]["stored"], &seen[0]["origin_status"]), (&json!(true), &json!(200)));
    assert!(seen[0]["origin_us"].as_u64() > Some(0) && seen[1]["origin_us"].is_null(), "{seen:?}");
    assert!(
        seen[1]["bytes"].as_u64() > Some(4) && seen[1]["age"].as_u64().is_some_and(|age| age < 60),
        "{seen:?}"
    );
}

#[test]
fn a_log_shows_what_it_was_asked_for() {
    let (gate, origin) = (Gate::default(), origin());
    let slow = {
        let gate = gate.clone();
        Origin::answering(move |_| {
            gate.pass();
            Answer::with_body("200 OK", b"late")
        })
    };
    let larder = Larder::start(&format!(
        "[[site]]\nname = 'slow'\nhosts = 'slow.test'\norigin = '{}'\n[[site]]\nname = 'fast'\norigin = '{}'\n",
        slow.url(),
        origin.url()
    ));
    let filters = ["status=4xx", "outcome=hit", "url=page/2", "slower_us=200000", "site=slow"];
    let logs = filters.map(|filter| Events::of(&larder, &format!("/log?{filter}")));
    for path in ["/page/1", "/page/1", "/page/2", "/missing"] {
        larder.get(path);
    }
    let mut waiting = larder.client();
    waiting.send("GET /late\nHost: slow.test");
    slow.wait_for(1);
    // The origin takes this long to respond.
    std::thread::sleep(Duration::from_millis(250));
    gate.open();
    waiting.receive("GET");
    let late = "http://slow.test/late";
    let [mut errors, mut hits, mut pages, mut slower, mut of_slow] = logs;
    // On a busy machine, others take long, too.
    let last = slower.find(|seen| {
        assert!(seen["service_us"].as_u64() >= Some(200_000), "{seen}");
        seen["url"] == late
    });
    let seen = [errors.next(), hits.next(), pages.next(), last, of_slow.next()]
        .map(|seen| seen.expect("a request")["url"].clone());
    let expected =
        ["http://site.test/missing", "http://site.test/page/1", "http://site.test/page/2", late, late];
    assert_eq!(seen, expected);
    for (query, why) in [("status=4", "status '4': expected"), ("colour=red", "unknown parameter 'colour'")] {
        let refused = larder.ask_admin(&format!("GET /log?{query}"));
        assert!(refused.status == 400 && refused.text().starts_with(why), "{refused:?}");
    }
    for path in ["pools", "validator", "couplings"] {
        assert_eq!(larder.ask_admin(&format!("GET /{path}?colour=red")).status, 400, "{path}");
    }
}

#[test]
fn the_top_report_sums_the_most_requested_urls() {
    let origin = origin();
    let larder = Larder::with_site(&[&origin], "name = 'shop'");
    let mut top = Events::of(&larder, "/top");
    for path in ["/page/1", "/page/1", "/page/1", "/page/2", "/missing"] {
        larder.get(path);
    }
    let report = eventually("all requests", || {
        let report = top.next().expect("a second");
        (report["urls"].as_array().map(Vec::len) == Some(3)).then_some(report)
    });
    let first = &report["urls"][0];
    let counts = ["requests", "hits", "misses"].map(|name| first[name].as_u64().unwrap_or_default());
    assert_eq!((first["url"].as_str(), counts), (Some("http://site.test/page/1"), [3, 2, 1]));
    assert_eq!((&first["why"], &report["misses"][0]["why"]), (&json!("absent"), &json!("response-no-store")));
    let page = &report["routes"][0];
    assert_eq!(
        (&page["site"], &page["route"], &page["hit_ratio"]),
        (&json!("shop"), &json!("page"), &json!(0.5))
    );
    assert_eq!(report["dropped"], 0);
}

#[test]
fn figures_come_every_second() {
    let origin = origin();
    let larder = Larder::before(&origin);
    let mut live = Events::of(&larder, "/live");
    assert_eq!(live.next().expect("at once")["requests"], 0);
    larder.get("/page");
    let requests = eventually("the request", || live.next().filter(|figures| figures["requests"] == 1));
    assert_eq!(requests["misses"], 1);
}

#[test]
fn live_streams_are_limited_and_a_closed_one_frees_its_place() {
    let origin = origin();
    let larder = Larder::before(&origin);
    let mut streams: Vec<_> = (0..16).map(|_| Events::of(&larder, "/log")).collect();
    let refused = larder.ask_admin("GET /live");
    assert!(refused.status == 503 && refused.text().contains("16 such streams"), "{refused:?}");
    streams.pop();
    eventually("a free seat", || (larder.ask_admin("GET /top?by=x").status == 400).then_some(()));
    eventually("a free seat", || {
        let mut probe = larder_testkit::Client::to(larder.admin);
        probe.send("GET /live\nHost: localhost");
        (probe.head().status == 200).then_some(())
    });
}

#[test]
fn the_commands_show_the_same() {
    let origin = origin();
    let larder = Larder::before(&origin);
    let of = |words: &'static [&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.args(words).args(["--for", "2s", "--admin", &larder.admin.to_string()]);
        command.env_remove("COLUMNS");
        std::thread::spawn(move || command.output().expect("it runs"))
    };
    let commands =
        [of(&["log", "--outcome", "hit"]), of(&["log", "--json", "--outcome", "hit"]), of(&["top"])];
    while commands.iter().any(|command| !command.is_finished()) {
        larder.get("/page");
    }
    let said = commands.map(|command| {
        let output = command.join().expect("it ends");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    });
    let [text, json, top] = said.each_ref().map(|said| said.lines().collect::<Vec<_>>());
    assert!(text.len() > 1 && text[0].starts_with("time "), "{text:?}");
    assert!(
        text[1..].iter().all(|line| line.contains(" hit ") && line.ends_with("GET http://site.test/page"))
    );
    let seen: Value = serde_json::from_str(json[0]).expect("json");
    assert_eq!((&seen["outcome"], &seen["reason"]), (&json!("hit"), &json!("fresh")));
    assert!(top[0].starts_with("the last ") && top[2].ends_with("http://site.test/page"), "{top:?}");
}

#[test]
fn lines_fit_the_columns_and_end_when_there_are_enough() {
    let origin = origin();
    let larder = Larder::before(&origin);
    let path = format!("/page/{}/end", "long".repeat(40));
    let of = |words: &'static [&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.args(words).args(["--admin", &larder.admin.to_string()]).env("COLUMNS", "80");
        std::thread::spawn(move || command.output().expect("it runs"))
    };
    let commands = [of(&["log", "--limit", "2"]), of(&["top", "--for", "1s", "--limit", "1"])];
    while commands.iter().any(|command| !command.is_finished()) {
        larder.get(&path);
        larder.get("/missing");
    }
    let [log, top] = commands.map(|command| {
        let output = command.join().expect("it ends");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    });
    assert!([&log, &top].iter().all(|text| text.lines().all(|line| line.len() <= 80)), "{log}{top}");
    assert!(log.lines().count() == 3 && log.starts_with("time     status outcome, reason"), "{log}");
    assert_eq!(top.matches("site.test/").count(), 1, "{top}");
}

#[test]
fn nothing_is_printed_of_no_requests() {
    let origin = origin();
    let larder = Larder::before(&origin);
    let output = command(&larder, &["log", "--for", "100ms"]);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
}

/// Returns the output of a command on a terminal up to `until`; then types `q`, which must end the command with
/// success.
fn on_a_terminal(larder: &Larder, words: &str, until: &str, environment: &[(&str, &str)]) -> String {
    let line = format!("exec {} {words} --admin {}", env!("CARGO_BIN_EXE_larder"), larder.admin);
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--flush", "--command", &line, "/dev/null"]);
    script.env("TERM", "xterm").env_remove("NO_COLOR").envs(environment.iter().copied());
    let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script runs");
    let (mut keys, mut screen) =
        (script.stdin.take().expect("a pipe"), script.stdout.take().expect("a pipe"));
    let (mut shown, mut piece) = (String::new(), [0; 4096]);
    while !shown.contains(until) {
        larder.get("/page");
        let length = screen.read(&mut piece).expect("it prints");
        assert!(length > 0, "it ended after {shown:?}");
        shown += &String::from_utf8_lossy(&piece[..length]);
    }
    keys.write_all(b"q").expect("it reads");
    assert!(script.wait().expect("it ends").success(), "{shown:?}");
    shown
}

#[test]
fn on_a_terminal_q_ends_a_command_and_headings_stand_out() {
    let origin = origin();
    let larder = Larder::before(&origin);
    let plain = [("NO_COLOR", "1")];
    for (environment, is_plain) in [(&[][..], false), (&plain[..], true)] {
        let shown = on_a_terminal(&larder, "top", "requests  hits", environment);
        assert_eq!(shown.contains("\u{1b}[1m"), !is_plain, "{shown:?}");
    }
    on_a_terminal(&larder, "stats --watch", "policy", &[]);
}

#[test]
fn wrong_words_are_explained() {
    let origin = origin();
    let larder = Larder::before(&origin);
    for (words, why) in [
        (&["log", "--outcome", "hits"][..], "outcome 'hits': expected hit, stale-hit, "),
        (
            &["log", "--status", "999"],
            "status '999': expected a number from 100 to 599, such as 404, or a class, such as 4xx",
        ),
        (&["top", "--by", "size"], "by 'size': expected requests, hits, validated, misses, bytes, time"),
        (&["why", "a.test"], "'a.test': write the scheme too, such as 'http://a.test'"),
        (&["purge", "ftp://a/"], "'ftp://a/': scheme 'ftp' is neither http nor https"),
    ] {
        let output = command(&larder, words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(why), "{words:?}: {said}");
    }
}
