//! Clients that stay with an origin, backups, drained origins, and slow starts.

use std::path::Path;

use larder_testkit::{Gate, Larder, Origin, Response, eventually, site};

const STICKY: &str = "sticky = { cookie = 'origin', ttl = '1h' }";

/// Starts two origins that answer with their names: text without a lifetime, and other text with one for `/kept`.
fn named() -> [Origin; 2] {
    ["one", "two"].map(|name| {
        Origin::by(move |seen| match seen.target.as_str() {
            "/kept" => format!("200 OK\nVary: Cookie\nCache-Control: max-age=60\n\n{name}"),
            _ => format!("200 OK\n\n{name}"),
        })
    })
}

/// Starts a proxy that keeps its state in `state`.
fn keeping(state: &Path, config: &str) -> Larder {
    Larder::start_in(config, &[("STATE_DIRECTORY", state)])
}

/// Returns the cookie that a response sets, as the client sends it.
fn cookie(response: &Response) -> Option<String> {
    response.field("set-cookie")?.split(';').next().map(str::to_owned)
}

fn with_cookie(path: &str, cookie: &str) -> String {
    format!("GET {path}\nCookie: {cookie}")
}

#[test]
fn a_client_stays_with_its_origin_over_a_reload_and_a_restart() {
    let (state, origins) = (tempfile::tempdir().expect("a folder"), named());
    let config = site(&origins.each_ref(), STICKY);
    let larder = keeping(state.path(), &config);
    let first = larder.get("/");
    let set = first.field("set-cookie").expect("a cookie");
    assert!(set.ends_with("; Path=/; HttpOnly; SameSite=Lax; Max-Age=3600"), "{set}");
    let request = with_cookie("/", &format!("a=1; {}", cookie(&first).expect("a cookie")));
    let stays = |larder: &Larder| (0..5).all(|_| larder.ask(&request).text() == first.text());
    assert!(stays(&larder));
    larder.reload(&format!("name = 'other'\n{config}"));
    larder.wait_for_log("config reloaded");
    assert!(stays(&larder));
    drop(larder);
    assert!(stays(&keeping(state.path(), &config)));
    let at = usize::from(first.text() == "two");
    assert_eq!(origins[at].last().field("cookie"), Some("a=1"), "the origin does not see the cookie");
}

#[test]
fn clients_without_a_valid_cookie_take_turns() {
    let (state, origins) = (tempfile::tempdir().expect("a folder"), named());
    let larder = keeping(state.path(), &site(&origins.each_ref(), STICKY));
    for number in 0..8 {
        let answer = larder.ask(&with_cookie("/", &format!("origin={number:032x}")));
        assert!(cookie(&answer).is_some());
    }
    assert_eq!(origins.each_ref().map(Origin::count), [4, 4]);
}

#[test]
fn a_client_whose_origin_is_lost_gets_another_and_its_cookie() {
    let (state, origins) = (tempfile::tempdir().expect("a folder"), named());
    let larder = keeping(state.path(), &site(&origins.each_ref(), STICKY));
    let first = larder.get("/");
    let at = usize::from(first.text() == "two");
    origins[at].die();
    let second = larder.ask(&with_cookie("/", &cookie(&first).expect("a cookie")));
    assert_eq!(second.text(), ["two", "one"][at]);
    let replaced = cookie(&second).expect("a cookie");
    assert_ne!(Some(&replaced), cookie(&first).as_ref());
    for _ in 0..4 {
        assert_eq!(larder.ask(&with_cookie("/", &replaced)).text(), second.text());
    }
}

#[test]
fn a_sticky_cookie_keeps_nothing_from_the_cache_and_is_not_stored() {
    let (state, origins) = (tempfile::tempdir().expect("a folder"), named());
    let larder = keeping(state.path(), &site(&origins.each_ref(), STICKY));
    let first = larder.get("/kept");
    let own = cookie(&first).expect("a cookie");
    for request in ["GET /kept", &with_cookie("/kept", &own), &with_cookie("/kept", "origin=forged")] {
        let hit = larder.ask(request);
        assert_eq!((hit.is_hit(), hit.field("set-cookie")), (true, None), "{request}");
    }
    assert_eq!(origins.iter().map(Origin::count).sum::<usize>(), 1);
}

#[test]
fn without_a_ttl_a_cookie_is_sent_once() {
    let (state, origins) = (tempfile::tempdir().expect("a folder"), named());
    let larder = keeping(state.path(), &site(&origins.each_ref(), "sticky = { cookie = 'origin' }"));
    let first = larder.get("/");
    assert!(!first.field("set-cookie").expect("a cookie").contains("Max-Age"));
    assert_eq!(cookie(&larder.ask(&with_cookie("/", &cookie(&first).expect("a cookie")))), None);
}

