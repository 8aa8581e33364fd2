//! The command line from the view of users: the real binary, its output and its exit codes.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::thread;

use larder_testkit::{Process, file_with, stderr, stdout};
use rustix::process::Signal;

const LARDER: &str = env!("CARGO_BIN_EXE_larder");

fn larder(words: &[&str]) -> Output {
    Command::new(LARDER)
        .args(words)
        .env_remove("LARDER_LOG")
        .env_remove("RUST_LOG")
        .output()
        .expect("it runs")
}

/// A running `larder serve`, killed if a test leaves it behind.
struct Serving {
    child: Process,
    /// The lines on its standard output, up to the command to try.
    said: Vec<String>,
}

impl Serving {
    fn start(words: &[&str]) -> Self {
        let mut command = Command::new(LARDER);
        command
            .arg("serve")
            .args(["--stats", "none"])
            .args(words)
            .env("LARDER_LOG", "info")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = Process::start(&mut command).expect("it starts");
        let said = child.said_until("try: ");
        Self { child, said }
    }

    fn admin(&self) -> &str {
        let line = self.said.iter().find_map(|line| line.strip_prefix("admin on http://"));
        line.and_then(|line| line.strip_suffix("/")).expect("an admin listener")
    }

    /// Reads the log until a line has `text` in it.
    fn wait_for(log: &mut impl BufRead, text: &str) {
        let found = log.lines().map(|line| line.expect("text")).any(|line| line.contains(text));
        assert!(found, "the log ended before '{text}'");
    }
}

#[test]
fn every_command_shows_an_example_in_its_help() {
    let with_examples =
        ["serve", "check", "doctor", "stats", "cache", "fetch", "simulate", "describe", "completions", "man"];
    for command in ["", "version"].into_iter().chain(with_examples) {
        let words: Vec<_> = [command, "--help"].into_iter().filter(|word| !word.is_empty()).collect();
        let output = larder(&words);
        assert!(output.status.success());
        assert!(stdout(&output).contains(&format!("Examples:\n  larder {command}")), "{command}");
    }
}

#[test]
fn misspelt_words_get_the_nearest_one() {
    let table: &[(&[&str], &str)] = &[
        (&["run", "--bogus", "true"], "unexpected argument '--bogus' found"),
        (&["servee"], "unrecognized subcommand 'servee'; tip: a similar subcommand exists: 'serve'"),
        (
            &["serve", "larder.toml"],
            "unexpected argument 'larder.toml' found; tip: write --config larder.toml",
        ),
        (&["why"], "the following required arguments were not provided: <URL>"),
        (&["serve", "--polcy", "lru"], "'--policy'"),
        (&["serve", "--policy", "lur"], "unknown policy 'lur'; did you mean 'lru'?"),
        (
            &["serve", "--policy", "belady"],
            "policy 'belady' needs future requests; it runs in larder simulate only",
        ),
        (&["serve", "--access-log", "jsn"], "'json'"),
        (&["check", "--memory", "1GBit"], "unknown unit 'GBit' in '1GBit'; known: B KiB MiB GiB TiB"),
        (&["check", "--origin", "localhost"], "write the scheme too, such as 'http://localhost'"),
        (&["check", "--threads", "0"], "from 1 to 1024"),
        (
            &["check", "--listen-tls", "127.0.0.1:0"],
            "--listen-tls: reverse.listen_tls needs an origin and a certificate: add a [[site]] and a [[tls]], or ",
        ),
        (&["check", "--memory", "1GiB", "--entries", "7"], "cannot be used with"),
        (&["cache", "l"], "'ls'"),
        (
            &["purge", "--hard"],
            "nothing to purge: name URLs, or --prefix, --glob, --tag, --group, --host or --all",
        ),
        (&["cache", "get", "a.test"], "write the scheme too, such as 'http://a.test'"),
        (&["cache", "get", "00ff"], "neither a name of 16 hex digits nor a URL; larder cache ls shows both"),
        (&["cache", "verify", "--rate", "1KiB"], "expected at least 64KiB"),
        (&["cache", "ls", "--disk", "/no/such/cache"], "no disk cache is in /no/such/cache: "),
        (&["cache", "ls", "--disk", "a", "--admin", "b:1"], "cannot be used with"),
        (&["serve", "--stats", "sqllite:a.db"], "unknown kind of database 'sqllite'; did you mean 'sqlite'?"),
        (&["serve", "--stats", "non"], "did you mean 'none'?"),
        (&["stats", "--by", "rout"], "'route'"),
        (&["stats", "--top", "miss"], "'misses'"),
        (&["stats", "--by", "site", "--sql", "select 1"], "cannot be used with"),
        (&["stats", "--by", "site", "--stats", "none"], "no statistics database is configured"),
        (&["fetch", "http://a/", "--via", "trift"], "'thrift'"),
        (&["fetch", "http://a/", "--wrokload", "x"], "'--workload'"),
        (&["fetch", "a.test"], "write the scheme too, such as 'http://a.test'"),
        (&["fetch", "http://a/", "--server", "a"], "expected a host and a port, such as 127.0.0.1:3128"),
        (
            &["fetch", "http://a/", "--via", "onc", "--reset"],
            "--reset works with thrift and line only, not with onc",
        ),
        (&["fetch", "http://a/", "--form", "bare"], "--form goes with --via line only, not with --via http"),
        (
            &["fetch", "http://a/", "http://b/", "-o", "x"],
            "2 pages do not go into one file; use --save FOLDER",
        ),
        (&["fetch", "--workload", "/no/such/trace"], "cannot read '/no/such/trace': no such file"),
    ];
    for (words, advice) in table {
        let output = larder(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(stderr(&output).contains(advice), "{words:?}: {}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{words:?}: {}", stderr(&output));
    }
}

#[test]
fn experiments_are_refused_with_the_name_of_their_program() {
    for words in [&["experiment"][..], &["experiment", "all", "-o", "x", "--help"]] {
        let output = larder(words);
        assert_eq!(stderr(&output), "larder: another program runs experiments: larder-lab experiment\n");
        assert_eq!(output.status.code(), Some(2));
    }
}

#[test]
fn files_that_cannot_be_used_are_reported_in_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().display().to_string();
    let nowhere = format!("{folder}/none/file");
    let table: &[(&[&str], String)] = &[
        (&["check", "--test", &nowhere], format!("cannot read {nowhere}: no such file")),
        (&["check", "--test", &folder], format!("cannot read {folder}: it is a directory")),
        (&["passwd", &folder, "ann"], format!("cannot read {folder}: it is a directory")),
        (
            &["workload", "zipf", "-o", &nowhere],
            format!("cannot write to {nowhere}: there is no such directory"),
        ),
        (&["workload", "zipf", "-o", &folder], format!("cannot write to {folder}: it is a directory")),
    ];
    for (words, expected) in table {
        let output = larder(words);
        assert_eq!(stderr(&output), format!("larder: {expected}\n"), "{words:?}");
        assert!(matches!(output.status.code(), Some(1 | 2)), "{words:?}");
    }
}

