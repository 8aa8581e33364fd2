//! Secrets: the tokens of commands, and query strings in the files that the proxy writes.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use larder_testkit::{Client, Larder, Origin, eventually, not_tested};
use rusqlite::Connection;

/// All text that a query string could be in: the database, the access log, and the log.
fn written(directory: &std::path::Path) -> String {
    let texts = ["access.log", "statistics.db", "statistics.db-wal"].map(|name| {
        String::from_utf8_lossy(&std::fs::read(directory.join(name)).unwrap_or_default()).into_owned()
    });
    texts.join("\n")
}

#[test]
fn query_strings_are_written_nowhere_if_they_are_dropped() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nbody");
    for (query, expected) in [("keep", true), ("drop", false)] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name).display().to_string();
        let tables = format!(
            "access_log = 'combined'\naccess_log_file = '{}'\n[stats]\nurl = 'sqlite:{}'\nquery = '{query}'",
            path("access.log"),
            path("statistics.db")
        );
        let mut larder = Larder::with(&origin, &tables);
        let mut live = Client::to(larder.admin);
        live.send("GET /log\nHost: localhost");
        let head = live.head();
        assert_eq!(head.status, 200);
        for _ in 0..2 {
            larder.get("/page?token=secret\nReferer: http://site.test/?token=secret");
        }
        let shown = String::from_utf8(live.exactly(200)).expect("text");
        assert!(shown.contains("/page") && shown.contains("secret") == expected, "{shown}");
        larder.signal(rustix::process::Signal::TERM);
        larder.ended();
        let database = Connection::open(path("statistics.db")).expect("a database");
        let urls: String = database
            .query_row("SELECT group_concat(url) FROM transactions", [], |row| row.get(0))
            .expect("rows");
        let log = eventually("the access log", || {
            Some(written(directory.path())).filter(|text| text.contains("/page"))
        });
        assert!(urls.contains("/page"), "{urls}");
        assert_eq!((urls.contains("secret"), log.contains("secret")), (expected, expected), "{urls}\n{log}");
    }
}

/// Starts a proxy of the user with this id; returns the process, and its admin listener.
fn of_user(user: u32, token: &str) -> (Child, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(["serve", "--forward", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--stats", "none"]);
    command.env("LARDER_TOKEN", token).uid(user).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let admin = lines
        .map(|line| line.strip_prefix("admin on http://").map(|rest| rest.trim_end_matches('/').to_owned()));
    let admin = admin.flatten().next().expect("it says where it listens");
    (child, admin)
}

#[test]
fn a_token_in_the_environment_is_not_sent_to_other_users_programs() {
    if !rustix::process::geteuid().is_root() {
        return not_tested("root, which can start programs of two users");
    }
    let (theirs, ours) = ("0123456789abcdef", "fedcba9876543210");
    let (mut larder, admin) = of_user(4_242, theirs);
    let ask = |user: u32, words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.args(words).args(["--admin", &admin]).env("LARDER_TOKEN", ours).uid(user);
        let output = command.output().expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // A command that sends its token fails, because the token is wrong; without a token, this machine has access.
    for words in [&["stats"][..], &["why", "http://site.test/"], &["purge", "http://site.test/"]] {
        assert_eq!(ask(4_243, words), (true, String::new()), "{words:?}");
        for (user, more) in [(4_242, None), (4_243, Some(["--token", ours]))] {
            let (well, why) = ask(user, &[words, more.as_ref().map_or(&[][..], |more| more)].concat());
            assert!(!well && why.contains("this is not the admin token"), "{user} {words:?}: {why}");
        }
    }
    larder.kill().expect("it runs");
    larder.wait().expect("it ends");
}
