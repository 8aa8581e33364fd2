//! The rights of clients on the admin listener, over real sockets. Unit tests cover each rule.

use std::net::SocketAddr;
use std::process::Command;

use larder_testkit::{Client, Larder, OUTER, Origin, site, with_outer_address};

use super::{Events, command};

const TOKEN: &str = "0123456789abcdef";

fn origin() -> Origin {
    Origin::always("200 OK\nCache-Control: max-age=100\n\nbody")
}

#[test]
fn a_page_that_leads_its_own_name_here_reads_nothing() {
    let origin = origin();
    let larder = Larder::before(&origin);
    let ask = |target: &str, host: &str| Client::to(larder.admin).ask(&format!("GET {target}\nHost: {host}"));
    for target in ["/stats", "/live", "/top", "/log", "/cache", "/why?url=http://a/", "/nothing"] {
        let stranger = ask(target, "evil.example");
        assert_eq!((stranger.status, stranger.field("access-control-allow-origin")), (403, None), "{target}");
        assert!(stranger.text().contains("name this machine by its address or as localhost"), "{stranger:?}");
    }
    for host in ["127.0.0.1", "localhost:9145", "[::1]"] {
        assert_eq!(ask("/stats", host).status, 200, "{host}");
    }
    assert_eq!((ask("/healthz", "evil.example").status, ask("/readyz", "evil.example").status), (200, 200));
}

#[test]
fn a_form_of_another_site_changes_nothing() {
    let origin = origin();
    let larder = Larder::before(&origin);
    larder.get("/page");
    let purge = "POST /purge?url=http://site.test/page";
    let form = "Content-Type: application/x-www-form-urlencoded";
    for fields in [
        form.to_owned(),
        format!("{form}\nOrigin: http://evil.example"),
        "Larder-Admin: 1\nOrigin: http://evil.example".to_owned(),
        "Larder-Admin: 1\nSec-Fetch-Site: cross-site".to_owned(),
    ] {
        let refused = larder.ask_admin(&format!("{purge}\n{fields}"));
        assert_eq!(refused.status, 403, "{fields}");
    }
    assert!(larder.get("/page").is_hit());
    let ours = larder.ask_admin(&format!("{purge}\nLarder-Admin: 1\nOrigin: http://localhost"));
    assert_eq!(ours.status, 200);
    assert!(!larder.get("/page").is_hit());
}

#[test]
fn answers_keep_browsers_to_themselves() {
    let origin = origin();
    let larder = Larder::before(&origin);
    let answer = larder.ask_admin("GET /stats\nOrigin: http://localhost");
    assert_eq!(answer.field("access-control-allow-origin"), None);
    assert_eq!(answer.field("x-content-type-options"), Some("nosniff"));
    assert!(
        answer
            .field("content-security-policy")
            .is_some_and(|policy| policy.starts_with("default-src 'self'"))
    );
}

#[test]
fn other_machines_need_the_token() {
    with_outer_address("access::outer_addresses_need_the_token");
}

#[test]
#[ignore = "run by another, in a network of its own"]
fn outer_addresses_need_the_token() {
    let origin = origin();
    let config = format!("admin_token = '{TOKEN}'\n{}", site(&[&origin], ""));
    let larder = Larder::start_at(&config, "0.0.0.0:0");
    let there = SocketAddr::new(OUTER, larder.admin.port());
    let ask =
        |fields: &str| Client::to(there).ask(&format!("GET /stats\nHost: proxy.example{fields}")).status;
    let missing = Client::to(there).ask("GET /stats");
    assert_eq!((missing.status, missing.field("www-authenticate")), (401, Some("Bearer")));
    assert_eq!(ask("\nAuthorization: Bearer 0123456789abcdeF"), 401);
    assert_eq!(ask(&format!("\nAuthorization: Bearer {TOKEN}")), 200);
    assert_eq!(Client::to(there).ask("GET /healthz").status, 200);
    assert_eq!(larder.stat("requests"), 0, "this machine needs none");

    let admin = there.to_string();
    let run = |words: &[&str], token: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.args(words).args(["--admin", &admin]).env_remove("LARDER_TOKEN");
        let output = command.envs(token.map(|token| ("LARDER_TOKEN", token))).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for words in [
        &["stats"][..],
        &["why", "http://site.test/"],
        &["purge", "http://site.test/"],
        &["top", "--for", "1s"],
    ] {
        assert_eq!(run(words, Some(TOKEN)), (Some(0), String::new()), "{words:?}");
        let (code, why) = run(words, None);
        assert!(code == Some(1) && why.contains("needs the admin token"), "{words:?}: {why}");
        assert!(why.ends_with("; set $LARDER_TOKEN here, or name it by --token\n"), "{words:?}: {why}");
    }
    assert_eq!(run(&["stats", "--token", TOKEN], None).0, Some(0));
    let (code, why) = run(&["stats"], Some("short"));
    assert!(code == Some(1) && why.contains("$LARDER_TOKEN: expected at least 16"), "{why}");
}

#[test]
fn a_listener_that_others_reach_does_not_start_without_a_token() {
    let origin = origin();
    let serve = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.args(["check", "--origin", &origin.url()]).args(words);
        let output = command.env_remove("LARDER_TOKEN").output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, why) = serve(&["--admin", "0.0.0.0:9145"]);
    let expected = "larder: --admin: admin 0.0.0.0:9145 can be reached from other machines: set admin_token in the \
                    file, or $LARDER_TOKEN\n";
    assert_eq!((code, why.as_str()), (Some(2), expected));
    assert_eq!(serve(&["--admin", "[::1]:9145"]).0, Some(0));
}

#[test]
fn a_token_that_is_shown_has_to_be_right() {
    let origin = origin();
    let larder = Larder::start(&format!("admin_token = '{TOKEN}'\n{}", site(&[&origin], "")));
    assert_eq!(larder.ask_admin("GET /stats\nAuthorization: Bearer fedcba9876543210").status, 401);
    let named = format!("GET /stats\nHost: proxy.example\nAuthorization: Bearer {TOKEN}");
    assert_eq!(Client::to(larder.admin).ask(&named).status, 200);
    let mut log = Events::of(&larder, "/log");
    larder.get("/page");
    assert_eq!(log.next().map(|seen| seen["status"].clone()), Some(200.into()));
    assert!(command(&larder, &["stats"]).status.success());
}