#[test]
fn numbers_that_are_not_accepted_are_reported_with_the_accepted_ones() {
    let table: &[(&[&str], &str)] = &[
        (&["fetch", "http://a/", "--repeat", "0"], "'--repeat <N>': expected a whole number from 1"),
        (&["fetch", "http://a/", "--connections", "x"], "expected a whole number from 1 to 1024"),
        (&["simulate", "a", "--seed", "x"], "'--seed <NUMBER>': expected a whole number"),
        (&["simulate", "a", "--seed", "-1"], "'--seed <NUMBER>': expected a whole number"),
        (&["simulate", "a", "--threads", "0"], "expected a whole number from 1 to 1024"),
        (&["simulate", "a", "--nodes", "1", "--slots", "0"], "expected a whole number from 1 to 65535"),
        (&["workload", "zipf", "--requests", "0"], "'--requests <N>': expected a whole number from 1"),
        (&["workload", "staged", "--rounds", "0"], "expected a whole number from 1 to 4294967295"),
        (&["workload", "web", "--seed", "1.5"], "'--seed <N>': expected a whole number"),
        (&["top", "--limit", "0"], "'--limit <NUMBER>': expected a whole number from 1"),
        (&["log", "--limit", "x"], "'--limit <NUMBER>': expected a whole number from 1"),
        (&["stats", "--top", "hits", "--limit", "0"], "expected a whole number from 1 to 4294967295"),
        (&["upgrade", "--timeout", "0s"], "--timeout 0s: no process serves in no time, write 60s"),
        (&["check", "--entries", "0"], "expected a whole number from 1 to 4294967294"),
    ];
    for (words, advice) in table {
        let output = larder(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(stderr(&output).ends_with(&format!("{advice}\n")), "{words:?}: {}", stderr(&output));
    }
}

#[test]
fn mistakes_of_every_kind_are_shown_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("larder.toml");
    let text = "threads = 0\n[memory]\nsize = '1MiB'\nmax_object = '2MiB'\n[limits]\nhead = 'x'\nuri = '60KiB'\n\
                [[site]]\nname = 'a'\norigin = 'http://a'\nhosts = 'a'\n[[site]]\nname = 'a'\norigin = 'http://b'\n";
    fs::write(&file, text).expect("written");
    let file = file.display().to_string();
    let words = ["check", "--config", &file, "--disk", "a", "--disk", "b", "--disk", "c"];
    let output = larder(&[&words[..], &["--disk-size", "1GiB", "--disk-size", "2GiB"]].concat());
    // A check of a table with an unreadable value is postponed until that value is corrected: limits.uri is larger than
    // the default of limits.head.
    let expected = format!(
        "larder: {file}:1: threads: 0 is not a number from 1 to 1024; also valid: \"auto\"\n\
         larder: {file}:6: limits.head: 'x' is not a number with a unit, such as '64MiB'\n\
         larder: --disk-size: 2 sizes for 3 directories; write one for all, or one for each\n\
         larder: {file}:12: the name 'a' belongs to the site at {file}:8\n\
         larder: {file}:4: memory.max_object 2MiB is larger than memory.size 1MiB\n"
    );
    assert_eq!((stderr(&output), output.status.code()), (expected, Some(2)));
}