#[test]
fn a_rule_s_origins_have_a_cookie_of_their_own() {
    let (state, origins, others) = (tempfile::tempdir().expect("a folder"), named(), named());
    let [one, two] = others.each_ref().map(Origin::url);
    let rule = format!("[[site.rule]]\nmatch = {{ path = '/api/*' }}\norigin = ['{one}', '{two}']");
    let larder = keeping(state.path(), &format!("{}{rule}", site(&origins.each_ref(), STICKY)));
    let [page, api] = ["/", "/api/a"].map(|path| larder.get(path));
    let both = [&page, &api].map(|answer| cookie(answer).expect("a cookie"));
    assert!(both[0].starts_with("origin=") && both[1].starts_with("origin-1="), "{both:?}");
    for _ in 0..4 {
        for (path, first) in [("/", &page), ("/api/a", &api)] {
            assert_eq!(larder.ask(&with_cookie(path, &both.join("; "))).text(), first.text());
        }
    }
}

#[test]
fn a_drained_origin_keeps_its_clients_and_gets_no_others() {
    let (state, origins) = (tempfile::tempdir().expect("a folder"), named());
    let [one, two] = origins.each_ref().map(Origin::url);
    let larder = keeping(state.path(), &site(&origins.each_ref(), STICKY));
    let first = larder.get("/");
    let at = usize::from(first.text() == "two");
    let weights = if at == 0 { [0, 1] } else { [1, 0] };
    let drained = format!("origin = ['{one} weight={}', '{two} weight={}']", weights[0], weights[1]);
    larder.reload(&format!("[[site]]\n{drained}\n{STICKY}"));
    larder.wait_for_log("config reloaded");
    let before = origins[at].count();
    for _ in 0..4 {
        assert_eq!(larder.get("/").text(), ["two", "one"][at]);
        assert_eq!(larder.ask(&with_cookie("/", &cookie(&first).expect("a cookie"))).text(), first.text());
    }
    assert_eq!(origins[at].count() - before, 4);
}

#[test]
fn a_backup_answers_only_while_no_other_origin_does() {
    let is_ill = Gate::default();
    let state = is_ill.clone();
    let first = Origin::by(move |seen| match seen.target.as_str() {
        "/health" if state.is_open() => "500 Ill".to_owned(),
        _ => "200 OK\n\nfirst".to_owned(),
    });
    let backup = Origin::always("200 OK\n\nbackup");
    let keys = "health = '/health'\nhealth_interval = '2s'";
    let larder =
        Larder::start(&format!("[[site]]\norigin = ['{}', '{} backup']\n{keys}", first.url(), backup.url()));
    for _ in 0..4 {
        assert_eq!(larder.get("/").text(), "first");
    }
    is_ill.open();
    eventually("the backup", || (larder.get("/").text() == "backup").then_some(()));
    first.die();
    assert_eq!(larder.get("/").text(), "backup");
}

#[test]
fn a_request_that_the_only_other_origin_fails_goes_to_the_backup() {
    let [lost, backup] = [(); 2].map(|()| Origin::always("200 OK\n\nbackup"));
    lost.die();
    let origins = format!("origin = ['{}', '{} backup']", lost.url(), backup.url());
    let larder = Larder::start(&format!("[[site]]\n{origins}"));
    assert_eq!((larder.get("/").text(), larder.ask("POST /").text()), ("backup", "backup"));
}

/// Each of 100 requests goes to the recovered origin with a probability of at most 1/50. More than 20 do so with a
/// probability below 10^-13 (Chernoff's bound).
#[test]
fn a_recovered_origin_gets_few_requests_at_first() {
    let is_well = Gate::default();
    let state = is_well.clone();
    let recovered = Origin::by(move |seen| match seen.target.as_str() {
        "/health" if !state.is_open() => "500 Ill".to_owned(),
        _ => "200 OK\n\nrecovered".to_owned(),
    });
    let other = Origin::always("200 OK\n\nother");
    let keys = "health = '/health'\nhealth_interval = '2s'\nslow_start = '1h'";
    let larder = Larder::with_site(&[&recovered, &other], keys);
    let is_healthy = |expected: bool| {
        eventually("the health check", || {
            (larder.stats()["sites"][0]["origins"][0]["healthy"] == expected).then_some(())
        });
    };
    is_healthy(false);
    is_well.open();
    is_healthy(true);
    let mut client = larder.client();
    for _ in 0..100 {
        client.ask("POST /");
    }
    assert!(recovered.count_of("/") <= 20 && other.count_of("/") >= 80);
}
