//! The statistics database of a running proxy: its content, its cost, and its query results.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use larder_stats::Database;
use larder_testkit::{Client, Larder, Origin, Seen, eventually, mixed, seed};
use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A proxy before `origin`, a place for its database, and its URL.
fn recording(origin: &Origin, tables: &str) -> (Larder, TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("s.db").display());
    let larder = Larder::with(origin, &format!("[stats]\nurl = '{url}'\n{tables}"));
    (larder, folder, url)
}

/// Waits until `requests` requests are counted and written.
fn written(larder: &Larder, requests: u64) -> Value {
    eventually("everything in the database", || {
        let stats = larder.stats();
        [&stats["requests"], &stats["statistics"]["written"]]
            .iter()
            .all(|it| **it == requests)
            .then_some(stats)
    })
}

fn larder(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_larder")).args(words).output().expect("it runs")
}

fn answer(words: &[&str]) -> String {
    let output = larder(words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Returns the result of a query as JSON.
fn query(url: &str, sql: &str) -> Value {
    serde_json::from_str(&answer(&["stats", "--json", "--stats", url, "--sql", sql])).expect("json")
}

#[test]
fn the_database_counts_what_the_proxy_counts() {
    let origin = Origin::by(mixed);
    let tables = "[line]\nlisten = '127.0.0.1:0'\n[forward]\nallow_private = true";
    let (larder, _folder, url) = recording(&origin, tables);
    for path in ["/a/1", "/a/1", "/a/2", "/b", "/b", "/b", "/v", "/v", "/f"] {
        larder.get(path);
    }
    for request in
        ["HEAD /a/1", "POST /a/1\n\nx", "GET /c\nCache-Control: only-if-cached", "GET /a/1\nA b: c"]
    {
        larder.ask(request);
    }
    Client::to(larder.forward).ask(&format!("GET {}/a/1 HTTP/1.1", origin.url()));
    for page in ["/d", "/d"] {
        let page = format!("{}{page}", origin.url());
        answer(&["fetch", &page, "--via", "line", "--server", &larder.door("line").to_string()]);
    }
    let stats = written(&larder, 16);
    let totals = Database::open_read(&url).expect("a database").totals(0).expect("sums");
    let counted = [
        totals.requests,
        totals.hits,
        totals.validated,
        totals.misses,
        totals.bytes,
        totals.bytes_from_cache,
    ];
    let names = ["requests", "hits", "validated", "misses", "bytes_served", "bytes_from_cache"];
    assert_eq!(counted.map(Value::from), names.map(|name| stats[name].clone()), "{stats}");
    assert_eq!((stats["requests"].as_u64(), stats["statistics"]["dropped"].as_u64()), (Some(16), Some(0)));
    let by_outcome =
        query(&url, "SELECT outcome, SUM(requests) n FROM hours GROUP BY outcome ORDER BY outcome");
    let expected =
        [("failed", "1"), ("hit", "5"), ("miss", "7"), ("pass", "1"), ("refused", "1"), ("revalidated", "1")];
    assert_eq!(by_outcome, json!(expected.map(|(outcome, n)| json!({"outcome": outcome, "n": n}))));
}

#[test]
fn a_row_says_what_became_of_a_request() {
    let origin = Origin::by(mixed);
    let (larder, _folder, url) = recording(&origin, "client = 'truncated'");
    larder.get("/api/1?q=2");
    larder.get("/api/1?q=2");
    written(&larder, 2);
    let sql = "SELECT door, site, route, method, url, status, outcome, reason, tier, client, age < 10 AS young, \
               origin_us > 0 AND origin_us <= service_us AS waited, \
               time > 1600000000000 AND service_us < 20000000 AS plausible FROM transactions ORDER BY outcome DESC";
    let row = |outcome: &str, reason: &str, tier: &str, young: Option<&str>, waited: Option<&str>| {
        json!({
            "door": "http", "site": "site1", "route": "api", "method": "GET",
            "url": "http://site.test/api/1?q=2", "status": "200", "outcome": outcome, "reason": reason,
            "tier": tier, "client": "127.0.0.0/24", "young": young, "waited": waited, "plausible": "1",
        })
    };
    let expected =
        [row("miss", "absent", "", None, Some("1")), row("hit", "fresh", "memory", Some("1"), None)];
    assert_eq!(query(&url, sql), json!(expected));
}

#[test]
fn rows_tell_the_versions_of_http_apart() {
    // With a row for each request, and with rows that equal requests share.
    for rate in ["", "rate = 1\n"] {
        let origin = Origin::by(mixed);
        let (larder, _folder, url) = recording(
            &origin,
            &format!("{rate}[line]\nlisten = '127.0.0.1:0'\n[forward]\nallow_private = true"),
        );
        let (hit, page) = (format!("http://{}/a", larder.address()), format!("{}/d", origin.url()));
        for _ in 0..3 {
            let mut old = larder.client();
            old.raw(b"GET /a HTTP/1.0\r\nHost: site.test\r\n\r\n");
            assert_eq!(old.receive("GET").status, 200);
            larder.get("/a");
            let curl = ["-sSf", "--http2-prior-knowledge", "-H", "Host: site.test", &hit];
            assert!(Command::new("curl").args(curl).output().expect("curl runs").status.success());
        }
        answer(&["fetch", &page, "--via", "line", "--server", &larder.door("line").to_string()]);
        written(&larder, 10);
        let sql = "SELECT http_version, SUM(requests) n FROM transactions WHERE site = 'site1' \
                   GROUP BY http_version ORDER BY http_version";
        let expected = [("1.0", "3"), ("1.1", "3"), ("2", "3")];
        assert_eq!(
            query(&url, sql),
            json!(expected.map(|(version, n)| json!({"http_version": version, "n": n})))
        );
        let other = "SELECT http_version FROM transactions WHERE door = 'line'";
        assert_eq!(query(&url, other), json!([{"http_version": ""}]));
    }
}

#[test]
fn a_database_that_is_stuck_costs_no_request_and_is_caught_up() {
    let origin = Origin::by(mixed);
    let (larder, folder, url) = recording(&origin, "");
    larder.get("/a");
    written(&larder, 1);
    let other = Connection::open(folder.path().join("s.db")).expect("the database");
    other.execute_batch("BEGIN EXCLUSIVE").expect("its lock");
    let mut client = larder.client();
    for _ in 0..500 {
        assert!(client.ask("GET /a").is_hit());
    }
    let statistics = larder.stats()["statistics"].clone();
    assert_eq!((&statistics["queued"], &statistics["written"]), (&json!(500), &json!(1)));
    other.execute_batch("ROLLBACK").expect("its end");
    assert_eq!(written(&larder, 501)["statistics"]["dropped"], 0);
    assert_eq!(query(&url, "SELECT SUM(requests) n FROM transactions"), json!([{"n": "501"}]));
}

#[test]
fn statistics_count_requests_dropped_by_a_full_queue() {
    let origin = Origin::by(mixed);
    let (larder, folder, _url) = recording(&origin, "queue = 10");
    let other = Connection::open(folder.path().join("s.db")).expect("the database");
    other.execute_batch("BEGIN EXCLUSIVE").expect("its lock");
    for number in 0..30 {
        larder.get(&format!("/a/{number}"));
    }
    let dropped = |larder: &Larder| larder.stats()["statistics"]["dropped"].as_u64().expect("a number");
    eventually("dropped requests", || (dropped(&larder) >= 10).then_some(()));
    other.execute_batch("ROLLBACK").expect("its end");
    let statistics = eventually("an empty queue", || {
        let statistics = larder.stats()["statistics"].clone();
        (statistics["queued"] == 0).then_some(statistics)
    });
    assert_eq!(statistics["written"].as_u64().expect("a number") + dropped(&larder), 30);
}

#[test]
fn the_end_of_the_process_waits_for_what_is_not_written() {
    let origin = Origin::by(mixed);
    let (mut larder, _folder, url) = recording(&origin, "");
    let mut client = larder.client();
    for _ in 0..100 {
        client.ask("GET /a");
    }
    drop(client);
    larder.stop();
    assert_eq!(query(&url, "SELECT SUM(requests) n FROM transactions"), json!([{"n": "100"}]));
}

#[test]
fn questions_are_answered_in_a_table() {
    let origin = Origin::by(mixed);
    let (larder, _folder, url) = recording(&origin, "");
    for path in ["/docs/1", "/docs/1", "/docs/1", "/docs/2", "/v"] {
        larder.get(path);
    }
    written(&larder, 5);
    let ask = |words: &[&str]| answer(&[&["stats", "--stats", &url], words].concat());
    let cells = |line: &str| line.split_whitespace().take(7).map(str::to_owned).collect::<Vec<_>>();
    let routes = ask(&["--by", "route"]);
    let rows: Vec<_> = routes.lines().skip(1).map(cells).collect();
    assert_eq!(
        rows,
        [
            ["site1/docs", "4", "2", "0", "2", "50.00%", "50.00%"],
            ["site1/v", "1", "0", "0", "1", "0.00%", "0.00%"]
        ],
        "{routes}"
    );
    let top = ask(&["--top", "misses", "--since", "1h", "--limit", "1"]);
    assert_eq!(cells(top.lines().last().expect("a row"))[0], "http://site.test/docs/1", "{top}");
    for by in ["site", "status", "door", "outcome", "hour"] {
        let groups: Value = serde_json::from_str(&ask(&["--by", by, "--json"])).expect("json");
        let sum: u64 =
            groups.as_array().expect("rows").iter().filter_map(|row| row["requests"].as_u64()).sum();
        assert_eq!(sum, 5, "{by}: {groups}");
        assert_eq!(groups[0][by].is_u64(), by == "hour", "hours are numbers, as in the rows: {groups}");
    }
    let changes = larder_of(&url, "DELETE FROM transactions");
    assert!(changes.starts_with("larder: statistics database: not a query: 'DELETE'"), "{changes}");
    assert_eq!(changes.lines().count(), 1);
}

/// Returns the errors of a query that fails.
fn larder_of(url: &str, sql: &str) -> String {
    let output = larder(&["stats", "--stats", url, "--sql", sql]);
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn a_database_is_made_in_the_state_directory_and_found_there() {
    let (state, origin) = (tempfile::tempdir().expect("a folder"), Origin::by(mixed));
    let environment = [("XDG_STATE_HOME", state.path()), ("STATE_DIRECTORY", Path::new(""))];
    let start = |table: &str| {
        let config = format!("{table}\n[[site]]\norigin = '{}'", origin.url());
        let larder = Larder::start_in(&config, &environment);
        larder.get("/a");
        larder
    };
    let file = state.path().join("larder/statistics.db");
    assert!(start("[stats]\nurl = 'none'").stats().get("statistics").is_none());
    assert!(!file.exists());
    let larder = start("[stats]\nkeep = '1h'");
    written(&larder, 1);
    assert!(file.exists());
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    let found =
        command.args(["stats", "--by", "site", "--json"]).envs(environment).output().expect("it runs");
    let found: Value = serde_json::from_slice(&found.stdout).expect("json");
    assert_eq!(found[0]["requests"], 1, "{found}");
    // A second process that overlaps with the first, as in a restart, continues after the first has ended.
    let second = start("[stats]");
    second.wait_for_log(
        "is in use by another larder (for a separate one, start this one with --stats sqlite:PATH",
    );
    assert_eq!(second.stats()["statistics"]["connected"], false);
    drop(larder);
    written(&second, 1);
}

#[test]
fn beyond_the_rate_equal_requests_share_rows_and_sums_stay_exact() {
    let origin = Origin::by(mixed);
    let (larder, _folder, url) = recording(&origin, "rate = 10\nclient = 'off'");
    let mut client = larder.client();
    let paths = ["/docs/1", "/docs/2", "/api/1"];
    for round in 0..1_000 {
        client.ask(&format!("GET {}", paths[round % paths.len()]));
    }
    for _ in 0..100 {
        client.ask("GET /v");
    }
    let stats = written(&larder, 1100);
    assert_eq!(stats["statistics"]["dropped"], 0);
    let counts = Database::open_read(&url).expect("a database").totals(0).expect("sums");
    assert_eq!((counts.requests, counts.hits, counts.validated, counts.misses), (1_100, 997, 99, 4));
    assert_eq!(Value::from(counts.bytes), stats["bytes_served"]);
    let by_url = query(
        &url,
        "SELECT url, SUM(requests) n, MAX(requests) > 1 shared FROM transactions GROUP BY url ORDER BY url",
    );
    let row = |path: &str, requests: &str| json!({"url": format!("http://site.test{path}"), "n": requests, "shared": "1"});
    let expected = [row("/api/1", "333"), row("/docs/1", "334"), row("/docs/2", "333"), row("/v", "100")];
    assert_eq!(by_url, json!(expected));
    let plausible =
        "SELECT COUNT(*) n FROM transactions WHERE service_us > 20000000 OR requests < 1 OR age > 20";
    assert_eq!(query(&url, plausible), json!([{"n": "0"}]));
}

#[test]
fn statistics_beyond_a_workers_rate_are_summed_by_site() {
    let origin = Origin::by(mixed);
    let (larder, _folder, url) = recording(&origin, "rate = 1");
    let mut client = larder.client();
    for number in 0..50 {
        client.ask(&format!("GET /a/{number}"));
    }
    let stats = written(&larder, 50);
    assert_eq!((&stats["requests"], &stats["statistics"]["dropped"]), (&json!(50), &json!(0)));
    let rest =
        "SELECT route, site, SUM(requests) > 1 shared FROM transactions WHERE url = '*' GROUP BY route, site";
    assert_eq!(query(&url, rest), json!([{"route": "*", "site": "site1", "shared": "1"}]));
}

#[test]
fn statistics_record_the_contents_of_the_cache() {
    let origin = Origin::by(mixed);
    let disk = tempfile::tempdir().expect("a folder");
    let tables = format!("contents = '1s'\n[[disk]]\npath = '{}'\nsize = '16MiB'", disk.path().display());
    let (larder, _folder, url) = recording(&origin, &tables);
    for path in ["/docs/1", "/docs/1", "/docs/1", "/docs/2", "/f"] {
        larder.get(path);
    }
    let sql = "SELECT url, hits, tier, expires - stored AS lifetime, size > 0 AS sized FROM contents \
               WHERE tier = 'memory' ORDER BY url";
    let row = |path: &str, hits: &str| {
        let url = format!("http://site.test{path}");
        json!({"url": url, "hits": hits, "tier": "memory", "lifetime": "60000", "sized": "1"})
    };
    let expected = json!([row("/docs/1", "2"), row("/docs/2", "0")]);
    eventually("the contents", || (query(&url, sql) == expected).then_some(()));
    let on_disk = "SELECT COUNT(*) n FROM contents WHERE tier = 'disk'";
    // The contents are recorded again only after a request.
    eventually("what is on the disk", || {
        larder.get("/docs/1");
        (query(&url, on_disk) == json!([{"n": "2"}])).then_some(())
    });
}

#[test]
fn a_start_does_not_wait_for_a_silent_database() {
    let (silent, origin) = (TcpListener::bind("127.0.0.1:0").expect("a port"), Origin::by(mixed));
    let begun = Instant::now();
    let url = format!("mysql://u@{}/d", silent.local_addr().expect("bound"));
    let larder = Larder::with(&origin, &format!("[stats]\nurl = '{url}'"));
    assert_eq!(larder.get("/a").status, 200);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    eventually("a row that waits", || (larder.stats()["statistics"]["queued"] == 1).then_some(()));
}

#[test]
fn a_second_signal_ends_the_wait_for_the_database() {
    let origin = Origin::by(mixed);
    let (mut larder, folder, _url) = recording(&origin, "");
    larder.get("/a");
    written(&larder, 1);
    let other = Connection::open(folder.path().join("s.db")).expect("the database");
    other.execute_batch("BEGIN EXCLUSIVE").expect("its lock");
    larder.get("/a");
    let begun = Instant::now();
    larder.signal(Signal::TERM);
    larder.wait_for_log("a second signal stops at once");
    larder.signal(Signal::TERM);
    larder.ended();
    // Without the second signal, it waits for 30 seconds.
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[test]
fn an_unusable_statistics_database_fails_the_start_only_if_named() {
    let (file, origin) = (tempfile::NamedTempFile::new().expect("a file"), Origin::by(mixed));
    let config = format!("[stats]\n[[site]]\norigin = '{}'", origin.url());
    let larder =
        Larder::start_in(&config, &[("XDG_STATE_HOME", file.path()), ("STATE_DIRECTORY", Path::new(""))]);
    larder.wait_for_log("serving without statistics");
    assert_eq!(larder.get("/a").status, 200);
    let url = format!("sqlite:{}/s.db", file.path().display());
    let output = self::larder(&["serve", "--forward", "127.0.0.1:0", "--admin", "off", "--stats", &url]);
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{said}");
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with(&format!("larder: cannot start: statistics database '{url}': ")), "{said}");
}

/// Returns responses that are fresh for a minute below `/f`, must be validated below `/v`, and are not stored below
/// `/n`; a validation always succeeds.
fn validating(seen: &Seen) -> String {
    let lifetime = match seen.target.as_bytes()[1] {
        b'f' => "max-age=60",
        b'v' => "max-age=0",
        _ => "no-store",
    };
    match seen.field("if-none-match") {
        Some(_) => format!("304 Not Modified\nETag: \"1\"\nCache-Control: {lifetime}"),
        None => format!("200 OK\nETag: \"1\"\nCache-Control: {lifetime}\n\nbody"),
    }
}

/// Whether a page has these counts of hits, validated and misses, and the ratios that follow from them.
fn agrees(page: &Value, [hits, validated, misses]: [u64; 3]) -> bool {
    let all = (hits + validated + misses) as f64;
    let ratio = |name: &str, part: u64| {
        page[name].as_f64().is_some_and(|ratio| (ratio - part as f64 / all).abs() < 1e-9)
    };
    ["hits", "validated", "misses"].map(|name| page[name].as_u64()) == [hits, validated, misses].map(Some)
        && ratio("hit_ratio", hits)
        && ratio("validated_hit_ratio", hits + validated)
}

#[test]
fn validated_answers_are_counted_apart_everywhere() {
    let seed = seed();
    let mut rng = fastrand::Rng::with_seed(seed);
    for validate in ["stale", "always"] {
        let (folder, origin) = (tempfile::tempdir().expect("a folder"), Origin::by(validating));
        let url = format!("sqlite:{}", folder.path().join("s.db").display());
        let site = format!("[[site]]\norigin = '{}'\nvalidate = '{validate}'", origin.url());
        let larder = Larder::start(&format!("[stats]\nurl = '{url}'\n{site}"));
        let mut told = [0; 3];
        // At least one request of each kind.
        let random =
            (0..100).map(|_| format!("/{}/{}", rng.choice(["f", "v", "n"]).unwrap_or("f"), rng.u8(..5)));
        let some = ["/f/1", "/f/1", "/v/1", "/v/1", "/n/1"].map(str::to_owned);
        for path in some.into_iter().chain(random.collect::<Vec<_>>()) {
            let response = larder.get(&path);
            let is_validated = response.cache().contains("fwd-status=304");
            told[if response.is_hit() {
                0
            } else if is_validated {
                1
            } else {
                2
            }] += 1;
        }
        let context = format!("{validate}, seed {seed}: {told:?}");
        assert_eq!(told[0] == 0, validate == "always", "{context}");
        let stats = written(&larder, told.iter().sum());
        let history = larder.ask_admin("GET /history?by=site&since=3600");
        let history: Value = serde_json::from_str(history.text()).expect("json");
        let records = answer(&["stats", "--stats", &url, "--by", "site", "--json"]);
        let records: Value = serde_json::from_str(&records).expect("json");
        for page in [&stats, &stats["sites"][0], &history[0], &records[0]] {
            assert!(agrees(page, told), "{context}: {page}");
            assert!(!agrees(page, [told[0], 0, told[1] + told[2]]), "{context}: a 304 is no miss");
        }
        let metrics = larder.ask_admin("GET /metrics");
        let of = |outcome: &str| {
            let is_counted =
                |line: &&str| line.starts_with("larder_requests_total{") && line.contains(outcome);
            let counts = metrics.text().lines().filter(is_counted).filter_map(|line| line.rsplit(' ').next());
            counts.filter_map(|count| count.parse::<u64>().ok()).sum::<u64>()
        };
        assert_eq!([of("\"hit\""), of("\"revalidated\""), of("\"miss\"")], told, "{context}");
        let summary = answer(&["stats", "--admin", &larder.admin.to_string()]);
        let [hits, validated, misses] = told;
        let all = told.iter().sum::<u64>();
        let hits_word = if hits == 1 { "hit" } else { "hits" };
        let misses_word = if misses == 1 { "miss" } else { "misses" };
        let line =
            format!("requests  {all}: {hits} {hits_word}, {validated} validated, {misses} {misses_word}\n");
        assert!(summary.starts_with(&line), "{context}: {summary}");
        let share = |part: u64| 100.0 * part as f64 / all as f64;
        let line = format!("{:.2}% hit ratio, {:.2}% with validated\n", share(hits), share(hits + validated));
        assert!(summary.contains(&line), "{context}: {summary}");
    }
}