#[test]
fn valid_but_doubtful_settings_cause_a_warning() {
    for (words, warning) in [
        (&["--memory", "100TiB"][..], "memory.size 100TiB is more memory than there is: "),
        (&["--memory", "64"], "memory.size 64B is too small for most responses; write a unit, such as 64MiB"),
        (
            &["--access-log-file", "access.log"],
            "access_log_file access.log stays empty: set access_log, such as to \"combined\"",
        ),
        (
            &["--origin", "http://localhost:8080/app"],
            "site 'default': its origin http://localhost:8080/app/ is a listener of this process: requests for it get 508",
        ),
    ] {
        let output = larder(&[&["check", "--stats", "none"], words].concat());
        assert_eq!(output.status.code(), Some(0), "{words:?}");
        assert!(stderr(&output).starts_with(&format!("larder: warning: {warning}")), "{}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    }
    for words in [&["--memory", "64MiB", "--access-log", "text"][..], &["--access-log-file", "stdout"]] {
        assert_eq!(stderr(&larder(&[&["check", "--stats", "none"], words].concat())), "");
    }
}

#[test]
fn a_cluster_token_below_128_random_bits_is_warned_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("larder.toml");
    for (token, bits) in [
        ("0123456789abcdef", Some(64)),
        ("correct-horse-battery", Some(126)),
        ("0123456789abcdef0123456789abcdef", None),
        ("MDEyMzQ1Njc4OWFiY2RlZg", None),
    ] {
        let cluster = format!("[cluster]\nengine = 'redis://127.0.0.1'\ntoken = '{token}'\n");
        std::fs::write(&file, cluster).expect("written");
        let output = larder(&["check", "--config", &file.display().to_string(), "--stats", "none"]);
        assert_eq!(output.status.code(), Some(0), "{token}: {}", stderr(&output));
        let warning =
            |bits| format!("larder: warning: cluster.token has at most {bits} random bits: use one of 128");
        let expected = bits.map(warning).unwrap_or_default();
        assert!(
            stderr(&output).starts_with(&expected) && expected.is_empty() == stderr(&output).is_empty(),
            "{token}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn a_directory_that_cannot_be_used_is_reported_with_the_cause() {
    for (directory, why) in [("/dev/null", "it is not a directory"), ("/dev/null/x", "it is not a directory")]
    {
        let any = ["serve", "--forward", "127.0.0.1:0", "--admin", "off", "--stats", "none"];
        let output = larder(&[&any[..], &["--disk", directory]].concat());
        let expected = format!("larder: cannot start: cannot use {directory} for the disk cache: {why}\n");
        assert!(stderr(&output).ends_with(&expected), "{}", stderr(&output));
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn check_warns_of_places_that_serve_could_not_use() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    fs::create_dir(path("etc")).expect("made");
    fs::write(path("taken"), "").expect("written");
    let file = path("etc/larder.toml");
    let log = "access_log = 'text'\naccess_log_file = ";
    for (keys, why) in [
        ("[[disk]]\npath = 'taken'", "cannot use taken for the disk cache: it is not a directory"),
        ("[[disk]]\npath = 'taken/x'", "cannot use taken/x for the disk cache: it is not a directory"),
        (&format!("{log}'none/x'"), "cannot write the access log: none/x: there is no directory none"),
        (&format!("{log}'taken/x'"), "cannot write the access log: taken/x: taken is not a directory"),
        (&format!("{log}'etc'"), "cannot write the access log: etc: it is a directory"),
    ] {
        fs::write(&file, format!("admin = 'off'\n{keys}\n[forward]\nlisten = '127.0.0.1:0'"))
            .expect("written");
        // Relative paths are relative to the working directory.
        let said = |command: &str| {
            let mut larder = Command::new(LARDER);
            larder.args([command, "--stats", "none", "--config", &file]).current_dir(directory.path());
            larder.output().expect("it runs")
        };
        let checked = said("check");
        assert_eq!((stderr(&checked), checked.status.code()), (format!("larder: warning: {why}\n"), Some(0)));
        let served = said("serve");
        assert!(stderr(&served).ends_with(&format!("{why}\n")), "{}", stderr(&served));
        assert_eq!(served.status.code(), Some(1), "{keys}");
    }
    fs::write(&file, "[[disk]]\npath = 'new/deep'\n[cluster]\nnode = 'a'").expect("written");
    let output = larder(&["check", "--stats", "none", "--config", &file]);
    let warning =
        "larder.toml:4: [cluster] has no effect without 'engine', the URL of a Valkey or Redis, such as";
    assert!(stderr(&output).contains(warning), "{}", stderr(&output));
    assert_eq!(stderr(&output).lines().count(), 1, "a directory can be made: {}", stderr(&output));
}

#[test]
fn check_says_what_would_run() {
    let output = larder(&[
        "check",
        "--origin",
        "http://127.0.0.1:3000",
        "--memory",
        "64MiB",
        "--threads",
        "2",
        "--stats",
        "none",
    ]);
    let expected = "ok\n\
        listen   127.0.0.1:8080 (reverse)\n\
        admin    127.0.0.1:9145\n\
        threads  2\n\
        memory   64MiB, adaptive\n\
        stats    none\n\
        site     default: every host from http://127.0.0.1:3000\n";
    assert_eq!((stdout(&output).as_str(), output.status.code()), (expected, Some(0)));
}

#[test]
fn a_wrong_file_is_refused_with_every_line_of_it() {
    let (_directory, file) = file_with("larder.toml", "threads = 0\n\n[[site]]\norgin = 'http://a'\n");
    let file = file.display().to_string();
    for command in ["check", "serve"] {
        let output = larder(&[command, "--config", &file]);
        let expected = format!(
            "larder: {file}:1: threads: 0 is not a number from 1 to 1024; also valid: \"auto\"\n\
             larder: {file}:3: [[site]] has no 'origin'\n\
             larder: {file}:4: unknown key 'orgin' in [[site]]; did you mean 'origin'?\n"
        );
        assert_eq!((stderr(&output), output.status.code()), (expected, Some(2)));
    }
    let missing = larder(&["check", "--config", "/no/such/file"]);
    assert_eq!(stderr(&missing), "larder: cannot read /no/such/file: no such file\n");
}

#[test]
fn the_version_is_printed_by_command_and_by_flags() {
    let number = env!("CARGO_PKG_VERSION");
    for words in ["version", "--version", "-V"] {
        let said = stdout(&larder(&[words]));
        let build = said.strip_prefix(&format!("larder {number} (commit ")).expect("its number");
        assert!(build.contains(", features: ") && build.ends_with(")\n"), "{words}: {said}");
    }
    assert_eq!(stdout(&larder(&["help", "stats"])), stdout(&larder(&["stats", "--help"])));
}

#[test]
fn stats_without_a_proxy_say_what_to_look_at() {
    // Port 1 is reserved, and no process of this machine listens there.
    let output = larder(&["stats", "--admin", "127.0.0.1:1"]);
    let expected = "larder: no larder answers at 127.0.0.1:1: connection refused; is it running, or was it started \
                    with --admin elsewhere?\n";
    assert_eq!((stderr(&output).as_str(), output.status.code()), (expected, Some(1)));
}

#[test]
fn a_server_that_is_no_admin_listener_is_described_in_the_error() {
    for (answer, expected) in [
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "status 404; is this its admin listener?"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "is not the admin listener of a larder"),
        ("SSH-2.0-OpenSSH_9.2\r\n", "not an HTTP server"),
        ("", "it closed the connection before its answer"),
    ] {
        let stranger = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = stranger.local_addr().expect("an address").to_string();
        let answered = thread::spawn(move || {
            let (mut stream, _) = stranger.accept().expect("a client");
            let mut head = BufReader::new(stream.try_clone().expect("a stream")).lines();
            while head.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            stream.write_all(answer.as_bytes()).expect("it reads");
        });
        let output = larder(&["stats", "--admin", &address]);
        answered.join().expect("it ends");
        assert_eq!(output.status.code(), Some(1), "{answer:?}");
        assert!(stderr(&output).contains(expected), "{answer:?}: {}", stderr(&output));
    }
}

#[test]
fn a_wrong_token_is_reported_as_such() {
    let any = ["--forward", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let (_directory, file) = file_with("larder.toml", "admin_token = 'correct-horse-battery'\n");
    let proxy = Serving::start(&[&any[..], &["--config", &file.display().to_string()]].concat());
    for command in ["stats", "top", "log"] {
        let output = larder(&[command, "--admin", proxy.admin(), "--token", "correct-horse-batterz"]);
        let expected = format!("larder: {} says: this is not the admin token\n", proxy.admin());
        assert_eq!((stderr(&output), output.status.code()), (expected, Some(1)), "{command}");
    }
}

#[test]
fn a_proxy_says_where_it_listens_and_gives_its_numbers() {
    let any = "127.0.0.1:0";
    let proxy = Serving::start(&[
        "--forward",
        any,
        "--listen",
        any,
        "--origin",
        "http://127.0.0.1:1",
        "--admin",
        any,
    ]);
    assert!(proxy.said[0].starts_with("listening on 127.0.0.1:") && proxy.said[0].ends_with("(reverse)"));
    assert!(proxy.said[1].starts_with("listening on 127.0.0.1:") && proxy.said[1].ends_with("(forward)"));
    assert!(proxy.said[3].starts_with("try: curl -i http://127.0.0.1:"), "{:?}", proxy.said);

    let summary = stdout(&larder(&["stats", "--admin", proxy.admin()]));
    assert!(
        summary.starts_with("requests  0: 0 hits, 0 validated, 0 misses\n          0.00% hit ratio\n"),
        "{summary}"
    );
    assert!(summary.lines().count() <= 24 && summary.lines().all(|line| line.len() <= 80), "{summary}");
    let table = stdout(&larder(&["stats", "--all", "--admin", proxy.admin()]));
    for name in
        ["requests", "hits", "validated", "misses", "hit_ratio", "byte_hit_ratio", "bytes_stored", "policy"]
    {
        assert!(table.lines().any(|line| line.starts_with(&format!("{name} "))), "{name} in\n{table}");
    }
    let url = format!("http://{}/", proxy.admin());
    let json = stdout(&larder(&["stats", "--json", "--admin", &url]));
    let numbers: serde_json::Value = serde_json::from_str(&json).expect("json");
    assert_eq!(numbers["policy"], "adaptive");
}

#[test]
fn the_suggested_curl_command_uses_the_sites_host_and_path() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("larder.toml").display().to_string();
    let site = "[[site]]\nhosts = '*.shop.example'\npath = '/shop'\norigin = 'http://127.0.0.1:1'\n";
    fs::write(&file, format!("admin = 'off'\n[reverse]\nlisten = '127.0.0.1:0'\n{site}")).expect("written");
    let proxy = Serving::start(&["--config", &file]);
    let last = proxy.said.last().expect("a line");
    assert!(last.starts_with("try: curl -i -H 'Host: www.shop.example' http://127.0.0.1:"), "{last}");
    assert!(last.ends_with("/shop"), "{last}");
}

#[test]
fn an_address_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let output = larder(&["serve", "--forward", &address, "--admin", "off"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(&address), "{}", stderr(&output));
}

#[test]
fn hangup_loads_a_valid_config_and_an_invalid_one_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("larder.toml");
    let with =
        |text: &str| fs::write(&file, format!("admin = 'off'\n{text}\n[forward]\nlisten = '127.0.0.1:0'"));
    with("threads = 1").expect("written");
    let path = file.display().to_string();
    let mut proxy = Serving::start(&["--config", &path]);
    let mut log = BufReader::new(proxy.child.stderr.take().expect("a pipe"));

    with("threads = 0").expect("written");
    proxy.child.signal(Signal::HUP);
    Serving::wait_for(&mut log, ":2: threads: 0 is not a number from 1 to 1024");
    Serving::wait_for(&mut log, "the old config stays in force");

    with("threads = 2").expect("written");
    proxy.child.signal(Signal::HUP);
    Serving::wait_for(&mut log, "threads stays 1 until a restart; the config says 2");
    Serving::wait_for(&mut log, "config reloaded");
}

#[test]
fn a_proxy_that_is_told_to_stop_ends_well() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut proxy = Serving::start(&["--forward", "127.0.0.1:0", "--admin", "off"]);
        proxy.child.signal(signal);
        assert_eq!(proxy.child.wait().expect("it ends").code(), Some(0), "{signal:?}");
    }
}
